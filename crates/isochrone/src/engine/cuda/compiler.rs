//! Compiles kernels with NVRTC when first used and keeps them in the user's cache folder.
//!
//! The name of a kept file is BLAKE3(source, options, architecture, NVRTC version); the file begins
//! with the checksum of the rest, so that a damaged one is compiled anew. A folder that cannot be
//! written is done without.

use std::ffi::{CStr, CString};
use std::path::Path;

use cudarc::nvrtc::{result, sys};

use super::libraries::Library;
use crate::cache;
use crate::error::{Error, Result};

/// What every kernel may use.
const PRELUDE: &str = concat!(include_str!("prelude.cu"), "\n", include_str!("instructions.cu"));

/// Kernels ready to be loaded.
#[derive(Debug)]
pub(super) struct Compiled {
    /// Machine code, or PTX for a GPU newer than the compiler, ended by a zero byte.
    pub image: Vec<u8>,
    /// What a user should know: that the cache cannot be written.
    pub note: Option<String>,
}

/// Compiles `sources`, one after the other, for a GPU of this compute capability.
///
/// # Errors
/// The compiler is not there, or refuses a kernel.
pub(super) fn compile(sources: &[&str], capability: (i32, i32)) -> Result<Compiled> {
    compile_into(sources, capability, cache::folder("kernels").as_deref())
}

fn compile_into(
    sources: &[&str],
    capability: (i32, i32),
    folder: Option<&Path>,
) -> Result<Compiled> {
    Library::Compiler.open()?;
    let source = std::iter::once(&PRELUDE).chain(sources).copied().collect::<Vec<_>>().join("\n");
    let target = Target::new(capability)?;
    let options =
        [target.option(), "--std=c++17".to_owned(), "--extra-device-vectorization".to_owned()];
    let mut key = blake3::Hasher::new();
    for part in options.iter().map(String::as_str).chain([version()?.as_str(), source.as_str()]) {
        key.update(part.as_bytes()).update(&[0]);
    }
    let path = folder.map(|folder| folder.join(format!("{}.cubin", key.finalize().to_hex())));
    if let Some(image) = path.as_deref().and_then(read) {
        return Ok(Compiled { image, note: None });
    }
    let image = translate(&source, &options, target)?;
    let kept = path.as_deref().map_or_else(|| Err(NO_FOLDER.to_owned()), |path| keep(path, &image));
    let note = kept.err().map(|why| format!("compiled kernels are not kept: {why}"));
    Ok(Compiled { image, note })
}

const NO_FOLDER: &str = "there is no home folder";

/// What the compiler is asked to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// Machine code of this architecture.
    Machine(i32),
    /// PTX of this architecture, which the driver translates for a newer GPU.
    Portable(i32),
}

impl Target {
    fn new((major, minor): (i32, i32)) -> Result<Self> {
        let wanted = 10 * major + minor;
        let mut count = 0;
        // SAFETY: the first call writes one integer, the second as many as the first has counted.
        let known = unsafe {
            sys::nvrtcGetNumSupportedArchs(&mut count).result().map_err(refused)?;
            let mut known = vec![0; count as usize];
            sys::nvrtcGetSupportedArchs(known.as_mut_ptr()).result().map_err(refused)?;
            known
        };
        Self::among(&known, wanted)
    }

    fn among(known: &[i32], wanted: i32) -> Result<Self> {
        match known.iter().copied().filter(|&one| one <= wanted).max() {
            Some(one) if one == wanted => Ok(Self::Machine(one)),
            Some(one) => Ok(Self::Portable(one)),
            None => Err(Error::input(format!(
                "this NVRTC does not compile for compute capability `{}.{}`",
                wanted / 10,
                wanted % 10
            ))
            .hint("install the `nvidia-cuda-nvrtc` package of an older CUDA")),
        }
    }

    fn option(self) -> String {
        match self {
            Self::Machine(one) => format!("--gpu-architecture=sm_{one}"),
            Self::Portable(one) => format!("--gpu-architecture=compute_{one}"),
        }
    }
}

fn refused(error: result::NvrtcError) -> Error {
    Error::input(format!("NVRTC does not work: {error}"))
        .hint("install the `nvidia-cuda-nvrtc` package of your driver's CUDA version")
}

fn version() -> Result<String> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: writes two integers through pointers to two.
    unsafe { sys::nvrtcVersion(&mut major, &mut minor) }.result().map_err(refused)?;
    Ok(format!("{major}.{minor}"))
}

fn translate(source: &str, options: &[String], target: Target) -> Result<Vec<u8>> {
    let source = CString::new(source).map_err(|_| Error::input("a kernel has a zero byte"))?;
    let program = result::create_program(&source, None).map_err(refused)?;
    // SAFETY: `program` was created above from `source`, which outlives it, and is destroyed once,
    // after its last use; the image has as many bytes as the compiler says.
    unsafe {
        let image = match result::compile_program(program, options) {
            Err(error) => {
                Err(Error::input(format!("a kernel does not compile: {error}: {}", log(program)))
                    .hint("please report this line"))
            }
            Ok(()) => image(program, target).map_err(refused),
        };
        result::destroy_program(program).map_err(refused)?;
        image
    }
}

