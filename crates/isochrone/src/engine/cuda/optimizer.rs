//! Adam, followers and the check for broken losses on the GPU.

use std::ops::Range;

use super::memory::{Places, SharedMemory};
use crate::engine::launches::{Argument, Buffer, Grid, Launch};
use crate::engine::{Adam, ArenaId, Parameter, Parameters, Program, Schedule, Window};
use crate::error::Result;

pub(super) const SOURCE: &str = include_str!("optimizer.cu");

/// Blocks whose sums a norm is added from.
const NORM_BLOCKS: usize = 128;
/// Numbers that are worth a launch of their own.
const LEAST_PIECE: usize = 1 << 16;
/// How many constants an arena has.
const CONSTANTS: usize = 8;

/// What `optimizer.cu` calls `Rule`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Rule {
    rate: f64,
    first_decay: f64,
    second_decay: f64,
    epsilon: f64,
    clip: f64,
    decay: f64,
    from: u64,
    until: u64,
    schedule: u64,
}

impl Rule {
    fn new(adam: &Adam, window: Window) -> Self {
        Self {
            rate: adam.learning_rate,
            first_decay: adam.first_decay,
            second_decay: adam.second_decay,
            epsilon: adam.epsilon,
            clip: adam.clip,
            decay: adam.decay,
            from: window.from,
            until: window.until,
            schedule: match adam.schedule {
                Schedule::Constant => 0,
                Schedule::Warmup => 1,
                Schedule::Tail => 2,
                Schedule::Cosine => 3,
            },
        }
    }
}

/// The numbers of an arena on the GPU.
#[derive(Debug, Clone)]
pub(super) struct ArenaPlaces {
    pub values: Buffer,
    pub gradient: Buffer,
    pub first: Buffer,
    pub second: Buffer,
    /// Where the numbers of every parameter stand in the arena, and where they begin here: at whole fours,
    /// because products of others are slower. What lies between them stays 0.
    spread: Vec<(Range<usize>, usize)>,
    /// What is stepped at once, so that the step of a layer need not wait for the gradients of others.
    pieces: Vec<Range<usize>>,
    parts: Buffer,
    counter: Buffer,
    /// The norm of the gradient, in double precision.
    pub norm: Buffer,
}

impl ArenaPlaces {
    pub fn new(places: &mut Places, parameters: &Parameters, arena: ArenaId) -> Self {
        let spread = spread(parameters.ends(arena));
        let length = spread.last().map_or(0, |(whole, place)| place + whole.len());
        Self {
            pieces: pieces(&spread, length),
            spread,
            values: places.one(length),
            gradient: places.one(length),
            first: places.one(length),
            second: places.one(length),
            parts: places.one(2 * NORM_BLOCKS),
            counter: places.one(1),
            norm: places.one(2),
        }
    }

    /// The part of one of the arena's buffers that belongs to `parameter`.
    pub fn part(&self, buffer: Buffer, parameter: &Parameter) -> Buffer {
        let at = self.spread.partition_point(|(whole, _)| whole.end <= parameter.offset);
        let (whole, place) = &self.spread[at];
        let length = parameter.rows * parameter.columns;
        buffer.part(place + parameter.offset - whole.start, length)
    }

    /// The numbers of the arena, from those that stand in a buffer.
    pub fn gathered(&self, numbers: &[f32]) -> Vec<f32> {
        self.spread
            .iter()
            .flat_map(|(whole, place)| &numbers[*place..][..whole.len()])
            .copied()
            .collect()
    }

    /// What stands in a buffer, from the numbers of the arena.
    pub fn scattered(&self, numbers: &[f32]) -> Vec<f32> {
        let mut standing = vec![0.0; self.values.length()];
        for (whole, place) in &self.spread {
            standing[*place..][..whole.len()].copy_from_slice(&numbers[whole.clone()]);
        }
        standing
    }

