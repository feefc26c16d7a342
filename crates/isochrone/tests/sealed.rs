//! A model file whose checksum is right may still say anything: what cannot be is refused.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use isochrone::checkpoint::{Snapshot, load, save};
use isochrone::data::Dataset;
use isochrone::model::Model;
use isochrone::random::{Draws, Purpose, Stream};
use isochrone::run::Run;

/// Writes the model of a short run of `algorithm` on a line.
fn trained(algorithm: &str, path: &Path) -> Snapshot {
    let states: Vec<f32> = (0..80).map(|row| (row % 10) as f32 + 0.1 * (row / 10) as f32).collect();
    let actions = Some((vec![0.5; 80], 1));
    let data = Dataset::new(states, 1, actions, &[10; 8]).unwrap();
    let fitted = Run::on(data)
        .algorithm(algorithm)
        .updates(2)
        .batch_size(8)
        .configure(|config| config.data.validation = 0.0)
        .fit()
        .unwrap();
    fitted.model.save(path).unwrap();
    load(path).unwrap()
}

/// What a model is refused with after `change`.
#[track_caller]
fn refused(sound: &Snapshot, path: &Path, change: impl FnOnce(&mut Snapshot)) -> String {
    let mut changed = sound.clone();
    change(&mut changed);
    assert_ne!(changed, *sound, "nothing was changed");
    save(path, &changed).unwrap();
    let error = Model::load(path).err().expect("an impossible model is refused");
    assert_eq!(error.exit_code(), 2, "{error}");
    error.to_string()
}

/// Replaces `from` by `to` in the shape.
fn say(from: &str, to: &str) -> impl FnOnce(&mut Snapshot) {
    move |snapshot| {
        let shape = snapshot.facts.get_mut("shape").unwrap();
        assert!(shape.contains(from), "`{from}` is not in {shape}");
        *shape = shape.replacen(from, to, 1);
    }
}

#[test]
fn discounts_temperatures_and_sizes_are_checked_as_in_a_config() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let sound = trained("cmd1", &path);
    Model::load(&path).unwrap();
    for wrong in ["0.0", "1.0", "2.0", "-1.0", "0", "5e-324"] {
        let shape = format!("\"discount\":{wrong}");
        let error = refused(&sound, &path, say("\"discount\":0.99", &shape));
        assert!(error.contains("`discount`"), "{wrong}: {error}");
    }
    let text = &sound.facts["shape"];
    let at = text.find("\"temperature\":").unwrap();
    let end = at + text[at..].find([',', '}']).unwrap();
    for wrong in ["0.0", "-1.0", "1e-300", "1e300"] {
        let shape = format!("\"temperature\":{wrong}");
        let error = refused(&sound, &path, say(&text[at..end], &shape));
        assert!(error.contains("`temperature`"), "{wrong}: {error}");
    }
    for wrong in ["0", "2", "4611686018427387904"] {
        let shape = format!("\"state_size\":{wrong}");
        refused(&sound, &path, say("\"state_size\":1", &shape));
    }
    let sound = trained("crl", &path);
    refused(&sound, &path, say("\"discount\":0.99", "\"discount\":1.0"));
    let sound = trained("gcivl", &path);
    let error =
        refused(&sound, &path, say("\"steps\":{\"discount\":0.99", "\"steps\":{\"discount\":1.0"));
    assert!(error.contains("`discount`"), "{error}");
}

#[test]
fn reference_states_are_whole_rows_of_the_state_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let sound = trained("cmd1", &path);
    let cases: [(&str, &[f32]); 8] = [
        ("reference.states", &[]),
        ("reference.shift", &[]),
        ("reference.scale", &[]),
        ("reference.shift", &[1.0, 2.0]),
        ("reference.scale", &[1.0, 2.0]),
        ("reference.spacing", &[]),
        ("reference.spacing", &[0.0]),
        ("reference.spacing", &[-1.0]),
    ];
    for (name, values) in cases {
        let error = refused(&sound, &path, |snapshot| {
            let found = snapshot.tensors.iter_mut().find(|tensor| tensor.0 == name).unwrap();
            (found.1, found.2) = (vec![values.len()], values.to_vec());
        });
        assert!(error.contains(name), "{name}: {error}");
    }
}

/// Values that some file might hold.
const NUMBERS: [&str; 12] = [
    "0",
    "-1",
    "1",
    "2",
    "0.5",
    "1e-320",
    "1e38",
    "-1e38",
    "1e300",
    "18446744073709551615",
    "null",
    "[]",
];

/// A change that the checksum, made anew, does not show: a number of the shape, or a tensor's values,
/// sizes or name.
fn damage(snapshot: &mut Snapshot, draws: &mut Draws) {
    let mut below = |count: usize| draws.below(count as u32) as usize;
    if below(2) == 0 {
        let shape = snapshot.facts.get_mut("shape").unwrap();
        let is_digit = |at: usize| shape.as_bytes()[at].is_ascii_digit();
        let starts = (1..shape.len()).filter(|&at| is_digit(at) && !is_digit(at - 1));
        let starts: Vec<usize> = starts.collect();
        let start = starts[below(starts.len())];
        let end = start + shape[start..].find(|letter: char| !letter.is_ascii_digit()).unwrap();
        shape.replace_range(start..end, NUMBERS[below(NUMBERS.len())]);
        return;
    }
    let at = below(snapshot.tensors.len());
    let kind = below(6);
    let (name, sizes, values) = &mut snapshot.tensors[at];
    match kind {
        0 => values.fill([0.0, 1e38, -1e38, 1e-38][below(4)]),
        1 if !values.is_empty() => {
            let place = below(values.len());
            values[place] = [0.0, -1.0, 1e38, -1e38][below(4)];
        }
        2 => {
            values.truncate(below(values.len().max(1)));
            *sizes = vec![values.len()];
        }
        3 => {
            values.extend([0.5; 3]);
            *sizes = vec![values.len()];
        }
        4 => name.push('x'),
        _ => drop(snapshot.tensors.remove(at)),
    }
}

#[test]
fn a_sealed_model_with_any_damage_is_refused_or_answers_in_numbers() {
    const EACH: u32 = 100;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let (mut tried, mut loaded) = (0, 0);
    for algorithm in ["atlas", "cmd1", "qrl", "crl", "gcivl", "hiql"] {
        let sound = trained(algorithm, &path);
        let stream = Stream::new(u64::from(algorithm.as_bytes()[0]), Purpose(904));
        for index in 0..EACH {
            let mut changed = sound.clone();
            damage(&mut changed, &mut stream.draws(0, index));
            if save(&path, &changed).is_err() {
                continue;
            }
            tried += 1;
            let model = match Model::load(&path) {
                Err(error) => {
                    assert_eq!(error.exit_code(), 2, "{algorithm} {index}: {error}");
                    continue;
                }
                Ok(model) => model,
            };
            loaded += 1;
            let (from, to) = ([0.1, 0.5, 7.0], [0.9, 0.5, 1.0]);
            let answers = [model.steps(&from, &to), model.act(&from, &to), model.novelty(&from)];
            for values in answers.into_iter().flatten() {
                assert!(
                    values.iter().all(|value| !value.is_nan()),
                    "{algorithm} {index}: {values:?}"
                );
            }
        }
    }
    assert!(tried >= 250 && loaded > 20, "{tried} were tried, {loaded} loaded");
    println!("figures: {tried} sealed hostile models, {loaded} of them possible, 0 panics, 0 NaN");
}
