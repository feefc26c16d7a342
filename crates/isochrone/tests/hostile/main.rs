//! Damaged files end with rows or with an error, in bounded memory: nothing panics, nothing balloons.
#![allow(clippy::unwrap_used)]
// An allocator is an unsafe trait, and counting bytes needs one. It hands every call on to the
// system's; nothing else in this file is unsafe.
#![allow(unsafe_code)]

mod corpus;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use isochrone::checkpoint;
use isochrone::data::{Choices, Memory, load, open};
use isochrone::error::Error;
use isochrone::model::Model;
use isochrone::random::{Draws, Purpose, Stream};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
/// How often something was taken, which stands for how much was done.
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// One test at a time: what another allocates would be counted too.
static ALONE: Mutex<()> = Mutex::new(());

struct Counting;

/// More than this is never handed out, so that a wrong size ends the test and not the machine.
const CEILING: usize = 1 << 30;

/// Counts bytes about to be taken; false if they are too many.
fn taken(bytes: usize) -> bool {
    CALLS.fetch_add(1, Relaxed);
    MOST.fetch_max(LIVE.fetch_add(bytes, Relaxed).saturating_add(bytes), Relaxed);
    bytes < CEILING
}

// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !taken(layout.size()) {
            return std::ptr::null_mut();
        }
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !taken(layout.size()) {
            return std::ptr::null_mut();
        }
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !taken(size) {
            return std::ptr::null_mut();
        }
        LIVE.fetch_sub(layout.size(), Relaxed);
        unsafe { System.realloc(pointer, layout, size) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTER: Counting = Counting;

/// The most bytes that were taken at once while `work` ran.
fn most(work: impl FnOnce()) -> usize {
    let before = LIVE.load(Relaxed);
    MOST.store(before, Relaxed);
    work();
    MOST.load(Relaxed) - before
}

/// What a file of a few kilobytes may take: the largest array that is believed without proof, once
/// as it was packed and once as numbers.
const BOUND: usize = 160 << 20;

/// What reading a small file may take, in allocations.
const MOST_CALLS: usize = 1_000_000;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Prints a figure for `scripts/promises`.
#[expect(clippy::print_stdout, reason = "the test runner shows it")]
fn say(figure: &str) {
    println!("figures: {figure}");
}

/// Whether the long form was asked for.
fn full() -> bool {
    std::env::var_os("ISOCHRONE_FULL").is_some()
}

/// A folder, in memory where the system has one there.
fn place() -> tempfile::TempDir {
    let in_memory = tempfile::TempDir::new_in("/dev/shm");
    in_memory.or_else(|_| tempfile::TempDir::new()).unwrap()
}

/// Pieces that mean something to one format or another.
const PIECES: [&[u8]; 16] = [
    b"18446744073709551615",
    b"-1",
    b"1e999",
    b"nan",
    b"0",
    b"[[[[[[[[",
    b"{{{{{{{{",
    b"(),",
    b"\"",
    b",",
    b"\n",
    b"=",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\0\0\0\x80",
];

/// The bytes with some damage: cut, bits flipped, bytes overwritten, a piece moved, inserted or left
/// out.
fn damaged(bytes: &[u8], draws: &mut Draws) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut place = |bytes: &[u8]| draws.below(bytes.len().max(1) as u32) as usize;
    for _ in 0..1 + place(&[0; 4]) {
        let at = place(&bytes);
        let end = (at + 1 + place(&[0; 16])).min(bytes.len());
        match place(&[0; 8]) {
            0 => bytes.truncate(at),
            1 | 2 if at < bytes.len() => bytes[at] ^= 1 << place(&[0; 8]),
            3 => bytes[at..end].fill(0xff),
            4 => drop(bytes.drain(at..end)),
            5 | 6 => {
                let piece = PIECES[place(&[0; PIECES.len()])];
                let over = if place(&[0; 2]) == 0 { at } else { bytes.len().min(at + piece.len()) };
                bytes.splice(at..over, piece.iter().copied());
            }
            _ => {
                let piece = bytes[at..end].to_vec();
                let to = place(&bytes);
                bytes.splice(to..to, piece);
            }
        }
    }
    bytes
}

