//! MuJoCo, opened at run time: the one module of the worlds with `unsafe` blocks.
//!
//! Nothing of MuJoCo is needed to build. The library is looked for in `$MUJOCO_LIB` (a library or a
//! wheel), in the Python packages `mujoco-core` and `mujoco`, then under its plain name. C functions
//! alone are called and no structure is looked into, so versions from 2.3.7 to 4.0.0 work alike.
//! Source: MuJoCo, "API reference", sections on main simulation and on state.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use libloading::Library;

use crate::error::{Error, Result};

/// The environment variable that names the library.
pub const VARIABLE: &str = "MUJOCO_LIB";
/// The way out where there is no library.
const INSTALL: &str = "`pip install mujoco-core`, or name the library in `$MUJOCO_LIB`";

/// Parts of a state, as bits; controls and the solver's first guess moved up by one in 3.5.
const POSITIONS: c_int = 1 << 1;
const VELOCITIES: c_int = 1 << 2;
const GUESS_UNTIL_3_4: c_int = 1 << 4;

type LoadXml =
    unsafe extern "C" fn(*const c_char, *const c_void, *mut c_char, c_int) -> *mut c_void;
type OfModel = unsafe extern "C" fn(*const c_void) -> *mut c_void;
type Forget = unsafe extern "C" fn(*mut c_void);
type Step = unsafe extern "C" fn(*const c_void, *mut c_void);
type StateSize = unsafe extern "C" fn(*const c_void, c_int) -> c_int;
type GetState = unsafe extern "C" fn(*const c_void, *const c_void, *mut f64, c_int);
type SetState = unsafe extern "C" fn(*const c_void, *mut c_void, *const f64, c_int);
type VersionString = unsafe extern "C" fn() -> *const c_char;

/// The library and the functions of it that are called.
struct Functions {
    load_xml: LoadXml,
    make_data: OfModel,
    delete_data: Forget,
    delete_model: Forget,
    step: Step,
    state_size: StateSize,
    get_state: GetState,
    set_state: SetState,
    version: (u32, u32),
    name: String,
    /// Dropped last, after everything that points into it.
    _library: Library,
}

/// MuJoCo, ready to load models.
#[derive(Clone)]
pub struct Mujoco {
    functions: Arc<Functions>,
}

