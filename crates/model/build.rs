//! Compiles the shim over oneDNN when the feature `onednn` asks for it.

fn main() {
    println!("cargo::rerun-if-changed=onednn/shim.cc");
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "onednn")]
    {
        let built = cc::Build::new()
            .cpp(true)
            .std("c++20")
            .file("onednn/shim.cc")
            .try_compile("mem_onednn");
        if let Err(problem) = built {
            panic!(
                "the feature `onednn` needs a C++ compiler and oneDNN's headers (Debian and Ubuntu: `apt-get install \
                 g++ libdnnl-dev`); without them build without the feature: {problem}"
            );
        }
        println!("cargo::rustc-link-lib=dnnl");
        println!("cargo::rustc-link-lib=gomp");
    }
}
