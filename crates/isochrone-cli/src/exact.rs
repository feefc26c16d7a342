//! `isochrone exact FILE`: the exact distances of a small world, as a table or as JSON.

use std::path::PathBuf;

use isochrone::tabular::{Dynamics, Matrix, TabularWorld, read, steps};
use isochrone::{Error, Result};
use serde_json::{Value, json};

use crate::output::say;

/// The most pairs whose distances are printed: their matrix takes 128 MiB.
const MOST_PAIRS: usize = 4096;

/// Print the exact distances between the states of a small world
#[derive(Debug, clap::Args)]
pub struct Exact {
    /// The world: a TOML or JSON file with `discount` and `transitions`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Use this discount instead of the one in the file
    #[arg(long, value_name = "NUMBER")]
    discount: Option<f64>,
    /// Print nats instead of steps: steps × ln(1/discount)
    #[arg(long)]
    nats: bool,
    /// Print JSON, with null for unreachable states
    #[arg(long)]
    json: bool,
    /// Print distances between state-action pairs
    #[arg(long)]
    state_action: bool,
}

/// Solves the world and prints its distances to the standard output.
///
/// # Errors
/// A file that is no world, `--state-action` for a world without actions, an output that cannot be
/// written. A reader that closes the pipe early is no error.
pub fn run(arguments: &Exact) -> Result<()> {
    say(&answer(arguments)?)
}

/// What the command prints.
fn answer(arguments: &Exact) -> Result<String> {
    let world = read(&arguments.file, arguments.discount)?;
    let (rows, distances) = match (arguments.state_action, &world.dynamics) {
        (false, _) => (world.states.clone(), world.distances()),
        (true, Dynamics::Process(process)) if process.pairs().len() > MOST_PAIRS => {
            return Err(Error::memory(format!("more than {MOST_PAIRS} pairs of state and action"))
                .in_file(&arguments.file)
                .hint("leave out `--state-action`"));
        }
        (true, Dynamics::Process(process)) => {
            let pair = |&(state, action): &(usize, usize)| {
                format!("{}/{}", world.states[state], world.actions[action])
            };
            (process.pairs().iter().map(pair).collect(), process.pair_distances())
        }
        (true, Dynamics::Chain(_)) => {
            return Err(Error::input("`--state-action` needs actions, found a world without them")
                .in_file(&arguments.file)
                .hint("leave out `--state-action` or give every transition an `action`"));
        }
    };
    let discount = world.discount();
    let distances = if arguments.nats { distances } else { distances.map(|d| steps(d, discount)) };
    if arguments.json {
        return Ok(document(&world, &rows, &distances, arguments).to_string());
    }
    let meaning = meaning(discount, arguments.nats);
    Ok(format!("{}\n{meaning}", table(&rows, &distances, if arguments.nats { 4 } else { 2 })))
}

/// One line that says how to read the numbers.
fn meaning(discount: f64, nats: bool) -> String {
    let missed = steps(std::f64::consts::LN_2, discount);
    if nats {
        return format!(
            "nats from row to column at discount {discount}; a step is {:.4} nats; a goal \
             that becomes unreachable with probability ½ costs ln 2 more",
            -discount.ln()
        );
    }
    format!(
        "steps from row to column at discount {discount}: their number where motion is certain, \
         else at most the expected number; a goal that becomes unreachable with probability ½ \
         costs {missed:.1} steps more"
    )
}

/// The matrix with names on both sides, columns right-aligned.
fn table(names: &[String], distances: &Matrix, digits: usize) -> String {
    let cell = |distance: f64| match distance {
        f64::INFINITY => "∞".to_owned(),
        // Adding zero turns −0 into 0.
        finite => format!("{:.digits$}", finite + 0.0),
    };
    let width = |text: &str| text.chars().count();
    let first = names.iter().map(|name| width(name)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..names.len())
        .map(|to| {
            let cells = (0..names.len()).map(|from| width(&cell(distances.between(from, to))));
            cells.max().unwrap_or(0).max(width(&names[to]))
        })
        .collect();
    let mut text = " ".repeat(first);
    for (name, &width) in names.iter().zip(&widths) {
        text += &format!("  {name:>width$}");
    }
    for (from, name) in names.iter().enumerate() {
        text += &format!("\n{name:first$}");
        for (&distance, &width) in distances.row(from).iter().zip(&widths) {
            text += &format!("  {:>width$}", cell(distance));
        }
    }
    text
}

