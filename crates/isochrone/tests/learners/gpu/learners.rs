//! A thousand updates of every learner agree with the CPU's, repeat and resume.

use isochrone::algorithms::{Config, Problem};
use isochrone::data::sampler::Sampler;
use isochrone::data::{Dataset, Normalization, Scaling};
use isochrone::engine::{ArenaId, CudaExecutor, Executor, Parameters, Precision, Program, Threads};
use isochrone::teacher::{Teacher, Terms};

use super::{apart, gpu, walks};

/// Updates of a whole run, and of its first and last part.
const STEPS: u64 = 1000;
const PART: u64 = 100;
const BATCH: usize = 64;

fn declared(config: &Config, data: &Dataset, farthest: Option<f64>) -> Program<f32> {
    let (state_size, action_size) = (data.state_size(), data.action_size());
    let mut parameters = Parameters::default();
    let (steps, discount, radius) = (STEPS, 0.95, Some(0.3));
    let goal_size = state_size;
    let problem = Problem {
        state_size,
        goal_size,
        critic_goal: None,
        action_size,
        steps,
        discount,
        radius,
        farthest,
    };
    let learner = config.fitted(data).unwrap().build(problem, &mut parameters).unwrap();
    learner.program(parameters, BATCH, state_size, action_size)
}

/// The learner's defaults with one step size for all: how fast rounding grows apart depends on it.
fn slowly(name: &str) -> Config {
    let mut table = toml::Table::try_from(Config::named(name).unwrap()).unwrap();
    table.remove("name");
    for key in ["optimizer", "policy_optimizer"] {
        if let Some(toml::Value::Table(optimizer)) = table.get_mut(key) {
            optimizer.insert("learning_rate".into(), 3e-4.into());
        }
    }
    Config::read(name, table).unwrap().unwrap()
}

/// The teacher of a learner that has one.
fn teacher(config: &Config, data: &Dataset) -> Option<Teacher> {
    let terms = Terms {
        discount: 0.95,
        radius: Some(0.3),
        policy_goal: &[],
        widest: f64::INFINITY,
        seed: 0,
    };
    config.teacher().map(|settings| Teacher::new(data, settings, terms, &|_, _| None).unwrap())
}

/// What a run leaves behind: the parameters after its first part, all numbers at the end, and the
/// mean of every metric over its last part.
struct Trace {
    early: Vec<Vec<f32>>,
    state: Vec<[Vec<f32>; 3]>,
    means: Vec<f64>,
}

impl Trace {
    fn on_cpu(executor: &mut Executor<f32>, sampler: &Sampler<'_>, seed: u64) -> Self {
        let arenas: Vec<ArenaId> = executor.program().parameters().arenas().collect();
        let mut means = vec![0.0; executor.program().metrics().len()];
        let (mut batch, mut early, mut metrics) = (sampler.batch(BATCH), Vec::new(), Vec::new());
        for step in 0..STEPS {
            sampler.fill(&mut batch, seed, step).unwrap();
            executor.update(&batch, step);
            if step + 1 == PART {
                early = arenas.iter().map(|&arena| executor.state(arena)[0].to_vec()).collect();
            }
            if step + PART >= STEPS {
                executor.metrics(step, &mut metrics);
                add_share(&mut means, &metrics);
            }
        }
        let state = arenas.iter().map(|&arena| executor.state(arena).map(<[f32]>::to_vec));
        Self { early, state: state.collect(), means }
    }

    fn on_gpu(executor: &mut CudaExecutor, replica: usize) -> Self {
        let arenas: Vec<ArenaId> = executor.program().parameters().arenas().collect();
        let mut means = vec![0.0; executor.program().metrics().len()];
        let mut metrics = Vec::new();
        executor.updates(0, PART).unwrap();
        let early = arenas.iter().map(|&arena| executor.state(replica, arena).unwrap()[0].clone());
        let early = early.collect();
        executor.updates(PART, STEPS - 2 * PART).unwrap();
        for step in STEPS - PART..STEPS {
            executor.update(step).unwrap();
            executor.metrics(replica, step, &mut metrics).unwrap();
            add_share(&mut means, &metrics);
        }
        assert_eq!(executor.broken_loss(replica).unwrap(), None);
        let state = arenas.iter().map(|&arena| executor.state(replica, arena).unwrap());
        Self { early, state: state.collect(), means }
    }

    /// How far parameters are apart after the first part.
    fn early_from(&self, other: &Self) -> f64 {
        self.early.iter().zip(&other.early).map(|(a, b)| apart(a, b)).fold(0.0, f64::max)
    }

    /// How far metrics are apart at the end, as a share of themselves.
    fn late_from(&self, other: &Self) -> f64 {
        let share = |(a, b): (&f64, &f64)| (a - b).abs() / (a.abs() + 0.02);
        let shares = self.means.iter().zip(&other.means).map(share);
        shares.map(|share| if share.is_nan() { 0.0 } else { share }).fold(0.0, f64::max)
    }
}

fn add_share(means: &mut [f64], metrics: &[f64]) {
    means.iter_mut().zip(metrics).for_each(|(mean, metric)| *mean += metric / PART as f64);
}

