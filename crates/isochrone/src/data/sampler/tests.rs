//! Draws follow their laws and keep to their trajectories.

use super::*;
use crate::data::Scaling;

/// Trajectories whose state is (trajectory, place) and whose action is its row / 1000.
fn numbered(lengths: &[usize]) -> Dataset {
    let rows: usize = lengths.iter().sum();
    let mut states = Vec::new();
    for (index, &length) in lengths.iter().enumerate() {
        states.extend((0..length).flat_map(|place| [index as f32, place as f32]));
    }
    let actions = (0..rows).map(|row| row as f32 / 1000.0).collect();
    Dataset::new(states, 2, Some((actions, 1)), lengths).unwrap()
}

fn chi_square(observed: &[f64], expected: &[f64]) -> f64 {
    observed.iter().zip(expected).map(|(o, e)| (o - e).powi(2) / e).sum()
}

fn offsets(law: Offsets, discount: f64, length: usize, draws: usize) -> Vec<f64> {
    let dataset = numbered(&[length, 3]);
    let plain = Normalization::fit(&dataset, Scaling::None).unwrap();
    let mut layout = Layout::default();
    let goal = layout.rows(Rows::Future(law));
    let sampler = Sampler::new(&dataset, &plain, layout, discount);
    let mut batch = sampler.batch(1000);
    let mut counts = vec![0.0; length];
    let mut step = 0;
    while counts.iter().sum::<f64>() < draws as f64 {
        sampler.fill(&mut batch, 3, step).unwrap();
        step += 1;
        for (&start, &end) in batch.rows(Layout::START).iter().zip(batch.rows(goal)) {
            if start == 0 {
                counts[end as usize] += 1.0;
            }
        }
    }
    counts
}

/// The 99.99 % point of chi-square, by Wilson and Hilferty.
fn critical(freedom: f64) -> f64 {
    let spread = 2.0 / (9.0 * freedom);
    freedom * (1.0 - spread + 3.719 * spread.sqrt()).powi(3)
}

#[test]
fn offsets_follow_the_declared_law() {
    for (from, first) in [(First::Zero, 0usize), (First::One, 1)] {
        for end in [End::Truncate, End::Clip] {
            let (discount, length, draws) = (0.8f64, 12usize, 1_000_000);
            let counts = offsets(Offsets { from, end }, discount, length, draws);
            let total = counts.iter().sum::<f64>();
            let mut law: Vec<f64> = (0..length).map(|k| discount.powi(k as i32)).collect();
            law[..first].fill(0.0);
            if end == End::Clip {
                law[length - 1] /= 1.0 - discount;
            }
            let mass: f64 = law.iter().sum();
            let expected: Vec<f64> = law.iter().map(|p| total * p / mass).collect();
            assert_eq!(counts[..first].iter().sum::<f64>(), 0.0);
            let statistic = chi_square(&counts[first..], &expected[first..]);
            assert!(
                statistic < critical((length - first - 1) as f64),
                "{from:?} {end:?}: chi-square {statistic}"
            );
        }
    }
}

#[test]
fn an_offset_law_from_one_is_caught_by_the_chi_square_of_the_law_from_zero() {
    let counts = offsets(Offsets { from: First::One, end: End::Truncate }, 0.8, 12, 100_000);
    let total: f64 = counts.iter().sum();
    let law: Vec<f64> = (0..12).map(|k| 0.8f64.powi(k)).collect();
    let mass: f64 = law.iter().sum();
    let expected: Vec<f64> = law.iter().map(|p| total * p / mass).collect();
    assert!(chi_square(&counts, &expected) > 100.0 * critical(11.0));
}

#[test]
fn by_default_a_start_may_be_its_own_goal_as_often_as_the_law_says() {
    let (discount, length) = (0.8f64, 12);
    let counts = offsets(Offsets::default(), discount, length, 10_000);
    let mass: f64 = (0..length as i32).map(|k| discount.powi(k)).sum();
    let share = counts[0] / counts.iter().sum::<f64>();
    assert!((share - 1.0 / mass).abs() < 0.03, "{share} of {}", 1.0 / mass);
}