/// The matrix as JSON, row by row, with null for infinity.
fn document(world: &TabularWorld, rows: &[String], distances: &Matrix, arguments: &Exact) -> Value {
    let values: Vec<Vec<Option<f64>>> = (0..distances.size())
        .map(|from| distances.row(from).iter().map(|d| d.is_finite().then_some(*d)).collect())
        .collect();
    let mut document = json!({
        "discount": world.discount(),
        "unit": if arguments.nats { "nats" } else { "steps" },
        "distances": values,
    });
    match (&world.dynamics, arguments.state_action) {
        (Dynamics::Process(process), true) => {
            let pair = |(state, action): (usize, usize)| json!({ "state": world.states[state], "action": world.actions[action] });
            document["pairs"] = process.pairs().into_iter().map(pair).collect();
        }
        _ => document["states"] = json!(rows),
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(file: PathBuf) -> Exact {
        Exact { file, discount: None, nats: false, json: false, state_action: false }
    }

    fn commute() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/commute.toml")
    }

    /// A street that ends: from `end` there is no way back.
    fn street(folder: &tempfile::TempDir) -> PathBuf {
        let path = folder.path().join("street.json");
        let text = r#"{"discount": 0.5, "transitions": [
            {"from": "start", "to": "end"}, {"from": "end", "to": "end"}]}"#;
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn the_table_of_a_one_way_street_is_aligned_and_says_what_steps_are() {
        let folder = tempfile::tempdir().unwrap();
        let text = answer(&arguments(street(&folder))).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("       start   end"));
        assert_eq!(lines.next(), Some("start   0.00  1.00"));
        assert_eq!(lines.next(), Some("end        ∞  0.00"));
        let last = lines.next().unwrap();
        assert!(last.starts_with("steps from row to column at discount 0.5: "), "{last}");
        assert!(last.ends_with("costs 1.0 steps more"), "{last}");
        assert_eq!(lines.next(), None);
    }

    #[test]
    fn json_writes_null_for_infinity() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = Exact { json: true, discount: Some(0.25), ..arguments(street(&folder)) };
        let found: Value = serde_json::from_str(&answer(&wanted).unwrap()).unwrap();
        let expected = json!({
            "discount": 0.25,
            "unit": "steps",
            "states": ["start", "end"],
            "distances": [[0.0, 1.0], [null, 0.0]],
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn nats_are_steps_times_the_cost_of_one() {
        let distance = |nats: bool| {
            let wanted = Exact { json: true, nats, ..arguments(commute()) };
            let found: Value = serde_json::from_str(&answer(&wanted).unwrap()).unwrap();
            found["distances"][1][0].as_f64().unwrap()
        };
        assert!((distance(false) - 3.0).abs() < 1e-12);
        assert!((distance(true) + 3.0 * 0.95f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn pairs_are_listed_where_actions_are_available() {
        let wanted = Exact { state_action: true, ..arguments(commute()) };
        let text = answer(&wanted).unwrap();
        assert!(text.contains("\nhome/street "), "{text}");
        assert_eq!(text.lines().count(), 1 + 6 + 1);
        let wanted = Exact { json: true, ..wanted };
        let found: Value = serde_json::from_str(&answer(&wanted).unwrap()).unwrap();
        assert_eq!(found["pairs"][1], json!({ "state": "home", "action": "street" }));
        // From home by the street to (square, bus): one step; to itself: none.
        assert!((found["distances"][1][3].as_f64().unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(found["distances"][1][1], json!(0.0));
    }

    #[test]
    fn a_chain_has_no_pairs() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = Exact { state_action: true, ..arguments(street(&folder)) };
        let text = answer(&wanted).unwrap_err().to_string();
        assert!(text.starts_with("`--state-action` needs actions"), "{text}");
    }
}