/// Reads `count` damaged copies of the file into memory; of a plain one every third from disk.
fn survive(name: &str, count: u32) {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let sound = std::fs::read(fixture(name)).unwrap();
    let folder = place();
    let path = folder.path().join("damaged");
    let stream = Stream::new(name.len() as u64, Purpose(1));
    let choices = Choices::default();
    let mut refused = 0;
    for index in 0..count {
        let bytes = damaged(&sound, &mut stream.draws(0, index));
        std::fs::write(&path, &bytes).unwrap();
        let taken = most(|| {
            let found = if name == "plain.npz" && index % 3 == 0 {
                load(&path, &choices, Memory(100)).map(drop)
            } else {
                open(&path, &choices).and_then(|opened| opened.into_dataset()).map(drop)
            };
            if let Err(error) = found {
                assert!(matches!(error.exit_code(), 2 | 5), "{name} {index}: {error}");
                assert!(!error.to_string().contains('\n'), "{name} {index}: {error}");
                refused += 1;
            }
        });
        assert!(taken < BOUND, "{name} {index}: {taken} bytes");
    }
    assert!(refused > count / 4, "{name}: only {refused} of {count} were noticed");
}

#[test]
fn damaged_npz_files_end_with_rows_or_an_error() {
    for name in ["plain.npz", "compressed.npz", "float64.npz", "ogbench.npz"] {
        survive(name, 400);
    }
}

#[cfg(feature = "hdf5")]
#[test]
fn damaged_hdf5_files_end_with_rows_or_an_error() {
    survive("d4rl-u8.hdf5", 300);
    survive("d4rl-f32.hdf5", 150);
    survive("minari-plain/data/main_data.hdf5", 60);
    survive("minari-dict/data/main_data.hdf5", 30);
}

#[cfg(feature = "hdf5")]
#[test]
fn claims_and_links_beyond_a_files_bytes_are_refused_before_anything_is_taken() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (name, expected) in [
        ("wide", "`observations` claims 60 rows of 1000000000000"),
        ("broad", "`observations` claims 60 rows of 11000000"),
        ("tall", "`observations` claims 10000000 rows of 1000"),
        ("links", "more than 1000 names"),
    ] {
        let path = fixture(&format!("claims-{name}.hdf5"));
        // Into memory, and by way of the disk.
        for memory in [Memory(u64::MAX), Memory(1 << 20)] {
            let taken = most(|| {
                let error = load(&path, &Choices::default(), memory).map(drop).unwrap_err();
                assert_eq!(error.exit_code(), 2, "{name}: {error}");
                assert!(error.to_string().contains(expected), "{name}: {error}");
            });
            assert!(taken < BOUND, "{name}: {taken} bytes");
        }
    }
}

/// The names of everything under a folder.
fn names_under(folder: &Path) -> Vec<PathBuf> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        names.extend(names_under(&path));
        names.push(path);
    }
    names
}

#[test]
fn names_in_an_archive_that_lead_elsewhere_write_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = place();
    let deep = folder.path().join("a/b/c");
    std::fs::create_dir_all(&deep).unwrap();
    // SAFETY: the tests of this file run one at a time, and nothing else here reads the environment.
    unsafe { std::env::set_var("XDG_CACHE_HOME", folder.path().join("cache")) };
    let path = deep.join("escapes.npz");
    let escaped = folder.path().join("escaped.npy").display().to_string();
    for name in ["../../escaped.npy", "..\\escaped.npy", &escaped, "states\0.npy", ".npy", ""] {
        std::fs::copy(fixture("compressed.npz"), &path).unwrap();
        let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let mut archive = zip::ZipWriter::new_append(file).unwrap();
        archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(b"anything").unwrap();
        archive.finish().unwrap();
        for way in [Way::Rows, Way::Disk] {
            if let Err(error) = held(&path, way) {
                assert_eq!(error.exit_code(), 2, "{name:?}: {error}");
            }
            let mut outside = names_under(folder.path());
            outside.retain(|name| !name.starts_with(folder.path().join("cache")));
            assert_eq!(outside.len(), 4, "{name:?}: {outside:?}");
        }
    }
    let unpacked = names_under(&folder.path().join("cache"));
    let is_file = |path: &&PathBuf| path.is_file();
    let plain = unpacked.iter().filter(is_file).all(|path| path.extension().is_some());
    assert!(plain && !unpacked.iter().any(|path| path.ends_with("escaped.npy")), "{unpacked:?}");
    say("6 names that lead elsewhere, 0 files written");
}