    /// The launch that finds the norm of the gradient.
    pub fn norm_launch(&self) -> Launch {
        let arguments = [
            Argument::Read(self.gradient),
            Argument::Write(self.parts),
            Argument::Write(self.counter),
            Argument::Write(self.norm),
            Argument::size(self.gradient.length()),
        ];
        Launch::kernel("optimizer_norm", Grid::blocks(NORM_BLOCKS, 1, 256), &arguments)
    }
}

/// Where the state of the optimizers stands.
pub(super) struct OptimizerPlaces {
    pub arenas: Vec<ArenaPlaces>,
    /// Seed and step, two words each.
    pub clock: Buffer,
    /// Step (two words), pass + 1 and value of the first broken loss.
    pub broken: Buffer,
    constants: Buffer,
}

impl OptimizerPlaces {
    pub fn new(places: &mut Places, program: &Program<f32>) -> Self {
        let parameters = program.parameters();
        let arenas: Vec<ArenaPlaces> =
            parameters.arenas().map(|arena| ArenaPlaces::new(places, parameters, arena)).collect();
        let constants = places.one(CONSTANTS * arenas.len().max(1));
        Self { arenas, clock: places.one(5), broken: places.one(4), constants }
    }

    /// Where parameters and their gradients stand: what an update leaves for the next.
    pub fn moves(&self) -> Vec<Range<usize>> {
        self.arenas
            .iter()
            .flat_map(|arena| [arena.values.range(), arena.gradient.range()])
            .collect()
    }
}

/// Parameters that end at `ends`, and where each begins if all begin at whole fours.
fn spread(ends: impl Iterator<Item = usize>) -> Vec<(Range<usize>, usize)> {
    let (mut start, mut place) = (0, 0);
    let each = |end: usize| {
        let found = (start..end, place);
        place = (place + end - start).next_multiple_of(4);
        start = end;
        found
    };
    ends.map(each).collect()
}

/// Cuts a spread arena between parameters into pieces of at least [`LEAST_PIECE`] numbers.
fn pieces(spread: &[(Range<usize>, usize)], length: usize) -> Vec<Range<usize>> {
    let (mut pieces, mut start) = (Vec::new(), 0);
    for &(_, place) in spread {
        if place - start >= LEAST_PIECE && length - place >= LEAST_PIECE {
            pieces.push(start..place);
            start = place;
        }
    }
    pieces.push(start..length);
    pieces
}

/// The rules by which arenas move, and where they and the places of losses stand on the GPU.
pub(super) struct Optimizer {
    rules: u64,
    losses: u64,
    /// (pass, arena, how), in the order of the rules.
    steps: Vec<(usize, ArenaId, Adam)>,
    passes: usize,
}

impl Optimizer {
    /// Copies the rules of `program` and the places of its losses to the GPU.
    pub fn new(
        memory: &mut impl SharedMemory,
        program: &Program<f32>,
        losses: &[Buffer],
    ) -> Result<Self> {
        let (mut rules, mut steps) = (Vec::new(), Vec::new());
        for (at, pass) in program.passes.iter().enumerate() {
            for &(arena, adam) in &pass.arenas {
                rules.push(Rule::new(&adam, pass.window));
                steps.push((at, arena, adam));
            }
        }
        let losses: Vec<u64> = losses.iter().map(|loss| loss.offset as u64).collect();
        Ok(Self {
            rules: memory.put(&rules)?,
            losses: memory.put(&losses)?,
            steps,
            passes: losses.len(),
        })
    }

    /// The launch that makes the constants of the update `ahead` of the clock's.
    pub fn begin(&self, places: &OptimizerPlaces, ahead: u64) -> Launch {
        let arguments = [
            Argument::Shared(self.rules),
            Argument::size(self.steps.len()),
            Argument::Read(places.clock),
            Argument::Long(ahead),
            Argument::Write(places.constants),
        ];
        Launch::kernel(
            "optimizer_begin",
            Grid::one(32 * self.steps.len().div_ceil(32).max(1)),
            &arguments,
        )
    }

