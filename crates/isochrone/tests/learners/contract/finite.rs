//! Nothing that is not a finite number reaches the disk.

use std::path::Path;

use isochrone::Error;
use isochrone::algorithms::Config;
use isochrone::checkpoint::load;
use isochrone::data::Dataset;
use isochrone::run::{self, Conditions, Silent, Source, execute};
use tempfile::TempDir;

use super::cases::{Case, cases};
use super::square::Square;
use super::{one_thread, trainer};

/// Everything a run left on the disk is finite; whether a model is there.
fn assert_finite(folder: &Path, what: &str) -> bool {
    let entries = |folder: &Path| -> Vec<_> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let mut model = false;
    for path in entries(folder).into_iter().chain(entries(&folder.join("checkpoints"))) {
        let shown = path.display();
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("safetensors") => {
                let snapshot = load(&path).unwrap_or_else(|error| panic!("{what}: {error}"));
                let finite = |tensor: &(_, _, Vec<f32>)| tensor.2.iter().all(|x| x.is_finite());
                assert!(snapshot.tensors.iter().all(finite), "{what}: {shown}");
                model |= path.ends_with("model.safetensors");
            }
            Some("csv") => {
                let text = std::fs::read_to_string(&path).unwrap().to_lowercase();
                let body = text.split_once('\n').map_or("", |(_, rows)| rows);
                assert!(!body.contains("inf") && !body.contains("nan"), "{what}: {shown}\n{text}");
            }
            Some("tmp") => panic!("{what}: {shown} is left over"),
            _ => {}
        }
    }
    model
}

