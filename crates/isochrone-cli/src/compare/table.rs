//! The tables of a comparison: cells once, aligned for a terminal or set in Markdown.

use std::collections::{BTreeMap, BTreeSet};

use isochrone::evaluate::OverSeeds;
use isochrone::run::compare::{Pooled, Published, Row, measures};
use isochrone::simulate::World;

use crate::wording;

/// What the cells of the table of a world mean.
pub fn meaning(world: World) -> &'static str {
    match world {
        World::Maze(_) => {
            "success in %: mean ± standard error over seeds; all and tasks: the mean of the last three \
             evaluations; best: the best evaluation of each seed"
        }
        _ => {
            "success in %: mean ± standard error over seeds; IQM: interquartile mean [95 % interval]"
        }
    }
}

/// What stands where nothing was measured.
pub const NOTHING: &str = "–";

/// Cells, the first row being the head.
pub struct Table {
    pub cells: Vec<Vec<String>>,
}

impl Table {
    /// Lines with the columns aligned.
    pub fn lines(&self) -> Vec<String> {
        let columns = self.cells.first().map_or(0, Vec::len);
        let width = |column: usize| {
            self.cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        self.cells.iter().map(line).collect()
    }

    /// The table in Markdown.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for (index, row) in self.cells.iter().enumerate() {
            text += &format!("| {} |\n", row.join(" | "));
            if index == 0 {
                text += &format!("|{}\n", "---|".repeat(row.len()));
            }
        }
        text
    }
}

/// The success of every learner in one world, beside what others have published.
pub fn of_world(rows: &[Row], world: World, published: &[Published]) -> Table {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.world == world).collect();
    let mut table = match world {
        World::Maze(_) => of_maze(&rows),
        _ => by_switches(&rows),
    };
    let right: Vec<Vec<String>> = accuracy(&rows, &BESIDE_SUCCESS);
    for (cells, more) in table.cells.iter_mut().zip(right) {
        cells.extend(more);
    }
    for column in published.iter().filter(|column| column.success.contains_key(world.name())) {
        table.cells[0].push(column.name.clone());
        for (cells, row) in table.cells[1..].iter_mut().zip(&rows) {
            cells.push(column.cell(world, &row.algorithm).unwrap_or(NOTHING).to_owned());
        }
    }
    others(&mut table, &rows, world, published);
    table
}

/// Columns of accuracy beside success, and on a page of their own: name, title, digits, scale.
type Shown = (&'static str, &'static str, usize, f64);
const BESIDE_SUCCESS: [Shown; 5] = [
    ("spearman", "Spearman", 2, 1.0),
    ("far", "far", 2, 1.0),
    ("slope", "slope", 2, 1.0),
    ("intercept", "intercept", 1, 1.0),
    ("median_relative_error", "relative error (%)", 0, 100.0),
];
const ALONE: [Shown; 8] = [
    ("spearman", "Spearman", 3, 1.0),
    ("near", "near", 2, 1.0),
    ("far", "far", 2, 1.0),
    ("per_goal", "per goal", 2, 1.0),
    ("slope", "slope", 2, 1.0),
    ("intercept", "intercept", 1, 1.0),
    ("median_relative_error", "relative error (%)", 1, 100.0),
    ("unreachable_auc", "no way (AUC)", 3, 1.0),
];

/// The head and a row for each of `rows` with those of `shown` that were measured.
fn accuracy(rows: &[&Row], shown: &[Shown]) -> Vec<Vec<String>> {
    let measured = |(name, ..): &&Shown| rows.iter().any(|row| row.accuracy.contains_key(*name));
    let shown: Vec<&Shown> = shown.iter().filter(measured).collect();
    let cell = |row: &Row, &(name, _, digits, scale): &Shown| {
        row.accuracy.get(name).map_or(NOTHING.into(), |over| scaled(over, digits, scale))
    };
    let head = shown.iter().map(|(_, title, ..)| (*title).to_owned()).collect();
    let cells = rows.iter().map(|row| shown.iter().map(|shown| cell(row, shown)).collect());
    std::iter::once(head).chain(cells).collect()
}

/// How right the steps of every learner are in one world; `None` if nothing was measured.
pub fn of_accuracy(rows: &[Row], world: World) -> Option<Table> {
    let rows: Vec<&Row> =
        rows.iter().filter(|row| row.world == world && !row.accuracy.is_empty()).collect();
    let head = ["algorithm", "extraction", "seeds", "success (%)"].map(String::from).to_vec();
    let first = |row: &&Row| {
        let success = row.success().map_or(NOTHING.into(), one);
        vec![row.algorithm.clone(), row.extraction.clone(), seeds(row), success]
    };
    let mut cells: Vec<Vec<String>> = std::iter::once(head).chain(rows.iter().map(first)).collect();
    cells.iter_mut().zip(accuracy(&rows, &ALONE)).for_each(|(row, more)| row.extend(more));
    (!rows.is_empty()).then_some(Table { cells })
}

