//! The checks of `examples/device_check` in host memory: what devices run, without one.

#[expect(dead_code, reason = "the example has a command line")]
#[path = "../examples/device_check/main.rs"]
mod device_check;

use mem_model::generate::DeviceKind;

#[test]
fn operations_of_devices_equal_those_of_host_memory() {
    let mut report = Vec::new();
    let failed = device_check::run(DeviceKind::Cpu, &mut report).expect("the models are made");
    let report = String::from_utf8(report).expect("the report is text");
    assert_eq!(failed, 0, "{report}");
    assert!(report.matches("PASS").count() > 60, "{report}");
}
