//! Which device an executor runs on: `auto`, `cpu` or `cuda:N`.

use std::fmt;
use std::str::FromStr;

use cudarc::driver::{result, sys};
use serde::{Deserialize, Serialize};

use super::libraries::Library;
use crate::error::{Error, Result};

/// The oldest driver whose graphs can be built node by node: that of CUDA 12.3.
const LEAST_DRIVER: i32 = 12_030;
/// The oldest GPU the kernels are written for: compute capability 8.0, the first with TF32.
const LEAST_CAPABILITY: (i32, i32) = (8, 0);

/// Where to run, as a user says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Device {
    /// The first GPU that can be used, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU of this number, from 0.
    Cuda(usize),
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match (text, text.strip_prefix("cuda:")) {
            ("auto", _) => Ok(Self::Auto),
            ("cpu", _) => Ok(Self::Cpu),
            ("cuda", _) => Ok(Self::Cuda(0)),
            (_, Some(number)) if number.parse::<u16>().is_ok() => {
                Ok(Self::Cuda(number.parse::<u16>().map_or(0, usize::from)))
            }
            _ => Err(Error::input(format!(
                "the device is `{text}`, expected `auto`, `cpu` or `cuda:N`"
            ))
            .hint("`auto` takes a GPU where there is one")),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => write!(f, "auto"),
            Self::Cpu => write!(f, "cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

impl TryFrom<String> for Device {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Device> for String {
    fn from(device: Device) -> Self {
        device.to_string()
    }
}

/// What is known of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Its number, from 0.
    pub number: usize,
    /// Its name, as the driver gives it.
    pub name: String,
    /// Its compute capability.
    pub capability: (i32, i32),
    /// Its memory in bytes.
    pub memory: usize,
}

/// What a [`Device`] came to on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// The CPU; where a GPU was looked for and not found, why, in one line.
    Cpu(Option<String>),
    /// A GPU.
    Cuda(Gpu),
}

impl Device {
    /// The GPUs of this machine that can be used.
    ///
    /// # Errors
    /// There is none; says what is missing and what to do: no driver, too old a driver, a library
    /// that is not there.
    pub fn available() -> Result<Vec<Gpu>> {
        Library::Driver.open()?;
        let driver = |error: result::DriverError| {
            Error::input(format!("the NVIDIA driver does not answer: {error}"))
                .hint("look at `nvidia-smi`, or use `--device cpu`")
        };
        result::init().map_err(driver)?;
        let mut version = 0;
        // SAFETY: writes one integer through a pointer to one.
        unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(driver)?;
        new_enough(version)?;
        let count = result::device::get_count().map_err(driver)?;
        let gpus: Vec<Gpu> =
            (0..count).map(describe).collect::<std::result::Result<_, _>>().map_err(driver)?;
        if gpus.is_empty() {
            return Err(Error::input("the NVIDIA driver sees no GPU")
                .hint("look at `CUDA_VISIBLE_DEVICES`, or use `--device cpu`"));
        }
        Library::Compiler.open()?;
        Library::Products.open()?;
        Ok(gpus)
    }

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

fn new_enough(version: i32) -> Result<()> {
    if version >= LEAST_DRIVER {
        return Ok(());
    }
    let words = |version: i32| format!("{}.{}", version / 1000, version % 1000 / 10);
    Err(Error::input(format!(
        "the NVIDIA driver is for CUDA `{}`, expected {} or newer",
        words(version),
        words(LEAST_DRIVER)
    ))
    .hint("update the driver, or use `--device cpu`"))
}

fn describe(number: i32) -> std::result::Result<Gpu, result::DriverError> {
    use sys::CUdevice_attribute_enum as Attribute;
    let device = result::device::get(number)?;
    // SAFETY: `device` is a handle the driver has just given.
    let (major, minor, memory) = unsafe {
        let ask = |attribute| result::device::get_attribute(device, attribute);
        (
            ask(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            ask(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            result::device::total_mem(device)?,
        )
    };
    let name = result::device::get_name(device)?;
    Ok(Gpu { number: number as usize, name, capability: (major, minor), memory })
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
    fn devices_are_read_as_they_are_written() {
        for device in [Device::Auto, Device::Cpu, Device::Cuda(0), Device::Cuda(7)] {
            assert_eq!(device.to_string().parse::<Device>().unwrap(), device);
        }
        assert_eq!("cuda".parse::<Device>().unwrap(), Device::Cuda(0));
        for wrong in ["gpu", "cuda:", "cuda:-1", "cuda:x", "CPU", ""] {
            let text = wrong.parse::<Device>().unwrap_err().to_string();
            assert!(text.contains("expected `auto`, `cpu` or `cuda:N`"), "{text}");
        }
    }

    #[test]
    fn a_gpu_that_is_not_there_or_too_old_is_refused_with_the_way_out() {
        let text = pick(vec![gpu(0, (9, 0))], 7).unwrap_err().to_string();
        assert!(text.contains("`cuda:7`") && text.contains("one GPU") && text.contains("cuda:0"));
        let text = pick(vec![gpu(0, (9, 0)), gpu(1, (7, 5))], 1).unwrap_err().to_string();
        assert!(text.contains("7.5") && text.contains("--device cpu"));
        assert_eq!(pick(vec![gpu(0, (9, 0)), gpu(1, (8, 6))], 1).unwrap().number, 1);
    }

    #[test]
    fn an_old_driver_is_refused_and_told_its_version() {
        let text = new_enough(11_080).unwrap_err().to_string();
        assert!(text.contains("`11.8`") && text.contains("12.3"), "{text}");
        assert!(new_enough(12_030).is_ok() && new_enough(13_000).is_ok());
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
