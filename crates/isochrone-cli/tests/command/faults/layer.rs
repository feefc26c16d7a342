//! A layer between a command and the system's files: loaded before the C library, it counts the
//! operations that change files under one folder, notes each in a log, and makes one of them fail.
//!
//! `main.rs` compiles it to a library of its own and names it in `LD_PRELOAD`. The environment says
//! what to do: `FAULTS_UNDER` the folder, `FAULTS_LOG` the log, `FAULTS_AT` the operation that fails,
//! counted from 0, and `FAULTS_KIND` how.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

const CREATE: c_int = 0o100;
const APPEND: c_int = 0o2000;
const WRITE_ONLY: c_int = 1;
const NO_ENTRY: c_int = 2;
const INPUT_OUTPUT: c_int = 5;
const NO_SPACE: c_int = 28;
/// The exit code of a process that died here.
const DEAD: c_int = 86;
/// `RTLD_NEXT`: the symbol as it would be without this library.
const NEXT: *mut c_void = -1isize as *mut c_void;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn __errno_location() -> *mut c_int;
    fn _exit(code: c_int) -> !;
}

/// The system's own function of this name.
macro_rules! system {
    ($name:literal, fn($($argument:ty),*) -> $result:ty) => {{
        // SAFETY: the name ends with a zero byte, and the C library has a function of this name with
        // these arguments.
        unsafe {
            let found = dlsym(NEXT, concat!($name, "\0").as_ptr().cast());
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> $result>(found)
        }
    }};
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// The operation fails; a write leaves half its bytes.
    Refuse,
    /// The folder of the operation is away, and back for the next.
    Away,
    /// The disk is full from this operation on: nothing is created or written.
    Full,
    /// The process dies before the operation, or with half its bytes written.
    Die,
    DieMidway,
}

struct Orders {
    under: String,
    log: c_int,
    fault: Option<(usize, Kind)>,
}

#[derive(Default)]
struct State {
    operations: usize,
    /// The paths under the folder that are open.
    open: BTreeMap<c_int, String>,
}

static STATE: Mutex<State> = Mutex::new(State { operations: 0, open: BTreeMap::new() });

fn orders() -> Option<&'static Orders> {
    static ORDERS: OnceLock<Option<Orders>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let said = |name: &str| std::env::var(name).ok();
        let log = format!("{}\0", said("FAULTS_LOG")?);
        let open = system!("open64", fn(*const c_char, c_int, c_int) -> c_int);
        // SAFETY: the path ends with a zero byte.
        let log = unsafe { open(log.as_ptr().cast(), CREATE | WRITE_ONLY | APPEND, 0o644) };
        let fault = said("FAULTS_AT").map(|at| {
            let kind = match said("FAULTS_KIND").as_deref() {
                Some("refuse") => Kind::Refuse,
                Some("away") => Kind::Away,
                Some("full") => Kind::Full,
                Some("die") => Kind::Die,
                _ => Kind::DieMidway,
            };
            (at.parse().unwrap_or(usize::MAX), kind)
        });
        Some(Orders { under: said("FAULTS_UNDER")?, log, fault })
    });
    orders.as_ref()
}

fn state() -> std::sync::MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts an operation and notes it; how it is to fail.
fn count(words: &str, takes_space: bool) -> Option<Kind> {
    let orders = orders()?;
    let mut state = state();
    let now = state.operations;
    state.operations += 1;
    let kind = match orders.fault {
        Some((at, Kind::Full)) if now >= at && takes_space => Some(Kind::Full),
        Some((at, kind)) if now == at && kind != Kind::Full => Some(kind),
        _ => None,
    };
    let line = format!("{words}\n");
    let write = system!("write", fn(c_int, *const c_void, usize) -> isize);
    // SAFETY: the log is open, and the bytes are those of the line.
    unsafe { write(orders.log, line.as_ptr().cast(), line.len()) };
    if kind == Some(Kind::Die) {
        // SAFETY: it does not return.
        unsafe { _exit(DEAD) }
    }
    kind
}

