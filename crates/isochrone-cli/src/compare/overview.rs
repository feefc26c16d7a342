//! What matters most in all worlds of a comparison, side by side.

use isochrone::evaluate::OverSeeds;
use isochrone::run::compare::{Published, Row};
use isochrone::simulate::World;

use super::table::{NOTHING, Table, one, scaled};
use crate::wording::counted;

/// What an overview compares.
pub enum Overview {
    PolicyAlone,
    FinalPolicy,
    AlongPlanner,
    RelativeError,
}

impl Overview {
    /// In the order of a page.
    pub const ALL: [Self; 4] =
        [Self::PolicyAlone, Self::FinalPolicy, Self::AlongPlanner, Self::RelativeError];

    pub fn title(&self) -> &'static str {
        match self {
            Self::PolicyAlone => "Success of the policy alone (%)",
            Self::FinalPolicy => {
                "Success of the final policy alone, beside the planner's below (%)"
            }
            Self::AlongPlanner => "Success of the final policy with the planner (%)",
            Self::RelativeError => "Median relative error of the learned steps (%)",
        }
    }

    fn of<'r>(&self, row: &'r Row) -> Option<&'r OverSeeds> {
        match self {
            Self::PolicyAlone => row.success(),
            // Where it is not what counts, and there is something to set beside it.
            Self::FinalPolicy => {
                let differs = matches!(row.world, World::Maze(_)) && !row.planner.is_empty();
                row.policy.get("overall").filter(|_| differs)
            }
            Self::AlongPlanner => row.planner.get("overall"),
            Self::RelativeError => row.accuracy.get("median_relative_error"),
        }
    }

    /// The better of two means.
    fn better(&self, one: f64, other: f64) -> f64 {
        if matches!(self, Self::RelativeError) { one.min(other) } else { one.max(other) }
    }

    fn digits(&self) -> usize {
        if matches!(self, Self::RelativeError) { 0 } else { 1 }
    }

    /// The best of each world in bold; below success the best that others have published. `None` if it
    /// was measured nowhere.
    pub fn table(&self, rows: &[Row], worlds: &[World], published: &[Published]) -> Option<Table> {
        let shown = |mean: f64| format!("{:.*}", self.digits(), 100.0 * mean);
        let best = |world: World| {
            let measured = rows.iter().filter(|row| row.world == world);
            let means = measured.filter_map(|row| self.of(row)).map(|over| over.mean);
            means.reduce(|one, other| self.better(one, other)).map(shown)
        };
        let seeds = rows.iter().filter_map(|row| Some(self.of(row)?.seeds)).max();
        let mut table = side_by_side(rows, worlds, |row| {
            let over = self.of(row)?;
            let mut text = scaled(over, self.digits(), 100.0);
            if Some(over.seeds) < seeds {
                text += &format!(" ({})", counted(over.seeds as u64, "seed", "seeds"));
            }
            Some(if best(row.world)? == shown(over.mean) { format!("**{text}**") } else { text })
        })?;
        if !published.is_empty() && matches!(self, Self::PolicyAlone | Self::AlongPlanner) {
            let best = |world: &World| best_published(*world, published);
            let first = ["best in the papers", NOTHING].map(String::from).into_iter();
            let others = worlds.iter().map(|world| best(world).unwrap_or_else(|| NOTHING.into()));
            table.cells.push(first.chain(others).collect());
        }
        Some(table)
    }
}

/// The success of policies alone, each beside the first number that others have published for the same
/// learner: their best evaluation where others report that. `None` where there is none.
pub fn reproduced(rows: &[Row], worlds: &[World], published: &[Published]) -> Option<Table> {
    side_by_side(rows, worlds, |row| {
        let (column, theirs) = published
            .iter()
            .find_map(|column| Some((column, column.cell(row.world, &row.algorithm)?)))?;
        let ours = if column.best { row.best.as_ref() } else { row.success() };
        Some(format!("{} / {theirs}", one(ours?)))
    })
}

/// A row for each learner and a column for each world, of learners that have any cell.
fn side_by_side(
    rows: &[Row],
    worlds: &[World],
    cell: impl Fn(&Row) -> Option<String>,
) -> Option<Table> {
    let name = |row: &Row| [row.algorithm.clone(), row.extraction.clone()];
    let mut learners: Vec<[String; 2]> = Vec::new();
    for learner in rows.iter().map(name) {
        if !learners.contains(&learner) {
            learners.push(learner);
        }
    }
    let head = ["algorithm", "extraction"].into_iter().chain(short_names(worlds));
    let mut cells: Vec<Vec<String>> = vec![head.map(String::from).collect()];
    for learner in learners {
        let of = |world: &World| {
            cell(rows.iter().find(|row| row.world == *world && name(row) == learner)?)
        };
        let found: Vec<Option<String>> = worlds.iter().map(of).collect();
        if found.iter().any(Option::is_some) {
            let found = found.into_iter().map(|cell| cell.unwrap_or_else(|| NOTHING.into()));
            cells.push(learner.iter().cloned().chain(found).collect());
        }
    }
    (cells.len() > 1).then_some(Table { cells })
}

