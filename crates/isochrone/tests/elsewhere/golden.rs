//! Files of format 1 that were written once and must stay readable.

use std::path::{Path, PathBuf};

use isochrone::Model;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Both files hold the same numbers; the older one was written before directions were stored.
const FILES: [&str; 2] =
    ["model-format-1.safetensors", "model-format-1-without-directions.safetensors"];
const FROM: [f32; 6] = [0.5, 0.1, 0.2, 0.1, 0.7, 0.6];
const TO: [f32; 6] = [0.9, 0.5, 0.31, 0.69, 0.7, 0.6];
const STEPS: [f32; 3] = [14.857043, 29.78625, 0.0];
const ACTIONS: [f32; 6] =
    [-0.0064876615, 0.00921862, 0.032083463, 0.008849466, 0.0051458883, -0.0039721197];
const SPACINGS: [f32; 3] = [0.48998457, 0.6645132, 1.1173288];

#[test]
fn models_of_format_1_answer_as_when_they_were_written() {
    for name in FILES {
        let model = Model::load(fixture(name)).unwrap();
        let near = |found: &[f32], expected: &[f32]| {
            let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
            assert!(found.iter().zip(expected).all(close), "{name}: {found:?}, {expected:?}");
            assert_eq!(found.len(), expected.len());
        };
        near(&model.steps(&FROM, &TO).unwrap(), &STEPS);
        near(&model.act(&FROM, &TO).unwrap(), &ACTIONS);
        near(&model.novelty(&FROM).unwrap(), &SPACINGS);
    }
    println!("figures: {} models and a checkpoint read", FILES.len());
}

#[test]
fn a_model_acts_by_the_directions_of_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let model = Model::load(fixture(FILES[1])).unwrap();
    model.save(&path).unwrap();
    let stored = std::fs::read(&path).unwrap();
    let expected = std::fs::read(fixture(FILES[0])).unwrap();
    assert!(stored == expected, "the older file, saved again, is not the newer one");
    let names = String::from_utf8_lossy(&stored);
    assert!(names.contains("\"features.directions\":{\"dtype\":\"F32\",\"shape\":[6]"), "{names}");
}