/// One update from the numbers that a run on the other device has left.
fn resumed(cpu: &mut Executor<f32>, gpu: &mut CudaExecutor, sampler: &Sampler<'_>) -> f64 {
    let arenas: Vec<ArenaId> = cpu.program().parameters().arenas().collect();
    for &arena in &arenas {
        gpu.set_state(0, arena, cpu.state(arena)).unwrap();
    }
    let mut batch = sampler.batch(BATCH);
    sampler.fill(&mut batch, 4, STEPS - 1).unwrap();
    cpu.update(&batch, STEPS - 1);
    gpu.update(STEPS - 1).unwrap();
    let gap = |&arena: &ArenaId| {
        let (ours, theirs) = (cpu.state(arena), gpu.state(0, arena).unwrap());
        ours.iter().zip(&theirs).map(|(a, b)| apart(a, b)).fold(0.0, f64::max)
    };
    arenas.iter().map(gap).fold(0.0, f64::max)
}

/// A thousand updates of the learner called `name` on both devices, alone and among others.
fn agrees(name: &str) {
    let Some((gpu, _turn)) = gpu() else { return };
    let data = walks(20000, 6, 2);
    let norm = Normalization::fit(&data, Scaling::Standard).unwrap();
    let config = slowly(name);
    let teacher = teacher(&config, &data);
    let program = || declared(&config, &data, teacher.as_ref().map(Teacher::farthest));
    let sampler = Sampler::new(&data, &norm, program().layout().clone(), 0.95)
        .taught(teacher.as_ref().map(Teacher::lessons));
    let executor = |precision, seeds: &[u64]| {
        CudaExecutor::new(program().into(), (&gpu, precision), (&sampler, None), seeds).unwrap()
    };
    let mut cpu = Executor::new(program(), Threads::default(), 4);
    let expected = Trace::on_cpu(&mut cpu, &sampler, 4);
    let mut alone = executor(Precision::Single, &[4]);
    let single = Trace::on_gpu(&mut alone, 0);
    let again = Trace::on_gpu(&mut executor(Precision::Single, &[4]), 0);
    let replica = Trace::on_gpu(&mut executor(Precision::Single, &[9, 4, 1, 0, 2, 3, 5, 6]), 1);
    let rounded = Trace::on_gpu(&mut executor(Precision::Tf32, &[4]), 0);
    let rounded_again = Trace::on_gpu(&mut executor(Precision::Tf32, &[4]), 0);
    assert!(single.state == again.state, "two runs in single precision give the same bits");
    assert!(rounded.state == rounded_again.state, "two runs in TF32 give the same bits");
    let early = [&single, &replica, &rounded].map(|trace| expected.early_from(trace));
    let late = [&single, &replica, &rounded].map(|trace| expected.late_from(trace));
    let resumed = resumed(&mut cpu, &mut alone, &sampler);
    assert!(early[0] < 0.02 && early[1] < 0.02 && early[2] < 0.1, "{early:?}");
    assert!(late.iter().all(|&gap| gap < 0.3), "{late:?}");
    assert!(resumed < 1e-3, "{resumed}");
}

#[test]
fn an_update_reads_the_numbers_that_were_set_just_before() {
    let Some((gpu, _turn)) = gpu() else { return };
    let data = walks(4000, 6, 2);
    let norm = Normalization::fit(&data, Scaling::Standard).unwrap();
    let program = declared(&Config::named("cmd1").unwrap(), &data, None);
    let sampler = Sampler::new(&data, &norm, program.layout().clone(), 0.95);
    let device = (&gpu, Precision::Tf32);
    let mut executor =
        CudaExecutor::new(program.into(), device, (&sampler, None), &[4, 5]).unwrap();
    let arenas: Vec<ArenaId> = executor.program().parameters().arenas().collect();
    let states = |executor: &CudaExecutor| -> Vec<[Vec<f32>; 3]> {
        arenas.iter().map(|&arena| executor.state(1, arena).unwrap()).collect()
    };
    executor.updates(0, 10).unwrap();
    let (before, mut after) = (states(&executor), None);
    for _ in 0..100 {
        for (&arena, state) in arenas.iter().zip(&before) {
            executor.set_state(1, arena, state.each_ref().map(Vec::as_slice)).unwrap();
        }
        executor.update(10).unwrap();
        let found = states(&executor);
        assert!(*after.get_or_insert_with(|| found.clone()) == found);
        executor.updates(11, 8).unwrap();
    }
}

macro_rules! learners {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                agrees($name);
            }
        )*

        #[test]
        fn every_learner_is_among_them() {
            assert_eq!([$($name),*], Config::NAMES);
        }
    };
}

learners! {
    atlas_agrees_repeats_and_resumes: "atlas",
    cmd1_agrees_repeats_and_resumes: "cmd1",
    cmd2_agrees_repeats_and_resumes: "cmd2",
    mqe_agrees_repeats_and_resumes: "mqe",
    tmd_agrees_repeats_and_resumes: "tmd",
    qrl_agrees_repeats_and_resumes: "qrl",
    crl_agrees_repeats_and_resumes: "crl",
    gcbc_agrees_repeats_and_resumes: "gcbc",
    gcivl_agrees_repeats_and_resumes: "gcivl",
    gciql_agrees_repeats_and_resumes: "gciql",
    hiql_agrees_repeats_and_resumes: "hiql",
    ddpg_agrees_repeats_and_resumes: "ddpg",
    c_learning_agrees_repeats_and_resumes: "c-learning",
}
