//! The kernels of a program without a GPU, for tests: a C++ compiler builds them as threads that take
//! turns, and the launches of an update run one after the other in plain memory.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::OWN_SOURCES;
use super::layout::DeviceLayout;
use super::listing::{Listing, declared, sources};
use super::memory::{Places, SharedMemory};
use super::optimizer::{ArenaPlaces, Optimizer, OptimizerPlaces};
use super::sampler::{Batches, DeviceSampler};
use super::tiles::{self, Rules};
use super::update::{UpdateParts, first_words};
use crate::data::sampler::{Batch, Sampler};
use crate::engine::launches::{Argument, Buffer, Factor, Finish, Launch, Precision, Work};
use crate::engine::plan::UpdatePlan;
use crate::engine::{ArenaId, Executor, Program, Threads};
use crate::error::Result;

/// The largest distance of two lists over the largest number of the first, or over `least`.
fn apart(expected: &[f32], found: &[f32], least: f64) -> f64 {
    let top = expected.iter().fold(least, |top, x| f64::max(top, x.abs().into()));
    let gap = |(x, y): (&f32, &f32)| f64::from((x - y).abs());
    let gaps = expected.iter().zip(found).map(gap);
    gaps.map(|gap| if gap.is_nan() { f64::INFINITY } else { gap }).fold(0.0, f64::max) / top
}

/// Builds the kernels of `program`; none where there is no C++ compiler, or no Linux, whose contexts the
/// threads have.
fn build(program: &Program<f32>, folder: &Path) -> Option<PathBuf> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let mut all = sources(program);
    all.extend(OWN_SOURCES);
    all.sort_unstable();
    all.dedup();
    let mut text = [include_str!("emulation.h"), include_str!("prelude.cu")].concat();
    // The room of a block is as large as its launch asks for; here it stands ready.
    let room = "extern __shared__ __align__(16) float launch_room[];";
    all.iter().for_each(|source| text += &source.replace(room, ""));
    text += "static void launch_named(const char* name, Three blocks, unsigned threads,\n\
             const Argument* arguments) {\n";
    for (name, _) in all.iter().flat_map(|source| declared(source)) {
        let _ = writeln!(
            text,
            "if (!strcmp(name, \"{name}\")) return launch({name}, blocks, threads, arguments);"
        );
    }
    text += "fprintf(stderr, \"no kernel %s\\n\", name), exit(1);\n}\n";
    let (source, built) = (folder.join("kernels.cpp"), folder.join("kernels"));
    std::fs::write(&source, text).unwrap();
    let mut compiler = Command::new("c++");
    // Threads jump between their stacks, which the checks of `_FORTIFY_SOURCE` take for a mistake.
    let flags = ["-std=c++17", "-O1", "-w", "-U_FORTIFY_SOURCE", "-o"];
    compiler.args(flags).arg(&built).arg(&source);
    match compiler.output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(built)
        }
        Err(error) => {
            eprintln!("skipped: no C++ compiler: {error}");
            None
        }
    }
}

/// One line for every launch.
fn list(launches: &[Launch]) -> String {
    let mut text = String::new();
    for launch in launches {
        match &launch.work {
            Work::Kernel { name, grid, arguments } => {
                let given = arguments.iter().filter_map(|argument| match *argument {
                    Argument::Read(buffer)
                    | Argument::Write(buffer)
                    | Argument::Part(buffer, _) => Some(format!("p{}", buffer.range().start)),
                    Argument::Absent => Some("n0".into()),
                    Argument::Int(number) => Some(format!("i{}", number as u32)),
                    Argument::Long(number) | Argument::Shared(number) => Some(format!("i{number}")),
                    Argument::Origin => Some("p0".into()),
                    Argument::Float(number) => Some(format!("i{}", number.to_bits())),
                    Argument::Wide(number) => Some(format!("i{}", number.to_bits())),
                    Argument::Touch(..) => None,
                });
                let given: Vec<String> = given.collect();
                let (x, y) = grid.blocks;
                let (threads, count) = (grid.threads, given.len());
                let _ = writeln!(text, "K {name} {x} {y} {threads} {count} {}", given.join(" "));
            }
            Work::Product(product) => {
                let side = |factor: Factor| {
                    let across = matches!(factor, Factor::Across(_));
                    format!("{} {}", u8::from(across), factor.buffer().range().start)
                };
                let bias = product.finish.bias().map_or(-1, |bias| bias.range().start as i64);
                let (left, right) = (side(product.left), side(product.right));
                let (out, keep) = (product.out.buffer.range().start, u8::from(product.out.keep));
                let relu = u8::from(matches!(product.finish, Finish::BiasRelu(_)));
                let (m, k, n) = (product.shape.m, product.shape.k, product.shape.n);
                let scale = product.scale.to_bits();
                let _ = writeln!(
                    text,
                    "P {m} {k} {n} {left} {right} {out} {keep} {scale} {bias} {relu}"
                );
            }
        }
    }
    text
}

