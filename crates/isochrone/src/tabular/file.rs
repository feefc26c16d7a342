//! A small world from a file: TOML or JSON, by extension → [`TabularWorld`].
//!
//! `discount` (a number), `states` (optional, their names in order) and `transitions`, a list of
//! `{ from, action, to, probability }`. States and actions are names or numbers; a number counts
//! `states` from 0 where those are given. `probability` is 1 if left out. With no `action` at all
//! the world is a chain. Anything else in the file is refused; transitions are counted from 1.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::chain::Chain;
use super::matrix::Matrix;
use super::names::{Label, Names, nth};
use super::process::{DecisionProcess, Transition};
use crate::error::{Error, Result};
use crate::plain;
use crate::spelling::nearest;

/// The largest file that is read.
const LARGEST_FILE: u64 = 64 << 20;

/// The most states a file may name: a matrix over them takes 128 MiB.
const MOST_STATES: usize = 4096;

/// The most actions a file may name.
const MOST_ACTIONS: usize = 4096;

/// The least that a discount may differ from 1: a step changes a distance by about as much, and
/// distances are exact to about 1e-16.
const NEAREST: f64 = 1e-9;

const KEYS: [&str; 3] = ["discount", "states", "transitions"];
const TRANSITION_KEYS: [&str; 4] = ["from", "action", "to", "probability"];

/// A world read from a file, with the names its states and actions have there.
#[derive(Debug, Clone, PartialEq)]
pub struct TabularWorld {
    /// The names of the states, in order.
    pub states: Vec<String>,
    /// The names of the actions, in order; none for a chain.
    pub actions: Vec<String>,
    /// How it moves.
    pub dynamics: Dynamics,
}

/// How a world moves: by itself or by actions.
#[derive(Debug, Clone, PartialEq)]
pub enum Dynamics {
    /// By itself.
    Chain(Chain),
    /// By actions.
    Process(DecisionProcess),
}

impl TabularWorld {
    /// The discount γ, in (0, 1).
    pub fn discount(&self) -> f64 {
        match &self.dynamics {
            Dynamics::Chain(chain) => chain.discount(),
            Dynamics::Process(process) => process.discount(),
        }
    }

    /// The distances in nats between all states.
    pub fn distances(&self) -> Matrix {
        match &self.dynamics {
            Dynamics::Chain(chain) => chain.distances(),
            Dynamics::Process(process) => process.distances(),
        }
    }
}

/// Reads a world; `discount` replaces the file's own.
///
/// # Errors
/// Names the file, the transition and the way out: unknown keys and names, probabilities that do
/// not sum to one, states that lead nowhere, files and worlds that are too large.
pub fn read(path: &Path, discount: Option<f64>) -> Result<TabularWorld> {
    let text = read_text(path)?;
    let document = match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => toml::from_str(&text).map_err(|error| {
            let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
            let line = line.map_or(String::new(), |line| format!(" on line {line}"));
            Error::input(format!("not valid TOML{line}: {}", one_line(error.message())))
        }),
        Some("json") => serde_json::from_str(&text).map_err(|error| {
            Error::input(format!("not valid JSON: {}", one_line(&error.to_string())))
        }),
        _ => Err(Error::input("the name of a world must end in `.toml` or `.json`")
            .hint("rename the file after its format")),
    };
    document
        .and_then(|document: Document| document.world(discount))
        .map_err(|error| error.in_file(path))
}

