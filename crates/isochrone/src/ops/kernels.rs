//! Checks of all kernels that need no GPU: they compile, every launch fits its kernel, and what they compute
//! is what the CPU does.

mod programs;

use self::programs::{KernelBench, NOISE, after_updates, drawn, layered};
use crate::data::sampler::{Column, End, First, Layout, Offsets, Rows};
use crate::engine::cuda::emulation::{Factors, gaps};
use crate::engine::cuda::listing::{ListedLaunch, declared, listing, sources};
use crate::engine::cuda::{OWN_SOURCES, compile_here};
use crate::engine::{Argument, Precision, Program};
use crate::ops::{Activation, Directions, Mrn, Norm};

pub(crate) const BATCH: usize = 24;
pub(crate) const STATE: usize = 5;

/// The kernels of a source: name, and of every argument the letter of its kind.
fn signatures(source: &str) -> Vec<(String, String)> {
    let kind = |argument: &str| match argument {
        _ if argument.contains('*') => 'p',
        _ if argument.contains("u64") => 'l',
        _ if argument.contains("double") => 'w',
        _ if argument.contains("float") => 'f',
        _ if argument.contains("long long") => 's',
        _ => 'i',
    };
    let kernels = declared(source);
    kernels.map(|(name, all)| (name.to_owned(), all.split(',').map(kind).collect())).collect()
}

/// Checks that the kernels of `program` give what the CPU does, as so many replicas, to so much of the
/// largest number.
fn agree(program: &dyn Fn() -> Program<f32>, replicas: usize, most: f64) {
    agree_in((Precision::Tf32, replicas, Factors::Whole), program, most);
}

fn agree_in(how: (Precision, usize, Factors), program: &dyn Fn() -> Program<f32>, most: f64) {
    let drawn = drawn(&program());
    let Some(gaps) = gaps(program, &drawn, how) else { return };
    let wrong: Vec<_> = gaps.iter().filter(|(_, gap)| *gap > most).collect();
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), gaps.len());
}

#[test]
fn every_kernel_gives_the_value_and_the_gradient_of_the_cpu() {
    agree(&KernelBench::everything, 2, 1e-5);
}

#[test]
fn kernels_for_many_pairs_give_the_values_and_the_gradients_of_the_cpu() {
    let mrn = || {
        let mut bench = KernelBench::new(450);
        for (components, maxima, squares) in
            [(2, 16, 16), (1, 20, 20), (1, 70, 10), (1, 24, 0), (2, 2, 128)]
        {
            let (from, to) = bench.pair(components * (maxima + squares));
            let pairs = bench.program.mrn(Mrn { components, maxima, squares }, from, to);
            bench.use_up(pairs);
        }
        bench.end()
    };
    // Sums over so many pairs round more.
    agree(&mrn, 2, 1e-4);
}

#[test]
fn kernels_of_all_heads_give_the_values_and_the_gradients_of_the_cpu_for_many_pairs() {
    let heads = || {
        let mut bench = KernelBench::new(257);
        bench.heads();
        bench.end()
    };
    // Sums over so many pairs round more.
    agree(&heads, 1, 1e-4);
}

#[test]
fn short_norms_of_pairs_that_are_close_together_keep_their_precision_on_tensor_cores() {
    let close = || {
        let mut bench = KernelBench::new(200);
        // Noise, because rows of data are drawn twice and would be close to others as well.
        let mut noisy = || bench.layer(64, Column::Noise(STATE), Activation::Gelu, Norm::None);
        let (from, aside) = (noisy(), noisy());
        let to = bench.program.weighted_sum(&[(1.0, from), (1e-3, aside)]);
        let pairs = bench.program.mrn(Mrn { components: 2, maxima: 16, squares: 16 }, from, to);
        let logits = bench.program.scores(None, pairs, 1.0);
        let loss = bench.program.info_nce(logits, Directions::Symmetric);
        bench.use_up(loss);
        bench.end()
    };
    agree_in((Precision::Single, 1, Factors::CutInKernels), &close, 1e-5);
}