/// The names of `worlds` without a first word that all share.
fn short_names(worlds: &[World]) -> Vec<&'static str> {
    let parts: Option<Vec<_>> = worlds.iter().map(|world| world.name().split_once('-')).collect();
    match parts {
        Some(parts) if parts.windows(2).all(|pair| pair[0].0 == pair[1].0) => {
            parts.into_iter().map(|(_, rest)| rest).collect()
        }
        _ => worlds.iter().map(|world| world.name()).collect(),
    }
}

/// The largest number that others have published for a world, with the learner's name.
fn best_published(world: World, published: &[Published]) -> Option<String> {
    let number = |cell: &str| cell.split_whitespace().next()?.parse::<f64>().ok();
    let cells = published.iter().filter_map(|column| column.success.get(world.name())).flatten();
    let known = cells.filter_map(|(learner, cell)| Some((number(cell)?, learner, cell)));
    let (_, learner, cell) = known.max_by(|one, other| one.0.total_cmp(&other.0))?;
    Some(format!("{cell} ({learner})"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::table::tests::{column, over, row};
    use super::*;

    #[test]
    fn overviews_have_the_best_of_each_world_in_bold_above_the_best_published() {
        let [medium, giant] =
            ["medium", "giant"].map(|map| format!("pointmaze-{map}-stitch").parse().unwrap());
        let measured = |world: World, learner: &str, success: f64, error: f64| Row {
            last_three: BTreeMap::from([("overall".to_owned(), over(success))]),
            accuracy: BTreeMap::from([("median_relative_error".to_owned(), over(error))]),
            ..row(world, learner)
        };
        let rows = [
            measured(medium, "qrl", 0.5, 0.07),
            measured(medium, "mqe", 0.5001, 0.2),
            measured(medium, "crl", 0.25, 4.0),
            measured(giant, "crl", 0.0, 3.0),
        ];
        let published = [
            column("A", medium, "qrl", "9 ± 15"),
            column("B", medium, "crl", "59.2"),
            column("C", medium, "mqe", "unknown"),
        ];
        let table = |kind: Overview, worlds: &[World]| {
            kind.table(&rows, worlds, &published).map(|table| table.markdown())
        };
        assert_eq!(
            table(Overview::PolicyAlone, &[medium, giant]).unwrap(),
            "| algorithm | extraction | medium-stitch | giant-stitch |\n|---|---|---|---|\n\
             | qrl | awr | **50.0 ± 0.0** | – |\n| mqe | awr | **50.0 ± 0.0** | – |\n\
             | crl | awr | 25.0 ± 0.0 | **0.0 ± 0.0** |\n\
             | best in the papers | – | 59.2 (crl) | – |\n"
        );
        assert_eq!(
            table(Overview::RelativeError, &[medium, World::Roads]).unwrap(),
            "| algorithm | extraction | pointmaze-medium-stitch | roads |\n|---|---|---|---|\n\
             | qrl | awr | **7 ± 0** | – |\n| mqe | awr | 20 ± 0 | – |\n\
             | crl | awr | 400 ± 0 | – |\n"
        );
        assert!(table(Overview::AlongPlanner, &[medium]).is_none());
        assert!(table(Overview::FinalPolicy, &[medium]).is_none());
        let all = |success| BTreeMap::from([("overall".to_owned(), over(success))]);
        let (policy, planner) = (all(0.75), all(0.9));
        let one_seed = OverSeeds::of(&[0.25]).unwrap();
        let fewer = BTreeMap::from([("overall".to_owned(), one_seed)]);
        let followed = [
            Row { policy, planner, ..rows[0].clone() },
            Row { policy: fewer.clone(), planner: fewer, ..rows[1].clone() },
        ];
        let both = [Overview::FinalPolicy, Overview::AlongPlanner];
        let both =
            both.map(|kind| kind.table(&followed, &[medium, giant], &[]).unwrap().markdown());
        let head = "| algorithm | extraction | medium-stitch | giant-stitch |\n|---|---|---|---|\n";
        for (table, best) in both.iter().zip(["75.0", "90.0"]) {
            let expected = format!(
                "{head}| qrl | awr | **{best} ± 0.0** | – |\n| mqe | awr | 25.0 (1 seed) | – |\n"
            );
            assert_eq!(*table, expected);
        }
        assert_eq!(
            reproduced(&rows, &[medium, giant], &published[..2]).unwrap().markdown(),
            "| algorithm | extraction | medium-stitch | giant-stitch |\n|---|---|---|---|\n\
             | qrl | awr | 50.0 ± 0.0 / 9 ± 15 | – |\n| crl | awr | 25.0 ± 0.0 / 59.2 | – |\n"
        );
        assert!(reproduced(&rows, &[medium], &[]).is_none());
        let best = Published { best: true, ..published[1].clone() };
        let rows = rows.map(|row| Row { best: Some(over(0.75)), ..row });
        assert_eq!(
            reproduced(&rows, &[medium], &[best]).unwrap().markdown(),
            "| algorithm | extraction | medium-stitch |\n|---|---|---|\n\
             | crl | awr | 75.0 ± 0.0 / 59.2 |\n"
        );
    }
}
