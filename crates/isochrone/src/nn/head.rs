//! Quasimetric heads: from two latent vectors to a distance that obeys the triangle inequality.

use serde::{Deserialize, Serialize};

use crate::engine::{ArenaId, Initial, Parameter, Parameters, Program, Scalar, Value};
use crate::error::{Error, Result};
use crate::ops::{DeepNorm, DifferenceHead, HeadWeights, Iqe, Mrn, PqeLh, WideNorm};

/// Which head, and how many coordinates its latent vectors have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum HeadShape {
    /// A maximum and a norm, half of the coordinates each, averaged over components.
    Mrn {
        /// Coordinates in all.
        #[serde(default = "usual_latent")]
        latent: usize,
        /// Components the distance is the mean of; 1 is the paper's, 8 is common later.
        #[serde(default = "usual_components")]
        components: usize,
    },
    /// max_m relu(x_m − y_m).
    Max {
        /// Coordinates in all.
        #[serde(default = "usual_latent")]
        latent: usize,
    },
    /// Lengths of unions of intervals, mean and maximum over groups.
    Iqe {
        /// Coordinates in all.
        #[serde(default = "usual_latent")]
        latent: usize,
        /// Intervals in a group.
        #[serde(default = "usual_group")]
        group: usize,
    },
    /// Σ_i α_i (1 − exp(−mean relu(x − y))) over groups i, α ≥ 0: bounded by Σ α.
    Pqe {
        /// Coordinates in all.
        #[serde(default = "usual_latent")]
        latent: usize,
        /// Coordinates in a group.
        #[serde(default = "usual_small_group")]
        group: usize,
    },
    /// Norms of nonnegative maps of the difference, averaged over components.
    WideNorm {
        /// Coordinates in all.
        #[serde(default = "usual_latent")]
        latent: usize,
        /// Components the distance is the mean of.
        #[serde(default = "usual_size")]
        components: usize,
        /// Numbers each component's norm is taken of.
        #[serde(default = "usual_size")]
        size: usize,
    },
    /// Layers of the difference with nonnegative weights between them.
    DeepNorm {
        /// Coordinates in all.
        #[serde(default = "usual_latent")]
        latent: usize,
        /// Layers, at least two.
        #[serde(default = "usual_layers")]
        layers: usize,
        /// Units of a layer.
        #[serde(default = "usual_latent")]
        units: usize,
    },
}

fn usual_latent() -> usize {
    32
}

fn usual_components() -> usize {
    1
}

fn usual_group() -> usize {
    8
}

fn usual_small_group() -> usize {
    4
}

fn usual_size() -> usize {
    8
}

fn usual_layers() -> usize {
    3
}

/// Raw weight of a group of PQE before the first update: α = softplus(2) is about 2.1 nats.
const FIRST_RAW_ALPHA: f64 = 2.0;

impl Default for HeadShape {
    fn default() -> Self {
        Self::Mrn { latent: usual_latent(), components: usual_components() }
    }
}

impl HeadShape {
    /// Coordinates of a latent vector.
    pub fn latent(&self) -> usize {
        match *self {
            Self::Mrn { latent, .. }
            | Self::Max { latent }
            | Self::Iqe { latent, .. }
            | Self::Pqe { latent, .. }
            | Self::WideNorm { latent, .. }
            | Self::DeepNorm { latent, .. } => latent,
        }
    }

    /// Checks that the coordinates can be cut as the head cuts them.
    ///
    /// # Errors
    /// Names the number that does not divide, or is too small.
    pub fn check(&self) -> Result<()> {
        let (latent, parts, key) = match *self {
            Self::Mrn { latent, components } => (latent, 2 * components, "2 × `components`"),
            Self::Iqe { latent, group } | Self::Pqe { latent, group } => (latent, group, "`group`"),
            Self::Max { latent }
            | Self::WideNorm { latent, .. }
            | Self::DeepNorm { latent, .. } => (latent, 1, "1"),
        };
        if latent == 0 || parts == 0 || !latent.is_multiple_of(parts) {
            return Err(Error::input(format!(
                "`algorithm.head.latent` is `{latent}`, expected a positive multiple of {key} = \
                 {parts}"
            ))
            .hint("the default is 32"));
        }
        let sizes = match *self {
            Self::WideNorm { components, size, .. } => {
                [("components", components, 1), ("size", size, 1)]
            }
            Self::DeepNorm { layers, units, .. } => [("layers", layers, 2), ("units", units, 1)],
            _ => return Ok(()),
        };
        match sizes.iter().find(|(_, found, least)| found < least) {
            None => Ok(()),
            Some((key, found, least)) => Err(Error::input(format!(
                "`algorithm.head.{key}` is `{found}`, expected at least {least}"
            ))
            .hint("leave the key out to take its default")),
        }
    }