#[cfg(feature = "hdf5")]
#[test]
fn observations_in_another_file_are_refused() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = place();
    // What the files lead to is there.
    std::fs::copy(fixture("d4rl-u8.hdf5"), folder.path().join("secret.hdf5")).unwrap();
    std::fs::write(folder.path().join("secret.bin"), [0; 32]).unwrap();
    for name in ["elsewhere-link.hdf5", "elsewhere-storage.hdf5"] {
        let path = folder.path().join(name);
        std::fs::copy(fixture(name), &path).unwrap();
        for way in [Way::Rows, Way::Disk] {
            let error = held(&path, way).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{name}: {error}");
        }
    }
    say("2 files whose rows are in another file, 0 opened");
}

#[cfg(feature = "parquet")]
#[test]
fn damaged_parquet_files_end_with_rows_or_an_error() {
    survive("lerobot-v3.0/data/chunk-000/file-000.parquet", 1_000);
}

/// How a file is read.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Into memory.
    Rows,
    /// As data that do not fit into memory: left in place, or unpacked to the cache folder.
    Disk,
    Model,
    Checkpoint,
}

/// Reads a file: all its values and the lengths of its trajectories, or the refusal.
fn held(path: &Path, way: Way) -> Result<Vec<f32>, Error> {
    let dataset = match way {
        Way::Rows => open(path, &Choices::default())?.into_dataset()?,
        Way::Disk => load(path, &Choices::default(), Memory(100))?.dataset,
        Way::Model => return Model::load(path).map(|_| Vec::new()),
        Way::Checkpoint => return checkpoint::load(path).map(|_| Vec::new()),
    };
    let mut values: Vec<f32> = dataset.lengths().map(|length| length as f32).collect();
    for row in 0..dataset.rows() {
        values.extend_from_slice(&dataset.read_state(row)?);
        values.extend_from_slice(&dataset.read_action(row)?);
    }
    Ok(values)
}

/// Reads the file with bits of its first `bytes` bytes flipped in turn: every one if `ISOCHRONE_FULL`
/// is set, else every `stride`th.
fn flip(name: &str, way: Way, bytes: usize, stride: usize) -> Flips {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let stride = if full() { 1 } else { stride };
    let sound = std::fs::read(fixture(name)).unwrap();
    let folder = place();
    // SAFETY: the tests of this file run one at a time, and nothing else here reads the environment.
    unsafe { std::env::set_var("XDG_CACHE_HOME", folder.path().join("cache")) };
    let path = folder.path().join("flipped");
    std::fs::write(&path, &sound).unwrap();
    let whole = held(&path, way).unwrap_or_else(|error| panic!("{name} as it is: {error}"));
    let mut flips = Flips::default();
    for bit in (0..8 * bytes.min(sound.len())).step_by(stride) {
        let put = |byte: u8| {
            // In place: a file system may flush a file that is truncated and written again.
            let mut file = std::fs::File::options().write(true).open(&path).unwrap();
            file.seek(SeekFrom::Start(bit as u64 / 8)).unwrap();
            file.write_all(&[byte]).unwrap();
        };
        put(sound[bit / 8] ^ 1 << (bit % 8));
        let mut end = None;
        let (calls, begun) = (CALLS.load(Relaxed), Instant::now());
        let taken = most(|| end = Some(held(&path, way)));
        let (calls, seconds) = (CALLS.load(Relaxed) - calls, begun.elapsed().as_secs_f64());
        put(sound[bit / 8]);
        // Whoever writes to a folder looks through it: unpacked files must not pile up there.
        std::fs::remove_dir_all(folder.path().join("cache")).ok();
        assert!(taken < BOUND, "{name} bit {bit}: {taken} bytes");
        assert!(calls < MOST_CALLS, "{name} bit {bit}: {calls} allocations");
        flips.count += 1;
        flips.most = flips.most.max(taken);
        flips.slowest = flips.slowest.max(seconds);
        match end.unwrap() {
            Err(error) => {
                assert!(matches!(error.exit_code(), 2 | 5), "{name} bit {bit}: {error}");
                assert!(!error.to_string().contains('\n'), "{name} bit {bit}: {error}");
                flips.refused += 1;
            }
            Ok(values) => flips.changed += usize::from(values != whole),
        }
    }
    flips
}

