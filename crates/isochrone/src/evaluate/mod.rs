//! Measures; never trains: success, triangle audit, agreement with exact answers and with elapsed
//! steps.
//!
//! Numbers leave here in steps, d / ln(1/γ); the audit's excesses are in nats, as the inequality is.

mod accuracy;
mod audit;
mod calibration;
mod elapsed;
mod judgement;
mod protocol;
mod runaway;
mod solved;
mod statistics;
mod steps;
mod success;

pub use accuracy::{
    ASKED, Accuracy, ExactSteps, FAR, NEAR, accuracy, learned_steps, supported_steps,
};
pub use audit::{AUDITED_STATES, Audit, TOLERANCE, Worst, audit, audit_matrix};
pub use calibration::{
    Agreement, Calibration, Judged, JudgedGoal, Point, calibrate, referee_pairs,
};
pub use elapsed::{
    AgainstElapsed, Band, Trajectories, Verdict, against_elapsed, against_remaining,
};
pub use judgement::{Judgement, WIDE};
pub use protocol::{LAST, OverTraining};
pub use runaway::TypicalPairs;
pub use solved::{AgainstSolved, MOST_OFF, Solved, WaysBack, against_solved};
pub use statistics::{
    Line, MonotoneMap, OverSeeds, RESAMPLES, bootstrap, interquartile_mean, spearman,
};
pub use steps::steps_to;
pub use success::{Class, Control, Rate, Success, TaskRate, by_task, outcomes, success};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::Config;
    use crate::data::{Dataset, Normalization, Scaling};
    use crate::engine::Threads;
    use crate::model::Model;
    use crate::plan::{self, Ball, Graph, Greedy, PathEnding};
    use crate::simulate::World;
    use crate::train::{Prepared, TrainConfig, Trainer};

    /// A small CMD-1 after a few updates: laws must hold whether it learned anything or not.
    fn model(data: &Dataset) -> Model {
        let mut config = Config::named("cmd1").unwrap();
        if let Config::Cmd1(config) = &mut config {
            config.network.hidden = vec![32];
            config.policy.network.hidden = vec![32];
        }
        let normalization = Normalization::fit(data, Scaling::Range).unwrap();
        let prepared =
            Prepared { training: data.clone(), validation: None, normalization, radius: None };
        let settings = TrainConfig { steps: 200, batch_size: 64, ..TrainConfig::default() };
        let threads = Threads::default();
        let mut trainer = Trainer::new(&config, &settings, &prepared, 0.95, 0, threads).unwrap();
        (0..settings.steps).for_each(|_| trainer.update().unwrap());
        trainer.model().unwrap()
    }

    #[test]
    fn a_trained_model_can_be_audited_steered_and_planned_with() {
        let world = World::Pinwheel.open();
        let data = world.generate(0).unwrap().dataset;
        let model = model(&data);

        let found = audit(&model, data.states(), 1_000_000, 0).unwrap();
        assert_eq!((found.states, found.triples, found.violations), (1_000, 1_000_000, 0));
        assert_eq!((found.identity, found.not_finite), (0.0, 0));
        assert!(found.mean_steps > 0.0 && found.asymmetry > 0.0);

        let graph = Graph::new(&model, &data, plan::GraphSettings::default()).unwrap();
        let tasks = world.tasks(0, 30, &data).unwrap();
        for task in &tasks {
            let start: Vec<f32> = task.start.iter().map(|&value| value as f32).collect();
            let path = graph.path(&start, &task.goal).unwrap();
            assert_eq!(path.ending, PathEnding::Arrived, "from the ring every goal is reached");
            assert!(path.direct <= path.steps * 1.0001);
            let families: Vec<usize> = path.trajectories.iter().map(|index| index % 4).collect();
            let switches = families.windows(2).filter(|pair| pair[0] != pair[1]).count();
            // A path may leave a corridor's end by a node that two families share.
            assert!(switches + 1 >= usize::from(task.switches.unwrap()), "{families:?}");
        }
        let ball = Ball { radius: 0.25, arrived: 0.05, most_moves: 50 };
        let greedy = Greedy::new(&model, graph.states(), ball).unwrap();
        let measured =
            |control| success(&*world, &tasks, &model, control, 1, &|_, _| None).unwrap();
        for control in [Control::Policy, Control::Graph(&graph), Control::Greedy(&greedy)] {
            let once = measured(control);
            assert_eq!(once, measured(control));
            assert_eq!(once.overall.tasks, 30);
        }
    }

    #[test]
    fn the_steps_to_a_goal_are_those_of_single_questions() {
        let data = World::Pinwheel.open().generate(0).unwrap().dataset;
        let model = model(&data);
        let size = data.state_size();
        let points = &data.states()[..1_500 * size];
        let goal = data.state(2_000);
        let steps = steps_to(&model, points, goal).unwrap();
        assert_eq!(steps.len(), 1_500);
        for row in [0, 1_023, 1_024, 1_499] {
            assert_eq!(steps[row], model.steps(data.state(row), goal).unwrap()[0]);
        }
    }
}