fn read_text(path: &Path) -> Result<String> {
    let refuse = |error: std::io::Error| {
        Error::input(format!("cannot read the world: {error}"))
            .in_file(path)
            .hint("give the path of a TOML or JSON file that you may read")
    };
    let mut text = String::new();
    let file = plain::open(path).map_err(refuse)?;
    file.take(LARGEST_FILE + 1).read_to_string(&mut text).map_err(refuse)?;
    if text.len() as u64 > LARGEST_FILE {
        let what = format!("a world of more than {} MiB", LARGEST_FILE >> 20);
        return Err(Error::input(what).in_file(path).hint("build large worlds with the library"));
    }
    Ok(text)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The file as it stands, before anything is believed.
#[derive(Deserialize)]
struct Document {
    discount: Option<Label>,
    states: Option<Vec<Label>>,
    #[serde(default)]
    transitions: Vec<Entry>,
    #[serde(flatten)]
    unknown: BTreeMap<String, IgnoredAny>,
}

/// One transition as it stands.
#[derive(Deserialize)]
struct Entry {
    from: Option<Label>,
    action: Option<Label>,
    to: Option<Label>,
    probability: Option<Label>,
    #[serde(flatten)]
    unknown: BTreeMap<String, IgnoredAny>,
}

impl Document {
    fn world(self, discount: Option<f64>) -> Result<TabularWorld> {
        refuse_unknown(&self.unknown, &KEYS, "")?;
        let discount = self.discount(discount)?;
        if self.transitions.is_empty() {
            return Err(Error::input("no `transitions`, expected at least one")
                .hint("write `transitions = [{ from = \"a\", to = \"b\", probability = 1.0 }]`"));
        }
        for (place, entry) in self.transitions.iter().enumerate() {
            refuse_unknown(&entry.unknown, &TRANSITION_KEYS, &format!(" of {}", nth(place)))?;
        }
        let states = match &self.states {
            Some(states) => Names::given(states, MOST_STATES)?,
            None => {
                Names::found(self.labels(|entry| [&entry.from, &entry.to]), "state", MOST_STATES)?
            }
        };
        let actions = self.actions()?;
        let transitions = self.transitions(&states, actions.as_ref())?;
        let size = states.names.len();
        refuse_broken_rows(&transitions, &states, actions.as_ref())?;
        let dynamics = match &actions {
            None => Dynamics::Chain(Chain::from_transitions(size, discount, &transitions)?),
            Some(actions) => Dynamics::Process(DecisionProcess::from_transitions(
                size,
                actions.names.len(),
                discount,
                &transitions,
            )?),
        };
        Ok(TabularWorld {
            states: states.names,
            actions: actions.map_or(Vec::new(), |a| a.names),
            dynamics,
        })
    }

    fn discount(&self, instead: Option<f64>) -> Result<f64> {
        let discount = match (instead, &self.discount) {
            (Some(discount), _) => discount,
            (None, Some(found)) => found.number().ok_or_else(|| {
                Error::input(format!(
                    "`discount` is `{found}`, expected a number above 0 and below 1"
                ))
            })?,
            (None, None) => {
                return Err(Error::input("no `discount`")
                    .hint("add a line such as `discount = 0.95`, or pass `--discount 0.95`"));
            }
        };
        if discount < 1.0 && 1.0 - discount < NEAREST {
            return Err(Error::input(format!(
                "`discount` is `{discount}`, so near 1 that rounding would decide the steps"
            ))
            .hint("pass `--discount 0.999999`"));
        }
        Ok(discount)
    }

    /// The labels that `choose` picks from every transition, with the transition's place.
    fn labels<'a, const N: usize>(
        &'a self,
        choose: impl Fn(&'a Entry) -> [&'a Option<Label>; N],
    ) -> impl Iterator<Item = (usize, &'a Label)> {
        let labelled = self.transitions.iter().enumerate();
        labelled.flat_map(move |(place, entry)| {
            choose(entry).into_iter().flatten().map(move |label| (place, label))
        })
    }

    /// The actions, or none if no transition has one.
    fn actions(&self) -> Result<Option<Names>> {
        if self.transitions.iter().all(|entry| entry.action.is_none()) {
            return Ok(None);
        }
        if let Some(place) = self.transitions.iter().position(|entry| entry.action.is_none()) {
            return Err(Error::input(format!(
                "{} has no `action`, but others have one",
                nth(place)
            ))
            .hint("name the action of every transition, or of none for a chain"));
        }
        let labels = self.labels(|entry| [&entry.action]);
        Names::found(labels, "action", MOST_ACTIONS).map(Some)
    }

    fn transitions(&self, states: &Names, actions: Option<&Names>) -> Result<Vec<Transition>> {
        let entries = self.transitions.iter().enumerate();
        entries
            .map(|(place, entry)| {
                let state = |label: &Option<Label>, key: &str| match label {
                    Some(label) => states.index(label, place, "state"),
                    None => Err(Error::input(format!("{} has no `{key}`", nth(place)))
                        .hint("a transition is `{ from = \"a\", to = \"b\", probability = 1.0 }`")),
                };
                let action = match (actions, &entry.action) {
                    (Some(actions), Some(label)) => actions.index(label, place, "action")?,
                    _ => 0,
                };
                let (from, to) = (state(&entry.from, "from")?, state(&entry.to, "to")?);
                Ok(Transition { from, action, to, probability: entry.probability(place)? })
            })
            .collect()
    }
}

