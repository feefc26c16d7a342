//! Finds NVIDIA's libraries: in the system's folders, in `$ISOCHRONE_CUDA_LIBS`, in pip's packages.
//!
//! `cudarc` opens a library by its bare name. The system finds that name in its own folders, or
//! among the libraries that are open already; so one that stands elsewhere is opened here by its
//! path and stays open.

use std::path::{Path, PathBuf};

use cudarc::{cublaslt, driver, nvrtc};

use crate::error::{Error, Result};

/// The variable that names a folder with the libraries.
pub const FOLDERS: &str = "ISOCHRONE_CUDA_LIBS";

/// One of the three libraries the executor needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Library {
    /// libcuda: comes with the driver.
    Driver,
    /// libnvrtc: compiles kernels.
    Compiler,
    /// libcublasLt: matrix products.
    Products,
}

impl Library {
    fn stem(self) -> &'static str {
        match self {
            Self::Driver => "libcuda.so",
            Self::Compiler => "libnvrtc.so",
            Self::Products => "libcublasLt.so",
        }
    }

    fn found_by_system(self) -> bool {
        // SAFETY: opening a library runs its initializers; NVIDIA's have no conditions on callers.
        unsafe {
            match self {
                Self::Driver => driver::sys::is_culib_present(),
                Self::Compiler => nvrtc::sys::is_culib_present(),
                Self::Products => cublaslt::sys::is_culib_present(),
            }
        }
    }

    /// Makes the library findable.
    ///
    /// # Errors
    /// It is nowhere; the hint says how to get it.
    pub fn open(self) -> Result<()> {
        if self.found_by_system() || (self.open_elsewhere() && self.found_by_system()) {
            return Ok(());
        }
        Err(match self {
            Self::Driver => Error::input("no NVIDIA driver was found (`libcuda.so.1`)")
                .hint("install the driver, or use `--device cpu`"),
            Self::Compiler => self.missing("nvidia-cuda-nvrtc-cu12"),
            Self::Products => self.missing("nvidia-cublas-cu12"),
        })
    }

    fn missing(self, package: &str) -> Error {
        Error::input(format!("`{}` was not found", self.stem())).hint(format!(
            "`pip install {package}`, or name its folder in `{FOLDERS}`, or use `--device cpu`"
        ))
    }

    fn open_elsewhere(self) -> bool {
        folders().iter().flat_map(|folder| self.files(folder)).any(|path| keep_open(&path))
    }

    /// The library's files in a folder, the newest version first.
    fn files(self, folder: &Path) -> Vec<PathBuf> {
        let named = |path: &PathBuf| {
            let rest = path.file_name().and_then(|name| name.to_str()?.strip_prefix(self.stem()));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let mut files: Vec<PathBuf> = entries(folder).into_iter().filter(named).collect();
        files.sort_by(|a, b| b.cmp(a));
        files
    }
}

/// Opens one of NVIDIA's libraries for good, so that its bare name is found from now on.
pub(super) fn keep_open(path: &Path) -> bool {
    // SAFETY: as above; the file is one of NVIDIA's by its name and folder.
    match unsafe { libloading::Library::new(path) } {
        Ok(library) => {
            std::mem::forget(library);
            true
        }
        Err(_) => false,
    }
}

/// Folders to look into beyond the system's own, in order.
fn folders() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::env::var_os(FOLDERS)
        .map(|all| std::env::split_paths(&all).collect())
        .unwrap_or_default();
    for prefix in prefixes() {
        for python in entries(&prefix.join("lib")).into_iter().chain([prefix.join("lib/python3")]) {
            for packages in ["site-packages", "dist-packages"] {
                let packages = entries(&python.join(packages).join("nvidia"));
                found.extend(packages.into_iter().map(|package| package.join("lib")));
            }
        }
    }
    found.extend(["/usr/local/cuda/lib64", "/usr/lib/wsl/lib"].map(PathBuf::from));
    found
}

/// Where a Python may be installed: the active environment, the one on the path, the usual ones.
fn prefixes() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path)
        .filter(|folder| folder.join("python3").exists())
        .filter_map(|folder| folder.parent().map(Path::to_path_buf));
    let own = std::env::current_exe().ok();
    let own = own.and_then(|program| Some(program.parent()?.parent()?.to_path_buf()));
    let home = variable("HOME").map(|home| home.join(".local"));
    let active = [variable("VIRTUAL_ENV"), variable("CONDA_PREFIX"), own];
    let usual = [home, Some(PathBuf::from("/usr/local")), Some(PathBuf::from("/usr"))];
    active.into_iter().flatten().chain(on_path).chain(usual.into_iter().flatten()).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_library_are_told_from_its_neighbours() {
        let folder = tempfile::tempdir().unwrap();
        for name in
            ["libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.alt.so.12", "libnvrtc-builtins.so.12.9"]
        {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let files = Library::Compiler.files(folder.path());
        assert_eq!(
            files,
            ["libnvrtc.so.13", "libnvrtc.so.12"].map(|name| folder.path().join(name))
        );
        assert!(Library::Products.files(folder.path()).is_empty());
    }

    #[test]
    fn a_missing_library_names_the_package_that_brings_it() {
        let text = Library::Products.missing("nvidia-cublas-cu12").to_string();
        assert!(text.contains("libcublasLt.so") && text.contains("pip install nvidia-cublas-cu12"));
    }
}
