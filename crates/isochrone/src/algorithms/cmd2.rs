//! CMD-2: two-step contrastive metric distillation.
//!
//! A contrastive critic f = φ(s, a)ᵀψ(g) by symmetric InfoNCE, then a quasimetric d distilled from
//! t = f(g, a', g) − f(s, a, g): d may not exceed t on matching pairs (excess C ≤ ε², kept by a dual
//! multiplier λ) and is pushed up to t on all others (shortfall).
//!
//! Myers et al. 2024, algorithm 2 and equations `distillation_constraint` to `distill_optimization`.
//! Departures: the critic's loss is the symmetric one of equation `contrastive_loss`; C and the
//! shortfall are means; λ = 0.01 + softplus(raw) ≤ 10⁴; the action at the goal in t is the one taken
//! there; all passes read the parameters the update began with. The list is in `docs/paper.md`.

use serde::{Deserialize, Serialize};

use super::distance::{DistanceNet, noisy};
use super::policy::PolicyPass;
use super::{Algorithm, Critic, GoalAction, Phases, Problem, not_negative, positive};
use crate::data::sampler::{Column, Layout, Offsets, Rows, RowsId};
use crate::engine::{
    Adam, ArenaId, Initial, Parameter, Parameters, Program, Scalar, Value, Window,
};
use crate::error::{Error, Result};
use crate::extraction::Extraction;
use crate::model::Learned;
use crate::nn::{EncodedShape, HeadShape, Network, PolicyShape, Scored, ScoredShape};
use crate::ops::{Directions, Multiplier, Targets, Term};

/// The choices of CMD-2.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What critic and distance are functions of.
    pub critic: Critic,
    /// A run whose trained critic is used as it is; none trains one beside the distance.
    pub trained_critic: Option<String>,
    /// The law of a goal's offset from its start.
    pub offsets: Offsets,
    /// σ of the normal noise that is drawn afresh for the start and the goal of every contrastive
    /// pair, in the units of the data: goals get a width, about the success radius; 0 is the paper's.
    pub goal_noise: f64,
    /// The weight of mean relu(d − k ln(1/γ))² over starts and their goals, recorded k steps later,
    /// which holds distances below recorded ways; 0 is the paper's.
    pub bound_weight: f64,
    /// The action beside a goal in the distance.
    pub goal_action: GoalAction,
    /// The action at the goal in the target.
    pub target_action: TargetAction,
    /// What happens to negative targets.
    pub targets: Targets,
    /// How λ weighs excess and shortfall.
    pub weights: DualWeights,
    /// ε², the bound on the excess, in nats².
    pub tolerance: f64,
    /// τ: logits are divided by it.
    pub temperature: f64,
    /// The encoders of critic and distance.
    pub network: Network,
    /// Coordinates of the critic's representations.
    pub latent: usize,
    /// The quasimetric head.
    pub head: HeadShape,
    /// How the critic descends.
    pub optimizer: Adam,
    /// How the distance descends.
    pub distance_optimizer: Adam,
    /// How λ ascends.
    pub dual_optimizer: Adam,
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
            trained_critic: None,
            offsets: Offsets::default(),
            goal_noise: 0.0,
            bound_weight: 0.0,
            goal_action: GoalAction::Permuted,
            target_action: TargetAction::Taken,
            targets: Targets::Clamped,
            weights: DualWeights::Authors,
            tolerance: 0.1,
            temperature: 1.0,
            network: Network::default(),
            latent: 32,
            head: HeadShape::default(),
            optimizer: Adam::default(),
            distance_optimizer: Adam::default(),
            dual_optimizer: Adam { learning_rate: 0.1, ..Adam::default() },
            phases: Phases::default(),
            extraction: Extraction::default(),
            policy: PolicyShape::default(),
            policy_optimizer: Adam::default(),
        }
    }
}

/// The action a' in the target's f(g, a', g).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetAction {
    /// The action taken at the goal.
    Taken,
    /// The action of the start whose future the goal is, as the paper prints it.
    Source,
    /// Log-mean-exp over four actions drawn from the batch.
    Dummy,
}

/// Dummy actions that [`TargetAction::Dummy`] averages over.
const DUMMIES: u8 = 4;

/// How λ weighs the two hinges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DualWeights {
    /// C + L / λ, as the authors' code.
    Authors,
    /// √λ C + L / √λ.
    Root,
}

/// CMD-2 with its parameters.
pub struct Cmd2 {
    config: Config,
    steps: u64,
    discount: f64,
    critic: Scored,
    distance: DistanceNet,
    multiplier: (ArenaId, Parameter),
    policy: PolicyPass,
}