impl Entry {
    fn probability(&self, place: usize) -> Result<f64> {
        let Some(found) = &self.probability else { return Ok(1.0) };
        match found.number() {
            Some(probability) if probability > 0.0 && probability <= 1.0 => Ok(probability),
            _ => Err(Error::input(format!(
                "`probability` of {} is `{found}`, expected a number above 0 and at most 1",
                nth(place)
            ))),
        }
    }
}

/// Checks each row by name, so that what the user reads is what stands in the file.
fn refuse_broken_rows(
    transitions: &[Transition],
    states: &Names,
    actions: Option<&Names>,
) -> Result<()> {
    let mut sums: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    let mut met = BTreeMap::new();
    for (place, found) in transitions.iter().enumerate() {
        *sums.entry((found.from, found.action)).or_default() += found.probability;
        if let Some(earlier) = met.insert((found.from, found.action, found.to), place) {
            return Err(Error::input(format!("{} repeats {}", nth(place), nth(earlier)))
                .hint("give each next state once, with its whole probability"));
        }
    }
    for (&(state, action), sum) in &sums {
        if (sum - 1.0).abs() > super::process::ROW_TOLERANCE {
            let by = actions.map_or(String::new(), |a| format!(" by action `{}`", a.names[action]));
            return Err(Error::input(format!(
                "the probabilities from state `{}`{by} sum to `{sum}`, expected 1",
                states.names[state]
            ))
            .hint("list every next state, staying included"));
        }
    }
    for (state, name) in states.names.iter().enumerate() {
        if sums.range((state, 0)..(state + 1, 0)).next().is_none() {
            return Err(Error::input(format!("state `{name}` leads nowhere"))
                .hint(format!("let it stay: `{{ from = \"{name}\", to = \"{name}\" }}`")));
        }
    }
    Ok(())
}

