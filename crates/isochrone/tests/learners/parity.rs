//! Every learner's losses and gradients agree with a second implementation, in another language and
//! from the formulas alone: `scripts/parity.py`, which wrote the numbers in `tests/parity/`.
//!
//! Both sides fill parameters and batch columns by one formula of (name, index); see [`numbers`].

use std::collections::BTreeMap;
use std::path::Path;

use isochrone::algorithms::{Algorithm, Config, Problem};
use isochrone::data::sampler::{Batch, Column, Layout, Rows, RowsId, Sampler};
use isochrone::data::{Dataset, Normalization, Scaling};
use isochrone::engine::{Executor, Parameters, Program, Scalar, Threads};
use isochrone::run::RunConfig;
use serde::Deserialize;

const STATE: usize = 3;
const ACTION: usize = 2;
const BATCH: usize = 12;

/// What the other side computed for one choice of settings.
#[derive(Deserialize)]
struct Case {
    settings: Vec<String>,
    losses: BTreeMap<String, f64>,
    gradients: BTreeMap<String, Vec<f64>>,
}

fn cases(name: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity");
    let text = std::fs::read_to_string(folder.join(format!("{name}.json")))
        .unwrap_or_else(|_| panic!("no numbers for `{name}`: add it to `scripts/parity.py`"));
    serde_json::from_str(&text).unwrap()
}

/// Numbers between −1 and 1 that both sides agree on: FNV-1a of the name, then splitmix64 of the
/// index, its top 24 bits, so that each is exact in 32 bits.
fn numbers(name: &str, count: usize) -> impl Iterator<Item = f64> {
    let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    (1..=count as u64).map(move |index| {
        let x = seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let x = x ^ (x >> 31);
        (x >> 40) as f64 / 8_388_608.0 - 1.0
    })
}

/// Names columns after what they hold; choices of one kind are numbered as they appear.
#[derive(Default)]
struct Names {
    mixed: Vec<Rows>,
    ahead: Vec<Rows>,
    noises: usize,
}

impl Names {
    fn rows(&mut self, layout: &Layout, rows: RowsId) -> String {
        let rows = layout.choice(rows);
        let (kind, seen) = match rows {
            Rows::Start => return "start".into(),
            Rows::Next => return "next".into(),
            Rows::Future(_) => return "future".into(),
            Rows::Random => return "random".into(),
            Rows::Waypoint(..) => return "waypoint".into(),
            Rows::Taught => return "taught".into(),
            Rows::Mixed(..) => ("mixed", &mut self.mixed),
            Rows::Ahead(..) => ("ahead", &mut self.ahead),
        };
        let place = seen.iter().position(|&other| other == rows).unwrap_or_else(|| {
            seen.push(rows);
            seen.len() - 1
        });
        format!("{kind}{place}")
    }

    fn column(&mut self, layout: &Layout, column: Column) -> String {
        match column {
            Column::State(rows) => format!("state {}", self.rows(layout, rows)),
            Column::Noisy(rows, _) => format!("noisy {}", self.rows(layout, rows)),
            Column::Goal(rows, _) => format!("goal {}", self.rows(layout, rows)),
            Column::Action(rows) => format!("action {}", self.rows(layout, rows)),
            Column::PermutedAction(rows, copy) => {
                format!("permuted {} {copy}", self.rows(layout, rows))
            }
            Column::RolledAction(rows) => format!("rolled {}", self.rows(layout, rows)),
            Column::Gap(rows) => format!("gap {}", self.rows(layout, rows)),
            Column::Reached(rows, goal, _) => {
                format!("reached {} {}", self.rows(layout, rows), self.rows(layout, goal))
            }
            Column::Lesson(from, goal) => {
                format!("lesson {} {}", self.rows(layout, from), self.rows(layout, goal))
            }
            Column::Noise(_) => {
                self.noises += 1;
                format!("noise {}", self.noises - 1)
            }
        }
    }
}

fn fill(batch: &mut Batch, layout: &Layout) {
    let mut names = Names::default();
    for (numbers_of, &column) in batch.columns.iter_mut().zip(layout.columns()) {
        let name = names.column(layout, column);
        let raw = numbers(&name, numbers_of.len());
        for (target, raw) in numbers_of.iter_mut().zip(raw) {
            *target = match column {
                Column::Gap(_) if name == "gap next" => 1.0,
                Column::Gap(_) => (raw * 2.0 + 3.0).floor() as f32,
                Column::Reached(..) => f32::from(raw > 0.0),
                _ => raw as f32,
            };
        }
    }
}