#[test]
fn a_run_that_diverges_stops_with_its_step_and_leaves_only_finite_numbers() {
    let folder = TempDir::new().unwrap();
    let mut diverged = 0;
    for (index, case) in cases().iter().enumerate() {
        for (at, rate) in ["1e30", "3e38", "1e10"].into_iter().enumerate() {
            let place = folder.path().join(format!("{index}-{at}"));
            let mut settings = vec![
                format!("algorithm.optimizer.learning_rate={rate}"),
                format!("algorithm.policy_optimizer.learning_rate={rate}"),
                // Every step is written, evaluated and saved.
                "train.log_every=1".into(),
                "train.evaluate_every=1".into(),
                "train.save_every=1".into(),
            ];
            settings.push(format!("algorithm.distance_optimizer.learning_rate={rate}"));
            settings.push(format!("algorithm.dual_optimizer.learning_rate={rate}"));
            let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
            let config = case.config(&settings);
            let result = execute(
                &config,
                &case.source(),
                &place,
                &Conditions::default(),
                one_thread(),
                &mut Silent,
            );
            let what = format!("{} at rate {rate}", case.name);
            let model = assert_finite(&place, &what);
            match result {
                Ok(_) => assert!(model, "{what}"),
                Err(Error::Diverged { .. }) => {
                    diverged += 1;
                    assert!(!model, "{what}");
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
    assert!(diverged > cases().len(), "only {diverged} runs diverged");
    println!("figures: {diverged} of {} wild runs stopped", 3 * cases().len());
}

#[test]
fn a_distance_that_runs_away_stops_the_run_before_it_is_saved() {
    let folder = TempDir::new().unwrap();
    for name in ["atlas", "cmd1", "cmd2", "mqe", "qrl", "tmd"] {
        let (case, place) = (Case::new(name, ""), folder.path().join(name));
        let run = |settings: &[&str]| {
            let config = case.config(&[&["train.save_every=1"], settings].concat());
            let (conditions, source) = (Conditions::default(), case.source());
            execute(&config, &source, &place, &conditions, one_thread(), &mut Silent)
        };
        // One update leaves every loss finite and parameters of ten thousand.
        let rates = [
            "algorithm.optimizer.learning_rate=1e4",
            "algorithm.distance_optimizer.learning_rate=1e4",
        ];
        match run(&rates).err() {
            Some(Error::Diverged { step: 1, metric, value }) => {
                assert_eq!(metric, "distance/median_steps", "{name}");
                assert!(value > 10_120.0 && value.is_finite(), "{name}: {value}");
            }
            other => panic!("{name}: {other:?}"),
        }
        std::fs::remove_dir_all(&place).unwrap();
        run(&[]).unwrap();
    }
}

#[test]
fn a_loss_that_is_not_finite_stops_the_update_it_appears_in() {
    for name in Config::NAMES {
        let case = Case::new(name, "");
        let (config, source) = (case.config(&[]), case.source());
        let data = run::prepare(&config, &source.dataset).unwrap();
        let mut trainer = trainer(&config, &data, one_thread());
        (0..3).for_each(|_| trainer.update().unwrap());
        let executor = trainer.executor().unwrap();
        let first = executor.program().parameters().arenas().next().unwrap();
        executor.arena_mut(first).fill(f32::NAN);
        match trainer.update() {
            Err(Error::Diverged { step: 3, metric, value }) => {
                assert!(metric.ends_with("/loss") && value.is_nan(), "{metric} {value}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn data_of_any_size_train_or_end_cleanly_and_leave_only_finite_numbers() {
    let folder = TempDir::new().unwrap();
    let mut runs = 0;
    for (index, name) in Config::NAMES.iter().enumerate() {
        for scale in [0.0, 1e-38, 1e-20, 1e15, 1e17] {
            for scaling in ["none", "standard", "range"] {
                let case = Case::new(name, &format!("data.scaling={scaling}"));
                let source = Source::new(Square::record(&[12; 24], scale));
                let place = folder.path().join(format!("{index}-{scale:e}-{scaling}"));
                let (conditions, threads) = (Conditions::default(), one_thread());
                let config = case.config(&["train.save_every=1", "train.log_every=1"]);
                let result = execute(&config, &source, &place, &conditions, &threads, &mut Silent);
                let what = format!("{name} at {scale:e}, {scaling}");
                let model = assert_finite(&place, &what);
                runs += 1;
                match result {
                    Ok(_) => assert!(model, "{what}"),
                    Err(error @ (Error::Diverged { .. } | Error::Input(_))) => {
                        // A teacher finds no places in states that are all the same.
                        let nowhere = scale == 0.0 && config.algorithm.teacher().is_some();
                        assert!(scale > 1e10 || nowhere, "{what}: {error}");
                        assert!(!model, "{what}: {error}");
                    }
                    Err(error) => panic!("{what}: {error}"),
                }
            }
        }
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3e38, -1e30, 1.1e18] {
            let mut states = Square::record(&[12; 2], 1.0).states().to_vec();
            states[17] = wrong;
            assert_eq!(Dataset::new(states, 2, None, &[12; 2]).unwrap_err().exit_code(), 2);
        }
    }
    println!("figures: {runs} runs on data of size 0 to 1e17, 0 files not finite");
}

#[test]
fn a_poisoned_number_is_found_by_the_next_update_or_refused_by_the_save() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("poisoned.safetensors");
    let (mut poisoned, mut noticed) = (0, 0);
    for case in cases() {
        let (config, source) = (case.config(&[]), case.source());
        let data = run::prepare(&config, &source.dataset).unwrap();
        let arenas = trainer(&config, &data, one_thread()).snapshot().unwrap().tensors.len() / 3;
        for (arena, part, poison) in (0..arenas)
            .flat_map(|arena| (0..3).map(move |part| (arena, part)))
            .flat_map(|(arena, part)| {
                [f32::NAN, f32::INFINITY, -1e38].map(|poison| (arena, part, poison))
            })
        {
            let mut trainer = trainer(&config, &data, one_thread());
            // Past the first windows, so that every pass is active.
            (0..6).for_each(|_| trainer.update().unwrap());
            let executor = trainer.executor().unwrap();
            let target = executor.program().parameters().arenas().nth(arena).unwrap();
            executor.state_mut(target)[part][0] = poison;
            let broken = (0..3).find_map(|_| {
                let step = trainer.update().err();
                step.or_else(|| trainer.row().err())
            });
            let result = broken.map_or_else(
                || isochrone::checkpoint::save(&path, &trainer.snapshot().unwrap()),
                Err,
            );
            poisoned += 1;
            match result {
                Ok(()) => drop(load(&path).expect("finite")),
                Err(error) => {
                    assert_eq!(error.exit_code(), 3, "{}: {error}", case.name);
                    noticed += 1;
                }
            }
        }
    }
    // What is left out of the optimizer's moments by the next updates does no harm.
    assert!(noticed > poisoned / 2, "only {noticed} of {poisoned} were noticed");
    println!("figures: {poisoned} poisoned states, {noticed} noticed, 0 files not finite");
}