#[test]
fn long_norms_of_many_pairs_keep_their_precision_where_all_products_are_on_tensor_cores() {
    let apart = || {
        let mut bench = KernelBench::new(640);
        let from = bench.program.column(Column::Noise(132));
        let to = bench.program.weighted_sum(&[(0.3, from)]);
        let pairs = bench.program.mrn(Mrn { components: 1, maxima: 4, squares: 128 }, from, to);
        bench.use_up(pairs);
        bench.end()
    };
    agree_in((Precision::Tf32, 1, Factors::Cut), &apart, 1e-5);
}

#[test]
fn long_norms_of_many_pairs_that_are_close_together_have_the_gradients_of_the_cpu() {
    let close = || {
        let mut bench = KernelBench::new(640);
        let mut noisy = || bench.layer(128, Column::Noise(STATE), Activation::Gelu, Norm::None);
        let (from, aside) = (noisy(), noisy());
        let to = bench.program.weighted_sum(&[(1.0, from), (1e-3, aside)]);
        let pairs = bench.program.mrn(Mrn { components: 1, maxima: 0, squares: 128 }, from, to);
        let logits = bench.program.scores(None, pairs, 1.0);
        let loss = bench.program.info_nce(logits, Directions::Symmetric);
        bench.use_up(loss);
        bench.end()
    };
    agree(&close, 1, 1e-5);
}

#[test]
fn kernels_of_wide_layers_and_many_replicas_give_the_values_and_the_gradients_of_the_cpu() {
    agree(&|| layered(&[STATE, 64, 200, 70]), 16, 1e-5);
    agree(&|| layered(&[STATE, 300, 39, 700]), 2, 1e-5);
}

#[test]
fn whole_updates_draw_the_batches_of_the_cpu_and_move_as_it_does() {
    for (from, end, evened) in [(First::Zero, End::Truncate, false), (First::One, End::Clip, true)]
    {
        let Some(after) = after_updates(Offsets { from, end }, evened) else { return };
        // A normal comes from a logarithm and a sine, which libraries round differently.
        let allowed = |at: usize| u32::from(at == NOISE);
        let wrong = after.columns.iter().enumerate().filter(|&(at, &gap)| gap > allowed(at));
        assert_eq!(wrong.count(), 0, "{:?}", after.columns);
        assert!(after.states.iter().flatten().all(|&gap| gap < 1e-5), "{:?}", after.states);
        assert_eq!(after.step, 3);
        let [[first, high, pass, value], [.., sound, _]] =
            after.broken.map(|words| <[u32; 4]>::try_from(words).unwrap());
        assert_eq!((first, high, pass, sound), (0, 0, 1, 0));
        assert!(f32::from_bits(value).is_nan());
    }
}

#[test]
fn every_kernel_compiles_beside_all_others() {
    let mut sources = sources(&KernelBench::everything());
    sources.extend(OWN_SOURCES);
    sources.sort_unstable();
    sources.dedup();
    if let Some(image) = compile_here(&sources) {
        assert!(image.len() > 10_000, "{} bytes", image.len());
    }
}

/// Checks that every launch has the arguments its kernel declares.
pub(crate) fn fit(program: &Program<f32>, known: &[(String, String)]) -> Vec<ListedLaunch> {
    let launches = listing(program).unwrap();
    for (name, grid, arguments) in &launches {
        let kinds = arguments.iter().filter_map(|argument| match argument {
            Argument::Read(_)
            | Argument::Write(_)
            | Argument::Part(..)
            | Argument::Absent
            | Argument::Shared(_)
            | Argument::Origin => Some('p'),
            Argument::Touch(..) => None,
            Argument::Int(_) => Some('i'),
            Argument::Long(_) => Some('l'),
            Argument::Float(_) => Some('f'),
            Argument::Wide(_) => Some('w'),
        });
        let kinds: String = kinds.chain(['s']).collect();
        let signature = known.iter().find(|(known, _)| known == name);
        assert_eq!(signature.map(|(_, kinds)| kinds.as_str()), Some(kinds.as_str()), "{name}");
        assert!(grid.blocks.0 > 0 && grid.blocks.1 > 0 && grid.threads <= 1024, "{name}");
    }
    launches
}

/// The kernels of a program's sources.
pub(crate) fn known(program: &Program<f32>) -> Vec<(String, String)> {
    let own = OWN_SOURCES.into_iter();
    sources(program).into_iter().chain(own).flat_map(signatures).collect()
}