#[test]
fn goals_never_cross_a_trajectory_boundary_and_starts_have_a_successor() {
    let dataset = numbered(&[1, 5, 2, 1, 30]);
    let plain = Normalization::fit(&dataset, Scaling::None).unwrap();
    let mut layout = Layout::default();
    let laws = [
        Offsets { from: First::Zero, end: End::Truncate },
        Offsets { from: First::One, end: End::Clip },
    ];
    let goals = laws.map(|law| layout.rows(Rows::Future(law)));
    let next = layout.rows(Rows::Next);
    let same = layout.rows(Rows::Mixed(
        GoalMix { current: 0.0, future: 0.5, trajectory: 0.5, random: 0.0 },
        laws[0],
    ));
    let sampler = Sampler::new(&dataset, &plain, layout, 0.99);
    let mut batch = sampler.batch(512);
    for step in 0..50 {
        sampler.fill(&mut batch, 9, step).unwrap();
        for place in 0..512 {
            let start = batch.rows(Layout::START)[place] as usize;
            assert!(dataset.last_row(start) > start);
            for choice in [goals[0], goals[1], next, same] {
                let goal = batch.rows(choice)[place] as usize;
                assert!(goal >= start);
                assert_eq!(dataset.trajectory_of(goal), dataset.trajectory_of(start));
            }
        }
    }
}

#[test]
fn starts_and_random_goals_are_uniform() {
    let dataset = numbered(&[4, 7, 1, 9]);
    let plain = Normalization::fit(&dataset, Scaling::None).unwrap();
    let mut layout = Layout::default();
    let random = layout.rows(Rows::Random);
    let sampler = Sampler::new(&dataset, &plain, layout, 0.9);
    let mut batch = sampler.batch(1000);
    let (mut starts, mut goals) = (vec![0.0; 21], vec![0.0; 21]);
    for step in 0..1000 {
        sampler.fill(&mut batch, 1, step).unwrap();
        batch.rows(Layout::START).iter().for_each(|&row| starts[row as usize] += 1.0);
        batch.rows(random).iter().for_each(|&row| goals[row as usize] += 1.0);
    }
    let allowed: Vec<f64> =
        (0..21).filter(|&r| dataset.last_row(r) > r).map(|r| starts[r]).collect();
    assert_eq!(allowed.len(), 17);
    assert_eq!(allowed.iter().sum::<f64>(), 1e6);
    assert!(chi_square(&allowed, &[1e6 / 17.0; 17]) < critical(16.0));
    assert!(chi_square(&goals, &[1e6 / 21.0; 21]) < critical(20.0));
}