    /// The head of the difference, with the bounds of its first raw and free weights.
    fn difference(&self) -> Option<(DifferenceHead, Initial, f64)> {
        let fan_in = |inputs: usize| (3.0 / inputs as f64).sqrt();
        match *self {
            Self::Pqe { latent, group } => {
                let head = DifferenceHead::PqeLh(PqeLh { groups: latent / group, size: group });
                Some((head, Initial::Constant(FIRST_RAW_ALPHA), 0.0))
            }
            Self::WideNorm { latent, components, size } => {
                let head = DifferenceHead::WideNorm(WideNorm { latent, components, size });
                Some((head, Initial::Uniform(fan_in(2 * latent)), 0.0))
            }
            Self::DeepNorm { latent, layers, units } => {
                let head = DifferenceHead::DeepNorm(DeepNorm { latent, layers, units });
                Some((head, Initial::Uniform(fan_in(units)), fan_in(latent)))
            }
            Self::Mrn { .. } | Self::Max { .. } | Self::Iqe { .. } => None,
        }
    }
}

/// A head with its place in an arena.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Mrn(Mrn),
    Iqe(Iqe, Parameter),
    /// With its raw weights and, where it has some, its free ones.
    Difference(DifferenceHead, Parameter, Option<Parameter>),
}

impl Head {
    /// Adds what `shape` learns to `arena`.
    pub fn new(parameters: &mut Parameters, arena: ArenaId, shape: HeadShape) -> Self {
        if let Some((head, raw, bound)) = shape.difference() {
            let raw = parameters.add(arena, "head.raw", (1, head.raw()), raw);
            let free = (head.free() > 0).then(|| {
                let initial = Initial::Uniform(bound);
                parameters.add(arena, "head.free", (1, head.free()), initial)
            });
            return Self { kind: Kind::Difference(head, raw, free) };
        }
        let kind = match shape {
            HeadShape::Mrn { latent, components } => {
                let half = latent / components / 2;
                Kind::Mrn(Mrn { components, maxima: half, squares: half })
            }
            HeadShape::Iqe { latent, group } => {
                let mix = parameters.add(arena, "head.mix", (1, 1), Initial::Constant(0.0));
                Kind::Iqe(Iqe { groups: latent / group, size: group }, mix)
            }
            _ => Kind::Mrn(Mrn { components: 1, maxima: shape.latent(), squares: 0 }),
        };
        Self { kind }
    }

    /// Declares the distances of all pairs of rows.
    pub fn pairwise<T: Scalar>(&self, program: &mut Program<T>, from: Value, to: Value) -> Value {
        match self.kind {
            Kind::Mrn(shape) => program.mrn(shape, from, to),
            Kind::Iqe(shape, mix) => program.iqe(shape, mix, from, to),
            Kind::Difference(head, raw, free) => {
                program.difference(head, &listed(raw, free), (from, to), false)
            }
        }
    }

    /// Declares the distances of corresponding rows.
    pub fn between<T: Scalar>(&self, program: &mut Program<T>, from: Value, to: Value) -> Value {
        match self.kind {
            Kind::Mrn(shape) => program.mrn_by_row(shape, from, to),
            Kind::Iqe(shape, mix) => program.iqe_by_row(shape, mix, from, to),
            Kind::Difference(head, raw, free) => {
                program.difference(head, &listed(raw, free), (from, to), true)
            }
        }
    }

    /// Writes the distances of all pairs of rows; `arena` holds what the head learned.
    pub fn infer_pairs(&self, arena: &[f32], from: &[f32], to: &[f32], out: &mut [f32]) {
        match self.kind {
            Kind::Mrn(shape) => shape.pairs(from, to, out),
            Kind::Iqe(shape, mix) => shape.pairs(from, to, mix.of(arena)[0].sigmoid(), out),
            Kind::Difference(head, raw, free) => {
                head.pairs(learned(arena, &raw, free.as_ref()), [from, to], out);
            }
        }
    }

    /// Writes the distances of corresponding rows.
    pub fn infer_rows(&self, arena: &[f32], from: &[f32], to: &[f32], out: &mut [f32]) {
        match self.kind {
            Kind::Mrn(shape) => shape.by_row(from, to, out),
            Kind::Iqe(shape, mix) => shape.by_row(from, to, mix.of(arena)[0].sigmoid(), out),
            Kind::Difference(head, raw, free) => {
                head.by_row(learned(arena, &raw, free.as_ref()), [from, to], out);
            }
        }
    }
}

fn listed(raw: Parameter, free: Option<Parameter>) -> Vec<Parameter> {
    std::iter::once(raw).chain(free).collect()
}

