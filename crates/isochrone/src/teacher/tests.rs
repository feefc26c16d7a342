//! The teacher against worlds whose steps are known.

use super::*;

const DISCOUNT: f64 = 0.95;

fn terms() -> Terms<'static> {
    Terms { discount: DISCOUNT, radius: None, policy_goal: &[], widest: f64::INFINITY, seed: 0 }
}

/// A line of `places` unit cells, walked by discrete actions: 0 steps right, 1 left where `back` allows it.
struct Line {
    states: Vec<f32>,
    actions: Vec<f32>,
    lengths: Vec<usize>,
}

impl Line {
    fn new() -> Self {
        Self { states: Vec::new(), actions: Vec::new(), lengths: Vec::new() }
    }

    /// Adds one trajectory through `places`, its actions given by what it did.
    fn walk(&mut self, places: &[f32], actions: &[usize]) {
        assert_eq!(places.len(), actions.len() + 1);
        self.states.extend(places);
        for &action in actions.iter().chain([&0]) {
            self.actions.extend([0, 1].map(|choice| f32::from(choice == action)));
        }
        self.lengths.push(places.len());
    }

    fn dataset(&self) -> Dataset {
        let actions = Some((self.actions.clone(), 2));
        Dataset::new(self.states.clone(), 1, actions, &self.lengths)
            .unwrap()
            .declared_one_hot()
            .unwrap()
    }
}

/// Everyone walks right from 0 to 9, one row per place, and from 9 never back.
fn one_way() -> Line {
    let mut line = Line::new();
    let places: Vec<f32> = (0..10).map(|place| place as f32).collect();
    (0..20).for_each(|_| line.walk(&places, &[0; 9]));
    line
}

fn steps(teacher: &Teacher, lessons: &Lessons, from: u32, goal: u32) -> f64 {
    assert!(teacher.farthest() > 0.0);
    f64::from(lessons.nats(from, goal)) / (1.0 / DISCOUNT).ln()
}

fn taught(dataset: &Dataset, settings: &Settings) -> (Teacher, Lessons) {
    let teacher = Teacher::new(dataset, settings, terms(), &|_, _| None).unwrap();
    let lessons = teacher.lessons();
    (teacher, lessons)
}

#[test]
fn steps_along_a_line_are_counted_and_its_direction_is_one_way() {
    let (teacher, lessons) = taught(&one_way().dataset(), &Settings::default());
    for (from, goal) in [(0, 9), (2, 7), (8, 9), (4, 4)] {
        let found = steps(&teacher, &lessons, from, goal);
        assert!((found - f64::from(goal - from)).abs() < 1e-3, "{from} to {goal}: {found}");
    }
    assert!(steps(&teacher, &lessons, 9, 0) < 0.0, "no way back");
    assert!(steps(&teacher, &lessons, 5, 4) < 0.0, "no way back");
    let bound = -steps(&teacher, &lessons, 9, 0);
    assert!(bound > 9.0, "{bound}");
    assert!(teacher.summary().contains("10 landmarks"), "{}", teacher.summary());
}

#[test]
fn trajectories_are_joined_where_they_meet() {
    let mut line = Line::new();
    for _ in 0..20 {
        line.walk(&[0.0, 1.0, 2.0, 3.0, 4.0], &[0; 4]);
        line.walk(&[4.0, 5.0, 6.0, 7.0, 8.0], &[0; 4]);
    }
    let (teacher, lessons) = taught(&line.dataset(), &Settings::default());
    let found = steps(&teacher, &lessons, 0, 9);
    assert!((found - 8.0).abs() < 1e-3, "row 9 is at place 8: {found}");
}

/// In the middle of a line of three, action 0 goes on half of the time and stays else; action 1 always
/// stays.
fn chance() -> Line {
    let mut line = Line::new();
    for _ in 0..200 {
        line.walk(&[0.0, 1.0, 2.0], &[0, 0]);
        line.walk(&[0.0, 1.0, 1.0], &[0, 0]);
        line.walk(&[1.0, 1.0, 1.0], &[1, 1]);
    }
    line
}

