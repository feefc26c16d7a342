//! The page of a comparison in Markdown: a function of what its folder holds.

use std::fmt::Write;

use isochrone::evaluate::RESAMPLES;
use isochrone::run::compare::{Published, Row};
use isochrone::simulate::World;

use super::shown::Shown;
use super::{Protocol, Report, Trained, table};
use crate::wording;

/// The page, with the curves called `curves` and pictures of routes beside it, and the text of a tuning
/// grid.
pub fn page(report: &Report, curves: Option<&str>, routes: &[Shown], grid: Option<&str>) -> String {
    let title = report.sheet.as_ref().map_or("Results", |sheet| &sheet.title);
    let mut text = format!(
        "# {title}\n\nWritten by `isochrone compare --results` from the runs it trained; not edited \
         by hand.\n\n",
    );
    about(&mut text, report);
    for protocol in &report.protocols {
        let table = table::of_world(&report.rows, protocol.world, report.published()).markdown();
        let _ = write!(text, "\n## {}\n\n{table}", protocol.world);
        let rows = report.rows.iter().filter(|row| row.world == protocol.world);
        let problems: Vec<String> = rows.flat_map(problems).collect();
        if !problems.is_empty() {
            let _ = writeln!(text, "\n{}", problems.join("\n"));
        }
    }
    if !report.pooled.is_empty() {
        let table = table::of_all(&report.pooled).markdown();
        let _ = write!(text, "\n## All worlds\n\n{table}");
    }
    if let Some(name) = curves {
        let _ = write!(text, "\n## Learning curves\n\n![Success while training]({name}.png)\n");
    }
    if !routes.is_empty() {
        text.push_str(
            "\n## Routes\n\nEpisodes of the final policy, drawn by `isochrone evaluate`.\n",
        );
    }
    for Shown { file, words } in routes {
        let _ = write!(text, "\n{words}:\n\n![Routes of {words}]({file})\n");
    }
    protocol(&mut text, report);
    if let Some(grid) = grid {
        let _ = write!(text, "\n## Tuning grid\n\n```toml\n{}\n```\n", grid.trim_end());
    }
    text
}

/// What the cells mean, and what a sheet says of the data, the budget and the numbers of others.
fn about(text: &mut String, report: &Report) {
    let mut meanings: Vec<&str> =
        report.protocols.iter().map(|protocol| table::meaning(protocol.world)).collect();
    meanings.dedup();
    for meaning in meanings {
        let _ = writeln!(text, "Cells are {meaning}.");
    }
    let Some(sheet) = &report.sheet else { return };
    text.push('\n');
    for sentence in &sheet.about {
        let _ = writeln!(text, "- {sentence}");
    }
    for column in &sheet.published {
        let Published { name, source, protocol, .. } = column;
        let _ = writeln!(text, "- The column `{name}` is of {source}, not ours: {protocol}.");
    }
}

fn problems(row: &Row) -> Vec<String> {
    let Row { algorithm, extraction, problems, .. } = row;
    problems.iter().map(|problem| format!("- {algorithm} {extraction}: {problem}")).collect()
}

fn protocol(text: &mut String, report: &Report) {
    text.push_str("\n## Protocol\n\n");
    for protocol in &report.protocols {
        let of_world = |row: &&Row| row.world == protocol.world;
        let drawn = report.rows.iter().filter(of_world).map(|row| row.drawn);
        let most = |at: usize| drawn.clone().map(|drawn| drawn[at]).max().unwrap_or(1);
        let pairs = format!("{} pairs of start and goal", protocol.tasks);
        let drawn = match [most(0), most(1)] {
            [1, 1] => {
                format!("data and {pairs} are drawn once, the same for all seeds and learners")
            }
            [1, _] => format!(
                "data are recorded once, {pairs} are drawn anew with every seed, the same for all learners"
            ),
            _ => format!(
                "data and {pairs} are drawn anew with every seed, the same for all learners"
            ),
        };
        let _ = writeln!(
            text,
            "- {}: {drawn}; an episode succeeds within {} of its goal in at most {} steps; discount {}.",
            protocol.world, protocol.radius, protocol.horizon, protocol.discount,
        );
    }
    let resamples = wording::grouped(RESAMPLES);
    let maze = |protocol: &Protocol| matches!(protocol.world, World::Maze(_));
    if report.protocols.iter().any(maze) {
        text.push_str(
            "- In mazes the mean of the last three evaluations of each run counts; the best evaluation \
             stands beside it because some papers print that. Tasks are asked in turn, equally often. Steps are those of episodes \
             that reached their goal.\n",
        );
    }
    if !report.protocols.iter().all(maze) {
        text.push_str(
            "- The final model of each run is measured; no checkpoint is chosen.\n\
             - A pair with n switches needs n changes between families of recorded paths; a stitched \
             pair needs one or more.\n",
        );
    }
    let _ = writeln!(
        text,
        "- With the planner the final policy is sent along waypoints of a graph over data states.\n\
         - The interquartile mean leaves out ⌊n/4⌋ seeds at either end. Its interval holds 95 % of \
         {resamples} resamples of seeds."
    );
    for Trained { conditions, runs } in &report.conditions {
        let commit = conditions.commit.as_ref();
        let commit = commit.map_or(String::new(), |commit| format!(", commit {commit}"));
        let runs = wording::counted(*runs as u64, "run", "runs");
        let (version, threads) = (&conditions.version, conditions.threads);
        let device = conditions.device.as_ref();
        let where_at =
            device.map_or("each on one thread".to_owned(), |name| format!("updates on one {name}"));
        let _ = writeln!(
            text,
            "- {runs} by isochrone {version}{commit}, {threads} at a time, {where_at}."
        );
    }
    let spent = report.rows.iter().filter_map(|row| Some(row.seconds? * row.complete as f64));
    let minutes = spent.sum::<f64>() / 60.0;
    let _ = writeln!(text, "- All runs together took {minutes:.1} minutes of their own clocks.\n");
    runs(text, &report.rows);
}

/// What was run, and where its settings are not the defaults.
fn runs(text: &mut String, rows: &[Row]) {
    text.push_str(
        "| world | algorithm | extraction | seeds | updates | batch | on | seconds a run |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let seeds: Vec<String> = row.seeds.iter().map(u64::to_string).collect();
        let places: Vec<&str> = row.places.iter().map(String::as_str).collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            row.world,
            row.algorithm,
            row.extraction,
            seeds.join(", "),
            wording::grouped(row.updates),
            row.batch_size,
            places.join(", "),
            row.seconds.map_or("–".to_owned(), |seconds| format!("{seconds:.0}")),
        );
    }
    text.push_str("\nWhere configs depart from the defaults of their algorithm:\n\n");
    let same = |one: &Row, other: &Row| {
        let name = |row: &Row| (row.algorithm.clone(), row.extraction.clone());
        name(one) == name(other) && one.departures == other.departures
    };
    for (at, row) in rows.iter().enumerate() {
        if rows[..at].iter().any(|earlier| same(earlier, row)) {
            continue;
        }
        let departures: Vec<String> = row.departures.iter().map(|one| format!("`{one}`")).collect();
        let departures =
            if departures.is_empty() { "nowhere".to_owned() } else { departures.join(", ") };
        let alike = rows[at..].iter().filter(|later| same(later, row));
        let worlds: Vec<String> = alike.map(|row| row.world.to_string()).collect();
        let Row { algorithm, extraction, .. } = row;
        let _ = writeln!(text, "- {}, {algorithm} {extraction}: {departures}", worlds.join(", "));
    }
}