/// What the compiler said, on one line.
fn log(program: sys::nvrtcProgram) -> String {
    // SAFETY: the caller holds `program`; the log ends with a zero byte.
    unsafe {
        result::get_program_log(program)
            .map(|text| CStr::from_ptr(text.as_ptr()).to_string_lossy().replace('\n', " "))
            .unwrap_or_default()
    }
}

fn image(
    program: sys::nvrtcProgram,
    target: Target,
) -> std::result::Result<Vec<u8>, result::NvrtcError> {
    let mut size = 0;
    // SAFETY: the caller holds a compiled `program`; the vector has the size it is asked to have.
    unsafe {
        match target {
            Target::Machine(_) => sys::nvrtcGetCUBINSize(program, &mut size).result()?,
            Target::Portable(_) => sys::nvrtcGetPTXSize(program, &mut size).result()?,
        }
        let mut image = vec![0u8; size + 1];
        match target {
            Target::Machine(_) => {
                sys::nvrtcGetCUBIN(program, image.as_mut_ptr().cast()).result()?
            }
            Target::Portable(_) => sys::nvrtcGetPTX(program, image.as_mut_ptr().cast()).result()?,
        }
        Ok(image)
    }
}

/// The image in a kept file, where it is whole.
fn read(path: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(path).ok()?;
    let (checksum, image) = bytes.split_at_checked(blake3::OUT_LEN)?;
    (blake3::hash(image).as_bytes() == checksum).then(|| image.to_vec())
}

fn keep(path: &Path, image: &[u8]) -> std::result::Result<(), String> {
    let write = || -> std::io::Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        let bytes = [blake3::hash(image).as_bytes(), image].concat();
        std::fs::write(&temporary, bytes)
            .and_then(|()| std::fs::rename(&temporary, path))
            .inspect_err(|_| {
                // The complaint is the write's; what it left behind may not be removable either.
                let _ = std::fs::remove_file(&temporary);
            })
    };
    write().map_err(|error| format!("{error} (`{}`)", path.display()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::engine::cuda::libraries::keep_open;

    /// NVIDIA's compiler by `scripts/library`, installed where this machine has none, once for all tests.
    fn install() -> bool {
        static INSTALLED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        *INSTALLED.get_or_init(|| {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/library");
            let mut command = std::process::Command::new(script);
            command.args(["nvidia-cuda-nvrtc-cu12", "libnvrtc"]);
            let Ok(told) = command.output() else { return false };
            let library = String::from_utf8_lossy(&told.stdout).trim().to_owned();
            told.status.success() && keep_open(Path::new(&library))
        })
    }

    /// Compiles for an H100, or says in one line why not.
    pub(crate) fn compile_here(sources: &[&str]) -> Option<Vec<u8>> {
        let found = Library::Compiler.open();
        match found.or_else(|error| if install() { Library::Compiler.open() } else { Err(error) }) {
            Ok(()) => Some(compile_into(sources, (9, 0), None).unwrap().image),
            Err(error) => {
                let _ = std::io::Write::write_all(
                    &mut std::io::stderr(),
                    format!("skipped: {error}\n").as_bytes(),
                );
                None
            }
        }
    }

    #[test]
    fn the_nearest_architecture_that_is_not_newer_is_chosen() {
        let known = [75, 80, 90, 100];
        assert_eq!(Target::among(&known, 90).unwrap(), Target::Machine(90));
        assert_eq!(Target::among(&known, 120).unwrap(), Target::Portable(100));
        assert!(Target::among(&known, 70).unwrap_err().to_string().contains("`7.0`"));
    }

    #[test]
    fn a_damaged_file_is_not_read_and_a_folder_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a").join("x.cubin");
        keep(&path, b"machine code").unwrap();
        assert_eq!(read(&path).unwrap(), b"machine code");
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read(&path), None);
        std::fs::write(&path, &bytes[..10]).unwrap();
        assert_eq!(read(&path), None);
        // A file stands where the folder should be.
        assert!(keep(&path.join("y.cubin"), b"x").unwrap_err().contains("y.cubin"));
    }

    #[test]
    fn kernels_are_kept_and_a_wrong_one_is_refused_with_its_line() {
        if compile_here(&[]).is_none() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let good = "extern \"C\" __global__ void good() {}";
        let first = compile_into(&[good], (9, 0), Some(folder.path())).unwrap();
        assert_eq!((first.note, std::fs::read_dir(folder.path()).unwrap().count()), (None, 1));
        let second = compile_into(&[good], (9, 0), Some(folder.path())).unwrap();
        assert_eq!(first.image, second.image);
        let wrong = "extern \"C\" __global__ void wrong() { nonsense }";
        let text = compile_into(&[wrong], (9, 0), None).unwrap_err().to_string();
        assert!(text.contains("nonsense") && !text.contains('\n'), "{text}");
        let note = compile_into(&[good], (9, 0), None).unwrap().note.unwrap();
        assert!(note.contains("not kept"));
    }
}