#[test]
fn chance_is_priced_and_not_read_as_choice() {
    let settings = Settings { confidence: 0.0, ..Settings::default() };
    let (teacher, lessons) = taught(&chance().dataset(), &settings);
    // V = γ (½ + ½ V), from one step earlier γ V.
    let value = 0.5 * DISCOUNT / (1.0 - 0.5 * DISCOUNT);
    let exact = (DISCOUNT * value).ln() / DISCOUNT.ln();
    let found = steps(&teacher, &lessons, 0, 2);
    assert!((found - exact).abs() < 0.02, "{found}, exactly {exact}");
    let blurred = Kinds { by: KindsBy::One, ..Kinds::default() };
    let settings = Settings { kinds: blurred, ..settings };
    let (teacher, lessons) = taught(&chance().dataset(), &settings);
    assert!(steps(&teacher, &lessons, 0, 2) > exact + 1.5, "one kind is the data's own wandering");
}

#[test]
fn the_bound_takes_standard_errors_off() {
    let line = chance();
    let read = |confidence: f64| {
        let settings = Settings { confidence, ..Settings::default() };
        let (teacher, lessons) = taught(&line.dataset(), &settings);
        steps(&teacher, &lessons, 1, 2)
    };
    // 400 recorded successors of the middle by action 0: mean ½ (1 + V), deviation ½ (1 − V).
    let mut value: f64 = 0.0;
    for _ in 0..10_000 {
        value = DISCOUNT * (0.5 * (1.0 + value) - 0.5 * (1.0 - value) / 400f64.sqrt());
    }
    let exact = value.ln() / DISCOUNT.ln();
    assert!((read(1.0) - exact).abs() < 0.02, "{}, exactly {exact}", read(1.0));
    assert!(read(1.0) > read(0.0));
}

#[test]
fn rare_leaps_are_pooled_and_no_kind_of_action_owns_their_luck() {
    // One row in fifty leaps from 0 to 30; by bad luck of the draw, always after action 1.
    let mut line = Line::new();
    for index in 0..100 {
        line.walk(&[0.0, 1.0, 0.0, 1.0, 0.0], &[0, 1, 0, 1]);
        if index % 12 == 0 {
            line.walk(&[0.0, 30.0, 31.0], &[1, 0]);
            line.walk(&[0.0, 0.0], &[1]);
        }
    }
    let dataset = line.dataset();
    let settings = Settings { confidence: 0.0, ..Settings::default() };
    let (teacher, lessons) = taught(&dataset, &settings);
    let landing = (0..dataset.rows()).find(|&row| dataset.state(row)[0] == 30.0).unwrap();
    let found = steps(&teacher, &lessons, 0, landing as u32);
    // Believed to be action 1's own doing, a leap would come once in two tries.
    let (lucky, pooled) = (waiting(0.5), waiting(9.0 / 418.0));
    assert!(found > lucky + 10.0 && (found - pooled).abs() < 3.0, "{found}: {lucky}, {pooled}");
}

/// The steps to what happens with this chance in each step.
fn waiting(chance: f64) -> f64 {
    (DISCOUNT * chance / (1.0 - DISCOUNT * (1.0 - chance))).ln() / DISCOUNT.ln()
}

#[test]
fn a_portal_that_always_leads_on_is_a_move() {
    let mut line = Line::new();
    for _ in 0..30 {
        line.walk(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 40.0, 41.0], &[0; 7]);
    }
    let (teacher, lessons) = taught(&line.dataset(), &Settings::default());
    let found = steps(&teacher, &lessons, 0, 7);
    assert!((found - 7.0).abs() < 1e-3, "{found}");
}

#[test]
fn without_actions_moves_are_told_apart_by_where_they_lead() {
    let plain = one_way().dataset();
    let states = plain.states().to_vec();
    let dataset = Dataset::new(states, 1, None, &[10; 20]).unwrap();
    let (teacher, lessons) = taught(&dataset, &Settings::default());
    assert!((steps(&teacher, &lessons, 0, 9) - 9.0).abs() < 1e-3);
    assert!(steps(&teacher, &lessons, 9, 0) < 0.0);
}

