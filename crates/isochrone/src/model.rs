//! What survives training: a distance between states and a policy; answers in steps.
//!
//! A distance learned over state-action pairs becomes one between states by a mean over M stored
//! actions, d(s, g) = mean_m d((s, a_m), (g, a_m)): a mean of quasimetrics pulled back, so the
//! triangle inequality is exact and d(s, s) = 0. Nats inside, steps outside: steps = d / ln(1/γ).

mod blocks;
mod distinct;
mod file;
mod reference;
mod shape;

use rayon::prelude::*;

use self::blocks::{BLOCK, in_blocks};
use self::distinct::Distinct;
pub use self::reference::DataSample;
use self::reference::ReferenceStates;
pub use self::shape::ModelShape;
use crate::data::Normalization;
use crate::engine::{Parameters, Threads, Wide, wide};
use crate::error::{Error, Result};
use crate::nn::{
    Actor, ActorShape, Embedding, Gather, Latents, Measure, MeasureShape, Pairs, View,
};

/// Pairs that one thread measures at a time.
const PAIRS: usize = 1 << 16;

/// Pairs among which repeated states are looked for, to be embedded once.
const PORTION: usize = 1 << 16;

/// A distance for every pair of so many states, all zero.
fn room_for(from: usize, to: usize) -> Result<Vec<f32>> {
    let refused = || {
        Error::memory(format!("{from} × {to} distances do not fit in memory"))
            .hint("ask about fewer states at a time")
    };
    let mut all = Vec::new();
    let count = from.checked_mul(to).ok_or_else(refused)?;
    all.try_reserve_exact(count).map_err(|_| refused())?;
    all.resize(count, 0.0);
    Ok(all)
}

/// What was learned, as an algorithm hands it over: shapes and flat parameters.
#[derive(Debug, Clone)]
pub struct Learned {
    /// The distance's shape and the numbers of its networks.
    pub distance: Option<(MeasureShape, Vec<f32>)>,
    /// The policy's shape and the numbers of its arena.
    pub policy: Option<(ActorShape, Vec<f32>)>,
}

/// A learned distance and, where there is one, its policy.
pub struct Model {
    shape: ModelShape,
    distance: Option<(Box<dyn Measure>, Vec<f32>)>,
    stored_actions: Vec<f32>,
    policy: Option<(Actor, Vec<f32>)>,
    reference: ReferenceStates,
    threads: Threads,
}

/// The flat arrays of a model, as its file has them.
#[derive(Debug, Clone, Copy)]
pub struct ModelNumbers<'a> {
    /// The networks of the distance, where one was learned.
    pub distance: Option<&'a [f32]>,
    /// The networks of the policy, likewise.
    pub policy: Option<&'a [f32]>,
    /// The stored actions, row after row; empty where none are needed.
    pub stored_actions: &'a [f32],
}

/// States in latent coordinates: embed once, compare often.
#[derive(Debug, Clone)]
pub struct Embedded {
    rows: usize,
    /// The states once for every copy of the distance: a stored action, or a critic.
    copies: Vec<Embedding>,
}

/// Writes what networks see of states, for the machine's vectors.
struct Normalizing<'a> {
    normalization: &'a Normalization,
    states: &'a [f32],
    normalized: &'a mut [f32],
    /// Values per state, as recorded and as seen.
    size: usize,
    width: usize,
}

impl Wide for Normalizing<'_> {
    #[inline(always)]
    fn run(self) {
        let targets = self.normalized.chunks_exact_mut(self.width);
        for (state, target) in self.states.chunks_exact(self.size).zip(targets) {
            self.normalization.apply(state, target);
        }
    }
}

impl Embedded {
    /// How many states.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The latent rows, once for every copy of the distance.
    pub fn copies(&self) -> &[Embedding] {
        &self.copies
    }

    /// Some of the states, in this order.
    fn at(&self, rows: &[usize]) -> Self {
        let copies = self.copies.iter().map(|copy| copy.at(rows)).collect();
        Self { rows: rows.len(), copies }
    }
}

impl Model {
    /// A model of what was learned from the data of `sample`.
    pub fn new(
        learned: Learned,
        sample: &DataSample,
        normalization: Normalization,
        discount: f64,
    ) -> Self {
        let (distance, numbers) = learned.distance.unzip();
        let (policy, policy_numbers) = learned.policy.unzip();
        let shape = ModelShape {
            state_size: sample.state_size,
            action_size: sample.action_size,
            discount,
            normalization,
            distance,
            policy,
        };
        let actions = if shape.stores_actions() { sample.actions.clone() } else { Vec::new() };
        Self::assemble(shape, numbers, actions, policy_numbers, sample.reference.clone())
    }