impl Mujoco {
    /// Opens the first library that is found.
    ///
    /// # Errors
    /// There is none, or the one that `$MUJOCO_LIB` names or a package has cannot be opened.
    pub fn open() -> Result<Self> {
        if let Some(named) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) {
            return Self::open_file(Path::new(&named));
        }
        let mut refused = None;
        for found in packaged() {
            match Self::open_file(&found) {
                Ok(opened) => return Ok(opened),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        let missing = || Error::input("no MuJoCo library found").hint(INSTALL);
        Self::load(Path::new(plain_name())).map_err(|_| refused.unwrap_or_else(missing))
    }

    /// Opens a library, or the library inside a wheel.
    ///
    /// # Errors
    /// The file is neither.
    pub fn open_file(path: &Path) -> Result<Self> {
        let opened = if path.extension().is_some_and(|ending| ending == "whl") {
            let unpacked = unpack(path)?;
            let opened = Self::load(&unpacked);
            // Once it is open the system keeps it, where it lets us remove it at all.
            std::fs::remove_file(&unpacked).ok();
            opened
        } else {
            Self::load(path)
        };
        opened.map_err(|error| {
            Error::input(format!("no MuJoCo library: {error}")).in_file(path).hint(INSTALL)
        })
    }

    fn load(path: &Path) -> std::result::Result<Self, String> {
        // SAFETY: opening a library runs its initializers; the user named it, or it has MuJoCo's
        // name in a folder of MuJoCo's package. MuJoCo's initializers only set up tables.
        let library = unsafe { Library::new(path) }.map_err(|error| with_cause(&error))?;
        Functions::find(library)
            .map(|functions| Self { functions: Arc::new(functions) })
            .map_err(|error| with_cause(&error))
    }

    /// Whether this version has a middle phase between bodies and pairs of geoms that can be left out.
    pub fn has_midphase(&self) -> bool {
        self.functions.version >= (3, 0)
    }

    /// The version, such as `3.3.7`.
    pub fn version(&self) -> &str {
        &self.functions.name
    }

    /// Whether two bodies' contact margins are added, as since 3.5, instead of the larger one taken.
    pub fn adds_margins(&self) -> bool {
        self.functions.version >= (3, 5)
    }

    /// Compiles a model from the text of an MJCF file.
    ///
    /// # Errors
    /// MuJoCo refuses the model, or the temporary file cannot be written.
    pub fn model(&self, mjcf: &str) -> Result<MujocoModel> {
        let file = temporary("xml");
        std::fs::write(&file, mjcf).map_err(|error| Error::disk("write", &file, error))?;
        let loaded = self.compile(&file);
        std::fs::remove_file(&file).ok();
        let pointer = loaded?;
        let mut model =
            MujocoModel { functions: self.functions.clone(), pointer, parts: 0, sizes: [0; 4] };
        let old = model.size(GUESS_UNTIL_3_4) == model.size(VELOCITIES);
        let guess = if old { GUESS_UNTIL_3_4 } else { GUESS_UNTIL_3_4 << 1 };
        let controls = guess << 1;
        model.parts = POSITIONS | VELOCITIES | guess | controls;
        model.sizes = [POSITIONS, VELOCITIES, guess, controls].map(|part| model.size(part));
        Ok(model)
    }

    fn compile(&self, file: &Path) -> Result<NonNull<c_void>> {
        let name = CString::new(file.to_string_lossy().as_bytes())
            .map_err(|_| Error::input("the folder for temporary files has a zero in its name"))?;
        let mut complaint = [0 as c_char; 1_000];
        let room = complaint.len() as c_int;
        // SAFETY: the name ends in a zero, no virtual files are given, and the complaint has as much
        // room as is said; MuJoCo ends it with a zero.
        let pointer = unsafe {
            (self.functions.load_xml)(name.as_ptr(), std::ptr::null(), complaint.as_mut_ptr(), room)
        };
        NonNull::new(pointer).ok_or_else(|| {
            // SAFETY: the buffer began as zeros and was written within its room but the last.
            let text = unsafe { CStr::from_ptr(complaint.as_ptr()) }.to_string_lossy();
            Error::input(format!("MuJoCo {} refuses the model: {text}", self.version()))
        })
    }
}

impl Functions {
    fn find(library: Library) -> std::result::Result<Self, libloading::Error> {
        // SAFETY: the types are those of MuJoCo's C interface, the same since 2.3.7; the functions
        // live as long as the library, which is kept beside them.
        unsafe {
            let version_string = *library.get::<VersionString>(b"mj_versionString\0")?;
            let name = CStr::from_ptr(version_string()).to_string_lossy().into_owned();
            let mut numbers = name.split('.').map(|part| part.parse().unwrap_or(0));
            let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
            Ok(Self {
                load_xml: *library.get::<LoadXml>(b"mj_loadXML\0")?,
                make_data: *library.get::<OfModel>(b"mj_makeData\0")?,
                delete_data: *library.get::<Forget>(b"mj_deleteData\0")?,
                delete_model: *library.get::<Forget>(b"mj_deleteModel\0")?,
                step: *library.get::<Step>(b"mj_step\0")?,
                state_size: *library.get::<StateSize>(b"mj_stateSize\0")?,
                get_state: *library.get::<GetState>(b"mj_getState\0")?,
                set_state: *library.get::<SetState>(b"mj_setState\0")?,
                version,
                name,
                _library: library,
            })
        }
    }
}

/// A compiled model: never changed, shared by all simulations of it.
pub struct MujocoModel {
    functions: Arc<Functions>,
    pointer: NonNull<c_void>,
    /// Positions, velocities, the solver's first guess and controls, as bits and in numbers.
    parts: c_int,
    sizes: [usize; 4],
}

// SAFETY: after loading, the functions above only read a model; MuJoCo's documentation shares one
// among threads in the same way.
unsafe impl Send for MujocoModel {}
// SAFETY: as above.
unsafe impl Sync for MujocoModel {}

impl MujocoModel {
    fn size(&self, part: c_int) -> usize {
        // SAFETY: the model is alive.
        let size = unsafe { (self.functions.state_size)(self.pointer.as_ptr(), part) };
        usize::try_from(size).unwrap_or(0)
    }

