//! Synthetic inputs, drawn and read back.

use std::f32::consts::{PI, TAU};
use std::fs::{self, File};

use super::super::{
    CalibrationPanel, DistanceField, Families, Panel, Reference, Series, Spread, Trend,
};
use super::*;
use crate::random::{Purpose, Stream};

const INNER: f32 = 0.62;
const OUTER: f32 = 1.0;
const GOAL: [f32; 2] = [0.81, 0.0];

/// Steps along a one-way ring, counter-clockwise, to the goal at angle zero: 100 all around.
fn ring_steps([x, y]: [f32; 2]) -> f32 {
    let radius = x.hypot(y);
    if !(INNER..=OUTER).contains(&radius) {
        return f32::NAN;
    }
    100.0 * (1.0 - y.atan2(x).rem_euclid(TAU) / TAU)
}

fn ring_field(bend: f32) -> DistanceField {
    DistanceField::from_fn([-1.2, 1.2], [-1.2, 1.2], 121, 121, |[x, y]| {
        let steps = ring_steps([x, y]);
        steps + bend * (steps / 30.0).sin() * 6.0 + bend * 8.0 * (x.hypot(y) - 0.81)
    })
    .unwrap()
}

fn arc(from: f32, to: f32, radius: f32) -> Vec<[f32; 2]> {
    (0..=60)
        .map(|step| {
            let angle = from + (to - from) * step as f32 / 60.0;
            let radius = radius + 0.02 * (5.0 * angle + 9.0 * radius).sin();
            [radius * angle.cos(), radius * angle.sin()]
        })
        .collect()
}

fn ring(panels: &[&str]) -> Isochrones {
    let mut draws = Stream::new(7, Purpose(901)).draws(0, 0);
    let trajectories = (0..120_u8)
        .map(|index| {
            let family = index % 3;
            let from = TAU * f32::from(family) / 3.0 + draws.between(-0.3, 0.3) as f32;
            (family, arc(from, from + 0.8 * PI, draws.between(0.66, 0.96) as f32))
        })
        .collect();
    let panel = |(index, title): (usize, &&str)| Panel {
        title: (*title).to_owned(),
        distance: ring_field(0.5 + index as f32),
        path: arc(0.35, TAU, 0.8),
    };
    let mut exact = ring_field(0.0);
    // Where the ring closes, 0 meets 100: no contour there.
    for row in 0..exact.rows {
        for column in 0..exact.columns {
            let [x, y] = exact.node(column, row);
            if x > 0.0 && y.abs() < 0.02 {
                exact.values[row * exact.columns + column] = f32::NAN;
            }
        }
    }
    Isochrones {
        title: "Steps through a ring of one-way corridors".into(),
        caption: "Each family was recorded in one corridor only; the path to the star joins all \
                  three. White: no data within 0.1 of a point."
            .into(),
        families: Families {
            trajectories,
            names: ["north", "west → south", "south-east"].map(String::from).to_vec(),
        },
        panels: panels.iter().enumerate().map(panel).collect(),
        start: arc(0.35, TAU, 0.8)[0],
        goal: GOAL,
        exact: Some(exact),
        levels: vec![20.0, 40.0, 60.0, 80.0],
        farthest: None,
    }
}

