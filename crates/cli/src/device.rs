//! Where a program computes.

use clap::ValueEnum;
use mem_model::generate::DeviceKind;

/// Where to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// The processor, in f32
    #[default]
    Cpu,
    /// The first CUDA device, in bf16; needs a build with `--features cuda`
    Cuda,
}

impl From<Device> for DeviceKind {
    fn from(device: Device) -> Self {
        match device {
            Device::Cpu => Self::Cpu,
            Device::Cuda => Self::Cuda,
        }
    }
}
