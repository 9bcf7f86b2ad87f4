//! Where, in which type and with how many threads a program computes.

use clap::{Args, ValueEnum, value_parser};
use mem_model::{generate::DeviceKind, matrix::Compute};

/// Where, in which type and with how many threads to compute.
#[derive(Args, Clone, Copy, Debug)]
pub struct MachineArgs {
    /// Where to compute
    #[arg(long, value_enum, default_value_t, help_heading = "Machine")]
    pub device: Device,
    /// Type of matrix products, all with f32 sums. Left out: the fastest that the CPU has and the work allows
    #[arg(long, value_enum, help_heading = "Machine")]
    pub dtype: Option<Dtype>,
    /// Threads that compute [default: one for each core]
    #[arg(long, value_name = "COUNT", help_heading = "Machine", value_parser = value_parser!(u16).range(1..=MOST_THREADS))]
    pub threads: Option<u16>,
}

/// More than any machine has cores, and few enough that starting them takes no time.
const MOST_THREADS: i64 = 1024;

/// Where to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// The processor
    #[default]
    Cpu,
    /// The first CUDA device; needs a build with `--features cuda`
    Cuda,
}

/// The type of matrix products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Dtype {
    /// 32-bit floats
    F32,
    /// bfloat16
    Bf16,
    /// 8-bit integers for quantised models, on CPUs with AVX512-VNNI or AVX2: fastest, a little less exact; not for training
    Int8,
}

impl MachineArgs {
    /// Makes the wanted number of threads the number that everything uses.
    ///
    /// # Safety
    /// Nothing else runs yet: it writes to the environment.
    pub unsafe fn limit_threads(self) {
        if let Some(threads) = self.threads {
            // SAFETY: the caller promises that nothing reads the environment at the same time.
            unsafe { std::env::set_var("RAYON_NUM_THREADS", threads.to_string()) };
        }
    }

    /// The device as the model knows it.
    pub fn kind(self) -> DeviceKind {
        match self.device {
            Device::Cpu => DeviceKind::Cpu,
            Device::Cuda => DeviceKind::Cuda,
        }
    }

    /// The type, with the default for inference filled in.
    pub fn compute(self) -> Compute {
        self.dtype.map_or_else(
            || match self.device {
                Device::Cpu => Compute::fastest(),
                Device::Cuda => Compute::Bf16,
            },
            Compute::from,
        )
    }

    /// The type, with the default for training filled in.
    pub fn compute_to_train(self) -> Compute {
        match self.compute() {
            Compute::Int8 if self.dtype.is_none() => Compute::fastest_float(),
            compute => compute,
        }
    }
}

impl From<Dtype> for Compute {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::F32 => Self::F32,
            Dtype::Bf16 => Self::Bf16,
            Dtype::Int8 => Self::Int8,
        }
    }
}