/// A wide plane with a hole, on a coarse grid: distances bend around the hole.
fn plane() -> Isochrones {
    let goal = [3.2, 0.6];
    let steps = |[x, y]: [f32; 2]| match (x - 1.4).hypot(y) < 0.45 {
        true => f32::NAN,
        false => {
            let straight = (x - goal[0]).hypot(y - goal[1]);
            18.0 * straight + 22.0 * (-4.0 * (y * y + 0.3)).exp() * (1.4 - x).clamp(0.0, 1.0)
        }
    };
    let mut draws = Stream::new(5, Purpose(904)).draws(0, 0);
    let trajectories = (0..300_u16)
        .map(|index| {
            let mut at = [draws.between(0.0, 4.0) as f32, draws.between(-1.0, 1.0) as f32];
            let heading =
                [[1.0, 0.1], [-1.0, 0.2], [0.1, 1.0], [0.0, -1.0]][usize::from(index % 4)];
            let points = (0..40).map(|_| {
                for axis in 0..2 {
                    at[axis] += 0.025 * heading[axis] + draws.between(-0.02, 0.02) as f32;
                }
                at
            });
            ((index % 4) as u8, points.collect())
        })
        .collect();
    let field = |size: usize| {
        DistanceField::from_fn([0.0, 4.0], [-1.0, 1.0], 2 * size, size, steps).unwrap()
    };
    let path = (0..30).map(|step| {
        let share = step as f32 / 29.0;
        [0.3 + 2.9 * share, -0.2 + 0.8 * share - 1.6 * share * (1.0 - share)]
    });
    Isochrones {
        title: "Steps across a plane with a hole, seen on a coarse grid".into(),
        caption: String::new(),
        families: Families {
            trajectories,
            names: ["east", "west", "north", "south"].map(String::from).to_vec(),
        },
        panels: vec![Panel { title: "CMD-1".into(), distance: field(20), path: path.collect() }],
        start: [0.3, -0.2],
        goal,
        exact: Some(field(81)),
        levels: vec![10.0, 30.0, 50.0],
        farthest: Some(48.0),
    }
}

fn learning() -> Curves {
    let series = |name: &str, top: f32, pace: f32, seeds: u32| {
        let steps: Vec<u64> = (0..=40).map(|index| index * 25_000).collect();
        let curve = |seed: u32| {
            let mut draws = Stream::new(u64::from(seed), Purpose(902)).draws(0, top as u32);
            let noise = |step: &u64| {
                let share = *step as f32 / 1e6;
                top * (1.0 - (-pace * share).exp()) + draws.between(-5.0, 5.0) as f32 * share.sqrt()
            };
            steps.iter().map(noise).collect()
        };
        Series { name: name.into(), seeds: (0..seeds).map(curve).collect(), steps: steps.clone() }
    };
    Curves {
        title: "Success in the ring".into(),
        caption: "50 episodes per evaluation.".into(),
        horizontal: "training steps".into(),
        vertical: "success (%)".into(),
        series: vec![
            series("CMD-1", 82.0, 5.0, 8),
            series("CMD-2", 68.0, 4.0, 8),
            series("contrastive, no metric", 41.0, 6.0, 8),
        ],
        references: vec![
            Reference { name: "exact planner".into(), value: 97.0 },
            Reference { name: "published".into(), value: 94.0 },
            Reference { name: "random".into(), value: 6.0 },
        ],
        spread: Spread::StandardError,
    }
}

/// `series` curves in each of `panels` panels; the last panel lacks the first curve.
fn compared(panels: usize, series: u32) -> Comparison {
    let curve = |panel: usize, index: u32| {
        let steps: Vec<u64> = (1..=8).map(|place| place * 2_000).collect();
        let seed = |seed: u32| {
            let mut draws = Stream::new(u64::from(seed), Purpose(905)).draws(index.into(), 0);
            let top = 95.0 - (3 * index) as f32 - 10.0 * panel as f32;
            let value = |place: usize| {
                let share = (place + 1) as f32 / 8.0;
                top * (1.0 - (-4.0 * share).exp()) + 5.0 * draws.between(-1.0, 1.0) as f32
            };
            (0..steps.len()).map(value).map(|value| value.clamp(0.0, 100.0)).collect()
        };
        let seeds = (0..5).map(seed).collect();
        Series { name: format!("learner {index}"), steps, seeds }
    };
    let panel = |panel: usize| {
        let first = u32::from(panel > 0 && panel + 1 == panels);
        let series = (first..series).map(|index| curve(panel, index)).collect();
        (format!("world {panel}"), series)
    };
    Comparison {
        title: "Success in several worlds".into(),
        caption: "400 pairs per evaluation.".into(),
        horizontal: "training steps".into(),
        vertical: "success (%)".into(),
        range: [0.0, 100.0],
        panels: (0..panels).map(panel).collect(),
    }
}

