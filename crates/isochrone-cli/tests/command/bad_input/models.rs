//! A model that is damaged, or that another run learned, does not stand for a run.

use super::bench::{Bench, assert_names, one_line, said};
use super::rows::Rows;

const MODEL: &str = "run/model.safetensors";

/// The line that `evaluate run` is refused with.
#[track_caller]
fn refused(bench: &Bench) -> String {
    let words = ["evaluate", "run", "--no-pictures"];
    one_line(&bench.command(&words).output().unwrap(), 2, &words)
}

/// `train --out run` puts the model back as it was.
#[track_caller]
fn restored(bench: &Bench, model: &[u8]) {
    let output = bench.command(&["train", "--out", "run"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(std::fs::read(bench.path(MODEL)).unwrap() == model, "{}", said(&output));
    let output = bench.command(&["evaluate", "run", "--no-pictures"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn a_damaged_model_is_refused_and_made_again_from_the_checkpoint() {
    let bench = Bench::new();
    bench.square("a.npz");
    bench.trained(&["a.npz", "--out", "run"]);
    let sound = std::fs::read(bench.path(MODEL)).unwrap();
    let mut flipped = sound.clone();
    flipped[sound.len() / 2] ^= 1;
    for damaged in [&flipped[..], &sound[..sound.len() - 1], &[]] {
        std::fs::write(bench.path(MODEL), damaged).unwrap();
        assert_names(&refused(&bench), &["damaged", MODEL, "isochrone train --out run"]);
        let listed = bench.command(&["runs", "."]).output().unwrap();
        assert!(String::from_utf8_lossy(&listed.stdout).contains("damaged"), "{listed:?}");
        restored(&bench, &sound);
    }
}

#[test]
fn the_model_of_another_run_is_refused_and_replaced() {
    let bench = Bench::new();
    bench.square("a.npz");
    let mut rows = Rows::square(5);
    rows.states[0] += 0.01;
    bench.rows("b.npz", &rows);
    bench.trained(&["a.npz", "--out", "run"]);
    bench.trained(&["a.npz", "--out", "seed", "--seed", "1"]);
    bench.trained(&["b.npz", "--out", "data"]);
    let sound = std::fs::read(bench.path(MODEL)).unwrap();
    for (other, key) in [("seed", "`seed`"), ("data", "`data`")] {
        let theirs = bench.path(&format!("{other}/model.safetensors"));
        std::fs::copy(theirs, bench.path(MODEL)).unwrap();
        assert_names(&refused(&bench), &["another run", key, MODEL, "isochrone train --out run"]);
        restored(&bench, &sound);
    }
}