/// Sets the system's error for this thread: what a failing call returns is -1.
fn fail(kind: Kind) -> c_int {
    if kind == Kind::DieMidway {
        // SAFETY: it does not return.
        unsafe { _exit(DEAD) }
    }
    let code = match kind {
        Kind::Full => NO_SPACE,
        Kind::Away => NO_ENTRY,
        _ => INPUT_OUTPUT,
    };
    // SAFETY: the C library gives every thread its own place for an error.
    unsafe { *__errno_location() = code };
    -1
}

/// The path, where it is under the folder.
fn watched(path: *const c_char) -> Option<String> {
    // SAFETY: the caller passes a path to the C library.
    let path = unsafe { CStr::from_ptr(path) }.to_str().ok()?;
    path.starts_with(&orders()?.under).then(|| path.to_owned())
}

fn opened(descriptor: c_int) -> Option<String> {
    orders()?;
    state().open.get(&descriptor).cloned()
}

/// Stands for the system's `open64`.
///
/// # Safety
/// As the C library's: the optional last argument is in its register, whether or not it was passed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    let found = watched(path);
    if let Some(found) = found.as_ref().filter(|_| flags & CREATE != 0)
        && let Some(kind) = count(&format!("create\t{found}"), true)
    {
        return fail(kind);
    }
    let open = system!("open64", fn(*const c_char, c_int, c_int) -> c_int);
    // SAFETY: the arguments are handed on as they came.
    let descriptor = unsafe { open(path, flags, mode) };
    if orders().is_some() && descriptor >= 0 {
        // Another file may have had the number before.
        state().open.remove(&descriptor);
        found.and_then(|found| state().open.insert(descriptor, found));
    }
    descriptor
}

/// Stands for the system's `write`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(descriptor: c_int, bytes: *const c_void, length: usize) -> isize {
    let write = system!("write", fn(c_int, *const c_void, usize) -> isize);
    if let Some(path) = opened(descriptor)
        && let Some(kind) = count(&format!("write\t{path}"), true)
    {
        // SAFETY: half of bytes that are all there.
        unsafe { write(descriptor, bytes, length / 2) };
        return fail(kind) as isize;
    }
    // SAFETY: the arguments are handed on as they came.
    unsafe { write(descriptor, bytes, length) }
}

/// Stands for the system's `ftruncate64`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftruncate64(descriptor: c_int, length: i64) -> c_int {
    if let Some(path) = opened(descriptor)
        && let Some(kind) = count(&format!("cut\t{path}"), false)
    {
        return fail(kind);
    }
    let cut = system!("ftruncate64", fn(c_int, i64) -> c_int);
    // SAFETY: the arguments are handed on as they came.
    unsafe { cut(descriptor, length) }
}

/// Stands for the system's `fsync`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsync(descriptor: c_int) -> c_int {
    if let Some(path) = opened(descriptor)
        && let Some(kind) = count(&format!("sync\t{path}"), true)
    {
        return fail(kind);
    }
    let sync = system!("fsync", fn(c_int) -> c_int);
    // SAFETY: the argument is handed on as it came.
    unsafe { sync(descriptor) }
}

/// Stands for the system's `rename`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    if let (Some(one), Some(other)) = (watched(from), watched(to))
        && let Some(kind) = count(&format!("rename\t{one}\t{other}"), false)
    {
        return fail(kind);
    }
    let rename = system!("rename", fn(*const c_char, *const c_char) -> c_int);
    // SAFETY: the arguments are handed on as they came.
    unsafe { rename(from, to) }
}

/// Stands for the system's `unlink`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    if let Some(found) = watched(path)
        && let Some(kind) = count(&format!("remove\t{found}"), false)
    {
        return fail(kind);
    }
    let unlink = system!("unlink", fn(*const c_char) -> c_int);
    // SAFETY: the argument is handed on as it came.
    unsafe { unlink(path) }
}

/// Stands for the system's `mkdir`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdir(path: *const c_char, mode: u32) -> c_int {
    if let Some(found) = watched(path)
        && let Some(kind) = count(&format!("folder\t{found}"), true)
    {
        return fail(kind);
    }
    let mkdir = system!("mkdir", fn(*const c_char, u32) -> c_int);
    // SAFETY: the arguments are handed on as they came.
    unsafe { mkdir(path, mode) }
}
