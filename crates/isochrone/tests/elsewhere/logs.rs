//! TensorBoard's own reader and pandas read the logs of a run, also of one that was stopped.

use std::path::Path;
use std::process::Command;

use isochrone::Error;
use isochrone::engine::Threads;
use isochrone::run::{Conditions, Observer, RunConfig, Silent, execute, open_source};

use crate::questions::python_with;

/// Compares events and JSON lines with the csv tables, which are read by pandas too.
const READ: &str = "
import glob, io, sys
import pandas
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
run, files = sys.argv[1], int(sys.argv[2])
assert len(glob.glob(run + '/tb/*tfevents*')) == files
events = EventAccumulator(run + '/tb', size_guidance={'scalars': 0, 'images': 0}).Reload()
tables = {name: pandas.read_csv(run + '/' + name + '.csv', index_col='step')
          for name in ['metrics', 'evaluation', 'timing']}
lines = pandas.read_json(run + '/metrics.jsonl', lines=True, precise_float=True)
tags = set()
for name, table in tables.items():
    for column in table.columns:
        known = table[column].dropna()
        if known.empty:
            continue
        tags.add(column)
        found = events.Scalars(column)
        assert [one.step for one in found] == list(known.index), (column, found)
        for one, value in zip(found, known):
            assert abs(one.value - value) <= 1e-6 * abs(value), (column, one, value)
        if name == 'timing':
            assert column not in lines.columns
        else:
            assert column.split('/')[0] in ['training', 'validation', 'evaluation'], column
            again = lines.set_index('step')[column].dropna()
            assert list(again.index) == list(known.index) and list(again) == list(known), column
assert set(events.Tags()['scalars']) == tags
images = events.Images('evaluation/isochrones')
assert [one.step for one in images] == list(tables['evaluation'].index), images
for one in images:
    picture = Image.open(io.BytesIO(one.encoded_image_string))
    assert picture.format == 'PNG' and picture.size == (one.width, one.height) == (320, 320)
";

/// Stops, as if killed or by a signal, at these steps.
struct StopsAt {
    signal: u64,
    kill: u64,
    step: u64,
}

impl Observer for StopsAt {
    fn updated(&mut self, step: u64, _: u64) {
        assert!(step != self.kill, "killed");
        self.step = step;
    }
    fn signal(&self) -> Option<i32> {
        (self.step == self.signal).then_some(15)
    }
}

fn config() -> RunConfig {
    let settings = [
        "algorithm.name=cmd1",
        "data.source=pinwheel",
        "data.validation=0.1",
        "train.steps=23",
        "train.batch_size=32",
        "train.log_every=4",
        "train.save_every=7",
        "train.evaluate_every=10",
        "evaluation.tasks=8",
        "algorithm.network.hidden=[16]",
        "algorithm.policy.network.hidden=[16]",
        "algorithm.phases.critic_until=0.5",
    ];
    RunConfig::parse("", &settings.map(str::to_owned)).unwrap()
}

fn check(python: &Path, run: &Path, files: usize) {
    let mut command = Command::new(python);
    let output = command.args(["-c", READ]).arg(run).arg(files.to_string()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn tensorboard_and_pandas_read_the_logs_of_a_run_stopped_or_not() {
    let Some(python) = python_with(&["tensorboard", "pandas"]) else {
        eprintln!("skipped: no python3, or tensorboard and pandas cannot be installed from PyPI");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (config, conditions) = (config(), Conditions::default());
    let source = open_source(&config.data).unwrap();
    let run = |name: &str, observer: &mut dyn Observer| {
        let (folder, threads) = (folder.path().join(name), Threads::default());
        execute(&config, &source, &folder, &conditions, threads, observer).map(|_| folder)
    };
    let whole = run("whole", &mut Silent).unwrap();
    check(&python, &whole, 1);

    // Killed at step 12, after its save at step 7; then stopped at step 17, which saves.
    let stops = || StopsAt { signal: 17, kill: 12, step: 0 };
    let killed = std::panic::AssertUnwindSafe(|| run("stopped", &mut stops()).map(drop));
    assert!(std::panic::catch_unwind(killed).is_err());
    let stopped = run("stopped", &mut StopsAt { kill: 99, ..stops() });
    assert!(matches!(stopped, Err(Error::Interrupted(15))));
    let stopped = run("stopped", &mut Silent).unwrap();
    check(&python, &stopped, 3);
    // A complete run has nothing to add.
    run("stopped", &mut Silent).unwrap();
    check(&python, &stopped, 3);
}
