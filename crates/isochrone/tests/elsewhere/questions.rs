//! Questions that Python answers about saved models, and a comparison with our own answers.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use isochrone::Model;
use isochrone::data::arrays::Arrays;
use isochrone::data::{Field, TableWriter, Values};
use isochrone::plan::Distance;

use crate::models::{STATE, assert_near, points};

/// Pairs of states to ask about.
pub struct Questions {
    pub folder: tempfile::TempDir,
    from: Vec<f32>,
    to: Vec<f32>,
}

impl Questions {
    /// So many pairs, in `questions.npz` of a folder of their own.
    pub fn new(count: usize) -> Self {
        let (from, to) = (points(count, 5), points(count, 6));
        let folder = tempfile::tempdir().unwrap();
        let fields = vec![Field::rows("from", "from", &[STATE]), Field::rows("to", "to", &[STATE])];
        let mut writer = TableWriter::create(&folder.path().join("questions.npz"), fields).unwrap();
        writer.rows(count, &[Values::Numbers(&from), Values::Numbers(&to)]).unwrap();
        writer.finish().unwrap();
        Self { folder, from, to }
    }

    /// Runs a script with the folder as its last argument.
    pub fn ask(&self, python: &Path, script: &str, argument: &Path) {
        let words = [Path::new("-c"), Path::new(script), argument, self.folder.path()];
        let output = Command::new(python).args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Compares the answers in `at.npz` with those of `model`.
    pub fn check(&self, at: usize, name: &str, model: &Model) {
        let bytes = std::fs::read(self.folder.path().join(format!("{at}.npz"))).unwrap();
        let mut answers = Arrays::open(&bytes).unwrap();
        if model.has_distance() {
            // In nats, the unit in which a network's rounding does not depend on the discount.
            let unit = (1.0 / model.shape().discount).ln();
            let nats: Vec<f64> =
                answers.get("steps").unwrap().values.iter().map(|steps| steps * unit).collect();
            let expected = model.steps(&self.from, &self.to).unwrap();
            let expected: Vec<f32> =
                expected.iter().map(|&steps| (f64::from(steps) * unit) as f32).collect();
            assert_near(&format!("{name}: nats"), &nats, &expected);
            check_pairs(name, model, &self.from[..60 * STATE]);
        }
        if model.has_distance() && model.has_policy() {
            let [steps, actions] =
                [model.steps(&self.from, &self.to), model.act(&self.from, &self.to)]
                    .map(Result::unwrap);
            // States that are named several times, and are embedded once, have the same answers.
            let again = |values: &[f32], size: usize| values[..20 * size].repeat(3);
            let [from, to] = [&self.from, &self.to].map(|states| again(states, STATE));
            let repeated = (again(&steps, 1), again(&actions, model.shape().action_size));
            assert_eq!(model.steps_and_actions(&from, &to).unwrap(), repeated);
            assert_eq!(model.steps(&from, &to).unwrap(), repeated.0);
            assert_eq!(model.steps_and_actions(&self.from, &self.to).unwrap(), (steps, actions));
        }
        if model.has_policy() {
            let actions = answers.get("action").unwrap().values;
            let expected = model.act(&self.from, &self.to).unwrap();
            assert_near(&format!("{name}: action"), &actions, &expected);
        }
    }
}

/// Some pairs of embedded states are as far apart as among all pairs.
fn check_pairs(name: &str, model: &Model, states: &[f32]) {
    let (embedded, count) = (model.embed(states).unwrap(), states.len() / model.shape().state_size);
    let pairs: Vec<(usize, usize)> =
        (0..count).map(|at| (at * 7 % count, (at * at + 3) % count)).collect();
    let all = Distance::pairwise(model, &embedded, &embedded);
    let expected: Vec<f32> = pairs.iter().map(|&(from, to)| all[from * count + to]).collect();
    let found: Vec<f64> = model.of_pairs(&embedded, &pairs).into_iter().map(f64::from).collect();
    assert_near(&format!("{name}: pairs"), &found, &expected);
}

/// A Python with these packages: a virtual environment that is made once, from PyPI.
pub fn python_with(packages: &[&str]) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(packages[0]);
    let python = folder.join("bin/python");
    let ready = || succeeds(&python, &["-c", &format!("import {}", packages.join(", "))]);
    if ready() {
        return Some(python);
    }
    let words = ["-m", "venv", "--clear", folder.to_str()?];
    let install = [&["-m", "pip", "install", "--quiet", "--retries", "1"], packages].concat();
    let made = succeeds(Path::new("python3"), &words) && succeeds(&python, &install) && ready();
    made.then_some(python)
}

/// Whether a command can be run and succeeds.
pub fn succeeds(program: &Path, words: &[&str]) -> bool {
    let output: Option<Output> = Command::new(program).args(words).output().ok();
    output.is_some_and(|output| output.status.success())
}