#[test]
fn other_data_are_placed_at_the_nearest_landmark() {
    let (teacher, _) = taught(&one_way().dataset(), &Settings::default());
    let mut line = Line::new();
    line.walk(&[-3.0, 0.1, 5.9, 50.0], &[0; 3]);
    let lessons = teacher.lessons_for(&line.dataset()).unwrap();
    for (from, goal, expected) in [(0, 1, 0.0), (1, 2, 6.0), (2, 3, 3.0)] {
        let found = steps(&teacher, &lessons, from, goal);
        assert!((found - expected).abs() < 1e-3, "{from} to {goal}: {found}");
    }
}

#[test]
fn a_radius_widens_the_goal_unless_it_would_hide_the_way() {
    let read = |radius: f64| {
        let terms = Terms { radius: Some(radius), ..terms() };
        let teacher =
            Teacher::new(&one_way().dataset(), &Settings::default(), terms, &|_, _| None).unwrap();
        steps(&teacher, &teacher.lessons(), 0, 9)
    };
    assert!((read(1.0) - 8.0).abs() < 1e-3);
    assert!((read(5.0) - 9.0).abs() < 1e-3);
}

#[test]
fn data_without_places_to_tell_apart_are_refused_in_words() {
    let refuse = |dataset: &Dataset, settings: &Settings| {
        Teacher::new(dataset, settings, terms(), &|_, _| None).err().unwrap().to_string()
    };
    let still = Dataset::new(vec![1.0; 40], 1, None, &[20; 2]).unwrap();
    let wrong = refuse(&still, &Settings::default());
    assert!(wrong.contains("no recorded state differs"), "{wrong}");
    let short = Dataset::new(vec![0.0, 1.0, 2.0], 1, None, &[3]).unwrap();
    let wrong = refuse(&short, &Settings::default());
    assert!(wrong.contains("3 rows are too few"), "{wrong}");
    let line = one_way().dataset();
    let wrong = refuse(&line, &Settings { landmarks: 1_000_000, ..Settings::default() });
    assert!(wrong.contains("`1000000`, expected 2 to"), "{wrong}");
    let wrong = refuse(&line, &Settings { place: vec![3], ..Settings::default() });
    assert!(wrong.contains("coordinate `3`, states have 1"), "{wrong}");
    let by = Kinds { by: KindsBy::Action, ..Kinds::default() };
    let plain = Dataset::new(line.states().to_vec(), 1, None, &[10; 20]).unwrap();
    let wrong = refuse(&plain, &Settings { kinds: by, ..Settings::default() });
    assert!(wrong.contains("`action`, the data have none"), "{wrong}");
}

#[test]
fn one_trajectory_teaches_what_it_shows() {
    let mut line = Line::new();
    let places: Vec<f32> = (0..40).map(|row| 10.0 - ((row % 20) as f32 - 10.0).abs()).collect();
    let actions: Vec<usize> = (0..39).map(|row| usize::from(row % 20 >= 10)).collect();
    line.walk(&places, &actions);
    let (teacher, lessons) =
        taught(&line.dataset(), &Settings { rows_per_landmark: 2.0, ..Settings::default() });
    for (from, goal, expected) in [(3, 8, 5.0), (8, 3, 5.0), (12, 18, 6.0)] {
        let found = steps(&teacher, &lessons, from, goal);
        assert!((found - expected).abs() < 1e-3, "{from} to {goal}: {found}");
    }
}

#[test]
fn too_many_landmarks_are_made_wider() {
    let settings = Settings { landmarks: 4, ..Settings::default() };
    let (teacher, _) = taught(&one_way().dataset(), &settings);
    let count: usize = teacher.summary().split(' ').next().unwrap().parse().unwrap();
    assert!((2..=4).contains(&count), "{}", teacher.summary());
    // Who needs single moves told apart has none of it.
    let narrow = Terms { widest: 1.0, ..terms() };
    let wrong = Teacher::new(&one_way().dataset(), &settings, narrow, &|_, _| None).err().unwrap();
    assert!(wrong.to_string().contains("hardly any recorded state lies near another"), "{wrong}");
}