    /// How many positions.
    pub fn positions(&self) -> usize {
        self.sizes[0]
    }

    /// How many velocities.
    pub fn velocities(&self) -> usize {
        self.sizes[1]
    }

    /// How many controls.
    pub fn controls(&self) -> usize {
        self.sizes[3]
    }

    /// Room for one simulation.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn simulation(self: &Arc<Self>) -> Result<Simulation> {
        // SAFETY: the model is alive, and the simulation keeps it so.
        let pointer = unsafe { (self.functions.make_data)(self.pointer.as_ptr()) };
        let pointer = NonNull::new(pointer)
            .ok_or_else(|| Error::memory("MuJoCo has no memory for another simulation"))?;
        let numbers = vec![0.0; self.sizes.iter().sum()];
        Ok(Simulation { model: self.clone(), pointer, numbers })
    }
}

impl Drop for MujocoModel {
    fn drop(&mut self) {
        // SAFETY: every simulation holds its model, so none is left; nobody else has the pointer.
        unsafe { (self.functions.delete_model)(self.pointer.as_ptr()) }
    }
}

/// One simulation.
pub struct Simulation {
    model: Arc<MujocoModel>,
    pointer: NonNull<c_void>,
    numbers: Vec<f64>,
}

// SAFETY: MuJoCo keeps nothing of a simulation by thread; it may go on in another.
unsafe impl Send for Simulation {}

impl Simulation {
    /// Moves `state`, positions then velocities, by `steps` steps under `control`.
    ///
    /// The solver begins from nothing, so the result depends on the arguments alone. Against a
    /// solver that remembers its last answer the benchmark's motion differs by 2e-14 in 120 steps.
    ///
    /// # Panics
    /// Where the numbers are not as many as the model's.
    pub fn advance(&mut self, state: &mut [f64], control: &[f64], steps: usize) {
        let [positions, velocities, guess, controls] = self.model.sizes;
        let moving = positions + velocities;
        assert_eq!((state.len(), control.len()), (moving, controls), "state size");
        self.numbers[..moving].copy_from_slice(state);
        self.numbers[moving..moving + guess].fill(0.0);
        self.numbers[moving + guess..].copy_from_slice(control);
        let functions = &self.model.functions;
        let (model, data) = (self.model.pointer.as_ptr(), self.pointer.as_ptr());
        // SAFETY: model and simulation belong together and are alive; `&mut self` keeps other
        // threads away; the numbers are as many as the parts have, and the state likewise.
        unsafe {
            (functions.set_state)(model, data, self.numbers.as_ptr(), self.model.parts);
            for _ in 0..steps {
                (functions.step)(model, data);
            }
            (functions.get_state)(model, data, state.as_mut_ptr(), POSITIONS | VELOCITIES);
        }
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // SAFETY: nobody else has the pointer, and the model is still alive.
        unsafe { (self.model.functions.delete_data)(self.pointer.as_ptr()) }
    }
}

/// What an error says, and why.
fn with_cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

fn plain_name() -> &'static str {
    if cfg!(windows) {
        "mujoco.dll"
    } else if cfg!(target_os = "macos") {
        "libmujoco.dylib"
    } else {
        "libmujoco.so"
    }
}

