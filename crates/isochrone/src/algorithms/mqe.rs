//! MQE: multistep quasimetric estimation.
//!
//! A quasimetric d(φ(s, a), ψ(g)) learned by backups over waypoints w, k' rows ahead on the way to the
//! goal: e^{−d(φ(s,a), ψ(g))} = E γ^{k'} e^{−d(ψ(w), ψ(g))}, and e^{−d(ψ(s), φ(s,a))} → 1 (the action at a
//! state may be the best one). No contrast. A waypoint drawn on the way to a goal is conditioned on
//! reaching it, so in worlds of rare luck its distances are too short; `diagonal` weighs that.
//!
//! Zheng et al. 2025. The discount of a waypoint counts once.

use serde::{Deserialize, Serialize};

use super::paired::{PairedChoices, PairedNet};
use super::policy::PolicyPass;
use super::{Algorithm, Critic, Phases, Problem, not_negative, positive, up_to_one};
use crate::data::sampler::{Column, End, First, Offsets, Rows, Waypoints};
use crate::engine::{Adam, ArenaId, Parameters, Program, Scalar, Value};
use crate::error::Result;
use crate::extraction::{Answers, Extraction};
use crate::model::Learned;
use crate::nn::{HeadShape, Network, PolicyShape};
use crate::ops::{Backup, Term};

/// The choices of MQE.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What the distance is a function of.
    pub critic: Critic,
    /// The law of a goal's offset from its start.
    pub offsets: Offsets,
    /// The law of a waypoint between start and goal.
    pub waypoints: Waypoints,
    /// The weight of mean (e^{−d(ψ(s), φ(s, a))} − 1)².
    pub invariance_weight: f64,
    /// Where d − d' is above it, the backup is linear.
    pub cutoff: f64,
    /// The weight of matching pairs in the backup.
    pub diagonal: f64,
    /// How many critics; the policy believes the one that says farthest.
    pub critics: usize,
    /// What the head's output is divided by; left out, the root of its latent size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Both encoders.
    pub network: Network,
    /// The quasimetric head.
    pub head: HeadShape,
    /// How the critics descend.
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
            offsets: Offsets { from: First::One, end: End::Truncate },
            waypoints: Waypoints::default(),
            invariance_weight: 1.0,
            cutoff: 5.0,
            diagonal: 0.5,
            critics: 2,
            scale: None,
            network: Network::default(),
            head: HeadShape::Mrn { latent: 32, components: 4 },
            optimizer: Adam::default(),
            phases: Phases::default(),
            extraction: Extraction::default(),
            policy: PolicyShape::default(),
            policy_optimizer: Adam::default(),
        }
    }
}

/// MQE with its parameters.
pub struct Mqe {
    config: Config,
    steps: u64,
    discount: f64,
    distance: PairedNet,
    policy: PolicyPass,
}

impl Mqe {
    /// Initializes the critics and the policy.
    ///
    /// # Errors
    /// Choices that do not fit each other or the data.
    pub fn new(config: &Config, problem: Problem, parameters: &mut Parameters) -> Result<Self> {
        config.optimizer.check("algorithm.optimizer")?;
        config.waypoints.check("algorithm.waypoints")?;
        positive("algorithm.cutoff", config.cutoff)?;
        not_negative("algorithm.invariance_weight", config.invariance_weight)?;
        up_to_one("algorithm.diagonal", config.diagonal)?;
        let choices = PairedChoices {
            name: "mqe",
            critic: config.critic,
            network: &config.network,
            head: config.head,
            critics: config.critics,
            scale: config.scale,
        };
        let distance = PairedNet::new(parameters, &choices, problem)?;
        let critic = Answers::either(distance.with_action());
        let policy = PolicyPass::new(parameters, config.policy_choices(), problem, critic)?;
        let Problem { steps, discount, .. } = problem;
        Ok(Self { config: config.clone(), steps, discount, distance, policy })
    }

    /// The backup of one critic and, with actions, its invariance.
    fn terms<T: Scalar>(&self, program: &mut Program<T>, critic: usize) -> (Value, Option<Value>) {
        let config = &self.config;
        let goal = program.rows(Rows::Future(config.offsets));
        let waypoint = program.rows(Rows::Waypoint(config.waypoints, goal));
        let starts = self.distance.starts(program, critic);
        let goals = self.distance.states(program, critic, goal);
        let distance = self.distance.critics.pairwise(program, critic, starts, goals);

        // What is left at the waypoint, held, and the steps to get there.
        let waypoints = self.distance.states(program, critic, waypoint);
        let left = self.distance.critics.pairwise(program, critic, waypoints, goals);
        let gaps = program.column(Column::Gap(waypoint));
        let Config { cutoff, diagonal, .. } = *config;
        let shape = Backup { scale: 1.0, discount: self.discount, cutoff, diagonal };
        let backup = program.backup(shape, distance, left, gaps);

        // Some action at a state costs nothing.
        let choosing = self.distance.choosing(program, critic, starts);
        (backup, choosing.map(|distance| program.closeness(distance)))
    }
}

impl Algorithm for Mqe {
    fn declare<T: Scalar>(&self, program: &mut Program<T>) {
        let config = &self.config;
        let mut terms = Vec::new();
        for critic in 0..config.critics {
            let (backup, invariance) = self.terms(program, critic);
            terms.push(Term::new(1.0, backup));
            terms.extend(invariance.map(|value| Term::new(config.invariance_weight, value)));
            if let (0, Some(invariance)) = (critic, invariance) {
                program.report("training/critic/invariance", invariance);
            }
        }
        let loss = program.combine(&terms);
        let arenas = [(self.distance.arena(), config.optimizer)];
        program.descend("critic", loss, &arenas, config.phases.critic(self.steps));
        self.policy.declare(program, &self.distance, config.offsets);
    }

    fn learned(&self, numbers: &dyn Fn(ArenaId) -> Vec<f32>) -> Learned {
        Learned { distance: self.distance.learned(numbers), policy: self.policy.learned(numbers) }
    }
}