fn calibrated() -> CalibrationChart {
    let mut draws = Stream::new(3, Purpose(903)).draws(0, 0);
    let mut pairs = |count: usize, low: f64, high: f64| -> Vec<[f32; 2]> {
        (0..count)
            .map(|_| {
                let exact = draws.between(low, high) as f32;
                let noise = draws.between(-1.0, 1.0) + draws.between(-1.0, 1.0);
                [exact, (0.91 * exact + 2.4 + 0.08 * exact * noise as f32).max(0.0)]
            })
            .collect()
    };
    CalibrationChart {
        title: "Learned and exact steps".into(),
        caption: "1000 pairs drawn evenly over the states of the ring; fitted by least squares."
            .into(),
        panels: vec![
            CalibrationPanel {
                known: "exact".into(),
                pairs: [pairs(500, 0.0, 40.0), pairs(500, 25.0, 100.0)].concat(),
                trend: Trend::Line { slope: 0.91, intercept: 2.4 },
            },
            CalibrationPanel {
                known: "elapsed".into(),
                pairs: pairs(500, 1.0, 40.0),
                trend: Trend::Medians(vec![[1.0, 3.2], [6.0, 8.0], [24.0, 24.0]]),
            },
        ],
    }
}

/// One panel with these pairs.
fn calibrated_on(pairs: Vec<[f32; 2]>) -> CalibrationChart {
    let panel = CalibrationPanel { pairs, ..calibrated().panels.remove(0) };
    CalibrationChart { panels: vec![panel], ..calibrated() }
}

