//! What every learner promises: the same seed gives the same bits, however often a run is stopped
//! and on however many threads; a pass moves its own arenas alone; nothing that is not a finite
//! number reaches the disk.

mod bytes;
mod cases;
mod finite;
mod passes;
mod square;

use std::collections::BTreeSet;
use std::path::Path;

use isochrone::algorithms::Config;
use isochrone::data::Dataset;
use isochrone::engine::Threads;
use isochrone::ledger;
use isochrone::run::{self, Conditions, RunConfig, Silent, Source, compare, execute};
use isochrone::train::{Prepared, Trainer};
use tempfile::TempDir;

use self::cases::{Case, cases};
use self::square::Square;

fn one_thread() -> Threads {
    Threads::default()
}

fn finish(config: &RunConfig, source: &Source, folder: &Path, threads: &Threads) {
    execute(config, source, folder, &Conditions::default(), threads, &mut Silent).unwrap();
}

fn trainer<'d>(config: &RunConfig, data: &'d Prepared, threads: Threads) -> Trainer<'d> {
    let (settings, discount) = (&config.train, config.discount.unwrap_or(0.95));
    Trainer::new(&config.algorithm, settings, data, discount, config.seed, threads).unwrap()
}

#[test]
fn a_model_takes_states_as_they_were_recorded() {
    // A teacher's landmarks lie in recorded coordinates: scaled by hand they are others.
    let taught = |name: &&str| Config::named(name).unwrap().teacher().is_some();
    for name in Config::NAMES.into_iter().filter(|name| !taught(name)) {
        let recorded = Square::record(&[12; 24], 300.0);
        let case = Case::new(name, "data.validation=0");
        let range = case.config(&["data.scaling=range"]);
        let data = run::prepare(&range, &recorded).unwrap();
        // The same data, brought to scale by hand.
        let mut scaled = vec![0.0; 2 * recorded.rows()];
        for (row, target) in scaled.chunks_exact_mut(2).enumerate() {
            data.normalization.apply(recorded.state(row), target);
        }
        let actions = (recorded.actions().to_vec(), 2);
        let by_hand = Dataset::new(scaled, 2, Some(actions), &[12; 24]).unwrap();
        let plain = case.config(&["data.scaling=none"]);
        let by_hand = run::prepare(&plain, &by_hand).unwrap();
        let model = |config: &RunConfig, data: &Prepared| {
            let mut trainer = trainer(config, data, one_thread());
            (0..5).for_each(|_| trainer.update().unwrap());
            trainer.model().unwrap()
        };
        let (one, other) = (model(&range, &data), model(&plain, &by_hand));
        let (from, to) = (&recorded.states()[..100], &recorded.states()[100..200]);
        let (near, far) = by_hand.training.states()[..200].split_at(100);
        if one.has_distance() {
            let steps = one.steps(from, to).unwrap();
            assert!(steps.iter().any(|&steps| steps > 0.0));
            assert_eq!(steps, other.steps(near, far).unwrap(), "{name}");
        }
        assert_eq!(one.act(from, to).unwrap(), other.act(near, far).unwrap(), "{name}");
    }
}

#[test]
fn every_declared_metric_is_a_column_and_is_filled_while_its_pass_is_active() {
    let folder = TempDir::new().unwrap();
    for (index, case) in cases().iter().enumerate() {
        let (config, source) = (case.config(&[]), case.source());
        let place = folder.path().join(format!("{index}"));
        finish(&config, &source, &place, &one_thread());
        let data = run::prepare(&config, &source.dataset).unwrap();
        let mut trainer = trainer(&config, &data, one_thread());
        let declared = trainer.executor().unwrap().program().metrics();
        let table = ledger::read(&place.join("metrics.csv")).unwrap();
        assert_eq!(table.columns[1..], trainer.metrics(), "{}", case.name);
        assert!(declared.iter().all(|name| table.columns.contains(name)), "{}", case.name);
        assert!(table.columns.iter().any(|name| name.starts_with("validation/")), "{}", case.name);
        assert_eq!(table.column("step").unwrap(), [4.0, 8.0, 12.0, 16.0, 20.0, 23.0]);
        for name in &table.columns {
            let filled = table.column(name).unwrap().iter().any(|value| value.is_finite());
            assert!(filled, "{}: `{name}` is always empty", case.name);
        }
    }
}

#[test]
fn the_page_of_metrics_explains_every_metric_and_no_other() {
    let page = include_str!("../../../../../docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let explained: BTreeSet<&str> = rows.filter(|name| !name.contains('.')).collect();
    let folder = TempDir::new().unwrap();
    let mut logged = BTreeSet::new();
    for (index, case) in cases().iter().enumerate() {
        let place = folder.path().join(format!("{index}"));
        finish(&case.config(&[]), &case.source(), &place, &one_thread());
        for name in ["metrics.csv", "evaluation.csv", "timing.csv"] {
            let table = ledger::read(&place.join(name));
            // Without actions there is no world to evaluate in.
            let columns = table.map_or(Vec::new(), |table| table.columns);
            assert!(!columns.is_empty() || name == "evaluation.csv", "{}: {name}", case.name);
            logged.extend(columns.into_iter().skip(1));
        }
    }
    // The square has no numbered tasks.
    logged.extend(compare::measures().into_iter().filter_map(|name| {
        let steps = name.ends_with("_steps").then(|| format!("evaluation/{name}"));
        name.contains("task_").then(|| steps.unwrap_or(format!("evaluation/{name}_success")))
    }));
    let logged: BTreeSet<&str> = logged.iter().map(String::as_str).collect();
    assert_eq!(explained, logged);
}