    fn assemble(
        shape: ModelShape,
        distance: Option<Vec<f32>>,
        stored_actions: Vec<f32>,
        policy: Option<Vec<f32>>,
        reference: ReferenceStates,
    ) -> Self {
        let mut parameters = Parameters::default();
        let (measure, actor) = shape.build(&mut parameters);
        Self {
            distance: measure.map(|(_, measure)| measure).zip(distance),
            policy: actor.map(|(_, actor)| actor).zip(policy),
            shape,
            stored_actions,
            reference,
            threads: Threads::default(),
        }
    }

    /// Everything about the model but its numbers.
    pub fn shape(&self) -> &ModelShape {
        &self.shape
    }

    /// The flat arrays of its file.
    pub fn numbers(&self) -> ModelNumbers<'_> {
        ModelNumbers {
            distance: self.distance.as_ref().map(|(_, numbers)| &**numbers),
            policy: self.policy.as_ref().map(|(_, numbers)| &**numbers),
            stored_actions: &self.stored_actions,
        }
    }

    /// Nats to steps.
    pub fn in_steps(&self, nats: f32) -> f32 {
        nats / (1.0 / self.shape.discount).ln() as f32
    }

    /// Whether it has a policy.
    pub fn has_policy(&self) -> bool {
        self.policy.is_some()
    }

    /// Whether its policy chooses among discrete actions.
    pub fn acts_by_choice(&self) -> bool {
        self.shape.policy.as_ref().is_some_and(ActorShape::is_categorical)
    }

    /// Whether it has a distance.
    pub fn has_distance(&self) -> bool {
        self.distance.is_some()
    }

    /// Whether its distance obeys the triangle inequality by construction.
    pub fn is_quasimetric(&self) -> bool {
        self.shape.distance.as_ref().is_some_and(MeasureShape::is_quasimetric)
    }

    /// Refuses a model that learned a policy alone.
    ///
    /// # Errors
    /// The model has no distance.
    pub fn need_distance(&self) -> Result<()> {
        if self.has_distance() {
            return Ok(());
        }
        Err(Error::input("the model has no distance, only a policy")
            .hint("cloning learns none; train another algorithm, such as `mqe` or `cmd1`"))
    }

    fn normalized(&self, states: &[f32]) -> Vec<f32> {
        let (size, width) = (self.shape.state_size, self.shape.normalization.width());
        let mut normalized = vec![0.0; states.len() / size * width];
        let normalization = &self.shape.normalization;
        wide(Normalizing { normalization, states, normalized: &mut normalized, size, width });
        normalized
    }

    /// Refuses a model that learned a distance alone.
    ///
    /// # Errors
    /// The model has no policy.
    pub fn need_policy(&self) -> Result<()> {
        if self.has_policy() {
            return Ok(());
        }
        Err(Error::input("the model has no policy")
            .hint("train one with `--from RUN --extraction awr`"))
    }

    /// How many rows of `size` values there are.
    fn rows(what: &str, values: &[f32], size: usize) -> Result<usize> {
        if values.len().is_multiple_of(size) {
            return Ok(values.len() / size);
        }
        Err(Error::input(format!(
            "the {what} have {} values, which is not a multiple of {size}",
            values.len()
        ))
        .hint("pass whole rows, one after the other"))
    }

    /// Checks that there is a goal per state, or one for all.
    fn matched(states: usize, goals: usize) -> Result<()> {
        if goals == states || goals == 1 {
            return Ok(());
        }
        Err(Error::input(format!("{goals} goals for {states} states"))
            .hint("pass one goal per state, or one goal for all of them"))
    }

    /// The distance and what it is read with.
    ///
    /// # Panics
    /// Where there is none: whoever has an [`Embedded`] has asked [`Model::need_distance`].
    fn measure(&self) -> (&dyn Measure, View<'_>) {
        let (measure, numbers) = self.distance.as_ref().expect("a model with a distance");
        let view = View {
            threads: &self.threads,
            numbers,
            actions: &self.stored_actions,
            state_size: self.shape.normalization.width(),
            action_size: self.shape.action_size,
            goal_places: self.shape.normalization.critic_goal_places(),
            precise: false,
        };
        (&**measure, view)
    }

    /// Embeds states, row after row.
    ///
    /// # Errors
    /// Values that are not whole rows; a model without a distance.
    pub fn embed(&self, states: &[f32]) -> Result<Embedded> {
        self.need_distance()?;
        let rows = Self::rows("states", states, self.shape.state_size)?;
        Ok(self.embed_seen(rows, &self.normalized(states)))
    }

    /// Bytes that an embedded state takes: its latent rows, once more while they are compared, and
    /// what a network reads and writes while it is embedded.
    ///
    /// # Errors
    /// A model without a distance.
    pub(crate) fn bytes_per_state(&self) -> Result<u64> {
        let one = self.embed(&vec![0.0; self.shape.state_size])?;
        let sides = |copy: &Embedding| [copy.from.width, copy.to.as_ref().map_or(0, |to| to.width)];
        let latent: usize = one.copies.iter().flat_map(sides).sum();
        let widest = self.shape.distance.as_ref().map_or(0, MeasureShape::widest);
        let seen = self.shape.normalization.width() + self.shape.action_size;
        let at_once = one.copies.iter().flat_map(sides).fold(widest.max(seen), usize::max);
        Ok(size_of::<f32>() as u64 * (2 * (latent + seen + at_once)) as u64)
    }

    /// As [`Model::embed`], in double precision rounded at the end: distances between such states are
    /// right to a millionth of the largest. Takes several times as long.
    ///
    /// # Errors
    /// As [`Model::embed`].
    pub fn embed_precisely(&self, states: &[f32]) -> Result<Embedded> {
        self.need_distance()?;
        let rows = Self::rows("states", states, self.shape.state_size)?;
        let (measure, view) = self.measure();
        let view = View { precise: true, ..view };
        Ok(Embedded { rows, copies: measure.embed(&view, &self.normalized(states)) })
    }

    /// Embeds `rows` states, given what networks see of them.
    fn embed_seen(&self, rows: usize, seen: &[f32]) -> Embedded {
        let (measure, view) = self.measure();
        Embedded { rows, copies: measure.embed(&view, seen) }
    }

    /// What `answer` says of blocks of states and their goals, or of the one goal, given what
    /// networks see of them.
    fn ask<R: Send>(
        &self,
        what: &str,
        states: &[f32],
        goals: &[f32],
        answer: impl Fn(&[f32], &[f32]) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let size = self.shape.state_size;
        let rows = Self::rows(what, states, size)?;
        let count = Self::rows("goals", goals, size)?;
        Self::matched(rows, count)?;
        in_blocks(rows, BLOCK, |block| {
            let part = block.start * size..block.end * size;
            let goals = if count == rows { &goals[part.clone()] } else { goals };
            answer(&self.normalized(&states[part]), &self.normalized(goals))
        })
    }

    /// The distance in nats from every state of `from` to every state of `to`, row after row. Both
    /// must have been embedded by this model.
    pub fn pairwise(&self, from: &Embedded, to: &Embedded) -> Vec<f32> {
        let mut all = vec![0.0; from.rows * to.rows];
        self.write_pairs(from, to, &mut all);
        all
    }

    /// Writes the distances of all pairs into `all`, which has room for each.
    fn write_pairs(&self, from: &Embedded, to: &Embedded, all: &mut [f32]) {
        let block = (PAIRS / to.rows.max(1)).max(1);
        let write = |(part, out): (usize, &mut [f32])| {
            let rows = part * block..from.rows.min((part + 1) * block);
            let starts: Vec<Latents> =
                from.copies.iter().map(|copy| copy.from.part(&rows)).collect();
            let starts: Vec<&Latents> = starts.iter().collect();
            out.copy_from_slice(&self.gather(out.len(), &starts, to, Pairs::All));
        };
        if from.rows <= block {
            return write((0, all));
        }
        all.par_chunks_mut(block * to.rows.max(1)).enumerate().for_each(write);
    }

    /// The distance in nats from each state of `from` to the goal of its row, or to the one goal.
    ///
    /// # Errors
    /// Neither as many goals as states nor one.
    pub fn between(&self, from: &Embedded, to: &Embedded) -> Result<Vec<f32>> {
        let starts: Vec<&Latents> = from.copies.iter().map(|copy| &copy.from).collect();
        self.to_goals(from.rows, &starts, to)
    }

    /// The distances in nats of some pairs of embedded states, each given by its two rows.
    pub(crate) fn of_pairs(&self, states: &Embedded, pairs: &[(usize, usize)]) -> Vec<f32> {
        let measured = in_blocks(pairs.len(), BLOCK, |block| {
            let (from, to): (Vec<_>, Vec<_>) = pairs[block].iter().copied().unzip();
            self.between(&states.at(&from), &states.at(&to))
        });
        measured.unwrap_or_default().concat()
    }

    fn to_goals(&self, rows: usize, from: &[&Latents], to: &Embedded) -> Result<Vec<f32>> {
        Self::matched(rows, to.rows)?;
        let pairs = if to.rows == rows { Pairs::ByRow } else { Pairs::All };
        Ok(self.gather(rows, from, to, pairs))
    }

    fn gather(&self, count: usize, from: &[&Latents], to: &Embedded, pairs: Pairs) -> Vec<f32> {
        let (measure, view) = self.measure();
        let mut all = vec![0.0; count];
        let mut one = vec![0.0; count];
        for (at, (from, to)) in from.iter().zip(&to.copies).enumerate() {
            measure.measure(&view, at, (from, to.to()), pairs, &mut one);
            match (at, measure.gather()) {
                (0, _) => all.copy_from_slice(&one),
                (_, Gather::Mean) => all.iter_mut().zip(&one).for_each(|(all, &d)| *all += d),
                (_, Gather::Largest) => {
                    all.iter_mut().zip(&one).for_each(|(all, &d)| *all = all.max(d));
                }
            }
        }
        if measure.gather() == Gather::Mean {
            let share = 1.0 / from.len() as f32;
            all.iter_mut().for_each(|d| *d *= share);
        }
        all
    }

    /// The steps from each state of `from` to the state of `to` in the same row, or to the one state
    /// of `to`.
    ///
    /// # Errors
    /// Values that are not whole rows, neither as many goals as states nor one, or a model without a
    /// distance.
    pub fn steps(&self, from: &[f32], to: &[f32]) -> Result<Vec<f32>> {
        self.need_distance()?;
        let portions = self.in_portions(from, to, |from, to| match self.repeated(from, to) {
            Some(distinct) => self.steps_of_distinct(&distinct),
            None => Ok(self.ask("states", from, to, |from, to| self.steps_of(from, to))?.concat()),
        })?;
        Ok(portions.concat())
    }

    /// What `answer` says of portions of states and their goals, or of the one goal.
    fn in_portions<R>(
        &self,
        from: &[f32],
        to: &[f32],
        answer: impl Fn(&[f32], &[f32]) -> Result<R>,
    ) -> Result<Vec<R>> {
        let size = self.shape.state_size;
        let (rows, goals) = (Self::rows("states", from, size)?, Self::rows("goals", to, size)?);
        Self::matched(rows, goals)?;
        let portion = |start: usize| {
            let part = start * size..(start + PORTION).min(rows) * size;
            let to = if goals == rows { &to[part.clone()] } else { to };
            answer(&from[part], to)
        };
        (0..rows).step_by(PORTION).map(portion).collect()
    }

    /// The distinct states of corresponding rows, if enough of them repeat.
    fn repeated(&self, from: &[f32], to: &[f32]) -> Option<Distinct> {
        if from.len() == to.len() { Distinct::of(from, to, self.shape.state_size) } else { None }
    }

    /// The steps between what networks see of corresponding states, or to the one goal.
    fn steps_of(&self, from: &[f32], to: &[f32]) -> Result<Vec<f32>> {
        let width = self.shape.normalization.width();
        let embed = |seen: &[f32]| self.embed_seen(seen.len() / width, seen);
        let nats = self.between(&embed(from), &embed(to))?;
        Ok(nats.into_iter().map(|d| self.in_steps(d)).collect())
    }

    /// The steps of pairs whose states repeat, each of which is embedded once.
    fn steps_of_distinct(&self, distinct: &Distinct) -> Result<Vec<f32>> {
        let nats = self.of_pairs(&self.embed(&distinct.states)?, &distinct.pairs);
        Ok(nats.into_iter().map(|d| self.in_steps(d)).collect())
    }

    /// The answers of [`Model::steps`] and [`Model::act`] to the same question in less time than one
    /// after the other.
    ///
    /// # Errors
    /// As of both.
    pub fn steps_and_actions(&self, from: &[f32], to: &[f32]) -> Result<(Vec<f32>, Vec<f32>)> {
        self.need_distance()?;
        self.need_policy()?;
        let portions = self.in_portions(from, to, |from, to| {
            if let Some(distinct) = self.repeated(from, to) {
                let (steps, actions) =
                    rayon::join(|| self.steps_of_distinct(&distinct), || self.act(from, to));
                return Ok((steps?, actions?));
            }
            let blocks = self.ask("states", from, to, |from, to| {
                Ok((self.steps_of(from, to)?, self.actions_of(from, to)))
            })?;
            let (steps, actions): (Vec<_>, Vec<_>) = blocks.into_iter().unzip();
            Ok((steps.concat(), actions.concat()))
        })?;
        let (steps, actions): (Vec<_>, Vec<_>) = portions.into_iter().unzip();
        Ok((steps.concat(), actions.concat()))
    }

    /// The steps from every state of `from` to every state of `to`, row after row.
    ///
    /// # Errors
    /// Values that are not whole rows; a model without a distance; more pairs than fit in memory.
    pub fn pairwise_steps(&self, from: &[f32], to: &[f32]) -> Result<Vec<f32>> {
        let size = self.shape.state_size;
        let mut distances =
            room_for(Self::rows("states", from, size)?, Self::rows("goals", to, size)?)?;
        let [from, to] = [self.embed_precisely(from)?, self.embed_precisely(to)?];
        self.write_pairs(&from, &to, &mut distances);
        distances.par_iter_mut().with_min_len(PAIRS).for_each(|d| *d = self.in_steps(*d));
        Ok(distances)
    }

    /// The distance in nats from each (state, action) to the goal of its row, or to the one goal.
    ///
    /// # Errors
    /// As [`Model::steps`]; another number of actions than of states.
    pub fn after(&self, states: &[f32], actions: &[f32], goals: &Embedded) -> Result<Vec<f32>> {
        self.need_distance()?;
        let rows = Self::rows("states", states, self.shape.state_size)?;
        let expected = rows * self.shape.action_size;
        if actions.len() != expected {
            return Err(Error::input(format!(
                "the actions have {} values, expected {expected} for {rows} states",
                actions.len()
            )));
        }
        let (measure, view) = self.measure();
        let starts = measure.start(&view, &self.normalized(states), actions);
        self.to_goals(rows, &starts.iter().collect::<Vec<_>>(), goals)
    }

    /// The policy's action for each observation and the goal of its row, or the one goal.
    ///
    /// # Errors
    /// Values that are not whole rows, neither as many goals as observations nor one, or a model
    /// without a policy.
    pub fn act(&self, observations: &[f32], goals: &[f32]) -> Result<Vec<f32>> {
        self.need_policy()?;
        let act = |states: &[f32], goals: &[f32]| Ok(self.actions_of(states, goals));
        Ok(self.ask("observations", observations, goals, act)?.concat())
    }

    /// The policy's actions for normalized states and the goals of their rows, or one goal.
    fn actions_of(&self, states: &[f32], goals: &[f32]) -> Vec<f32> {
        let (policy, numbers) = self.policy.as_ref().expect("a model with a policy");
        let normalization = &self.shape.normalization;
        let sizes = (normalization.width(), normalization.goal_width());
        let rows = states.chunks_exact(sizes.0).zip(goals.chunks_exact(sizes.0).cycle());
        let mut inputs = Vec::with_capacity(states.len() / sizes.0 * (sizes.0 + sizes.1));
        for (state, goal) in rows {
            inputs.extend_from_slice(state);
            inputs.extend(normalization.of_goal(goal));
        }
        policy.infer(&self.threads, numbers, &inputs, sizes)
    }

    /// Which of the discrete actions the policy takes for each observation and goal, from 0.
    ///
    /// # Errors
    /// The model has no policy, or one of continuous actions.
    pub fn choose(&self, observations: &[f32], goals: &[f32]) -> Result<Vec<usize>> {
        let size = self.shape.action_size;
        let actions = self.act(observations, goals)?;
        let one_hot = |row: &[f32]| {
            let place = row.iter().position(|&x| x == 1.0);
            place.filter(|&at| row.iter().enumerate().all(|(other, &x)| other == at || x == 0.0))
        };
        actions.chunks_exact(size).map(one_hot).collect::<Option<_>>().ok_or_else(|| {
            Error::input("the model's actions are continuous").hint("ask for the action itself")
        })
    }

    /// How far each state is from the data, in typical spacings of data states: above 1 is farther
    /// than 99 of 100 data states are from their neighbours, and answers there are guesses.
    ///
    /// # Errors
    /// Values that are not whole rows.
    pub fn novelty(&self, states: &[f32]) -> Result<Vec<f32>> {
        let size = self.shape.state_size;
        let rows = Self::rows("states", states, size)?;
        in_blocks(rows, BLOCK, |block| {
            Ok(self.reference.novelty(&states[block.start * size..block.end * size]))
        })
        .map(|blocks| blocks.concat())
    }
}
