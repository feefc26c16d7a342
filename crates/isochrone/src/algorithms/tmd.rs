//! TMD: temporal metric distillation.
//!
//! CMD-1's contrastive quasimetric, d(φ(s, a), ψ(g)), with what makes it the optimal distance instead of
//! the data policy's: d(ψ(s), φ(s, a)) → 0 (the action at a state may be the best one) and a one-step
//! backup, e^{−d(φ(s,a), ψ(g))} = γ E e^{−d(ψ(s'), ψ(g))}.
//!
//! Myers et al. 2025. The contrast chooses the start, as in the release. d is divided by `scale` once,
//! everywhere; the release divides inside the contrast alone, as `invariance_of` and `backup_of` can.

use serde::{Deserialize, Serialize};

use super::paired::{PairedChoices, PairedNet};
use super::policy::PolicyPass;
use super::{Algorithm, Critic, Phases, Problem, not_negative, positive, up_to_one};
use crate::data::sampler::{Column, Offsets, Rows};
use crate::engine::{Adam, ArenaId, Parameters, Program, Scalar, Value};
use crate::error::Result;
use crate::extraction::{Answers, Extraction};
use crate::model::Learned;
use crate::nn::{HeadShape, Network, PolicyShape};
use crate::ops::{Backup, Directions, Scale, Term};

/// The choices of TMD.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What the distance is a function of.
    pub critic: Critic,
    /// The law of a goal's offset from its start.
    pub offsets: Offsets,
    /// ζ of the invariance, mean d(ψ(s), φ(s, a)).
    pub invariance_weight: f64,
    /// Which distance that weighs.
    pub invariance_of: TermDistance,
    /// ζ of the backup.
    pub backup_weight: f64,
    /// Which distance the backup and its cutoff are of.
    pub backup_of: TermDistance,
    /// Where d − d' is above it, the backup is linear: 3 in the release, 5 in the paper.
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
            offsets: Offsets::default(),
            invariance_weight: 0.1,
            invariance_of: TermDistance::Divided,
            backup_weight: 0.1,
            backup_of: TermDistance::Divided,
            cutoff: 3.0,
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

/// Which distance a term of the loss is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TermDistance {
    /// The distance as it is read, divided by its scale.
    Divided,
    /// The head's own, not divided, as in the authors' code, where the invariance has weight 1 and the
    /// backup 0.05.
    Undivided,
}

/// TMD with its parameters.
pub struct Tmd {
    config: Config,
    steps: u64,
    discount: f64,
    distance: PairedNet,
    policy: PolicyPass,
}

impl Tmd {
    /// Initializes the critics and the policy.
    ///
    /// # Errors
    /// Choices that do not fit each other or the data.
    pub fn new(config: &Config, problem: Problem, parameters: &mut Parameters) -> Result<Self> {
        config.optimizer.check("algorithm.optimizer")?;
        positive("algorithm.cutoff", config.cutoff)?;
        not_negative("algorithm.invariance_weight", config.invariance_weight)?;
        not_negative("algorithm.backup_weight", config.backup_weight)?;
        up_to_one("algorithm.diagonal", config.diagonal)?;
        let choices = PairedChoices {
            name: "tmd",
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

    /// What makes the distance the one that a term is of.
    fn factor(&self, of: TermDistance) -> f64 {
        match of {
            TermDistance::Divided => 1.0,
            TermDistance::Undivided => self.distance.scale(),
        }
    }

    /// The terms of one critic's loss.
    fn terms<T: Scalar>(&self, program: &mut Program<T>, critic: usize) -> Vec<(f64, Value)> {
        let config = &self.config;
        let goal = program.rows(Rows::Future(config.offsets));
        let next = program.rows(Rows::Next);
        let starts = self.distance.starts(program, critic);
        let goals = self.distance.states(program, critic, goal);
        let distance = self.distance.critics.pairwise(program, critic, starts, goals);

        // The contrast: choose the start.
        let logits = program.scores(None, distance, 1.0);
        let contrast = program.info_nce(logits, Directions::Backward);

        // The backup: what is left after one step, held.
        let successors = self.distance.states(program, critic, next);
        let left = self.distance.critics.pairwise(program, critic, successors, goals);
        let gaps = program.column(Column::Gap(next));
        let Config { cutoff, diagonal, .. } = *config;
        let scale = self.factor(config.backup_of);
        let shape = Backup { scale, discount: self.discount, cutoff, diagonal };
        let backup = program.backup(shape, distance, left, gaps);

        // The invariance: some action at a state costs nothing.
        let choosing = self.distance.choosing(program, critic, starts);
        let invariance = choosing.map(|distance| {
            let mean = program.mean(distance, Scale::Unit);
            let scale = self.factor(config.invariance_of);
            (config.invariance_weight * scale, mean)
        });
        [(1.0, contrast), (config.backup_weight, backup)].into_iter().chain(invariance).collect()
    }
}

impl Algorithm for Tmd {
    fn declare<T: Scalar>(&self, program: &mut Program<T>) {
        let config = &self.config;
        let mut terms = Vec::new();
        for critic in 0..config.critics {
            let parts = self.terms(program, critic);
            if critic == 0 {
                for (name, (_, value)) in ["contrast", "backup", "invariance"].iter().zip(&parts) {
                    program.report(&format!("training/critic/{name}"), *value);
                }
            }
            terms.extend(parts.into_iter().map(|(weight, value)| Term::new(weight, value)));
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
