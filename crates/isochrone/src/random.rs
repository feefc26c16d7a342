//! Counter-based chance: (seed, purpose, step, index) → draws.
//!
//! Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011).
//! There is no generator state: the same four numbers give the same draws on every machine, in any
//! order and on any thread, so a run can be resumed, replayed or spread without keeping anything.

/// What a draw is for. Two purposes never share a draw of the same seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purpose(pub u16);

/// The one list of what is drawn: name, number, what it is for.
macro_rules! purposes {
    ($($name:ident = $number:literal, $about:literal;)*) => {
        impl Purpose {
            $(
                #[doc = $about]
                pub const $name: Self = Self($number);
            )*
        }

        #[cfg(test)]
        const NUMBERS: &[u16] = &[$($number),*];
    };
}

purposes! {
    INITIAL = 1, "First values of parameters.";
    ACTIONS = 4, "Actions that a model stores.";
    REFERENCE = 5, "Data states that a model keeps.";
    SPLIT = 8, "Trajectories that are held out.";
    DIRECTIONS = 9, "Directions of random features.";
    SAMPLE = 10, "Trajectories that stand for all.";
    ROWS = 16, "Rows of a batch: 48 numbers from here, one per kind of row.";
    ORDER = 64, "Random orders of a batch: 64 numbers from here.";
    NOISE = 128, "Noise of a batch: 64 numbers from here.";
    RECORDING = 0x5100, "Recordings of worlds.";
    TASKS = 0x5101, "Tasks of worlds.";
    MOTION = 0x5102, "The chance of motion.";
    SENSING = 0x5103, "The noise of sensors.";
    MAP = 0x5104, "Maps of worlds.";
    COVER = 0x6100, "Landmarks.";
    KINDS = 0x6101, "First centres of kinds of action.";
    SOLVED = 0x6102, "Landmarks that a teacher solves as goals.";
    AUDITED_STATES = 0x6200, "States of an audit.";
    TRIPLES = 0x6201, "Triples of an audit.";
    PAIRS = 0x6300, "Pairs that are judged exactly.";
    SUPPORTED_PAIRS = 0x6301, "Pairs whose supported distance is known.";
    ELAPSED_PAIRS = 0x6302, "Pairs of rows on one trajectory.";
    TYPICAL_PAIRS = 0x6303, "Pairs whose distance is typical.";
    LESSONS_ASKED = 0x6304, "Pairs that a teacher solved, to ask what was learned.";
    RESAMPLING = 0x6400, "Bootstrap samples.";
}

impl Purpose {
    /// The purpose `count` numbers after this one, inside the range that is kept for it.
    pub fn nth(self, count: usize) -> Self {
        Self(self.0 + count as u16)
    }
}

/// One stream of draws: a seed and a purpose.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    key: [u32; 2],
    purpose: u16,
}

/// Four words at once: the draws of one (step, index, block).
pub type Block = [u32; 4];

impl Stream {
    /// The stream of `seed` for `purpose`.
    pub fn new(seed: u64, purpose: Purpose) -> Self {
        Self { key: [seed as u32, (seed >> 32) as u32], purpose: purpose.0 }
    }

    /// Four words for `index` of `step`.
    pub fn block(&self, step: u64, index: u32) -> Block {
        self.block_at(step, index, 0)
    }

    /// Four further words of the same (step, index): `block` counts them.
    ///
    /// A step has 48 bits.
    pub fn block_at(&self, step: u64, index: u32, block: u32) -> Block {
        let high = (step >> 32) as u32 & 0xffff | u32::from(self.purpose) << 16;
        philox([index, block, step as u32, high], self.key)
    }

    /// A generator of a sequence of draws that all belong to one (step, index).
    pub fn draws(&self, step: u64, index: u32) -> Draws {
        Draws { stream: *self, step, index, block: 0, words: [0; 4], used: 4 }
    }
}

/// A sequence of draws of one (stream, step, index).
#[derive(Debug, Clone)]
pub struct Draws {
    stream: Stream,
    step: u64,
    index: u32,
    block: u32,
    words: Block,
    used: usize,
}

impl Draws {
    /// The next word. A sequence holds 2³⁴ words.
    pub fn word(&mut self) -> u32 {
        if self.used == 4 {
            self.words = self.stream.block_at(self.step, self.index, self.block);
            self.block = self.block.wrapping_add(1);
            self.used = 0;
        }
        self.used += 1;
        self.words[self.used - 1]
    }

    /// An integer below `bound`.
    pub fn below(&mut self, bound: u32) -> u32 {
        below(self.word(), bound)
    }

    /// A number in (0, 1).
    pub fn uniform(&mut self) -> f64 {
        unit(self.word())
    }

    /// A number in (`low`, `high`).
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// A standard normal.
    pub fn normal(&mut self) -> f64 {
        let (first, second) = (self.word(), self.word());
        normals(first, second).0
    }
}

/// Maps a word to an integer below `bound`, by the high half of a product.
pub fn below(word: u32, bound: u32) -> u32 {
    ((u64::from(word) * u64::from(bound)) >> 32) as u32
}

/// Maps a word to the open interval (0, 1).
pub fn unit(word: u32) -> f64 {
    (f64::from(word) + 0.5) / 4_294_967_296.0
}

/// Two independent standard normals from two words (Box and Muller).
pub fn normals(first: u32, second: u32) -> (f64, f64) {
    let radius = (-2.0 * unit(first).ln()).sqrt();
    let (sine, cosine) = (std::f64::consts::TAU * unit(second)).sin_cos();
    (radius * cosine, radius * sine)
}

/// Philox4x32-10: ten rounds over a counter of four words with a key of two.
pub fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> Block {
    const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
    const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let first = u64::from(MULTIPLIERS[0]) * u64::from(counter[0]);
        let second = u64::from(MULTIPLIERS[1]) * u64::from(counter[2]);
        counter = [
            (second >> 32) as u32 ^ counter[1] ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ counter[3] ^ key[1],
            first as u32,
        ];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_published_known_answers() {
        // kat_vectors of the Random123 distribution.
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn streams_differ_in_seed_purpose_step_index_and_block() {
        let reference = Stream::new(7, Purpose(1)).block_at(5, 3, 0);
        let others = [
            Stream::new(8, Purpose(1)).block_at(5, 3, 0),
            Stream::new(7 + (1 << 40), Purpose(1)).block_at(5, 3, 0),
            Stream::new(7, Purpose(2)).block_at(5, 3, 0),
            Stream::new(7, Purpose(1)).block_at(6, 3, 0),
            Stream::new(7, Purpose(1)).block_at(5 + (1 << 33), 3, 0),
            Stream::new(7, Purpose(1)).block_at(5, 4, 0),
            Stream::new(7, Purpose(1)).block_at(5, 3, 1),
        ];
        for other in others {
            assert_ne!(reference, other);
        }
    }

    #[test]
    fn no_two_purposes_have_one_number() {
        let mut rising = NUMBERS.to_vec();
        rising.sort_unstable();
        rising.dedup();
        assert_eq!(rising, NUMBERS, "numbers rise, so that a range ends where the next begins");
    }

    #[test]
    fn normals_have_mean_zero_and_variance_one() {
        let mut draws = Stream::new(1, Purpose(0)).draws(0, 0);
        let n = 100_000;
        let sample: Vec<f64> = (0..n).map(|_| draws.normal()).collect();
        let mean = sample.iter().sum::<f64>() / n as f64;
        let variance = sample.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
        assert!(mean.abs() < 0.01, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.02, "variance {variance}");
    }
}