#[test]
fn of_many_landmarks_some_are_solved_and_only_these_are_asked_for() {
    let settings = Settings { goals: 3, ..Settings::default() };
    let (_, lessons) = taught(&one_way().dataset(), &settings);
    assert_eq!(lessons.goals().len(), 3 * 20);
}

/// Landmarks of a line and what was counted there.
fn counted(line: &Line) -> (Vec<u32>, Counted) {
    let dataset = line.dataset();
    let fine =
        Fineness { spacing: 0.5, stride: 1, most: 100, rows_each: 1.0, widest: f64::INFINITY };
    let (landmarks, owners) = Landmarks::new(&dataset, &[0], fine).unwrap();
    let kinds = Kinds::default().of(&dataset, &landmarks, 0).unwrap();
    let counted = Counted::new(&dataset, &landmarks, &owners, &kinds).unwrap();
    (owners, counted)
}

#[test]
fn kinds_that_decide_borrow_nothing_and_kinds_that_do_not_borrow_much() {
    let (mut decided, mut random) = (Line::new(), Line::new());
    for trial in 0..40 {
        let step = trial % 2;
        decided.walk(&[0.0, step as f32], &[step]);
        random.walk(&[0.0, step as f32], &[trial / 2 % 2]);
    }
    assert_eq!(counted(&decided).1.borrowed, 0.0);
    // Both kinds step as often as not: 10 of 38 within kinds, 10 of 39 around the place; χ is above 1.
    assert!((counted(&random).1.borrowed - 49.0).abs() < 1e-9);
}

#[test]
fn borrowed_moves_are_worth_the_mean_of_their_landmark() {
    let mut line = Line::new();
    line.walk(&[0.0, 1.0], &[0]);
    (0..3).for_each(|_| line.walk(&[0.0, 0.0], &[1]));
    let (owners, mut process) = counted(&line);
    process.borrowed = 2.0;
    let rule = Rule { discount: DISCOUNT, confidence: 0.0 };
    let nats = distances(&process, rule, &[owners[1]])[owners[0] as usize];
    // V = γ (1 + 2 (1 + 3 V) / 4) / 3, so V = γ / (2 − γ).
    let expected = -(DISCOUNT / (2.0 - DISCOUNT)).ln();
    assert!((f64::from(nats) - expected).abs() < 1e-3, "{nats} against {expected}");
}

#[test]
fn solved_goals_are_told_and_a_signal_stops_it() {
    let dataset = one_way().dataset();
    let told = std::sync::Mutex::new(Vec::new());
    let listen = |done: usize, all: usize| {
        told.lock().unwrap().push((done, all));
        None
    };
    Teacher::new(&dataset, &Settings::default(), terms(), &listen).unwrap();
    let mut told = told.into_inner().unwrap();
    told.sort_unstable();
    // Before the first goal is solved, only to hear of signals.
    told.dedup();
    assert_eq!(told, (0..=10).map(|done| (done, 10)).collect::<Vec<_>>());
    let stopped = Teacher::new(&dataset, &Settings::default(), terms(), &|_, _| Some(2));
    assert_eq!(stopped.err().unwrap().exit_code(), 130);
}

/// A body that moves by 2 in every other row, which its place does not show: where one row's moves are
/// chained it would move in every row.
#[test]
fn moves_over_several_rows_keep_what_a_place_does_not_show() {
    let mut line = Line::new();
    for phase in [0, 1] {
        let places: Vec<f32> = (0..22).map(|row| ((row + phase) / 2 * 2) as f32).collect();
        (0..20).for_each(|_| line.walk(&places, &[0; 21]));
    }
    let dataset = line.dataset();
    let there = |stride: usize| {
        let kinds = Kinds { by: KindsBy::Displacement, ..Kinds::default() };
        let settings = Settings { stride, kinds, ..Settings::default() };
        let (teacher, lessons) = taught(&dataset, &settings);
        // Rows 0 and 8 of the first phase are at 0 and 8.
        steps(&teacher, &lessons, 0, 8)
    };
    assert!((there(1) - 4.0).abs() < 0.1, "{}", there(1));
    assert!((there(2) - 8.0).abs() < 0.1, "{}", there(2));
}
