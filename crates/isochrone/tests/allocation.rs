//! After its first updates, training allocates nothing of its own.
//!
//! The buffers into which `matrixmultiply` packs its operands are made anew for every product that
//! goes through it; they are counted apart. Their layouts ask for the alignment of the kernel's vectors (16 bytes with
//! SSE, 32 with AVX and NEON, 64 with AVX-512), while numbers, vectors of them and boxes ask for at
//! most 8.
#![allow(clippy::unwrap_used)]
// An allocator is an unsafe trait, and counting allocations needs one. It hands every call on to the
// system's; nothing else in this file is unsafe.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use isochrone::algorithms::Config;
use isochrone::data::{Dataset, Normalization, Scaling};
use isochrone::engine::{Product, Side, Threads, multiply};
use isochrone::train::{Prepared, TrainConfig, Trainer};

/// The least alignment of a packing buffer; the library itself asks for less.
const PACKING: usize = 16;

/// Allocations made so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    own: usize,
    packing: usize,
}

thread_local! {
    static COUNTS: Cell<Counts> = const { Cell::new(Counts { own: 0, packing: 0 }) };
}

struct Counting;

fn count(layout: Layout) {
    // A thread that is ending has no counts any more.
    let _ = COUNTS.try_with(|counts| {
        let Counts { own, packing } = counts.get();
        counts.set(if layout.align() >= PACKING {
            Counts { own, packing: packing + 1 }
        } else {
            Counts { own: own + 1, packing }
        });
    });
}

// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout);
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout);
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout);
        unsafe { System.realloc(pointer, layout, size) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTER: Counting = Counting;

/// What this thread allocates while `work` runs.
fn during(work: impl FnOnce()) -> Counts {
    let before = COUNTS.get();
    work();
    let after = COUNTS.get();
    Counts { own: after.own - before.own, packing: after.packing - before.packing }
}

fn data() -> Prepared {
    let numbers = |count: usize| (0..count).map(|at| (at as f32 * 0.37).sin()).collect();
    let training = Dataset::new(numbers(400 * 3), 3, Some((numbers(400 * 2), 2)), &[40; 10])
        .expect("numbers that make a dataset");
    let normalization = Normalization::fit(&training, Scaling::None).unwrap();
    Prepared { training, validation: None, normalization, radius: None }
}

#[test]
fn updates_allocate_nothing_of_their_own_after_the_first() {
    const UPDATES: usize = 20;
    let data = data();
    let settings = TrainConfig { batch_size: 48, ..TrainConfig::default() };
    for name in Config::NAMES {
        for extraction in [None, Some("ddpg-bc"), Some("awr")] {
            let mut config = Config::named(name).unwrap();
            let own = config.extraction_mut().is_none() || name == "gcivl";
            if let Some(extraction) = extraction.filter(|_| !own) {
                config.set_extraction(extraction).unwrap();
            }
            let mut trainer =
                Trainer::new(&config, &settings, &data, 0.95, 0, Threads::default()).unwrap();
            (0..3).for_each(|_| trainer.update().unwrap());
            let products = trainer.executor().unwrap().products(3).len();
            let counts = during(|| (0..UPDATES).for_each(|_| trainer.update().unwrap()));
            assert_eq!(counts.own, 0, "{name}");
            assert!(counts.packing <= UPDATES * products, "{name}");
        }
    }
}

#[test]
fn a_deliberate_allocation_is_seen() {
    let mut kept = Vec::new();
    let counts = during(|| kept.push(1.0f32));
    assert_eq!(counts, Counts { own: 1, packing: 0 });
    let counts = during(|| kept.reserve_exact(1000));
    assert_eq!(counts, Counts { own: 1, packing: 0 }, "growing is allocating");
    let counts = during(|| drop(vec![0u64; 9]));
    assert_eq!(counts, Counts { own: 1, packing: 0 });
}

#[test]
fn a_product_packs_into_one_buffer_that_is_told_by_its_alignment() {
    let (left, right, mut out) = ([1.0f32; 64], [1.0f32; 64], [0.0f32; 64]);
    let shape = Product { m: 8, k: 8, n: 8 };
    let counts = during(|| {
        let (left, right) = (Side::Plain(&left[..]), Side::Plain(&right[..]));
        multiply(&Threads::default(), shape, left, right, 0.0, &mut out, &|_, _| {});
    });
    assert_eq!(counts, Counts { own: 0, packing: 1 });
    assert_eq!(out, [8.0; 64]);
}