#[test]
fn waypoints_follow_their_law_and_pass_neither_the_goal_nor_the_end() {
    let (length, ratio, successor) = (40, 0.7f64, 0.25);
    let dataset = numbered(&[length, 2, 3]);
    let plain = Normalization::fit(&dataset, Scaling::None).unwrap();
    let mut layout = Layout::default();
    let goal = layout.rows(Rows::Future(Offsets { from: First::One, end: End::Truncate }));
    let law = Waypoints { successor, ratio };
    let waypoint = layout.rows(Rows::Waypoint(law, goal));
    let near = layout.rows(Rows::Ahead(7, Some(goal)));
    let ahead = layout.rows(Rows::Ahead(7, None));
    let farthest = layout.rows(Rows::Ahead(u32::MAX, None));
    let random = layout.rows(Rows::Random);
    let gap = layout.column(Column::Gap(waypoint));
    let same = layout.column(Column::Reached(Layout::START, random, None));
    let close = layout.column(Column::Reached(Layout::START, random, Some(1.5)));
    let sampler = Sampler::new(&dataset, &plain, layout, 0.999);
    let mut batch = sampler.batch(1000);
    let mut counts = [0.0; 6];
    for step in 0..300 {
        sampler.fill(&mut batch, 2, step).unwrap();
        for place in 0..1000 {
            let row = |choice: RowsId| batch.rows(choice)[place];
            let (start, goal, last) =
                (row(Layout::START), row(goal), dataset.last_row(row(Layout::START) as usize));
            assert!(row(waypoint) > start && row(waypoint) <= goal);
            assert_eq!(batch.columns[gap][place], (row(waypoint) - start) as f32);
            assert_eq!(row(near), (start + 7).min(goal));
            assert_eq!(row(ahead), (start + 7).min(last as u32));
            assert_eq!(row(farthest), last as u32);
            if start == 0 && goal >= 20 {
                counts[(row(waypoint) as usize).min(6) - 1] += 1.0;
            }
            assert_eq!(batch.columns[same][place] == 1.0, start == row(random));
            let apart = |axis: usize| {
                let state = |row: u32| dataset.state(row as usize)[axis];
                (state(start) - state(row(random))).powi(2)
            };
            assert_eq!(batch.columns[close][place] == 1.0, apart(0) + apart(1) <= 2.25);
        }
    }
    let total: f64 = counts.iter().sum();
    let law = |k: i32| (1.0 - ratio) * ratio.powi(k - 1);
    let expected: Vec<f64> = (1..=6)
        .map(|k| {
            let geometric = if k == 6 { ratio.powi(5) } else { law(k) };
            let first = if k == 1 { successor } else { 0.0 };
            total * (first + (1.0 - successor) * geometric)
        })
        .collect();
    let statistic = chi_square(&counts, &expected);
    assert!(total > 1_000.0 && statistic < critical(5.0), "{statistic} of {total}");
}

#[test]
fn a_mix_draws_each_kind_of_goal_as_often_as_it_says() {
    let dataset = numbered(&[300, 300]);
    let plain = Normalization::fit(&dataset, Scaling::None).unwrap();
    let mut layout = Layout::default();
    let next = Offsets { from: First::One, end: End::Truncate };
    let goal = layout.rows(Rows::Mixed(GoalMix::VALUES, next));
    let sampler = Sampler::new(&dataset, &plain, layout, 0.5);
    let mut batch = sampler.batch(1000);
    let mut current = 0;
    for step in 0..100 {
        sampler.fill(&mut batch, 2, step).unwrap();
        let pairs = batch.rows(Layout::START).iter().zip(batch.rows(goal));
        current += pairs.filter(|(start, goal)| start == goal).count();
    }
    // One random goal in 600 is the start as well.
    let share = current as f64 / 100_000.0;
    assert!((share - 0.2005).abs() < 0.005, "{share}");
    for wrong in [0.3, -0.1, f64::NAN] {
        let mix = GoalMix { current: wrong, ..GoalMix::VALUES };
        assert!(mix.check("here").unwrap_err().to_string().contains("`here`"));
    }
    assert!(GoalMix::VALUES.check("here").is_ok() && GoalMix::default().check("x").is_ok());
}

#[test]
fn goals_of_the_same_trajectory_are_uniform_over_the_rows_after_the_start() {
    let dataset = numbered(&[9, 3]);
    let plain = Normalization::fit(&dataset, Scaling::None).unwrap();
    let mut layout = Layout::default();
    let mix = GoalMix { current: 0.0, future: 0.0, trajectory: 1.0, random: 0.0 };
    let goal = layout.rows(Rows::Mixed(mix, Offsets { from: First::Zero, end: End::Clip }));
    let sampler = Sampler::new(&dataset, &plain, layout, 0.9);
    let mut batch = sampler.batch(1000);
    let mut counts = [0.0; 8];
    for step in 0..100 {
        sampler.fill(&mut batch, 4, step).unwrap();
        let pairs = batch.rows(Layout::START).iter().zip(batch.rows(goal));
        pairs.filter(|(start, _)| **start == 0).for_each(|(_, &goal)| {
            counts[goal as usize - 1] += 1.0;
        });
    }
    let total: f64 = counts.iter().sum();
    assert!(total > 1_000.0 && chi_square(&counts, &[total / 8.0; 8]) < critical(7.0));
}

