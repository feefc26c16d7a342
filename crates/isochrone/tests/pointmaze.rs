//! Recorded point mazes are distributed as those of OGBench's own generator.
//!
//! `fixtures/pointmaze-summary.npz` holds numbers of every episode of two of its datasets (MuJoCo
//! 3.3.7), made by `scripts/summarize-pointmaze`.
#![allow(clippy::unwrap_used)]

use isochrone::data::Dataset;
use isochrone::data::arrays::Arrays;
use isochrone::simulate::World;
use isochrone::simulate::maze::Maze;

const SUMMARY: &[u8] = include_bytes!("fixtures/pointmaze-summary.npz");
/// Farther than this from a free step a wall has pushed.
const PUSHED: f32 = 1e-4;

struct Summary {
    step: Vec<f64>,
    pushed: Vec<f64>,
    cells: Vec<f64>,
    away: Vec<f64>,
    /// For every cell the share of rows in it, and the variance of that share among episodes.
    share: Vec<f64>,
    variance: Vec<f64>,
}

fn summarize(data: &Dataset, maze: &Maze) -> Summary {
    let mut found = Summary {
        step: Vec::new(),
        pushed: Vec::new(),
        cells: Vec::new(),
        away: Vec::new(),
        share: vec![0.0; maze.rows() * maze.columns()],
        variance: vec![0.0; maze.rows() * maze.columns()],
    };
    let episodes = data.trajectories() as f64;
    let gap = |one: usize, other: usize| {
        let (one, other) = (data.state(one), data.state(other));
        f64::from(one[0] - other[0]).hypot(f64::from(one[1] - other[1]))
    };
    for episode in 0..data.trajectories() {
        let rows = data.trajectory(episode);
        let (first, last) = (rows.start, rows.end - 1);
        let steps = (last - first) as f64;
        let pushed = |&row: &usize| {
            let (here, next, action) = (data.state(row), data.state(row + 1), data.action(row));
            (0..2).any(|axis| (next[axis] - here[axis] - 0.2 * action[axis]).abs() > PUSHED)
        };
        found.step.push((first..last).map(|row| gap(row, row + 1)).sum::<f64>() / steps);
        found.pushed.push((first..last).filter(pushed).count() as f64 / steps);
        found.away.push(gap(first, last));
        let mut visited = std::collections::BTreeMap::new();
        for row in rows {
            let place = data.state(row);
            let cell = maze.cell_at([f64::from(place[0]), f64::from(place[1])]);
            *visited.entry(maze.number(cell)).or_insert(0.0) += 1.0 / (steps + 1.0);
        }
        found.cells.push(visited.len() as f64);
        for (cell, share) in visited {
            found.share[cell] += share / episodes;
            found.variance[cell] += share * share / episodes;
        }
    }
    for (variance, share) in found.variance.iter_mut().zip(&found.share) {
        *variance -= share * share;
    }
    found
}

/// The probability that two samples of one law differ this much (Kolmogorov, Smirnov).
fn agreement(one: &[f64], other: &[f64]) -> f64 {
    let sorted = |sample: &[f64]| {
        let mut sample = sample.to_vec();
        sample.sort_by(f64::total_cmp);
        sample
    };
    let (one, other) = (sorted(one), sorted(other));
    let below = |sample: &[f64], value: f64| {
        sample.partition_point(|&x| x <= value) as f64 / sample.len() as f64
    };
    let gaps = one.iter().chain(&other).map(|&value| below(&one, value) - below(&other, value));
    let worst = gaps.fold(0.0, |worst: f64, gap| worst.max(gap.abs()));
    let size = (one.len() * other.len()) as f64 / (one.len() + other.len()) as f64;
    let scaled = worst * (size.sqrt() + 0.12 + 0.11 / size.sqrt());
    if scaled < 0.2 {
        return 1.0;
    }
    let term = |k: i32| {
        let sign = if k % 2 == 1 { 2.0 } else { -2.0 };
        sign * (-2.0 * f64::from(k * k) * scaled * scaled).exp()
    };
    (1..100).map(term).sum()
}

fn compare(name: &str, episodes: u32) {
    let World::Maze(course) = name.parse().unwrap() else { panic!("`{name}` is a maze") };
    let maze = Maze::new(course.map);
    let data = World::Maze(course).open().record(0, 0..episodes, &|| {}).unwrap();
    let ours = summarize(&data.recording.dataset, &maze);
    let mut theirs = Arrays::open(SUMMARY).unwrap();
    let mut get = |key: &str| theirs.get(&format!("{name}/{key}")).unwrap().values;
    for (key, sample) in
        [("step", ours.step), ("pushed", ours.pushed), ("cells", ours.cells), ("away", ours.away)]
    {
        // Both sides as 32-bit numbers: many episodes are never pushed and equal must stay equal.
        let sample: Vec<f64> = sample.iter().map(|&value| f64::from(value as f32)).collect();
        let probability = agreement(&sample, &get(key));
        assert!(probability > 0.001, "{name}: {key} agrees with p = {probability}");
    }
    // An episode dwells where it goes, so a cell's share of 1 % is known to about a tenth of itself.
    let episodes = f64::from(episodes);
    let mut deviations = Vec::new();
    for (cell, theirs) in get("share").into_iter().enumerate() {
        let found = ours.share[cell];
        assert_eq!(found > 1e-3, theirs > 1e-3, "{name}: a cell that one side alone visits");
        if found > 0.01 && theirs > 0.01 {
            let deviation = (found - theirs) / (2.0 * ours.variance[cell] / episodes).sqrt();
            let near = (found / theirs - 1.0).abs() < 0.1 || deviation.abs() < 3.5;
            assert!(near, "{name}: {found} and {theirs} in one cell, {deviation} deviations");
            deviations.push(deviation);
        }
    }
    let square = deviations.iter().map(|z| z * z).sum::<f64>() / deviations.len() as f64;
    assert!(deviations.len() > 20 && square < 1.8, "{name}: mean square deviation {square}");
}

#[test]
fn navigated_episodes_are_distributed_as_the_benchmarks() {
    compare("pointmaze-medium-navigate", 1_000);
}

#[test]
fn stitched_episodes_are_distributed_as_the_benchmarks() {
    compare("pointmaze-large-stitch", 5_000);
}

#[test]
fn another_law_is_told_apart() {
    let one: Vec<f64> = (0..500).map(|x| f64::from(x) / 500.0).collect();
    let other: Vec<f64> = one.iter().map(|x| x + 0.12).collect();
    assert!(agreement(&one, &one) > 0.999);
    assert!(agreement(&one, &other) < 0.002);
}