    /// The launches that move the arenas of active passes.
    pub fn descend(&self, places: &OptimizerPlaces, active: &[bool], launches: &mut Vec<Launch>) {
        for (at, &(pass, arena, adam)) in self.steps.iter().enumerate() {
            if !active[pass] {
                continue;
            }
            let arena = &places.arenas[arena.0];
            let clipped = adam.clip > 0.0;
            if clipped {
                launches.push(arena.norm_launch());
            }
            let constants = places.constants.part(CONSTANTS * at, CONSTANTS);
            for piece in &arena.pieces {
                let part = |buffer: Buffer| buffer.part(piece.start, piece.len());
                let arguments = [
                    Argument::Write(part(arena.values)),
                    Argument::Write(part(arena.first)),
                    Argument::Write(part(arena.second)),
                    Argument::Read(part(arena.gradient)),
                    Argument::Read(constants),
                    Argument::maybe(clipped.then_some(arena.norm)),
                    Argument::Wide(adam.clip),
                    Argument::size(piece.len()),
                ];
                let grid = Grid::over(piece.len().div_ceil(4));
                launches.push(Launch::kernel("optimizer_step", grid, &arguments));
            }
        }
    }

    /// The launch that records the first loss that is not finite.
    pub fn check(
        &self,
        places: &OptimizerPlaces,
        active: &[bool],
        losses: &[Buffer],
        ahead: u64,
    ) -> Launch {
        let mask = active.iter().enumerate().map(|(pass, &on)| u64::from(on) << pass).sum();
        let mut arguments = vec![
            Argument::Shared(self.losses),
            Argument::size(self.passes),
            Argument::Long(mask),
            Argument::Read(places.clock),
            Argument::Long(ahead),
            Argument::Origin,
            Argument::Write(places.broken),
        ];
        arguments.extend(losses.iter().map(|&loss| Argument::Touch(loss, false)));
        Launch::kernel("optimizer_check", Grid::one(1), &arguments)
    }
}

/// The launch that moves a follower.
pub(super) fn follow(target: &ArenaPlaces, source: &ArenaPlaces, rate: f64) -> Launch {
    let count = target.values.length();
    let arguments = [
        Argument::Write(target.values),
        Argument::Read(source.values),
        Argument::Float(rate as f32),
        Argument::size(count),
    ];
    Launch::kernel("optimizer_follow", Grid::over(count), &arguments)
}

/// The launch that ends `count` updates.
pub(super) fn advance(places: &OptimizerPlaces, count: u64) -> Launch {
    let arguments = [Argument::Write(places.clock), Argument::Long(count)];
    Launch::kernel("optimizer_advance", Grid::one(1), &arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Initial;

    #[test]
    fn parameters_stand_apart_at_whole_fours_and_pieces_cover_them_once() {
        let mut parameters = Parameters::default();
        let arena = parameters.arena("net");
        let shapes = [(37, 512), (1, 512), (512, 512), (1, 513), (512, 512), (1, 511)];
        let all = shapes.map(|shape| parameters.add(arena, "w", shape, Initial::Constant(0.0)));
        let mut places = Places::default();
        let arena = ArenaPlaces::new(&mut places, &parameters, arena);
        let numbers: Vec<f32> = (0..all.iter().map(|one| one.rows * one.columns).sum::<usize>())
            .map(|number| number as f32 + 1.0)
            .collect();
        let standing = arena.scattered(&numbers);
        assert_eq!(arena.gathered(&standing), numbers);
        assert_eq!(standing.iter().filter(|number| **number == 0.0).count(), 3, "after the 513");
        for parameter in &all {
            let part = arena.part(arena.gradient, parameter).range();
            let first = part.start - arena.gradient.range().start;
            assert!(first.is_multiple_of(4), "{first}");
            let wanted = &numbers[parameter.offset..][..part.len()];
            assert_eq!(&standing[first..][..part.len()], wanted);
        }
        let first = 37 * 512 + 512 + 512 * 512;
        assert_eq!(arena.pieces, [0..first, first..standing.len()]);
        let small = parameters.arena("small");
        parameters.add(small, "w", (3, 3), Initial::Constant(0.0));
        let small = ArenaPlaces::new(&mut places, &parameters, small);
        assert_eq!(small.pieces.first(), Some(&(0..9)));
    }
}