/// Where what replicas share begins, as in `emulation.h`.
const SHARED: u64 = 1 << 44;

/// What replicas share, which stands at fixed addresses while launches run.
#[derive(Default)]
struct PlainMemory(Vec<u8>);

impl SharedMemory for PlainMemory {
    fn fits(&self, _bytes: usize) -> Result<()> {
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> Result<u64> {
        let first = self.0.len();
        self.0.resize((first + bytes).next_multiple_of(256), 0);
        Ok(SHARED + first as u64)
    }

    fn write<T: Copy>(&mut self, address: u64, numbers: &[T]) -> Result<()> {
        // SAFETY: what is shared are numbers and structs of numbers without gaps between them.
        let bytes = unsafe {
            std::slice::from_raw_parts(numbers.as_ptr().cast::<u8>(), size_of_val(numbers))
        };
        self.0[(address - SHARED) as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

/// The seed of the replica that is compared, the last; others have the next ones.
const SEED: u64 = 11;

/// Which products lose the bits of factors that tensor cores leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Factors {
    Whole,
    /// Those that kernels compute on tensor cores.
    CutInKernels,
    Cut,
}

/// The kernels of a program and the memory they work on.
struct Emulator {
    folder: TempDir,
    built: PathBuf,
    /// Numbers between the memories of two replicas.
    stride: usize,
    /// The words of all replicas.
    memory: Vec<u32>,
    shared: PlainMemory,
}

impl Emulator {
    /// The memory of so many replicas before their first update. `None` where there is no C++ compiler.
    fn new(
        program: &Program<f32>,
        (places, layout, optimizer): (&Places, &DeviceLayout, &OptimizerPlaces),
        replicas: usize,
    ) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let built = build(program, folder.path())?;
        let (stride, shared) = (places.stride(), PlainMemory::default());
        let mut emulator =
            Self { folder, built, stride, memory: vec![0; stride * replicas], shared };
        for replica in 0..replicas {
            let seed = SEED + (replicas - 1 - replica) as u64;
            for (place, words) in first_words(program, layout, optimizer, seed) {
                emulator.write(replica, place, words);
            }
        }
        Some(emulator)
    }

    fn write(&mut self, replica: usize, buffer: Buffer, words: impl IntoIterator<Item = u32>) {
        let mine = &mut self.memory[replica * self.stride..][buffer.range()];
        mine.iter_mut().zip(words).for_each(|(place, word)| *place = word);
    }

    fn words(&self, replica: usize, buffer: Buffer) -> &[u32] {
        &self.memory[replica * self.stride..][buffer.range()]
    }

    fn numbers(&self, replica: usize, buffer: Buffer) -> Vec<f32> {
        self.words(replica, buffer).iter().map(|&word| f32::from_bits(word)).collect()
    }

    /// Runs a list; tensor cores leave out the bits of factors that they do leave out, where they do so.
    fn run(&mut self, launches: &[Launch], factors: Factors) {
        let [words, shared, text] =
            ["memory", "shared", "launches"].map(|name| self.folder.path().join(name));
        let bytes: Vec<u8> = self.memory.iter().flat_map(|word| word.to_le_bytes()).collect();
        std::fs::write(&words, bytes).unwrap();
        std::fs::write(&shared, &self.shared.0).unwrap();
        std::fs::write(&text, list(launches)).unwrap();
        let replicas = self.memory.len() / self.stride;
        let mut run = Command::new(&self.built);
        run.args([&words, &shared, &text])
            .args([self.stride, replicas, factors as usize].map(|x| x.to_string()));
        let output = run.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let bytes = std::fs::read(&words).unwrap();
        let words = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
        self.memory = words.collect();
    }
}

/// Runs one forward and the backward of every pass on the CPU and by the kernels, the latter as so many
/// replicas of which the last is compared, and gives for every value and gradient how far they are apart.
/// `None` where there is no C++ compiler.
pub(crate) fn gaps(
    program: &dyn Fn() -> Program<f32>,
    batch: &Batch,
    (precision, replicas, factors): (Precision, usize, Factors),
) -> Option<Vec<(String, f64)>> {
    let mut cpu = Executor::new(program(), Threads::default(), SEED);
    cpu.differentiate(batch, 0);
    let program = program();
    let Listing { places, optimizer, layout, plan, launches } =
        Listing::new(&program, &Rules { precision, replicas }).unwrap();
    let mut emulator = Emulator::new(&program, (&places, &layout, &optimizer), replicas)?;
    for replica in 0..replicas {
        for (column, numbers) in layout.columns(&program).into_iter().zip(&batch.columns) {
            emulator.write(replica, column, numbers.iter().map(|x| x.to_bits()));
        }
    }
    emulator.run(&launches, factors);
    let read = |buffer: Buffer| emulator.numbers(replicas - 1, buffer);
    let mut found = Vec::new();
    for &node in &plan.forward {
        let (name, output) = (program.nodes[node].operation.name(), program.nodes[node].output);
        let gap = apart(cpu.value(output), &read(layout.values[output.id]), 1e-20);
        found.push((format!("value of {name} {node}"), gap));
    }
    for (at, places) in optimizer.arenas.iter().enumerate() {
        let arena = ArenaId(at);
        let (expected, gradient) = (cpu.gradient(arena), places.gathered(&read(places.gradient)));
        let largest = expected.iter().fold(0.0, |top, x| f64::max(top, x.abs().into()));
        for (_, parameter, expected) in program.parameters.views(arena, expected) {
            let name = format!("gradient of {}", parameter.offset);
            found.push((name, apart(expected, parameter.of(&gradient), 1e-6 * largest)));
        }
    }
    Some(found)
}

/// What whole updates leave, beside those of the CPU.
pub(crate) struct AfterUpdates {
    /// How many units in the last place each column of the last batch is apart.
    pub columns: Vec<u32>,
    /// How far the values and moments of each arena are apart.
    pub states: Vec<[f64; 3]>,
    /// The step on the clock.
    pub step: u32,
    /// Of a replica whose first parameter is not a number, and of the one compared: step (two words),
    /// pass + 1 and value of the first broken loss.
    pub broken: [Vec<u32>; 2],
}

/// Runs so many whole updates on the CPU and by the kernels, draws and all. `None` where there is no C++
/// compiler.
pub(crate) fn updates(
    program: &dyn Fn() -> Program<f32>,
    sampler: &Sampler<'_>,
    count: u64,
) -> Option<AfterUpdates> {
    let mut cpu = Executor::new(program(), Threads::default(), SEED);
    let mut batch = sampler.batch(cpu.program().batch_size());
    for step in 0..count {
        sampler.fill(&mut batch, SEED, step).unwrap();
        cpu.update(&batch, step);
    }
    let program = program();
    let rules = Rules { precision: Precision::Tf32, replicas: 2 };
    let mut places = Places::default();
    let standing = OptimizerPlaces::new(&mut places, &program);
    let layout = DeviceLayout::new(&mut places, &program, rules.replicas).unwrap();
    let columns = layout.columns(&program);
    let batches = Batches::new(&mut places, sampler, columns, program.batch_size());
    let mut emulator = Emulator::new(&program, (&places, &layout, &standing), rules.replicas)?;
    emulator.write(0, standing.arenas[0].values, [f32::NAN.to_bits()]);
    let shared = &mut emulator.shared;
    let parts = UpdateParts {
        program: &program,
        layout: &layout,
        places: &standing,
        optimizer: &Optimizer::new(shared, &program, &layout.losses(&program)).unwrap(),
        drawing: &DeviceSampler::new(shared, sampler, &batches, rules.replicas).unwrap(),
        batches: &batches,
    };
    let mut launches = parts.launches(&UpdatePlan::new(&program, 0, |_| false), count).unwrap();
    tiles::replace(&mut launches, &rules);
    emulator.run(&launches, Factors::Whole);
    let drawn = batches.columns.iter().zip(&batch.columns).map(|(&column, expected)| {
        let found = emulator.words(1, column).iter();
        found.zip(expected).map(|(word, number)| word.abs_diff(number.to_bits())).max().unwrap()
    });
    let state = |(at, places): (usize, &ArenaPlaces)| {
        let [values, first, second] = cpu.state(ArenaId(at));
        [(values, places.values), (first, places.first), (second, places.second)].map(
            |(expected, place)| {
                apart(expected, &places.gathered(&emulator.numbers(1, place)), 1e-20)
            },
        )
    };
    Some(AfterUpdates {
        columns: drawn.collect(),
        states: standing.arenas.iter().enumerate().map(state).collect(),
        step: emulator.words(1, standing.clock)[2],
        broken: [0, 1].map(|replica| emulator.words(replica, standing.broken).to_vec()),
    })
}
