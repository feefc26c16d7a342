//! The GPUs that the driver of this machine offers.

use cudarc::driver::{result, sys};

use super::libraries::Library;
use crate::engine::{Device, Gpu};
use crate::error::{Error, Result};

/// The oldest driver whose graphs can be built node by node: that of CUDA 12.3.
const LEAST_DRIVER: i32 = 12_030;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_driver_is_refused_and_told_its_version() {
        let text = new_enough(11_080).unwrap_err().to_string();
        assert!(text.contains("`11.8`") && text.contains("12.3"), "{text}");
        assert!(new_enough(12_030).is_ok() && new_enough(13_000).is_ok());
    }
}