#[test]
fn a_goal_at_the_start_bounds_no_way_and_a_radius_includes_its_rim() {
    let dataset = numbered(&[20]);
    let plain = Normalization::fit(&dataset, Scaling::None).unwrap();
    let mut layout = Layout::default();
    let goal = layout.rows(Rows::Future(Offsets { from: First::Zero, end: End::Clip }));
    let ahead = layout.rows(Rows::Ahead(7, Some(goal)));
    let near = layout.column(Column::Reached(Layout::START, goal, Some(2.0)));
    let sampler = Sampler::new(&dataset, &plain, layout, 0.5);
    let mut batch = sampler.batch(1000);
    sampler.fill(&mut batch, 5, 0).unwrap();
    let mut seen = [false; 2];
    for place in 0..1000 {
        let row = |choice: RowsId| batch.rows(choice)[place];
        let (start, goal) = (row(Layout::START), row(goal));
        let last = if goal == start { 19 } else { goal };
        assert_eq!(row(ahead), (start + 7).min(last));
        assert_eq!(batch.columns[near][place] == 1.0, goal - start <= 2);
        seen[0] |= goal == start;
        seen[1] |= goal - start == 2;
    }
    assert_eq!(seen, [true, true]);
}

#[test]
fn waypoints_may_all_be_successors_and_a_ratio_is_between_its_ends() {
    let check = |successor, ratio| Waypoints { successor, ratio }.check("here");
    for successor in [0.0, 0.5, 1.0] {
        check(successor, 0.5).unwrap();
    }
    for (successor, ratio) in [(-0.1, 0.5), (1.1, 0.5), (f64::NAN, 0.5), (0.5, 0.0), (0.5, 1.0)] {
        let error = check(successor, ratio).unwrap_err().to_string();
        assert!(error.contains("`here."), "{error}");
    }
}

#[test]
fn shares_of_goals_are_checked_up_to_all_of_one_kind() {
    let mix = |current, future, random| GoalMix { current, future, trajectory: 0.0, random };
    for fits in [mix(1.0, 0.0, 0.0), mix(0.0, 0.0, 1.0), GoalMix::VALUES] {
        fits.check("goals").unwrap();
    }
    for wrong in [mix(0.5, 0.5, 0.5), mix(-0.5, 1.0, 0.5), mix(1.5, -0.5, 0.0), mix(0.0, 0.0, 0.0)]
    {
        let error = wrong.check("goals").unwrap_err().to_string();
        assert!(error.contains("`goals`") && error.contains("sum to 1"), "{error}");
    }
}

#[test]
fn permuted_actions_are_a_permutation_drawn_anew_each_step() {
    let dataset = numbered(&[100, 100]);
    let plain = Normalization::fit(&dataset, Scaling::None).unwrap();
    let mut layout = Layout::default();
    let goal = layout.rows(Rows::Future(Offsets::default()));
    let plainly = layout.column(Column::Action(goal));
    let permuted = layout.column(Column::PermutedAction(goal, 0));
    let sampler = Sampler::new(&dataset, &plain, layout, 0.9);
    let mut batch = sampler.batch(64);
    let mut fixed_points = 0;
    for step in 0..200 {
        sampler.fill(&mut batch, 5, step).unwrap();
        let (mut a, mut b) = (batch.columns[plainly].clone(), batch.columns[permuted].clone());
        fixed_points += a.iter().zip(&b).filter(|(a, b)| a == b).count();
        a.sort_by(f32::total_cmp);
        b.sort_by(f32::total_cmp);
        assert_eq!(a, b);
    }
    assert!(fixed_points < 200 * 6, "a random permutation keeps about one place");
}

