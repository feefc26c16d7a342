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
use super::{
    Algorithm, Critic, GoalAction, Phases, Problem, check_critics, not_negative, numbered, positive,
};
use crate::data::sampler::{Column, Layout, Offsets, Rows, RowsId};
use crate::engine::{
    Adam, ArenaId, Initial, Parameter, Parameters, Program, Scalar, Value, Window,
};
use crate::error::{Error, Result};
use crate::extraction::{Answers, Extraction, Farthest};
use crate::model::Learned;
use crate::nn::{EncodedShape, HeadShape, Network, PolicyShape, Scored, ScoredShape};
use crate::ops::{Directions, Multiplier, Targets, Term};

/// The choices of CMD-2.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What critic and distance are functions of.
    pub critic: Critic,
    /// A run whose trained critic is used as it is; left out, one is trained beside the distance.
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
    /// How λ weighs the two hinges, of distances above their targets (excess) and below (shortfall).
    pub weights: DualWeights,
    /// ε², the bound on the excess, in nats².
    pub tolerance: f64,
    /// τ: logits are divided by it; of unit representations it is where τ begins.
    pub temperature: f64,
    /// How long the critic's representations are.
    pub representations: Representations,
    /// How many pairs of a critic and the distance distilled from it: the mean of the distances is the
    /// distance, and the policy believes the one that says farthest; 1 is the paper's.
    pub critics: usize,
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
            representations: Representations::Free,
            critics: 1,
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

/// How long the critic's representations are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Representations {
    /// As long as the encoders make them.
    Free,
    /// Of length 1, with a learned τ, as the authors' code: targets stay within ± 2 / τ.
    Unit,
}

/// CMD-2 with its parameters.
pub struct Cmd2 {
    config: Config,
    steps: u64,
    discount: f64,
    members: Vec<Member>,
    distances: Vec<DistanceNet>,
    policy: PolicyPass,
}

/// What one distance is distilled with.
struct Member {
    critic: Scored,
    /// ln τ, where it is learned.
    temperature: Option<(ArenaId, Parameter)>,
    multiplier: (ArenaId, Parameter),
}

impl Cmd2 {
    /// Lines 2 and 3: initialize representations φ and ψ, quasimetric θ̂, multiplier λ, policy μ.
    ///
    /// # Errors
    /// Choices that do not fit each other or the data.
    pub fn new(config: &Config, problem: Problem, parameters: &mut Parameters) -> Result<Self> {
        problem.need_whole_goals("cmd2")?;
        let with_action = config.critic.with_action(problem.action_size);
        config.optimizer.check("algorithm.optimizer")?;
        config.distance_optimizer.check("algorithm.distance_optimizer")?;
        config.dual_optimizer.check("algorithm.dual_optimizer")?;
        not_negative("algorithm.goal_noise", config.goal_noise)?;
        not_negative("algorithm.bound_weight", config.bound_weight)?;
        positive("algorithm.tolerance", config.tolerance)?;
        positive("algorithm.temperature", config.temperature)?;
        check_critics(config.critics)?;
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
        let (mut distances, mut members) = (Vec::new(), Vec::new());
        for member in 0..config.critics {
            let choices = (config.goal_action, problem);
            distances.push(DistanceNet::new(parameters, member, shape.clone(), choices)?);
            members.push(Member::new(parameters, member, config, problem));
        }
        let critic = Answers::either(with_action);
        let policy = PolicyPass::new(parameters, config.policy_choices(), problem, critic)?;
        Ok(Self {
            config: config.clone(),
            steps: problem.steps,
            discount: problem.discount,
            members,
            distances,
            policy,
        })
    }

    /// Line 10: the terms of Lᵈ + λ (C − ε²), weighed as `weights` says, and line 11: those of
    /// λ (ε² − C). The first member's are reported.
    fn distill<T: Scalar>(
        &self,
        program: &mut Program<T>,
        (at, goal): (usize, RowsId),
        logits: Value,
    ) -> (Vec<Term>, Vec<Term>) {
        let (config, member, distance) = (&self.config, &self.members[at], &self.distances[at]);
        let [state, goal_state] =
            [Layout::START, goal].map(|rows| noisy(program, rows, config.goal_noise));
        let at_goal = member.at_goal(program, config, (goal, goal_state));
        let target = program.targets(at_goal, logits, config.targets);
        let from = distance.starts(program, state);
        let to = distance.ends(program, goal_state, goal);
        let pairs = distance.pairwise(program, from, to);
        let excess = program.excess(pairs, target);
        let shortfall = program.shortfall(pairs, target);
        let multiplier = program.multiplier(Multiplier::Floored, member.multiplier.1);
        let (excess_power, shortfall_power) = match config.weights {
            DualWeights::Authors => (0.0, -1.0),
            DualWeights::Root => (0.5, -0.5),
        };
        let term =
            |power: f64, of: Value| Term { constant: 1.0, factor: Some((multiplier, power)), of };
        let mut terms = vec![term(excess_power, excess), term(shortfall_power, shortfall)];
        let above = (config.bound_weight > 0.0)
            .then(|| distance.above_elapsed(program, goal, self.discount));
        terms.extend(above.map(|above| Term::new(config.bound_weight, above)));
        if at == 0 {
            let negative = program.negative_share(at_goal, logits);
            let measured = [
                ("negative_targets", negative),
                ("excess", excess),
                ("shortfall", shortfall),
                ("multiplier", multiplier),
            ];
            let above = above.map(|above| ("above_elapsed", above));
            for (name, value) in above.into_iter().chain(measured) {
                program.report(&format!("training/distance/{name}"), value);
            }
        }
        (terms, Term::dual(multiplier, config.tolerance, excess).into())
    }
}