/// The largest gap between `found` and `expected`, as a share of the largest expected number.
fn gap(found: impl Iterator<Item = f64>, expected: &[f64]) -> f64 {
    let largest = expected.iter().fold(1e-3, |largest: f64, x| largest.max(x.abs()));
    let gaps = found.zip(expected).map(|(found, expected)| (found - expected).abs());
    gaps.fold(0.0, f64::max) / largest
}

/// Where the library differs from `case` by more than `allowed`.
fn differences<T: Scalar>(case: &Case, allowed: f64) -> Vec<String> {
    let config = RunConfig::parse("", &case.settings).unwrap();
    let (steps, discount) = (config.train.steps, config.discount.unwrap_or(0.95));
    let problem = Problem {
        state_size: STATE,
        goal_size: STATE,
        critic_goal: None,
        action_size: ACTION,
        steps,
        discount,
        radius: None,
        farthest: Some(2.0),
    };
    let mut parameters = Parameters::default();
    let learner = config.algorithm.build(problem, &mut parameters).unwrap();
    let mut program = Program::<T>::new(parameters.clone(), BATCH, STATE, ACTION);
    learner.declare(&mut program);
    let layout = program.layout().clone();
    let (rows, zeros) = (8, |count: usize| vec![0.0; count]);
    let actions = Some((zeros(rows * ACTION), ACTION));
    let dataset = Dataset::new(zeros(rows * STATE), STATE, actions, &[rows]).unwrap();
    let plain = Normalization::fit(&dataset, Scaling::None).unwrap();
    let mut batch = Sampler::new(&dataset, &plain, layout.clone(), discount).batch(BATCH);
    fill(&mut batch, &layout);
    let mut executor = Executor::new(program, Threads::default(), 0);
    for arena in parameters.arenas() {
        let name = format!("parameters {}", parameters.name(arena));
        let target = executor.arena_mut(arena).iter_mut();
        target.zip(numbers(&name, usize::MAX >> 1)).for_each(|(t, x)| *t = T::of(x));
    }
    executor.differentiate(&batch, 0);
    let mut metrics = Vec::new();
    executor.metrics(0, &mut metrics);
    let metrics: BTreeMap<String, f64> =
        executor.program().metrics().into_iter().zip(metrics).collect();
    let mut found = Vec::new();
    for (pass, &loss) in &case.losses {
        let ours = metrics[&format!("training/{pass}/loss")];
        if gap([ours].into_iter(), &[loss]) > allowed {
            found.push(format!("loss of {pass}: {ours}, expected {loss}"));
        }
    }
    let losses = metrics.keys().filter(|name| name.ends_with("/loss")).count();
    assert_eq!(losses, case.losses.len(), "passes of {:?}", case.settings);
    for arena in parameters.arenas() {
        let (name, ours) = (parameters.name(arena), executor.gradient(arena));
        let held = vec![0.0; ours.len()];
        let expected = case.gradients.get(name).unwrap_or(&held);
        assert_eq!(ours.len(), expected.len(), "`{name}` of {:?}", case.settings);
        let gap = gap(ours.iter().map(|x| x.wide()), expected);
        if gap > allowed {
            found.push(format!("gradient of {name}: off by {gap:e} of its largest entry"));
        }
    }
    found
}

fn compare<T: Scalar>(allowed: f64) {
    let mut wrong = Vec::new();
    for name in Config::NAMES {
        let cases = cases(name);
        assert!(!cases.is_empty(), "no case of `{name}`");
        for case in &cases {
            assert!(case.settings.contains(&format!("algorithm.name={name}")));
            let differences = differences::<T>(case, allowed);
            wrong.extend(differences.iter().map(|text| format!("{:?}: {text}", case.settings)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn losses_and_gradients_agree_with_the_second_implementation_in_double_precision() {
    compare::<f64>(1e-9);
}

#[test]
fn losses_and_gradients_agree_with_the_second_implementation_in_single_precision() {
    compare::<f32>(1e-4);
}

#[test]
fn a_wrong_number_is_told() {
    let mut case = cases("cmd1").swap_remove(0);
    assert_eq!(differences::<f64>(&case, 1e-9), Vec::<String>::new());
    let gradient = case.gradients.get_mut("distance").unwrap();
    let largest = gradient.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
    gradient[3] += 1e-8 * largest;
    *case.losses.get_mut("policy").unwrap() *= 1.0 + 1e-8;
    let told = differences::<f64>(&case, 1e-9).join("\n");
    assert!(told.contains("loss of policy") && told.contains("gradient of distance"), "{told}");
}
