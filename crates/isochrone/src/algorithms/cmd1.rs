//! CMD-1: one-step contrastive metric distillation.
//!
//! A contrastive critic f = c(g) − d((s, a), (g, a')) whose d is a quasimetric. At the optimum of the
//! symmetric loss d is log p(g | g) / p(g | s, a) of the data's occupancy, made to obey the triangle
//! inequality; the potential c is thrown away.
//!
//! Myers et al. 2024, algorithm 1 and equation `contrastive_loss_reparam`. Departures: the action at
//! the goal belongs to the goal's column and is permuted afresh each update; goals may be the start
//! itself (offsets from 0); losses are means; critic and policy read the parameters the update
//! began with. The full list is in `docs/paper.md`.

use serde::{Deserialize, Serialize};

use super::distance::{DistanceNet, noisy};
use super::policy::PolicyPass;
use super::{
    Algorithm, Critic, GoalAction, Phases, Problem, check_critics, not_negative, numbered,
};
use crate::data::sampler::{Layout, Offsets, Rows, RowsId};
use crate::engine::{Adam, ArenaId, Parameters, Program, Scalar};
use crate::error::Result;
use crate::extraction::{Answers, Extraction, Farthest};
use crate::model::Learned;
use crate::nn::{EncodedShape, HeadShape, Mlp, Network, PolicyShape};
use crate::ops::{Directions, Term};

/// The choices of CMD-1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What the distance is a function of.
    pub critic: Critic,
    /// Which contrastive loss, by name.
    pub variant: Variant,
    /// The law of a goal's offset from its start.
    pub offsets: Offsets,
    /// σ of the normal noise that is drawn afresh for the start and the goal of every contrastive
    /// pair, in the units of the data: goals get a width, about the success radius; 0 is the paper's.
    pub goal_noise: f64,
    /// The weight of mean relu(d − k ln(1/γ))² over starts and their goals, recorded k steps later,
    /// which holds distances below recorded ways; 0 is the paper's.
    pub bound_weight: f64,
    /// The action beside a goal.
    pub goal_action: GoalAction,
    /// τ: logits are divided by it.
    pub temperature: f64,
    /// How many distances, each with a potential of its own: their mean is the distance, and the policy
    /// believes the one that says farthest; 1 is the paper's.
    pub critics: usize,
    /// The encoder, and the potential with one output.
    pub network: Network,
    /// The quasimetric head.
    pub head: HeadShape,
    /// How encoder and potential descend.
    pub optimizer: Adam,
    /// Which updates train what.
    pub phases: Phases,
    /// How a policy is taken from the distance.
    pub extraction: Extraction,
    /// The policy's network and law.
    pub policy: PolicyShape,
    /// How the policy descends.
    pub policy_optimizer: Adam,
}

super::extracted!(Config);

impl Default for Config {
    fn default() -> Self {
        Self {
            critic: Critic::Auto,
            variant: Variant::Symmetric,
            offsets: Offsets::default(),
            goal_noise: 0.0,
            bound_weight: 0.0,
            goal_action: GoalAction::Permuted,
            temperature: 1.0,
            critics: 1,
            network: Network::default(),
            head: HeadShape::default(),
            optimizer: Adam::default(),
            phases: Phases::default(),
            extraction: Extraction::default(),
            policy: PolicyShape::default(),
            policy_optimizer: Adam::default(),
        }
    }
}

/// The losses that go by the name CMD, and two known to be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// The paper's: choose the goal and the start, with a potential.
    Symmetric,
    /// What the authors' code trains: choose the goal, with LSE², with a potential.
    Forward,
    /// What TMD builds on: choose the start, without a potential.
    Backward,
    /// What public ports of OGBench call CMD: binary, without a potential.
    Binary,
    /// The paper's without its potential: wrong, kept to be shown wrong.
    NoPotential,
    /// Choose the goal without LSE²: a constant of every start stays free; kept to be shown wrong.
    ForwardFree,
}

impl Variant {
    fn directions(self) -> Directions {
        match self {
            Self::Symmetric | Self::NoPotential => Directions::Symmetric,
            Self::Forward => Directions::Forward,
            Self::Backward => Directions::Backward,
            Self::Binary => Directions::Binary,
            Self::ForwardFree => Directions::ForwardFree,
        }
    }

    fn has_potential(self) -> bool {
        matches!(self, Self::Symmetric | Self::Forward | Self::ForwardFree)
    }
}