impl Member {
    fn new(parameters: &mut Parameters, member: usize, config: &Config, problem: Problem) -> Self {
        let unit = config.representations == Representations::Unit;
        let shape = ScoredShape {
            network: config.network.clone(),
            latent: config.latent,
            with_action: config.critic.with_action(problem.action_size),
            // Rows of length √n have products of up to n.
            temperature: if unit { config.latent as f64 } else { config.temperature },
        };
        let mut arena = |name: &str| parameters.arena(&numbered(name, member));
        let arenas = (arena("start_encoder"), arena("goal_encoder"));
        let learned = unit.then(|| arena("temperature"));
        let dual = arena("multiplier");
        let critic = Scored::new(parameters, arenas, &shape, problem.critic_sizes());
        let temperature = learned.map(|arena| {
            let first = Initial::Constant(config.temperature.ln());
            (arena, parameters.add(arena, "logarithm", (1, 1), first))
        });
        let raw = parameters.add(dual, "raw", (1, 1), Initial::Constant(0.0));
        Self { critic, temperature, multiplier: (dual, raw) }
    }

    /// φ(s, a), of length √n and divided by τ where that is learned.
    fn start<T: Scalar>(&self, program: &mut Program<T>, state: Value, action: Column) -> Value {
        let start = self.critic.start(program, state, |program| program.column(action));
        let Some((_, logarithm)) = self.temperature else { return start };
        let start = program.sphere(start);
        program.tempered(start, logarithm)
    }

    /// ψ(g), of the same length.
    fn goal<T: Scalar>(&self, program: &mut Program<T>, state: Value) -> Value {
        let goal = self.critic.goal(program, state);
        if self.temperature.is_some() { program.sphere(goal) } else { goal }
    }

    /// f(g_j, a'_j, g_j), the critic's score of a goal from itself.
    fn at_goal<T: Scalar>(
        &self,
        program: &mut Program<T>,
        config: &Config,
        (goal, state): (RowsId, Value),
    ) -> Value {
        let ends = self.goal(program, state);
        let score = |program: &mut Program<T>, column: Column| {
            let at_goal = self.start(program, state, column);
            self.critic.between(program, at_goal, ends)
        };
        match config.target_action {
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

    /// The arenas of the critic.
    fn arenas(&self) -> impl Iterator<Item = ArenaId> {
        self.critic.arenas().into_iter().chain(self.temperature.map(|(arena, _)| arena))
    }
}

impl Algorithm for Cmd2 {
    fn declare<T: Scalar>(&self, program: &mut Program<T>) {
        let config = &self.config;
        let window = config.phases.critic(self.steps);
        // Lines 6 and 7: (s, a) uniform over the data, (g, a') from its discounted future.
        let goal = program.rows(Rows::Future(config.offsets));

        // Line 4: f = φ(s, a)ᵀψ(g).
        let [state, goal_state] =
            [Layout::START, goal].map(|rows| noisy(program, rows, config.goal_noise));
        let logits: Vec<Value> = self
            .members
            .iter()
            .map(|member| {
                let starts = member.start(program, state, Column::Action(Layout::START));
                let ends = member.goal(program, goal_state);
                member.critic.pairwise(program, starts, ends)
            })
            .collect();

        // Line 8: φ, ψ ← (φ, ψ) − α ∇ Lᶜ.
        let losses = logits.iter().map(|&logits| program.info_nce(logits, Directions::Symmetric));
        let losses: Vec<Term> = losses.map(|loss| Term::new(1.0, loss)).collect();
        let critic = program.combine(&losses);
        let arenas = self.members.iter().flat_map(Member::arenas);
        let arenas: Vec<_> = arenas.map(|arena| (arena, config.optimizer)).collect();
        let trained = config.trained_critic.is_some();
        let critic_window = if trained { Window { from: 0, until: 0 } } else { window };
        program.descend("critic", critic, &arenas, critic_window);

        // Line 9: μ ← μ − α ∇ Lπ.
        self.policy.declare(program, &Farthest(&self.distances), config.offsets);

        // Line 10: θ̂ ← θ̂ − α ∇ (Lᵈ + λ (C − ε²)).
        let logits = logits.into_iter().enumerate();
        let (distance, dual): (Vec<_>, Vec<_>) =
            logits.map(|(at, logits)| self.distill(program, (at, goal), logits)).unzip();
        let loss = program.combine(&distance.concat());
        let arenas = self.distances.iter().map(|of| (of.arena(), config.distance_optimizer));
        program.descend("distance", loss, &arenas.collect::<Vec<_>>(), window);

        // Line 11: λ ← λ + α (C − ε²), kept positive.
        let dual = program.combine(&dual.concat());
        let arenas = self.members.iter().map(|of| (of.multiplier.0, config.dual_optimizer));
        program.descend("multiplier", dual, &arenas.collect::<Vec<_>>(), window);
    }

    fn learned(&self, numbers: &dyn Fn(ArenaId) -> Vec<f32>) -> Learned {
        Learned {
            distance: DistanceNet::learned(&self.distances, 1.0, numbers),
            policy: self.policy.learned(numbers),
        }
    }
}