fn learned<'a>(
    arena: &'a [f32],
    raw: &Parameter,
    free: Option<&Parameter>,
) -> HeadWeights<'a, f32> {
    HeadWeights { raw: raw.of(arena), free: free.map_or(&[], |free| free.of(arena)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Stream};

    const SHAPES: [HeadShape; 7] = [
        HeadShape::Mrn { latent: 32, components: 1 },
        HeadShape::Mrn { latent: 32, components: 8 },
        HeadShape::Max { latent: 32 },
        HeadShape::Iqe { latent: 32, group: 8 },
        HeadShape::Pqe { latent: 32, group: 4 },
        HeadShape::WideNorm { latent: 32, components: 4, size: 4 },
        HeadShape::DeepNorm { latent: 32, layers: 3, units: 16 },
    ];

    fn points(count: usize, seed: u64) -> Vec<f32> {
        let mut draws = Stream::new(seed, Purpose(0)).draws(0, 0);
        // A third of the coordinates are rounded, so that ties and coincident coordinates occur.
        (0..count * 32)
            .map(|at| {
                let x = draws.normal();
                if at % 3 == 0 { x.round() as f32 } else { x as f32 }
            })
            .collect()
    }

    fn head(shape: HeadShape) -> (Head, Vec<f32>) {
        let mut parameters = Parameters::default();
        let arena = parameters.arena("head");
        let head = Head::new(&mut parameters, arena, shape);
        let mut draws = Stream::new(1, Purpose(0)).draws(0, 0);
        let numbers = (0..parameters.length(arena)).map(|_| 0.3 * draws.normal() as f32);
        (head, numbers.collect())
    }

    /// Counts triples with d(x, z) > d(x, y) + d(y, z) by more than a few units in the last place.
    fn violations(distance: &[f32], count: usize, slack: f32) -> usize {
        let mut found = 0;
        for x in 0..count {
            for y in 0..count {
                for z in 0..count {
                    let (direct, first, second) =
                        (distance[x * count + z], distance[x * count + y], distance[y * count + z]);
                    found += usize::from(direct > (first + second) * (1.0 + slack));
                }
            }
        }
        found
    }

    #[test]
    fn every_head_is_a_quasimetric_on_a_million_triples() {
        for shape in SHAPES {
            shape.check().unwrap();
            let (head, arena) = head(shape);
            let count = 100;
            let points = points(count, 3);
            let mut distance = vec![0.0; count * count];
            head.infer_pairs(&arena, &points, &points, &mut distance);
            assert!((0..count).all(|at| distance[at * (count + 1)] == 0.0), "{shape:?}");
            assert!(distance.iter().all(|&d| d >= 0.0 && d.is_finite()));
            assert_eq!(violations(&distance, count, 8.0 * f32::EPSILON), 0, "{shape:?}");
            let asymmetric = (0..count * count)
                .filter(|&at| distance[at] != distance[at % count * count + at / count])
                .count();
            assert!(asymmetric > count * count / 2, "{shape:?} is a quasimetric, not a metric");
        }
        println!("figures: {} heads, 1,000,000 triples each, 0 violations", SHAPES.len());
    }

    #[test]
    fn the_squared_form_and_a_planted_violation_are_caught() {
        // ‖u‖² in place of ‖u‖, as first published, breaks the triangle inequality.
        let (count, points) = (100, points(100, 3));
        let squared = |from: &[f32], to: &[f32]| {
            let largest = (0..16).map(|m| from[m] - to[m]).fold(0.0, f32::max);
            let sum: f32 = (16..32).map(|m| (from[m] - to[m]).powi(2)).sum();
            largest + sum
        };
        let mut distance: Vec<f32> = (0..count * count)
            .map(|at| squared(&points[at / count * 32..][..32], &points[at % count * 32..][..32]))
            .collect();
        assert!(violations(&distance, count, 8.0 * f32::EPSILON) > 0);
        let (head, arena) = head(SHAPES[0]);
        head.infer_pairs(&arena, &points, &points, &mut distance);
        let (from, to) = (3, 71);
        let least = (0..count)
            .filter(|&y| y != from && y != to)
            .map(|y| distance[from * count + y] + distance[y * count + to])
            .fold(f32::INFINITY, f32::min);
        distance[from * count + to] = least * (1.0 + 1e-3);
        assert_eq!(violations(&distance, count, 8.0 * f32::EPSILON), 1);
    }

    #[test]
    fn a_latent_size_that_cannot_be_cut_is_refused() {
        for shape in [
            HeadShape::Mrn { latent: 30, components: 4 },
            HeadShape::Mrn { latent: 0, components: 1 },
            HeadShape::Iqe { latent: 30, group: 8 },
            HeadShape::Pqe { latent: 30, group: 4 },
            HeadShape::WideNorm { latent: 0, components: 1, size: 1 },
        ] {
            assert!(shape.check().unwrap_err().to_string().contains("latent"));
        }
        let few = HeadShape::WideNorm { latent: 8, components: 1, size: 0 };
        assert!(few.check().unwrap_err().to_string().contains("`algorithm.head.size` is `0`"));
        let few = HeadShape::DeepNorm { latent: 8, layers: 1, units: 4 };
        assert!(few.check().unwrap_err().to_string().contains("at least 2"));
    }

    #[test]
    fn every_head_is_named_in_a_config() {
        for (text, expected) in [
            ("kind = 'mrn'\ncomponents = 8", HeadShape::Mrn { latent: 32, components: 8 }),
            ("kind = 'pqe'", HeadShape::Pqe { latent: 32, group: 4 }),
            (
                "kind = 'wide-norm'\nsize = 2",
                HeadShape::WideNorm { latent: 32, components: 8, size: 2 },
            ),
            ("kind = 'deep-norm'", HeadShape::DeepNorm { latent: 32, layers: 3, units: 32 }),
        ] {
            assert_eq!(toml::from_str::<HeadShape>(text).unwrap(), expected);
        }
    }
}
