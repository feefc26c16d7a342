//! The kernels of a program without a GPU, for tests: a C++ compiler builds them as threads that take
//! turns, and the launches of an update run one after the other in plain memory.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::listing::{Listing, declared, sources};
use super::tiles::{self, Rules};
use crate::data::sampler::Batch;
use crate::engine::launches::{Argument, Buffer, Factor, Finish, Launch, Precision, Work};
use crate::engine::{ArenaId, Executor, Program, Threads};

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
    all.push(tiles::SOURCE);
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
                    Argument::Long(number) => Some(format!("i{number}")),
                    Argument::Float(number) => Some(format!("i{}", number.to_bits())),
                    Argument::Wide(number) => Some(format!("i{}", number.to_bits())),
                    Argument::Touch(..) => None,
                    Argument::Shared(_) | Argument::Origin => panic!("`{name}` is not emulated"),
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

/// Runs one forward and the backward of every pass on the CPU and by the kernels, the latter as so many
/// replicas of which the last is compared, and gives for every value and gradient how far they are apart.
/// In TF32 the products that become tiles are whole; in single precision there are no tiles, and tensor
/// cores leave out the bits that they do leave out. `None` where there is no C++ compiler.
pub(crate) fn gaps(
    program: &dyn Fn() -> Program<f32>,
    batch: &Batch,
    (precision, replicas): (Precision, usize),
) -> Option<Vec<(String, f64)>> {
    const SEED: u64 = 11;
    let mut cpu = Executor::new(program(), Threads::default(), SEED);
    cpu.differentiate(batch, 0);
    let program = program();
    let folder = tempfile::tempdir().unwrap();
    let built = build(&program, folder.path())?;
    let Listing { places, optimizer, layout, plan, launches } =
        Listing::new(&program, &Rules { precision, replicas }).unwrap();
    let stride = places.stride();
    let mut memory = vec![0.0f32; stride * replicas];
    for (replica, memory) in memory.chunks_exact_mut(stride).enumerate() {
        let mut write = |buffer: Buffer, numbers: &[f32]| {
            memory[buffer.range()].copy_from_slice(numbers);
        };
        let seed = SEED + (replicas - 1 - replica) as u64;
        for (arena, places) in program.parameters.arenas().zip(&optimizer.arenas) {
            write(
                places.values,
                &places.scattered(&program.parameters.initial::<f32>(arena, seed)),
            );
        }
        for (at, numbers) in batch.columns.iter().enumerate() {
            if let Some(column) = program.column_of(at) {
                write(layout.values[column.id], numbers);
            }
        }
        for pass in 0..program.passes.len() {
            write(layout.seed_gradient(&program, pass), &[1.0]);
        }
    }
    let [numbers, text] = ["memory", "launches"].map(|name| folder.path().join(name));
    std::fs::write(&numbers, memory.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>())
        .unwrap();
    std::fs::write(&text, list(&launches)).unwrap();
    let mut run = Command::new(built);
    let cut = u8::from(precision == Precision::Single);
    run.arg(&numbers).arg(&text).args([stride, replicas, cut.into()].map(|x| x.to_string()));
    let output = run.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let bytes = std::fs::read(&numbers).unwrap();
    let memory: Vec<f32> = bytes[4 * stride * (replicas - 1)..]
        .chunks_exact(4)
        .map(|x| f32::from_le_bytes(x.try_into().unwrap()))
        .collect();
    let read = |buffer: Buffer| &memory[buffer.range()];
    let mut found = Vec::new();
    for &node in &plan.forward {
        let (name, output) = (program.nodes[node].operation.name(), program.nodes[node].output);
        let gap = apart(cpu.value(output), read(layout.values[output.id]), 1e-20);
        found.push((format!("value of {name} {node}"), gap));
    }
    for (at, places) in optimizer.arenas.iter().enumerate() {
        let arena = ArenaId(at);
        let (expected, gradient) = (cpu.gradient(arena), places.gathered(read(places.gradient)));
        let largest = expected.iter().fold(0.0, |top, x| f64::max(top, x.abs().into()));
        for (_, parameter, expected) in program.parameters.views(arena, expected) {
            let name = format!("gradient of {}", parameter.offset);
            found.push((name, apart(expected, parameter.of(&gradient), 1e-6 * largest)));
        }
    }
    Some(found)
}
