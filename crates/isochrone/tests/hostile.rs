//! Damaged files end with rows or with an error, in bounded memory: nothing panics, nothing balloons.
#![allow(clippy::unwrap_used)]
// An allocator is an unsafe trait, and counting bytes needs one. It hands every call on to the
// system's; nothing else in this file is unsafe.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use isochrone::data::{Choices, Memory, load, open};
use isochrone::random::{Draws, Purpose, Stream};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
/// One test at a time: what another allocates would be counted too.
static ALONE: Mutex<()> = Mutex::new(());

struct Counting;

fn taken(bytes: usize) {
    MOST.fetch_max(LIVE.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        taken(size);
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

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// The bytes with some damage: cut, bits flipped, bytes overwritten, a piece moved or left out.
fn damaged(bytes: &[u8], draws: &mut Draws) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut place = |bytes: &[u8]| draws.below(bytes.len().max(1) as u32) as usize;
    for _ in 0..1 + place(&[0; 4]) {
        let at = place(&bytes);
        let end = (at + 1 + place(&[0; 16])).min(bytes.len());
        match place(&[0; 6]) {
            0 => bytes.truncate(at),
            1 | 2 if at < bytes.len() => bytes[at] ^= 1 << place(&[0; 8]),
            3 => bytes[at..end].fill(0xff),
            4 => drop(bytes.drain(at..end)),
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
    let folder = tempfile::TempDir::new().unwrap();
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

#[cfg(feature = "parquet")]
#[test]
fn damaged_parquet_files_end_with_rows_or_an_error() {
    survive("lerobot-v3.0/data/chunk-000/file-000.parquet", 1_000);
}

#[test]
fn the_count_sees_what_is_taken_and_given_back() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let taken = most(|| drop((vec![0u8; 1 << 20], vec![0u8; 1 << 20])));
    // The test runner's own thread may give a few bytes back meanwhile.
    let slack = 64 << 10;
    assert!(((2 << 20) - slack..(2 << 20) + slack).contains(&taken), "{taken}");
}