fn png_size(path: &Path) -> (u32, u32, Vec<u8>) {
    let decoder = png::Decoder::new(std::io::BufReader::new(File::open(path).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    (frame.width, frame.height, pixels)
}

fn attribute(document: &str, name: &str) -> u32 {
    let rest = document.split_once(&format!(" {name}=\"")).unwrap().1;
    rest.split_once('"').unwrap().0.parse().unwrap()
}

/// Both files are there, nothing else is, they have the same shape, and the SVG has the words.
fn assert_written(folder: &Path, name: &str, words: &[&str]) -> Vec<u8> {
    let document = fs::read_to_string(folder.join(format!("{name}.svg"))).unwrap();
    assert!(document.starts_with("<svg "));
    for word in words {
        assert!(document.contains(&format!(">{word}</text>")), "`{word}`");
    }
    assert!(!document.contains("NaN") && !document.contains("inf"));
    let (width, height, pixels) = png_size(&folder.join(format!("{name}.png")));
    assert_eq!(width, raster::SCALE * attribute(&document, "width"));
    assert_eq!(height, raster::SCALE * attribute(&document, "height"));
    assert_eq!(fs::read_dir(folder).unwrap().count(), 2, "no partial file stays");
    pixels
}

#[test]
fn isochrones_are_written_as_svg_and_png() {
    let folder = tempfile::tempdir().unwrap();
    let input = ring(&["CMD-2", "CMD-1"]);
    isochrones(&input, &folder.path().join("ring.v1")).unwrap();
    let words = ["CMD-1", "CMD-2", "west → south", "steps to the star", "planned path", "40"];
    let pixels = assert_written(folder.path(), "ring.v1", &words);
    let nearest = colour::band(0, 11).colour;
    let far = colour::band(8, 11).colour;
    for wanted in [nearest, far] {
        assert!(pixels.chunks(3).any(|pixel| pixel == wanted), "{wanted:?}");
    }
}

#[test]
fn four_maps_stand_in_two_columns_over_one_legend() {
    let folder = tempfile::tempdir().unwrap();
    let titles = ["Atlas", "CMD-2", "CMD-1"];
    isochrones(&ring(&titles), &folder.path().join("four")).unwrap();
    assert_written(folder.path(), "four", &titles);
    let document = fs::read_to_string(folder.path().join("four.svg")).unwrap();
    let place = |title: &str| {
        let line = document.lines().find(|line| line.contains(&format!(">{title}<"))).unwrap();
        ["x", "y"].map(|name| {
            let rest = line.split_once(&format!(" {name}=\"")).unwrap().1;
            rest.split_once('"').unwrap().0.parse::<f64>().unwrap()
        })
    };
    let [data, atlas, second, first] =
        ["trajectories by family", "Atlas", "CMD-2", "CMD-1"].map(place);
    assert_eq!([data[0], atlas[0]], [second[0], first[0]], "columns");
    assert_eq!([data[1], second[1]], [atlas[1], first[1]], "rows");
    assert!(data[0] < atlas[0] && data[1] < second[1]);
    assert_eq!(place("north")[1], place("planned path")[1], "one legend");
}

#[test]
fn distances_beyond_the_farthest_share_the_last_colour() {
    let folder = tempfile::tempdir().unwrap();
    isochrones(&plane(), &folder.path().join("plane")).unwrap();
    // 48 steps in bands of 5 end at 50; some points are farther.
    let words = ["50+", "45", "east", "10"];
    assert_written(folder.path(), "plane", &words);
}

#[test]
fn masked_points_are_white_and_known_ones_are_not() {
    let mut input = ring(&["CMD-2"]);
    input.families.trajectories.truncate(1);
    input.exact = None;
    input.panels[0].path.clear();
    let folder = tempfile::tempdir().unwrap();
    isochrones(&input, &folder.path().join("a")).unwrap();
    let (width, _, pixels) = png_size(&folder.path().join("a.png"));
    let document = fs::read_to_string(folder.path().join("a.svg")).unwrap();
    // The second map's title stands above its middle, nine pixels over its upper side.
    let title = document.lines().find(|line| line.contains(">CMD-2<")).unwrap();
    let number = |name: &str| -> f64 {
        let rest = title.split_once(&format!(" {name}=\"")).unwrap().1;
        rest.split_once('"').unwrap().0.parse().unwrap()
    };
    let (middle, top) = (number("x"), number("y") + 9.0);
    let pixel = |[x, y]: [f64; 2]| {
        let scale = 430.0 / 2.4;
        let across = (middle + scale * x) * f64::from(raster::SCALE);
        let down = (top + scale * (1.2 - y)) * f64::from(raster::SCALE);
        let index = 3 * (down as usize * width as usize + across as usize);
        [pixels[index], pixels[index + 1], pixels[index + 2]]
    };
    for masked in [[0.0, 0.0], [0.4, 0.3], [-1.1, -1.1], [0.0, 0.56], [0.0, -1.06]] {
        assert_eq!(pixel(masked), [255; 3], "{masked:?}");
    }
    for known in [[0.0, 0.8], [-0.8, 0.0], [0.0, -0.66], [0.0, 0.97]] {
        assert_ne!(pixel(known), [255; 3], "{known:?}");
    }
}

#[test]
fn curves_are_written_as_svg_and_png() {
    let folder = tempfile::tempdir().unwrap();
    curves(&learning(), &folder.path().join("curves")).unwrap();
    let words = ["CMD-1", "training steps", "success (%)", "exact planner", "0.4M"];
    assert_written(folder.path(), "curves", &words);
    let document = fs::read_to_string(folder.path().join("curves.svg")).unwrap();
    assert!(document.contains("mean of 8 seeds; band: ± one standard error"));
}

#[test]
fn a_comparison_has_a_panel_for_each_world_and_one_look_for_each_name() {
    let folder = tempfile::tempdir().unwrap();
    let input = compared(3, 10);
    comparison(&input, &folder.path().join("compared")).unwrap();
    let words = ["world 0", "world 2", "learner 0", "learner 9", "success (%)", "15k"];
    assert_written(folder.path(), "compared", &words);
    let document = fs::read_to_string(folder.path().join("compared.svg")).unwrap();
    assert_eq!(document.matches(">learner 0<").count(), 1, "one legend for all panels");
    assert!(document.contains("mean of 5 seeds; band: ± one standard error"));
    assert_eq!(input.names().len(), 10);
    // The last panel begins with `learner 1`, which keeps its place.
    assert_eq!(input.panels[2].1[0].name, "learner 1");
    let broken: [fn(&mut Comparison); 4] = [
        |input| input.panels.clear(),
        |input| input.panels[1].1.clear(),
        |input| input.range = [100.0, 0.0],
        |input| input.panels[0].1[0].seeds[0].clear(),
    ];
    for (index, spoil) in broken.iter().enumerate() {
        let mut input = compared(3, 10);
        spoil(&mut input);
        let error = comparison(&input, &folder.path().join("none")).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{index}");
    }
}

#[test]
fn calibration_is_written_as_svg_and_png() {
    let folder = tempfile::tempdir().unwrap();
    calibration(&calibrated(), &folder.path().join("calibration")).unwrap();
    let words = [
        "exact steps",
        "learned steps",
        "a pair of recorded states",
        "learned ≈ 0.91 × exact + 2.4",
        "elapsed steps",
        "medians by elapsed steps",
        "learned = elapsed",
    ];
    assert_written(folder.path(), "calibration", &words);
}

#[test]
fn empty_or_broken_inputs_are_errors_and_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none");
    let broken: [fn(&mut Isochrones); 9] = [
        |input| input.families = Families::default(),
        |input| input.families.names.clear(),
        |input| input.panels.clear(),
        |input| input.panels[0].distance.values.clear(),
        |input| input.panels[0].distance.values.fill(f32::NAN),
        |input| input.panels[0].path[3] = [f32::NAN, 0.0],
        |input| input.goal = [f32::INFINITY, 0.0],
        |input| input.levels.push(f32::NAN),
        |input| input.farthest = Some(0.0),
    ];
    for (index, spoil) in broken.iter().enumerate() {
        let mut input = ring(&["CMD-2"]);
        spoil(&mut input);
        assert_eq!(isochrones(&input, &path).unwrap_err().exit_code(), 2, "{index}");
    }
    let nothing = Curves { series: Vec::new(), ..learning() };
    assert!(curves(&nothing, &path).is_err());
    let blank = Series { name: "a".into(), steps: Vec::new(), seeds: Vec::new() };
    assert!(curves(&Curves { series: vec![blank], ..learning() }, &path).is_err());
    assert!(calibration(&calibrated_on(Vec::new()), &path).is_err());
    let bare = CalibrationChart { panels: Vec::new(), ..calibrated() };
    assert!(calibration(&bare, &path).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let missing = folder.path().join("no folder").join("a");
    assert_eq!(calibration(&calibrated(), &missing).unwrap_err().exit_code(), 4);
}

#[test]
fn the_smallest_inputs_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let zero = DistanceField::from_fn([0.0, 1.0], [0.0, 3.0], 2, 2, |_| 0.0).unwrap();
    let input = Isochrones {
        title: String::new(),
        caption: String::new(),
        families: Families {
            trajectories: vec![(0, vec![[0.5, 0.5], [0.5, 0.5]])],
            names: vec![String::new()],
        },
        panels: vec![Panel { title: String::new(), distance: zero, path: vec![[0.1, 0.1]] }],
        start: [0.1, 0.1],
        goal: [9.0, 9.0],
        exact: None,
        levels: Vec::new(),
        farthest: None,
    };
    isochrones(&input, &folder.path().join("a")).unwrap();
    let one = Series { name: "one".into(), steps: vec![0], seeds: vec![vec![0.0]] };
    let input = Curves { series: vec![one], references: Vec::new(), ..learning() };
    curves(&input, &folder.path().join("b")).unwrap();
    calibration(&calibrated_on(vec![[0.0, 0.0]]), &folder.path().join("c")).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 6);
}

#[test]
#[ignore = "slow: draws the pictures into the folder PICTURES for a look"]
fn pictures_for_a_look() {
    let folder = PathBuf::from(std::env::var_os("PICTURES").unwrap());
    isochrones(&ring(&["CMD-2"]), &folder.join("one")).unwrap();
    isochrones(&ring(&["CMD-2", "CMD-1"]), &folder.join("two")).unwrap();
    isochrones(&ring(&["Atlas", "CMD-2", "CMD-1"]), &folder.join("three")).unwrap();
    isochrones(&plane(), &folder.join("plane")).unwrap();
    curves(&learning(), &folder.join("curves")).unwrap();
    calibration(&calibrated(), &folder.join("calibration")).unwrap();
    comparison(&compared(1, 3), &folder.join("compared-one")).unwrap();
    comparison(&compared(3, 24), &folder.join("compared-many")).unwrap();
}