/// Adds a row for every learner that others published and that was not trained here.
fn others(table: &mut Table, rows: &[&Row], world: World, published: &[Published]) {
    let columns: Vec<&Published> =
        published.iter().filter(|column| column.success.contains_key(world.name())).collect();
    let known = |name: &&String| rows.iter().all(|row| row.algorithm != **name);
    let named = columns.iter().flat_map(|column| column.success[world.name()].keys());
    let names: BTreeSet<&String> = named.filter(known).collect();
    let width = table.cells[0].len() - columns.len();
    for name in names {
        let mut cells = vec![name.clone()];
        cells.resize(width, NOTHING.to_owned());
        cells.extend(
            columns.iter().map(|column| column.cell(world, name).unwrap_or(NOTHING).to_owned()),
        );
        table.cells.push(cells);
    }
}

/// A column for each of a benchmark's tasks; all of the last three evaluations but the best.
fn of_maze(rows: &[&Row]) -> Table {
    let measured = |name: &String| rows.iter().any(|row| row.last_three.contains_key(name));
    let task = |name: &String| name.strip_prefix("task_").is_some_and(|rest| !rest.contains('_'));
    let tasks: Vec<String> =
        measures().into_iter().filter(task).filter(|name| measured(name)).collect();
    let planned = rows.iter().any(|row| !row.planner.is_empty());
    let mut head: Vec<String> =
        ["algorithm", "extraction", "seeds", "all", "best"].map(String::from).to_vec();
    head.extend(tasks.iter().map(|name| name.replace('_', " ")));
    head.push("steps".into());
    head.extend(planned.then(|| "all, planner".into()));
    let row = |row: &&Row| {
        let mut cells = vec![row.algorithm.clone(), row.extraction.clone(), seeds(row)];
        cells.push(mean(&row.last_three, "overall"));
        cells.push(row.best.as_ref().map_or(NOTHING.into(), one));
        let brief = |over: &OverSeeds| format!("{:.0}", 100.0 * over.mean);
        let cell = |name: &String| row.last_three.get(name).map_or(NOTHING.into(), brief);
        cells.extend(tasks.iter().map(cell));
        let steps = row.last_three.get("mean_steps");
        cells.push(steps.map_or(NOTHING.into(), |over| format!("{:.0}", over.mean)));
        cells.extend(planned.then(|| mean(&row.planner, "overall")));
        cells
    };
    Table { cells: std::iter::once(head).chain(rows.iter().map(row)).collect() }
}

/// A column for each number of switches.
fn by_switches(rows: &[&Row]) -> Table {
    let measured = |name: &str| rows.iter().any(|row| row.policy.contains_key(name));
    let count = |name: &String| name.strip_prefix("switches_")?.parse::<u64>().ok();
    let switches: Vec<(u64, String)> = measures()
        .into_iter()
        .filter(|name| measured(name))
        .filter_map(|name| Some((count(&name)?, name)))
        .collect();
    let planned = rows.iter().any(|row| !row.planner.is_empty());
    let mut head: Vec<String> =
        ["algorithm", "extraction", "seeds", "all", "all, IQM"].map(String::from).to_vec();
    let stitched = measured("stitched");
    if stitched {
        head.push("stitched".into());
    }
    head.extend(switches.iter().map(|(count, _)| wording::counted(*count, "switch", "switches")));
    let planned: &[&str] = match (planned, stitched) {
        (false, _) => &[],
        (true, false) => &["overall"],
        (true, true) => &["overall", "stitched"],
    };
    let planners = ["all, planner", "stitched, planner"].map(String::from);
    head.extend(planners.into_iter().take(planned.len()));
    let row = |row: &&Row| {
        let mut cells = vec![row.algorithm.clone(), row.extraction.clone(), seeds(row)];
        cells.push(mean(&row.policy, "overall"));
        cells.push(row.policy.get("overall").map_or(NOTHING.into(), middle));
        if stitched {
            cells.push(mean(&row.policy, "stitched"));
        }
        cells.extend(switches.iter().map(|(_, name)| mean(&row.policy, name)));
        cells.extend(planned.iter().map(|name| mean(&row.planner, name)));
        cells
    };
    Table { cells: std::iter::once(head).chain(rows.iter().map(row)).collect() }
}

/// The success of every learner over all worlds.
pub fn of_all(pooled: &[Pooled]) -> Table {
    let head = ["algorithm", "extraction", "runs", "all", "all, IQM"].map(String::from).to_vec();
    let row = |row: &Pooled| {
        let runs = row.overall.seeds.to_string();
        let overall = &row.overall;
        let cells = [row.algorithm.clone(), row.extraction.clone(), runs, one(overall)];
        cells.into_iter().chain([middle(overall)]).collect()
    };
    Table { cells: std::iter::once(head).chain(pooled.iter().map(row)).collect() }
}

fn seeds(row: &Row) -> String {
    match row.seeds.len() {
        begun if begun == row.complete => begun.to_string(),
        begun => format!("{} of {begun}", row.complete),
    }
}