/// What came of flipped bits.
#[derive(Debug, Default)]
struct Flips {
    count: usize,
    refused: usize,
    /// Read as other values than those of the sound file.
    changed: usize,
    /// The most bytes that one file took.
    most: usize,
    /// The longest time that one file took, in seconds: told, not judged.
    slowest: f64,
}

impl Flips {
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.refused += other.refused;
        self.changed += other.changed;
        self.most = self.most.max(other.most);
        self.slowest = self.slowest.max(other.slowest);
    }

    fn tell(&self, what: &str) {
        let Self { count, refused, most, slowest, .. } = self;
        let most = most.div_ceil(1_000_000);
        say(&format!(
            "{what}: {count} flips, {refused} refused, 0 panics, at most {most} MB and {slowest:.2} s each"
        ));
    }
}

#[test]
fn every_flipped_bit_of_a_sealed_file_is_refused() {
    for (name, way, stride) in [
        ("model-format-1.safetensors", Way::Model, 37),
        ("checkpoint-format-1.safetensors", Way::Checkpoint, 1),
    ] {
        let flips = flip(name, way, usize::MAX, stride);
        assert_eq!(flips.refused, flips.count, "{name}");
        flips.tell(name);
    }
}

#[test]
fn a_flipped_bit_of_an_npz_file_ends_with_its_rows_or_an_error() {
    let mut all = Flips::default();
    for name in ["plain.npz", "compressed.npz", "float64.npz"] {
        for (way, stride) in [(Way::Rows, 7), (Way::Disk, 131)] {
            let flips = flip(name, way, usize::MAX, stride);
            assert_eq!(flips.changed, 0, "{name}: checksums let no other values through");
            all.add(&flips);
        }
    }
    all.tell("npz");
}

#[cfg(feature = "hdf5")]
#[test]
fn a_flipped_bit_of_an_hdf5_header_ends_with_rows_or_an_error() {
    let mut all = Flips::default();
    // Headers stand all over a file. Two are laid out as others are: their first headers suffice.
    for (name, bytes) in [
        ("d4rl-u8.hdf5", usize::MAX),
        ("d4rl-f32.hdf5", usize::MAX),
        ("d4rl-f64.hdf5", 4 << 10),
        ("minari-plain/data/main_data.hdf5", usize::MAX),
        ("minari-dict/data/main_data.hdf5", 4 << 10),
    ] {
        all.add(&flip(name, Way::Rows, bytes, 97));
        all.add(&flip(name, Way::Disk, bytes, 997));
    }
    all.tell("hdf5");
}

#[cfg(feature = "parquet")]
#[test]
fn a_flipped_bit_of_a_parquet_file_ends_with_rows_or_an_error() {
    let name = "lerobot-v3.0/data/chunk-000/file-000.parquet";
    flip(name, Way::Rows, usize::MAX, 7).tell("parquet");
}

#[test]
fn the_count_sees_what_is_taken_and_given_back() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let taken = most(|| drop((vec![0u8; 1 << 20], vec![0u8; 1 << 20])));
    // The test runner's own thread may give a few bytes back meanwhile.
    let slack = 64 << 10;
    assert!(((2 << 20) - slack..(2 << 20) + slack).contains(&taken), "{taken}");
}