#[test]
fn the_same_seed_and_step_give_the_same_batch_in_any_order() {
    let dataset = numbered(&[20, 20]);
    let plain = Normalization::fit(&dataset, Scaling::Standard).unwrap();
    let mut layout = Layout::default();
    let state = layout.column(Column::State(Layout::START));
    let noise = layout.column(Column::Noise(3));
    let sampler = Sampler::new(&dataset, &plain, layout, 0.9);
    let (mut first, mut second) = (sampler.batch(16), sampler.batch(16));
    sampler.fill(&mut first, 2, 41).unwrap();
    sampler.fill(&mut second, 2, 7).unwrap();
    assert_ne!(first.columns[noise], second.columns[noise]);
    sampler.fill(&mut second, 2, 41).unwrap();
    assert_eq!(first.columns[state], second.columns[state]);
    assert_eq!(first.columns[noise], second.columns[noise]);
}

#[test]
fn noise_is_in_the_units_of_the_data_and_drawn_afresh_for_start_and_goal() {
    let dataset = numbered(&[40, 40]);
    let ranged = Normalization::fit(&dataset, Scaling::Range).unwrap();
    let mut layout = Layout::default();
    let goal = layout.rows(Rows::Future(Offsets { from: First::Zero, end: End::Clip }));
    let deviation = 0.25f32;
    let clean = [Layout::START, goal].map(|rows| layout.column(Column::State(rows)));
    let noisy = [Layout::START, goal].map(|rows| layout.column(Column::Noisy(rows, deviation)));
    assert_eq!(layout.column(Column::Noisy(goal, deviation)), noisy[1], "one draw for every use");
    let sampler = Sampler::new(&dataset, &ranged, layout, 0.5);
    let (mut batch, mut again) = (sampler.batch(1000), sampler.batch(1000));
    // The noise as recorded: what normalization did is undone.
    let noise = |batch: &Batch, side: usize| -> Vec<f64> {
        let pairs = batch.columns[noisy[side]].iter().zip(&batch.columns[clean[side]]);
        let scales = ranged.scale.iter().cycle();
        pairs.zip(scales).map(|((x, y), scale)| f64::from((x - y) / scale)).collect()
    };
    let mut sums = [0.0; 5];
    for step in 0..50 {
        sampler.fill(&mut batch, 7, step).unwrap();
        let (starts, goals) = (noise(&batch, 0), noise(&batch, 1));
        for (a, b) in starts.chunks_exact(2).zip(goals.chunks_exact(2)) {
            let moments = [a[0], b[1], a[0] * a[0], b[1] * b[1], a[0] * a[1] + a[0] * b[0]];
            sums.iter_mut().zip(moments).for_each(|(sum, moment)| *sum += moment / 50_000.0);
        }
    }
    let expected = [0.0, 0.0, 0.0625, 0.0625, 0.0];
    assert!(sums.iter().zip(expected).all(|(x, y)| (x - y).abs() < 0.005), "{sums:?}");
    // The numbers themselves: on a GPU the same ones are added.
    let stream = Stream::new(7, Purpose::NOISE.nth(noisy[1]));
    for (place, found) in noise(&batch, 1).chunks_exact(2).enumerate() {
        let drawn = four_normals(stream.block(49, place as u32));
        let near = |(x, y): (&f64, &f32)| (x - f64::from(deviation * y)).abs() < 1e-4;
        assert!(found.iter().zip(&drawn).all(near), "row {place}: {found:?}, {drawn:?}");
    }
    sampler.fill(&mut again, 7, 49).unwrap();
    assert_eq!(batch.columns, again.columns);
    sampler.fill(&mut again, 7, 50).unwrap();
    assert_ne!(noise(&batch, 0), noise(&again, 0));
}
