//! Open MPI, loaded at run time: the one module of the processes with `unsafe` blocks.
//!
//! Nothing of MPI is needed to build: `libmpi.so.40` is what `mpirun` has beside it. Handles are
//! addresses of objects in the library, as Open MPI 3 to 5 have them; libraries with another binary
//! interface (MPICH) lack these objects and are refused. Source: MPI 3.1, chapters 3, 5 and 8, and
//! Open MPI's `mpi.h`.
#![allow(unsafe_code)]

use std::error::Error;
use std::ffi::{c_char, c_int, c_void};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use super::processes::Processes;

/// What Open MPI 3 to 5 call their library.
const NAME: &str = "libmpi.so.40";
/// Calls come from several threads, one at a time.
const SERIALIZED: c_int = 2;
/// Numbers of one call at most; a count is a C `int`.
const MOST: usize = 1 << 30;
/// What stands for "my part is in the target already".
const IN_PLACE: *const c_void = std::ptr::without_provenance(1);

type Handle = *const c_void;
type InitThread =
    unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int) -> c_int;
type Finalize = unsafe extern "C" fn() -> c_int;
type OfWorld = unsafe extern "C" fn(Handle, *mut c_int) -> c_int;
type Bcast = unsafe extern "C" fn(*mut c_void, c_int, Handle, c_int, Handle) -> c_int;
type Allgather =
    unsafe extern "C" fn(*const c_void, c_int, Handle, *mut c_void, c_int, Handle, Handle) -> c_int;
type Sendrecv = unsafe extern "C" fn(
    *const c_void,
    c_int,
    Handle,
    c_int,
    c_int,
    *mut c_void,
    c_int,
    Handle,
    c_int,
    c_int,
    Handle,
    *mut c_void,
) -> c_int;

/// The processes that `mpirun` started.
pub(super) struct Mpi {
    rank: usize,
    size: usize,
    world: Handle,
    float: Handle,
    byte: Handle,
    finalize: Finalize,
    bcast: Bcast,
    allgather: Allgather,
    sendrecv: Sendrecv,
    /// Never closed before everything that points into it.
    _library: Library,
}

// SAFETY: the handles are addresses of objects that MPI itself guards, and MPI was asked to serve
// calls from any thread, one at a time; a run has one thread that updates.
unsafe impl Send for Mpi {}
// SAFETY: as above.
unsafe impl Sync for Mpi {}

impl Mpi {
    /// Loads the library and joins the others.
    pub fn init() -> Result<Self, String> {
        let flags = RTLD_NOW | RTLD_GLOBAL;
        // SAFETY: opening a library runs its initializers; those of Open MPI only set up tables. Its
        // plugins look for its symbols among the global ones.
        let library = unsafe { Library::open(Some(NAME), flags) };
        Self::find(library.map_err(reason)?)
    }

    fn find(library: Library) -> Result<Self, String> {
        macro_rules! function {
            ($name:literal, $type:ty) => {{
                // SAFETY: the type is that of the function in MPI's standard.
                *unsafe { library.get::<$type>($name) }.map_err(reason)?
            }};
        }
        macro_rules! handle {
            ($name:literal) => {{
                // SAFETY: the address of the object is taken, and nothing is read through it.
                unsafe { library.get::<Handle>($name) }.map_err(reason)?.into_raw() as Handle
            }};
        }
        let init = function!(b"MPI_Init_thread\0", InitThread);
        let rank_of = function!(b"MPI_Comm_rank\0", OfWorld);
        let size_of = function!(b"MPI_Comm_size\0", OfWorld);
        let world = handle!(b"ompi_mpi_comm_world\0");
        let (mut level, mut rank, mut size) = (0, 0, 0);
        // SAFETY: both pointers to arguments may be null; the last one is to an int.
        let failed =
            unsafe { init(std::ptr::null_mut(), std::ptr::null_mut(), SERIALIZED, &mut level) };
        if failed != 0 || level < SERIALIZED {
            return Err(format!("MPI_Init_thread gave {failed}, threads {level}"));
        }
        // SAFETY: MPI is initialized, and both pointers are to ints.
        let failed = unsafe { rank_of(world, &mut rank) + size_of(world, &mut size) };
        let known = |number: c_int| usize::try_from(number).ok().filter(|_| failed == 0);
        let (Some(rank), Some(size)) = (known(rank), known(size)) else {
            return Err("MPI does not say how many processes there are".to_owned());
        };
        Ok(Self {
            rank,
            size,
            world,
            float: handle!(b"ompi_mpi_float\0"),
            byte: handle!(b"ompi_mpi_byte\0"),
            finalize: function!(b"MPI_Finalize\0", Finalize),
            bcast: function!(b"MPI_Bcast\0", Bcast),
            allgather: function!(b"MPI_Allgather\0", Allgather),
            sendrecv: function!(b"MPI_Sendrecv\0", Sendrecv),
            _library: library,
        })
    }
}

/// What the system says: which file or which symbol is missing.
fn reason(error: libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| source.to_string())
}

/// MPI's own handler ends all processes at an error; what it lets pass is a bug.
fn check(what: &str, code: c_int) {
    assert_eq!(code, 0, "{what} failed");
}

impl Processes for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn exchange(&self, with: usize, numbers: &[f32], theirs: &mut [f32]) {
        assert_eq!(numbers.len(), theirs.len(), "both sides send as much");
        let (with, float) = (with as c_int, self.float);
        for (own, theirs) in numbers.chunks(MOST).zip(theirs.chunks_mut(MOST)) {
            let count = own.len() as c_int;
            let (own, theirs) = (own.as_ptr().cast(), theirs.as_mut_ptr().cast());
            // SAFETY: both buffers have `count` floats, and the status may be null.
            let code = unsafe {
                let none = std::ptr::null_mut();
                (self.sendrecv)(
                    own, count, float, with, 0, theirs, count, float, with, 0, self.world, none,
                )
            };
            check("MPI_Sendrecv", code);
        }
    }

    fn all_gather(&self, numbers: &mut [f32]) {
        assert!(numbers.len().is_multiple_of(self.size), "equal parts");
        let part = numbers.len() / self.size;
        assert!(part <= MOST, "a part of a gather has at most {MOST} numbers");
        let (count, all) = (part as c_int, numbers.as_mut_ptr().cast());
        // SAFETY: the buffer has `count` floats per process, this one's own at its place.
        let code = unsafe {
            (self.allgather)(IN_PLACE, count, self.float, all, count, self.float, self.world)
        };
        check("MPI_Allgather", code);
    }

    fn broadcast(&self, from: usize, bytes: &mut [u8]) {
        let from = from as c_int;
        for bytes in bytes.chunks_mut(MOST) {
            let (count, start) = (bytes.len() as c_int, bytes.as_mut_ptr().cast());
            // SAFETY: the buffer has `count` bytes.
            check("MPI_Bcast", unsafe { (self.bcast)(start, count, self.byte, from, self.world) });
        }
    }

    fn leave(&self) {
        // SAFETY: no call follows; the run is over.
        check("MPI_Finalize", unsafe { (self.finalize)() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_open_mpi_is_refused_by_what_it_lacks() {
        let found = Mpi::find(Library::this()).map(drop).unwrap_err();
        assert!(found.contains("MPI_Init_thread"), "{found}");
    }
}
