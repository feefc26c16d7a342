//! Which device a run gets on this machine.

use super::device::{Device, Gpu};
use crate::error::{Error, Result};

/// The oldest GPU the kernels are written for: compute capability 8.0, the first with TF32.
const LEAST_CAPABILITY: (i32, i32) = (8, 0);

/// What a [`Device`] came to on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// The CPU; where a GPU was looked for and not found, why, in one line.
    Cpu(Option<String>),
    /// A GPU.
    Cuda(Gpu),
}

impl Device {
    /// The device to run on. `auto` never fails: where no GPU can be used it takes the CPU and says
    /// why.
    ///
    /// # Errors
    /// A GPU was asked for by number and cannot be used.
    pub fn choose(self) -> Result<Chosen> {
        match self {
            Self::Cpu => Ok(Chosen::Cpu(None)),
            Self::Auto => Ok(match Self::available().and_then(|gpus| pick(gpus, 0)) {
                Ok(gpu) => Chosen::Cuda(gpu),
                Err(error) => Chosen::Cpu(Some(format!("the CPU is used: {error}"))),
            }),
            Self::Cuda(number) => {
                Self::available().and_then(|gpus| pick(gpus, number)).map(Chosen::Cuda)
            }
        }
    }
}

fn pick(mut gpus: Vec<Gpu>, number: usize) -> Result<Gpu> {
    let count = gpus.len();
    if number >= count {
        let devices = if count == 1 { "one GPU".to_owned() } else { format!("{count} GPUs") };
        return Err(Error::input(format!(
            "the device is `cuda:{number}`, this machine has {devices}"
        ))
        .hint(format!("the last one is `cuda:{}`", count.saturating_sub(1))));
    }
    let gpu = gpus.swap_remove(number);
    if gpu.capability < LEAST_CAPABILITY {
        let ((major, minor), (least, least_minor)) = (gpu.capability, LEAST_CAPABILITY);
        return Err(Error::input(format!(
            "`{}` has compute capability `{major}.{minor}`, expected {least}.{least_minor} or more",
            gpu.name
        ))
        .hint("choose another GPU, or use `--device cpu`"));
    }
    Ok(gpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(number: usize, capability: (i32, i32)) -> Gpu {
        Gpu { number, name: "a GPU".to_owned(), capability, memory: 1 << 30 }
    }

    #[test]
    fn a_gpu_that_is_not_there_or_too_old_is_refused_with_a_hint() {
        let text = pick(vec![gpu(0, (9, 0))], 7).unwrap_err().to_string();
        assert!(text.contains("`cuda:7`") && text.contains("one GPU") && text.contains("cuda:0"));
        let text = pick(vec![gpu(0, (9, 0)), gpu(1, (7, 5))], 1).unwrap_err().to_string();
        assert!(text.contains("7.5") && text.contains("--device cpu"));
        assert_eq!(pick(vec![gpu(0, (9, 0)), gpu(1, (8, 6))], 1).unwrap().number, 1);
    }

    #[test]
    fn auto_never_fails_and_says_why_it_takes_the_cpu() {
        match Device::Auto.choose().unwrap() {
            Chosen::Cpu(reason) => {
                let reason = reason.unwrap();
                assert!(reason.starts_with("the CPU is used: ") && !reason.contains('\n'));
            }
            Chosen::Cuda(gpu) => assert_eq!(gpu.number, 0),
        }
        assert_eq!(Device::Cpu.choose().unwrap(), Chosen::Cpu(None));
    }
}