impl Cmd2 {
    /// Lines 2 and 3: initialize representations φ and ψ, quasimetric θ̂, multiplier λ, policy μ.
    ///
    /// # Errors
    /// Choices that do not fit each other or the data.
    pub fn new(config: &Config, problem: Problem, parameters: &mut Parameters) -> Result<Self> {
        let with_action = config.critic.with_action(problem.action_size);
        config.optimizer.check("algorithm.optimizer")?;
        config.distance_optimizer.check("algorithm.distance_optimizer")?;
        config.dual_optimizer.check("algorithm.dual_optimizer")?;
        not_negative("algorithm.goal_noise", config.goal_noise)?;
        not_negative("algorithm.bound_weight", config.bound_weight)?;
        positive("algorithm.tolerance", config.tolerance)?;
        positive("algorithm.temperature", config.temperature)?;
        if config.latent == 0 {
            return Err(Error::input("`algorithm.latent` is `0`, expected a positive number")
                .hint("the default is 32"));
        }
        let shape = EncodedShape {
            network: config.network.clone(),
            head: config.head,
            with_action,
            temperature: 1.0,
        };
        let distance = DistanceNet::new(parameters, shape, config.goal_action, problem)?;
        let critic = ScoredShape {
            network: config.network.clone(),
            latent: config.latent,
            with_action,
            temperature: config.temperature,
        };
        let arenas = (parameters.arena("start_encoder"), parameters.arena("goal_encoder"));
        let critic = Scored::new(parameters, arenas, &critic, problem.sizes());
        let dual = parameters.arena("multiplier");
        let raw = parameters.add(dual, "raw", (1, 1), Initial::Constant(0.0));
        let policy = PolicyPass::new(parameters, config.policy_choices(), problem, with_action)?;
        Ok(Self {
            config: config.clone(),
            steps: problem.steps,
            discount: problem.discount,
            critic,
            distance,
            multiplier: (dual, raw),
            policy,
        })
    }

    /// f(g_j, a'_j, g_j), the critic's score of a goal from itself.
    fn at_goal<T: Scalar>(&self, program: &mut Program<T>, goal: RowsId, ends: Value) -> Value {
        let state = noisy(program, goal, self.config.goal_noise);
        let score = |program: &mut Program<T>, column: Column| {
            let at_goal = self.critic.start(program, state, |program| program.column(column));
            self.critic.between(program, at_goal, ends)
        };
        match self.config.target_action {
            TargetAction::Taken => score(program, Column::Action(goal)),
            TargetAction::Source => score(program, Column::Action(Layout::START)),
            TargetAction::Dummy => {
                let scores: Vec<Value> = (0..DUMMIES)
                    .map(|copy| score(program, Column::PermutedAction(goal, copy)))
                    .collect();
                program.log_mean_exp(&scores)
            }
        }
    }
}

impl Algorithm for Cmd2 {
    fn declare<T: Scalar>(&self, program: &mut Program<T>) {
        let config = &self.config;
        let window = config.phases.critic(self.steps);
        // Lines 6 and 7: (s, a) uniform over the data, (g, a') from its discounted future.
        let goal = program.rows(Rows::Future(config.offsets));

        // Line 4: f = φ(s, a)ᵀψ(g).
        let state = noisy(program, Layout::START, config.goal_noise);
        let starts = self
            .critic
            .start(program, state, |program| program.column(Column::Action(Layout::START)));
        let goal_state = noisy(program, goal, config.goal_noise);
        let ends = self.critic.goal(program, goal_state);
        let logits = self.critic.pairwise(program, starts, ends);

        // Line 8: φ, ψ ← (φ, ψ) − α ∇ Lᶜ.
        let critic = program.info_nce(logits, Directions::Symmetric);
        let arenas = self.critic.arenas().map(|arena| (arena, config.optimizer));
        let trained = config.trained_critic.is_some();
        let critic_window = if trained { Window { from: 0, until: 0 } } else { window };
        program.descend("critic", critic, &arenas, critic_window);

        // Line 9: μ ← μ − α ∇ Lπ.
        self.policy.declare(program, &self.distance, config.offsets);

        // Line 10: θ̂ ← θ̂ − α ∇ (Lᵈ + λ (C − ε²)), weighed as `weights` says.
        let at_goal = self.at_goal(program, goal, ends);
        let target = program.targets(at_goal, logits, config.targets);
        let from = self.distance.starts(program, state);
        let to = self.distance.ends(program, goal_state, goal);
        let distance = self.distance.pairwise(program, from, to);
        let excess = program.excess(distance, target);
        let shortfall = program.shortfall(distance, target);
        let (dual_arena, raw) = self.multiplier;
        let multiplier = program.multiplier(Multiplier::Floored, raw);
        let (excess_power, shortfall_power) = match config.weights {
            DualWeights::Authors => (0.0, -1.0),
            DualWeights::Root => (0.5, -0.5),
        };
        let term =
            |power: f64, of: Value| Term { constant: 1.0, factor: Some((multiplier, power)), of };
        let mut terms = vec![term(excess_power, excess), term(shortfall_power, shortfall)];
        if config.bound_weight > 0.0 {
            let above = self.distance.above_elapsed(program, goal, self.discount);
            program.report("training/distance/above_elapsed", above);
            terms.push(Term::new(config.bound_weight, above));
        }
        let loss = program.combine(&terms);
        program.descend(
            "distance",
            loss,
            &[(self.distance.arena(), config.distance_optimizer)],
            window,
        );

        // Line 11: λ ← λ + α (C − ε²), kept positive.
        let dual = program.combine(&[
            Term::new(config.tolerance, multiplier),
            Term { constant: -1.0, factor: Some((excess, 1.0)), of: multiplier },
        ]);
        program.descend("multiplier", dual, &[(dual_arena, config.dual_optimizer)], window);

        let negative = program.negative_share(at_goal, logits);
        program.report("training/distance/negative_targets", negative);
        program.report("training/distance/excess", excess);
        program.report("training/distance/shortfall", shortfall);
        program.report("training/distance/multiplier", multiplier);
    }

    fn learned(&self, numbers: &dyn Fn(ArenaId) -> Vec<f32>) -> Learned {
        Learned {
            distance: self.distance.learned(1.0, numbers),
            policy: self.policy.learned(numbers),
        }
    }
}