#[test]
fn every_operation_has_kernels_and_every_launch_fits_its_kernel() {
    let program = KernelBench::everything();
    let known = known(&program);
    let launches = fit(&program, &known);
    assert!(launches.len() > 60, "{} launches", launches.len());
    let unused: Vec<String> = sources(&program)
        .into_iter()
        .flat_map(signatures)
        .map(|(name, _)| name)
        .filter(|name| !launches.iter().any(|launch| launch.0 == name))
        .filter(|name| !name.ends_with("_large") && !name.starts_with("mrn_long_"))
        .collect();
    assert!(launches.iter().any(|launch| launch.0 == "tiles_gradient"), "small products are tiles");
    assert!(unused.is_empty(), "kernels that nothing launches: {unused:?}");
}

#[test]
fn gradients_of_weights_over_many_pairs_are_added_up_in_portions() {
    let totals = |batch: usize| {
        let mut bench = KernelBench::new(batch);
        bench.heads();
        let program = bench.end();
        let launches = fit(&program, &known(&program));
        launches.iter().filter(|launch| launch.0 == "difference_total_large").count()
    };
    // Of all pairs: one of PQE, one of the wide norm, two inner and three outer of the deep norm.
    assert_eq!([totals(256), totals(257)], [0, 7]);
}

#[test]
fn distances_that_no_gradient_goes_back_through_keep_nothing() {
    let mut bench = KernelBench::new(BATCH);
    let (from, to) = bench.pair(16);
    let moved = bench.program.mrn(Mrn { components: 2, maxima: 4, squares: 4 }, from, to);
    let goals = bench.program.rows(Rows::Random);
    let states = [Layout::START, goals].map(|rows| bench.program.column(Column::State(rows)));
    let shape = Mrn { components: 1, maxima: STATE, squares: 0 };
    let still = bench.program.mrn(shape, states[0], states[1]);
    [moved, still].into_iter().for_each(|value| bench.use_up(value));
    let program = bench.end();
    let launches = fit(&program, &known(&program));
    let kept = launches
        .iter()
        .filter(|launch| launch.0 == "mrn_narrow_small")
        .map(|launch| launch.2.iter().filter(|argument| **argument == Argument::Absent).count());
    let mut kept: Vec<usize> = kept.collect();
    kept.sort_unstable();
    assert_eq!(kept, [0, 1]);
}

#[test]
fn a_norm_has_threads_for_every_number_of_its_rows_and_wider_ones_are_refused() {
    for width in [1, 39, 256, 257, 512, 513, 1024, 8192] {
        let launches = listing(&layered(&[STATE, width])).unwrap();
        let of = |name: &str| launches.iter().find(|launch| launch.0 == name).unwrap();
        // Eight or sixteen numbers a thread; the lanes of a row are the third number after the buffers.
        let (held, [forward, backward]) = if width <= 256 {
            (8, ["linear_normalize", "linear_norm_backward"])
        } else {
            (16, ["linear_normalize_large", "linear_norm_backward_large"])
        };
        let lanes = |launch: &ListedLaunch| match launch.2[7] {
            Argument::Int(lanes) => lanes as usize,
            other => panic!("{other:?}"),
        };
        let (forward, backward) = (of(forward), of(backward));
        for launch in [forward, backward] {
            let lanes = lanes(launch);
            assert!(lanes * held >= width && lanes.is_multiple_of(32), "{width}: {lanes}");
            assert!(lanes == 32 || launch.1.threads == lanes, "{width}: {:?}", launch.1);
            assert!(launch.1.threads <= 512, "{width}: {:?}", launch.1);
        }
        let rows = forward.1.threads / lanes(forward);
        assert_eq!(forward.1.blocks.0, BATCH.div_ceil(rows), "{width}");
        assert_eq!(backward.1.blocks.0, BATCH.div_ceil(16), "{width}");
        assert_eq!(of("linear_norm_totals").1.blocks, (width.div_ceil(32), 3), "{width}");
    }
    let text = listing(&layered(&[STATE, 8193])).unwrap_err().to_string();
    assert!(text.contains("`linear`") && text.contains("--device cpu"), "{text}");
}