fn refuse_unknown(unknown: &BTreeMap<String, IgnoredAny>, known: &[&str], of: &str) -> Result<()> {
    match unknown.keys().next() {
        None => Ok(()),
        Some(key) => {
            Err(Error::input(format!("unknown key `{key}`{of}")).hint(nearest(key, known)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tabular::steps;

    fn read_as(name: &str, text: &str) -> Result<TabularWorld> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        read(&path, None)
    }

    fn toml(text: &str) -> Result<TabularWorld> {
        read_as("world.toml", text)
    }

    fn complaint(text: &str) -> String {
        let text = toml(text).unwrap_err().to_string();
        assert!(!text.contains('\n') && text.contains("world.toml"), "{text}");
        text
    }

    #[test]
    fn a_discount_so_near_one_that_rounding_decides_is_refused() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/commute.toml");
        for near in [1.0 - 1e-15, 1.0 - 1e-12, 1.0 - f64::EPSILON / 2.0] {
            let error = read(&path, Some(near)).unwrap_err().to_string();
            assert!(error.contains("so near 1") && error.contains("0.999999"), "{error}");
        }
        // The nearest that is solved is right to a thousandth of a step.
        let world = read(&path, Some(1.0 - 1.1e-9)).unwrap();
        let found = steps(world.distances().between(0, 1), world.discount());
        assert!((found - 2.0).abs() < 1e-3, "{found}");
    }

    #[test]
    fn the_commute_has_the_distances_worked_out_by_hand() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/commute.toml");
        let world = read(&path, None).unwrap();
        assert_eq!(world.states, ["home", "alley", "square", "office"]);
        assert_eq!(world.actions, ["alley", "street", "walk", "bus"]);
        let (distances, g) = (world.distances(), world.discount());
        // A try that succeeds with p: γ p / (1 − γ (1 − p)).
        let gate = g * 0.5 / (1.0 - g * 0.5);
        let bus = g * 0.8 / (1.0 - g * 0.2);
        let expected = [
            [1.0, gate, g, f64::max(g * bus, gate * g)],
            [g * g * g, 1.0, g * g, g],
            [g, g * gate, 1.0, bus],
            [g * g, g * g * gate, g, 1.0],
        ];
        for (from, row) in expected.iter().enumerate() {
            for (to, value) in row.iter().enumerate() {
                let found = distances.between(from, to);
                assert!((found + value.ln()).abs() < 1e-12, "{from} {to}: {found}");
            }
        }
        let other = read(&path, Some(0.5)).unwrap();
        assert_eq!(other.discount(), 0.5);
        assert!((steps(other.distances().between(3, 2), 0.5) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_world_without_actions_is_a_chain_and_toml_and_json_agree() {
        let toml = toml(
            "discount = 0.9\ntransitions = [{ from = 10, to = 2 }, { from = 2, to = 10, \
             probability = 0.25 }, { from = 2, to = 2, probability = 0.75 }]",
        )
        .unwrap();
        assert_eq!(toml.states, ["2", "10"]);
        assert!(matches!(&toml.dynamics, Dynamics::Chain(chain) if chain.states() == 2));
        let json = r#"{"discount": 0.9, "transitions": [{"from": 10, "to": 2},
            {"from": 2, "to": 10, "probability": 0.25}, {"from": 2, "to": 2, "probability": 0.75}]}"#;
        assert_eq!(read_as("world.json", json).unwrap(), toml);
    }

    #[test]
    fn wrong_keys_and_names_are_met_with_the_nearest_one() {
        let text = complaint("discout = 0.9\ntransitions = [{ from = 0, to = 0 }]");
        assert!(text.starts_with("unknown key `discout` (`"), "{text}");
        assert!(text.contains("hint: did you mean `discount`? expected one of "), "{text}");
        let text = complaint(
            "discount = 0.9\ntransitions = [{ from = 0, to = 0 }, { from = 0, to = 0, prob = 1 }]",
        );
        assert!(text.starts_with("unknown key `prob` of transition 2"), "{text}");
        let text = complaint(
            "discount = 0.9\nstates = ['home', 'office']\n\
             transitions = [{ from = 'home', to = 'ofice' }]",
        );
        assert!(text.starts_with("transition 1 knows no state `ofice`"), "{text}");
        assert!(text.contains("did you mean `office`? expected one of "), "{text}");
    }

    #[test]
    fn every_wrong_value_is_named_with_its_transition() {
        let cases = [
            ("{ from = 0, to = 0, probability = 'x' }", "`probability` of transition 1 is `x`"),
            ("{ from = 0, to = 0, probability = nan }", "`probability` of transition 1 is `NaN`"),
            ("{ from = 0, to = 0, probability = -1 }", "`probability` of transition 1 is `-1`"),
            ("{ from = 0, to = 0, probability = 0.5 }", "the probabilities from state `0` sum to"),
            ("{ from = 0, to = 1 }", "state `1` leads nowhere"),
            ("{ from = 0 }", "transition 1 has no `to`"),
            ("{ from = 0.5, to = 0 }", "the state of transition 1 is `0.5`"),
            ("{ from = [0], to = 0 }", "the state of transition 1 is `neither"),
            ("{ from = 'a', to = 0 }", "transition 1 calls state `0`"),
            ("{ from = 0, to = 0 }, { from = 0, to = 0 }", "transition 2 repeats transition 1"),
            (
                "{ from = 0, to = 0, action = 1 }, { from = 0, to = 0 }",
                "transition 2 has no `action`",
            ),
            ("", "no `transitions`"),
        ];
        for (transitions, expected) in cases {
            let text = complaint(&format!("discount = 0.9\ntransitions = [{transitions}]"));
            assert!(text.starts_with(expected), "{text}, expected {expected}");
        }
    }

    #[test]
    fn broken_files_and_discounts_are_refused() {
        assert!(complaint("discount = \n").starts_with("not valid TOML on line 1"));
        let stay = "transitions = [{ from = 0, to = 0 }]";
        assert!(complaint(stay).starts_with("no `discount`"));
        assert!(complaint(&format!("discount = 1.5\n{stay}")).starts_with("discount `1.5`"));
        assert!(complaint(&format!("discount = 'x'\n{stay}")).starts_with("`discount` is `x`"));
        let twice = r#"{"discount": 0.9, "discount": 0.8, "transitions": []}"#;
        assert!(read_as("w.json", twice).unwrap_err().to_string().contains("duplicate"));
        let text = read_as("world.txt", "").unwrap_err().to_string();
        assert!(text.starts_with("the name of a world must end in"), "{text}");
        assert!(read(Path::new("nowhere.toml"), None).unwrap_err().to_string().contains("nowhere"));
    }

    #[test]
    fn a_world_with_too_many_states_is_refused() {
        let entries: Vec<String> = (0..=MOST_STATES)
            .map(|state| format!(r#"{{"from": {state}, "to": {state}}}"#))
            .collect();
        let text = format!(r#"{{"discount": 0.9, "transitions": [{}]}}"#, entries.join(","));
        let error = read_as("large.json", &text).unwrap_err().to_string();
        assert!(error.starts_with("more than 4096 states"), "{error}");
    }
}