/// Whether a file has the library's name, with a version or without.
fn is_library(name: &str) -> bool {
    let stem = plain_name().split('.').next().unwrap_or_default();
    let rest = name.strip_prefix(stem).unwrap_or_default();
    let ending = plain_name().trim_start_matches(stem);
    rest == ending || rest.starts_with(&format!("{ending}.")) || {
        rest.starts_with('.') && rest.ends_with(ending)
    }
}

/// The libraries in Python's packages: of the active environment, then of `python3` and `python`.
fn packaged() -> Vec<PathBuf> {
    const ASK: &str = "import sysconfig,site;print(sysconfig.get_paths()['platlib']);\
                       print(sysconfig.get_paths()['purelib']);print(site.getusersitepackages())";
    let inside = std::env::var_os("VIRTUAL_ENV").map(PathBuf::from);
    let bin = if cfg!(windows) { "Scripts" } else { "bin" };
    let pythons = inside.iter().map(|folder| folder.join(bin).join("python"));
    let pythons = pythons.chain(["python3", "python"].map(PathBuf::from));
    let mut found = Vec::new();
    for python in pythons {
        let Ok(answer) = Command::new(&python).args(["-c", ASK]).output() else { continue };
        let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
        for folder in answer.lines().map(|line| Path::new(line).join("mujoco")) {
            found.extend(libraries(&folder));
        }
    }
    found.dedup();
    found
}

fn libraries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let named =
        |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).is_some_and(is_library);
    let mut found: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(named).collect();
    found.sort();
    found
}

/// A wheel is a zip: writes the library in it to a temporary file.
fn unpack(wheel: &Path) -> Result<PathBuf> {
    let refused = |what: String| Error::input(what).in_file(wheel).hint(INSTALL);
    let file = std::fs::File::open(wheel).map_err(|error| refused(error.to_string()))?;
    let mut archive = zip::ZipArchive::new(file).map_err(|error| refused(error.to_string()))?;
    let name = archive
        .file_names()
        .filter_map(|name| Some(name.ok()?.into_owned()))
        .find(|name| name.rsplit('/').next().is_some_and(is_library))
        .ok_or_else(|| refused("no MuJoCo library in the wheel".into()))?;
    let mut bytes = Vec::new();
    let mut entry = archive.by_name(&name).map_err(|error| refused(error.to_string()))?;
    entry.read_to_end(&mut bytes).map_err(|error| refused(error.to_string()))?;
    let path = temporary("lib");
    std::fs::write(&path, bytes).map_err(|error| Error::disk("write", &path, error))?;
    Ok(path)
}

/// A new name in the folder for temporary files.
fn temporary(ending: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("isochrone-{}-{count}.{ending}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_known_by_its_name_with_or_without_a_version() {
        let (yes, no) = if cfg!(target_os = "macos") {
            (["libmujoco.dylib", "libmujoco.3.3.7.dylib"], ["libmujoco.so", "libmujocoplus.dylib"])
        } else if cfg!(windows) {
            (["mujoco.dll", "mujoco.dll"], ["libmujoco.so", "mujocoplus.dll"])
        } else {
            (["libmujoco.so", "libmujoco.so.3.3.7"], ["libmujoco.dylib", "libmujocoplus.so"])
        };
        assert!(yes.iter().all(|name| is_library(name)));
        assert!(!no.iter().any(|name| is_library(name)));
    }

    #[test]
    fn what_is_no_library_is_refused_with_the_command_that_installs_one() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["libmujoco.so", "mujoco.whl"] {
            let path = folder.path().join(name);
            std::fs::write(&path, "nothing of the kind").unwrap();
            let error = Mujoco::open_file(&path).err().unwrap();
            let text = error.to_string();
            assert!(text.contains(name) && text.contains("pip install mujoco-core"), "{text}");
            assert_eq!(error.exit_code(), 2);
        }
        let missing = Mujoco::open_file(&folder.path().join("none.whl")).err().unwrap();
        assert!(missing.to_string().contains("none.whl"));
    }
}