/// CMD-1 with its parameters.
pub struct Cmd1 {
    config: Config,
    steps: u64,
    discount: f64,
    distances: Vec<DistanceNet>,
    /// One for each distance, or none.
    potentials: Vec<Mlp>,
    policy: PolicyPass,
}

impl Cmd1 {
    /// Line 2: initialize potential ψ, quasimetric φ and policy μ.
    ///
    /// # Errors
    /// Choices that do not fit each other or the data.
    pub fn new(config: &Config, problem: Problem, parameters: &mut Parameters) -> Result<Self> {
        problem.need_whole_goals("cmd1")?;
        config.optimizer.check("algorithm.optimizer")?;
        not_negative("algorithm.goal_noise", config.goal_noise)?;
        not_negative("algorithm.bound_weight", config.bound_weight)?;
        let shape = EncodedShape {
            network: config.network.clone(),
            head: config.head,
            with_action: config.critic.with_action(problem.action_size),
            temperature: config.temperature,
        };
        let with_action = shape.with_action;
        check_critics(config.critics)?;
        let (mut distances, mut potentials) = (Vec::new(), Vec::new());
        for member in 0..config.critics {
            let choices = (config.goal_action, problem);
            distances.push(DistanceNet::new(parameters, member, shape.clone(), choices)?);
            if config.variant.has_potential() {
                let (arena, sizes) =
                    (parameters.arena(&numbered("potential", member)), (problem.state_size, 1));
                potentials.push(Mlp::new(parameters, arena, &config.network, sizes, 1.0));
            }
        }
        let critic = Answers::either(with_action);
        let policy = PolicyPass::new(parameters, config.policy_choices(), problem, critic)?;
        let Problem { steps, discount, .. } = problem;
        Ok(Self { config: config.clone(), steps, discount, distances, potentials, policy })
    }

    /// The terms of one critic's loss L̃ᶜ.
    fn loss<T: Scalar>(&self, program: &mut Program<T>, member: usize, goal: RowsId) -> Vec<Term> {
        let (config, distance) = (&self.config, &self.distances[member]);
        let start_state = noisy(program, Layout::START, config.goal_noise);
        let starts = distance.starts(program, start_state);
        let goal_state = noisy(program, goal, config.goal_noise);
        let ends = distance.ends(program, goal_state, goal);

        // Line 3: f = c(g) − d((s, a), (g, a')).
        let pairs = distance.pairwise(program, starts, ends);
        let potential = self.potentials.get(member);
        let potential = potential.map(|network| network.apply(program, &[goal_state]));
        let logits = program.scores(potential, pairs, config.temperature);
        let mut terms = vec![Term::new(1.0, program.info_nce(logits, config.variant.directions()))];
        if config.bound_weight > 0.0 {
            let above = distance.above_elapsed(program, goal, self.discount);
            terms.push(Term::new(config.bound_weight, above));
        }
        terms
    }
}

impl Algorithm for Cmd1 {
    fn declare<T: Scalar>(&self, program: &mut Program<T>) {
        let config = &self.config;
        // Lines 5 and 6: (s, a) uniform over the data, g from its discounted future.
        let goal = program.rows(Rows::Future(config.offsets));

        // Line 7: φ, ψ ← (φ, ψ) − α ∇ L̃ᶜ.
        let losses: Vec<Vec<Term>> =
            (0..config.critics).map(|member| self.loss(program, member, goal)).collect();
        if let [_, above] = losses[0][..] {
            program.report("training/critic/above_elapsed", above.of);
        }
        let critic = program.combine(&losses.concat());
        let arenas = self.distances.iter().map(DistanceNet::arena);
        let arenas: Vec<(ArenaId, Adam)> = arenas
            .chain(self.potentials.iter().map(Mlp::arena))
            .map(|arena| (arena, config.optimizer))
            .collect();
        program.descend("critic", critic, &arenas, config.phases.critic(self.steps));

        // Line 8: μ ← μ − α ∇ Lπ, through the distance but not into it.
        self.policy.declare(program, &Farthest(&self.distances), config.offsets);
    }

    fn learned(&self, numbers: &dyn Fn(ArenaId) -> Vec<f32>) -> Learned {
        Learned {
            distance: DistanceNet::learned(&self.distances, self.config.temperature, numbers),
            policy: self.policy.learned(numbers),
        }
    }
}
