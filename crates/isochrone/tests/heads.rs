//! Every head trains inside a learner, and what it learned survives saving and loading.
#![allow(clippy::unwrap_used)]

use isochrone::data::Dataset;
use isochrone::engine::Threads;
use isochrone::model::Model;
use isochrone::run::{RunConfig, prepare};
use isochrone::train::Trainer;
use tempfile::TempDir;

const HEADS: [&str; 5] = [
    "algorithm.head={kind='mrn',latent=16,components=8}",
    "algorithm.head={kind='iqe',latent=16,group=8}",
    "algorithm.head={kind='pqe',latent=16,group=4}",
    "algorithm.head={kind='wide-norm',latent=16,components=2,size=3}",
    "algorithm.head={kind='deep-norm',latent=16,layers=2,units=5}",
];

#[test]
fn what_a_head_learned_survives_saving_and_loading() {
    let folder = TempDir::new().unwrap();
    let numbers = |count: usize| (0..count).map(|at| (at as f32 * 0.37).sin()).collect();
    let dataset = Dataset::new(numbers(80), 2, Some((numbers(40), 1)), &[20, 20]).unwrap();
    for (at, head) in HEADS.iter().enumerate() {
        let settings = [
            "algorithm.name=cmd1",
            head,
            "train.batch_size=8",
            "data.validation=0",
            "train.steps=5",
        ];
        let config = RunConfig::parse("", &settings.map(str::to_owned)).unwrap();
        let data = prepare(&config, &dataset).unwrap();
        let threads = Threads::default();
        let mut trainer =
            Trainer::new(&config.algorithm, &config.train, &data, 0.9, 1, threads).unwrap();
        let steps = |model: &Model| {
            model.steps(&dataset.states()[..40], &dataset.states()[40..80]).unwrap()
        };
        let before = steps(&trainer.model().unwrap());
        (0..5).for_each(|_| trainer.update().unwrap());
        let model = trainer.model().unwrap();
        assert_ne!(before, steps(&model), "{head} does not learn");
        let path = folder.path().join(format!("{at}.safetensors"));
        model.save(&path).unwrap();
        let read = Model::load(&path).unwrap();
        assert_eq!(steps(&model), steps(&read), "{head}");
        assert!(steps(&model).iter().all(|&d| d.is_finite() && d >= 0.0), "{head}");
    }
}