fn mean(measures: &BTreeMap<String, OverSeeds>, name: &str) -> String {
    measures.get(name).map_or(NOTHING.into(), one)
}

/// A mean with its standard error, in percent.
pub fn one(over: &OverSeeds) -> String {
    scaled(over, 1, 100.0)
}

/// A mean with its standard error.
pub fn scaled(over: &OverSeeds, digits: usize, scale: f64) -> String {
    let number = |value: f64| format!("{:.digits$}", scale * value).replace('-', "−");
    let error = over.standard_error.map(|error| format!(" ± {}", number(error)));
    format!("{}{}", number(over.mean), error.unwrap_or_default())
}

/// An interquartile mean with its interval, in percent; one seed has no interval.
fn middle(over: &OverSeeds) -> String {
    let middle = format!("{:.1}", 100.0 * over.interquartile_mean);
    match over.interval.map(|end| 100.0 * end) {
        _ if over.seeds == 1 => middle,
        [low, high] => format!("{middle} [{low:.1}, {high:.1}]"),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    fn cells(rows: &[&[&str]]) -> Table {
        Table {
            cells: rows.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect(),
        }
    }

    #[test]
    fn columns_are_aligned_by_letters_not_bytes() {
        let table = cells(&[&["name", "all"], &["a", "84.0 ± 1.2"], &["longer", "–"]]);
        assert_eq!(table.lines(), ["name    all", "a       84.0 ± 1.2", "longer  –"]);
        let expected = "| name | all |\n|---|---|\n| a | 84.0 ± 1.2 |\n| longer | – |\n";
        assert_eq!(table.markdown(), expected);
    }

    #[test]
    fn numbers_are_percentages_with_their_error_and_interval() {
        let over = OverSeeds::of(&[0.8, 0.9]).unwrap();
        assert_eq!(one(&over), "85.0 ± 5.0");
        assert_eq!(middle(&over), "85.0 [80.0, 90.0]");
        let single = OverSeeds::of(&[0.8]).unwrap();
        assert_eq!((one(&single), middle(&single)), ("80.0".into(), "80.0".into()));
    }

    pub fn over(value: f64) -> OverSeeds {
        OverSeeds::of(&[value, value]).unwrap()
    }

    /// A row of a learner by AWR, of which nothing was measured.
    pub fn row(world: World, algorithm: &str) -> Row {
        Row {
            world,
            algorithm: algorithm.into(),
            extraction: "awr".into(),
            seeds: vec![0, 1],
            complete: 2,
            policy: BTreeMap::new(),
            last_three: BTreeMap::new(),
            best: None,
            change: None,
            planner: BTreeMap::new(),
            accuracy: BTreeMap::new(),
            seconds: None,
            updates: 10,
            drawn: [1, 2],
            places: BTreeSet::new(),
            batch_size: 2,
            departures: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// A column of one number.
    pub fn column(name: &str, world: World, learner: &str, number: &str) -> Published {
        let cells = BTreeMap::from([(learner.to_owned(), number.to_owned())]);
        Published {
            name: name.into(),
            source: String::new(),
            protocol: String::new(),
            best: false,
            success: BTreeMap::from([(world.name().to_owned(), cells)]),
        }
    }

    #[test]
    fn a_maze_has_its_tasks_both_protocols_and_what_others_published() {
        let world: World = "pointmaze-medium-navigate".parse().unwrap();
        let measured = ["overall", "task_1", "task_2", "task_1_steps"]
            .map(|name| (name.to_owned(), over(0.5)))
            .into_iter()
            .chain([("mean_steps".to_owned(), over(212.0))]);
        let row = Row {
            last_three: measured.collect(),
            best: Some(over(0.75)),
            planner: BTreeMap::from([("overall".to_owned(), over(1.0))]),
            accuracy: BTreeMap::from([("far".to_owned(), over(-0.25))]),
            ..row(world, "qrl")
        };
        let published = [column("A", world, "qrl", "82 ± 5"), column("B", world, "gcbc", "82 ± 5")];
        let rows = [row];
        let table = of_world(&rows, world, &published);
        assert_eq!(
            table.markdown(),
            "| algorithm | extraction | seeds | all | best | task 1 | task 2 | steps | all, planner | \
             far | A | B |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n\
             | qrl | awr | 2 | 50.0 ± 0.0 | 75.0 ± 0.0 | 50 | 50 | 212 | 100.0 ± 0.0 | −0.25 ± 0.00 | \
             82 ± 5 | – |\n\
             | gcbc | – | – | – | – | – | – | – | – | – | – | 82 ± 5 |\n"
        );
        let alone = of_accuracy(&rows, world).unwrap();
        assert_eq!(
            alone.markdown(),
            "| algorithm | extraction | seeds | success (%) | far |\n|---|---|---|---|---|\n\
             | qrl | awr | 2 | 50.0 ± 0.0 | −0.25 ± 0.00 |\n"
        );
        assert!(of_accuracy(&rows, World::Pinwheel).is_none());
    }
}
