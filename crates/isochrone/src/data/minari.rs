//! Minari's HDF5: a group `episode_N` for each episode, T + 1 observations and T actions.
//!
//! Observations are one array, or arrays by name in (nested) groups; those are put side by side in
//! the order of their names, `desired_goal` left out, or as the caller chose. The last row of an
//! episode gets an action of zeros, which nothing reads. `metadata.json` beside the file says how
//! many episodes and steps there must be; its `observation_space` is a text of JSON that may hold
//! `Infinity`. Source: Minari, "Dataset standards", version 0.5.

use std::path::{Path, PathBuf};

use hdf5_reader::group::Group;
use serde_json::Value;

use super::check_numbers;
use super::door::{Choices, Rows};
use super::hdf5::{self, Hdf5};
use super::npz::Writer;
use crate::error::{Error, Result};

const PREFIX: &str = "episode_";
const OBSERVATIONS: &str = "observations";
const ACTIONS: &str = "actions";
/// The task of an episode, which is no part of a state.
const TASK: &str = "desired_goal";
const FILE: &str = "main_data.hdf5";
/// The largest description that is read, in bytes.
const LARGEST_DESCRIPTION: u64 = 16 << 20;
/// How deep names of observations may be nested.
const DEEPEST: usize = 8;

/// Whether a file holds a group for each episode.
pub(super) fn is(file: &Hdf5) -> Result<bool> {
    let (groups, arrays) = file.names()?;
    Ok(!arrays.iter().any(|name| name == OBSERVATIONS)
        && groups.iter().any(|name| number(name).is_some()))
}

/// The HDF5 file of a dataset's folder.
pub(super) fn file_of(folder: &Path) -> Option<PathBuf> {
    [folder.join("data").join(FILE), folder.join(FILE)].into_iter().find(|path| path.is_file())
}

fn number(name: &str) -> Option<u64> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// Reads all episodes, by number.
pub(super) fn read(
    file: &Hdf5,
    path: &Path,
    choices: &Choices,
    notes: &mut Vec<String>,
) -> Result<Rows> {
    let mut reader = Reader::new(file, choices, Numbers::Both);
    reader.all(&Description::beside(path)?, notes, |_| Ok(()))?;
    Ok(reader.rows)
}

/// Bytes that the rows would take in memory.
pub(super) fn bytes(file: &Hdf5, choices: &Choices) -> Result<u64> {
    let mut reader = Reader::new(file, choices, Numbers::Neither);
    reader.all(&Description::default(), &mut Vec::new(), |_| Ok(()))?;
    let width = (reader.rows.state_size + reader.rows.action_size) as u64;
    Ok(4 * width * reader.rows.lengths.iter().sum::<usize>() as u64)
}

/// Writes all episodes into an archive, one at a time; the rows of each.
pub(super) fn unpack(
    file: &Hdf5,
    path: &Path,
    choices: &Choices,
    writer: &mut Writer,
    notes: &mut Vec<String>,
) -> Result<Vec<usize>> {
    let description = Description::beside(path)?;
    let mut shapes = Reader::new(file, choices, Numbers::Neither);
    shapes.all(&description, &mut Vec::new(), |_| Ok(()))?;
    let Rows { state_size, action_size, lengths, .. } = shapes.rows;
    let rows = lengths.iter().sum();
    writer.states([rows, state_size], |take| {
        let mut before = 0;
        Reader::new(file, choices, Numbers::States).all(&description, notes, |rows| {
            let states = std::mem::take(&mut rows.states);
            check_numbers(OBSERVATIONS, &states, state_size, before, false)?;
            before += states.len() as u64;
            take(&states)
        })
    })?;
    if action_size > 0 {
        let mut said = Vec::new();
        writer.actions([rows, action_size], |take| {
            let mut before = 0;
            let mut reader = Reader::new(file, choices, Numbers::Actions);
            reader.all(&description, &mut said, |rows| {
                let actions = std::mem::take(&mut rows.actions);
                check_numbers(ACTIONS, &actions, action_size, before, true)?;
                before += actions.len() as u64;
                take(&actions)
            })
        })?;
        said.retain(|note| !notes.contains(note));
        notes.append(&mut said);
    }
    Ok(lengths)
}

/// Which numbers are read; the shapes of all are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Both,
    States,
    Actions,
    Neither,
}

/// The episodes so far.
struct Reader<'f> {
    file: &'f Hdf5,
    /// The observations that make a state, in this order; decided by the first episode.
    chosen: Vec<String>,
    rows: Rows,
    wanted: Numbers,
}

/// A part of the states, with its name and how many numbers it has in a row.
struct Part {
    values: Vec<f32>,
    rows: usize,
    size: usize,
}

impl<'f> Reader<'f> {
    fn new(file: &'f Hdf5, choices: &Choices, wanted: Numbers) -> Self {
        let rows = Rows {
            states: Vec::new(),
            state_size: 0,
            states_key: OBSERVATIONS.into(),
            actions: Vec::new(),
            action_size: 0,
            discrete: false,
            lengths: Vec::new(),
        };
        Self { file, chosen: choices.keys.clone(), rows, wanted }
    }

    /// Reads all episodes, by number; `take` sees what was read so far after each.
    fn all(
        &mut self,
        description: &Description,
        notes: &mut Vec<String>,
        mut take: impl FnMut(&mut Rows) -> Result<()>,
    ) -> Result<()> {
        let names = self.file.names()?.0.into_iter();
        let mut episodes: Vec<(u64, String)> =
            names.filter_map(|name| Some((number(&name)?, name))).collect();
        episodes.sort_unstable();
        description.check_episodes(episodes.len())?;
        for (index, (_, name)) in episodes.iter().enumerate() {
            // What is true of one episode is true of all: it is said once.
            let mut more = Vec::new();
            let said = if index == 0 { &mut *notes } else { &mut more };
            self.episode(&self.file.group(name)?, name, said)?;
            take(&mut self.rows)?;
        }
        description.check_steps(&self.rows)
    }

    fn episode(&mut self, group: &Group, name: &str, notes: &mut Vec<String>) -> Result<()> {
        let (groups, arrays) = group.member_names().map_err(|e| hdf5::refused(name, &e))?;
        let parts = if arrays.iter().any(|array| array == OBSERVATIONS) {
            self.refuse_choice()?;
            let place = format!("{name}/{OBSERVATIONS}");
            vec![self.part(group, OBSERVATIONS, &place, Numbers::States, notes)?]
        } else if groups.iter().any(|group| group == OBSERVATIONS) {
            self.parts(group, name, notes)?
        } else {
            return Err(Error::input(format!("`{name}` has no `{OBSERVATIONS}`"))
                .hint("a Minari episode has `observations` and `actions`"));
        };
        let rows = parts[0].rows;
        let size: usize = parts.iter().map(|part| part.size).sum();
        if let Some(other) = parts.iter().find(|part| part.rows != rows) {
            return Err(Error::input(format!(
                "the observations of `{name}` have {rows} rows and {}",
                other.rows
            )));
        }
        let first = self.rows.lengths.is_empty();
        same_size(name, OBSERVATIONS, size, &mut self.rows.state_size, first)?;
        match parts.as_slice() {
            [only] => self.rows.states.extend(&only.values),
            _ if !self.wants(Numbers::States) => {}
            several => (0..rows).for_each(|row| {
                for part in several {
                    self.rows.states.extend(&part.values[row * part.size..][..part.size]);
                }
            }),
        }
        let has_actions = arrays.iter().any(|array| array == ACTIONS);
        self.actions(has_actions.then_some(group), name, rows, notes)?;
        self.rows.lengths.push(rows);
        Ok(())
    }

    fn refuse_choice(&self) -> Result<()> {
        if self.chosen.is_empty() {
            return Ok(());
        }
        Err(Error::input("keys are chosen, but the observations are one array without names")
            .hint("leave `--keys` out"))
    }

    /// The chosen observations of an episode whose observations have names.
    fn parts(&mut self, group: &Group, name: &str, notes: &mut Vec<String>) -> Result<Vec<Part>> {
        let place = format!("{name}/{OBSERVATIONS}");
        let group = group.group(OBSERVATIONS).map_err(|e| hdf5::refused(&place, &e))?;
        if self.chosen.is_empty() {
            let mut found = Vec::new();
            leaves(&group, "", 0, &mut found).map_err(|error| error.hint("save it again"))?;
            found.sort_unstable();
            let left_out = found.iter().position(|key| key == TASK).map(|at| found.remove(at));
            let aside = left_out.map_or(String::new(), |key| {
                format!("; `{key}` is the task, not the state, and is left out")
            });
            let list: Vec<String> = found.iter().map(|key| format!("`{key}`")).collect();
            notes.push(format!("a state is {}, in this order{aside}", list.join(", ")));
            self.chosen = found;
        }
        if self.chosen.is_empty() {
            return Err(Error::input(format!("`{place}` holds no arrays")));
        }
        let of = |key: &String| {
            self.part(&group, key, &format!("{place}/{key}"), Numbers::States, notes)
        };
        self.chosen.iter().map(of).collect()
    }

    fn actions(
        &mut self,
        group: Option<&Group>,
        name: &str,
        rows: usize,
        notes: &mut Vec<String>,
    ) -> Result<()> {
        let key = format!("{name}/{ACTIONS}");
        let first = self.rows.lengths.is_empty();
        let Some(group) = group else {
            return same_size(name, ACTIONS, 0, &mut self.rows.action_size, first);
        };
        let actions = self.part(group, ACTIONS, &key, Numbers::Actions, notes)?;
        if actions.rows + 1 != rows {
            return Err(Error::input(format!(
                "`{name}` has {rows} observations and {} actions, expected one observation more",
                actions.rows
            ))
            .hint("Minari keeps the state before every action and the one after the last"));
        }
        same_size(name, ACTIONS, actions.size, &mut self.rows.action_size, first)?;
        if self.wants(Numbers::Actions) {
            self.rows.actions.extend(&actions.values);
            self.rows.actions.extend(std::iter::repeat_n(0.0, actions.size));
        }
        Ok(())
    }

    fn wants(&self, numbers: Numbers) -> bool {
        self.wanted == Numbers::Both || self.wanted == numbers
    }

    /// The array called `key` below a group, `outer/inner`, a part of the states or the actions.
    fn part(
        &self,
        group: &Group,
        key: &str,
        place: &str,
        numbers: Numbers,
        notes: &mut Vec<String>,
    ) -> Result<Part> {
        let mut group_of_key = None;
        let mut name = key;
        while let Some((outer, inner)) = name.split_once('/') {
            let from = group_of_key.as_ref().unwrap_or(group);
            group_of_key = Some(from.group(outer).map_err(|_| no_observation(place))?);
            name = inner;
        }
        let array = group_of_key
            .as_ref()
            .unwrap_or(group)
            .dataset(name)
            .map_err(|_| no_observation(place))?;
        if !self.wants(numbers) {
            let [rows, size] = hdf5::shape(&array, place)?.map(|side| side as usize);
            return Ok(Part { values: Vec::new(), rows, size });
        }
        let (values, rows, size) = self.file.matrix(&array, place, notes)?;
        Ok(Part { values, rows, size })
    }
}

/// Refuses an episode whose rows are wider or narrower than those of the first.
fn same_size(name: &str, key: &str, found: usize, size: &mut usize, first: bool) -> Result<()> {
    if first {
        *size = found;
    }
    if *size == found {
        return Ok(());
    }
    Err(Error::input(format!("`{name}/{key}` has {found} numbers in a row, others have {size}")))
}

fn no_observation(place: &str) -> Error {
    Error::input(format!("`{place}` is not there or no array"))
        .hint("every episode has the same keys; choose them with `--keys`")
}

/// The names of all arrays below a group, `outer/inner`.
fn leaves(group: &Group, before: &str, depth: usize, found: &mut Vec<String>) -> Result<()> {
    if depth > DEEPEST {
        return Err(Error::input(format!("observations are nested deeper than {DEEPEST} names")));
    }
    let (groups, arrays) = group.member_names().map_err(|e| hdf5::refused(before, &e))?;
    found.extend(arrays.iter().map(|name| format!("{before}{name}")));
    for name in groups {
        let inner = group.group(&name).map_err(|e| hdf5::refused(&name, &e))?;
        leaves(&inner, &format!("{before}{name}/"), depth + 1, found)?;
    }
    Ok(())
}

/// What `metadata.json` promises.
#[derive(Default)]
struct Description {
    episodes: Option<u64>,
    steps: Option<u64>,
}

impl Description {
    /// Reads `metadata.json` beside `path`, where it is.
    fn beside(path: &Path) -> Result<Self> {
        let path = path.with_file_name("metadata.json");
        match std::fs::metadata(&path) {
            Ok(found) if found.len() <= LARGEST_DESCRIPTION => {}
            Ok(found) => {
                let size = found.len();
                return Err(Error::input(format!("the description has {size} bytes"))
                    .in_file(&path)
                    .hint(format!("at most {LARGEST_DESCRIPTION} are read")));
            }
            Err(_) => return Ok(Self::default()),
        }
        let text = std::fs::read_to_string(&path)
            .map_err(|error| Error::input(format!("cannot be read: {error}")).in_file(&path))?;
        Self::parse(&text).map_err(|error| error.in_file(&path))
    }

    fn parse(text: &str) -> Result<Self> {
        let damaged = |what: &str, error: &serde_json::Error| {
            Error::input(format!("{what} is not JSON: {}", error.to_string().to_lowercase()))
                .hint("download or save the dataset again")
        };
        let value: Value = serde_json::from_str(text).map_err(|e| damaged("the file", &e))?;
        if let Some(format) = value["data_format"].as_str().filter(|format| *format != "hdf5") {
            return Err(Error::input(format!("the data are in `{format}`, expected `hdf5`"))
                .hint("save the dataset with `data_format=\"hdf5\"`"));
        }
        if let Some(space) = value["observation_space"].as_str() {
            let space: Value = serde_json::from_str(&finite(space))
                .map_err(|error| damaged("`observation_space`", &error))?;
            check_space(&space, 0)?;
        }
        Ok(Self {
            episodes: value["total_episodes"].as_u64(),
            steps: value["total_steps"].as_u64(),
        })
    }

    fn check_episodes(&self, found: usize) -> Result<()> {
        match self.episodes {
            Some(expected) if expected != found as u64 => {
                Err(Error::input(format!("{found} episodes, `metadata.json` says {expected}"))
                    .hint("the dataset is not whole; download or save it again"))
            }
            _ => Ok(()),
        }
    }

    fn check_steps(&self, rows: &Rows) -> Result<()> {
        let found = (rows.lengths.iter().sum::<usize>() - rows.lengths.len()) as u64;
        match self.steps {
            Some(expected) if expected != found => {
                Err(Error::input(format!("{found} steps, `metadata.json` says {expected}"))
                    .hint("the dataset is not whole; download or save it again"))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses observations that are no vectors of numbers.
fn check_space(space: &Value, depth: usize) -> Result<()> {
    let kind = space["type"].as_str().unwrap_or_default();
    let inner = |values: Vec<&Value>| {
        values.into_iter().try_for_each(|space| {
            if depth > DEEPEST { Ok(()) } else { check_space(space, depth + 1) }
        })
    };
    match kind {
        "Box" | "" => Ok(()),
        "Dict" => {
            inner(space["subspaces"].as_object().map_or(Vec::new(), |m| m.values().collect()))
        }
        "Tuple" => inner(space["subspaces"].as_array().map_or(Vec::new(), |l| l.iter().collect())),
        other => Err(Error::input(format!("an observation is a `{other}`, expected a `Box`"))
            .hint("choose or make observations that are vectors of numbers")),
    }
}

/// The text with `Infinity` and `NaN` outside of quotes made `null`, which JSON knows.
fn finite(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let (mut rest, mut quoted) = (text, false);
    while let Some(letter) = rest.chars().next() {
        let word = ["-Infinity", "Infinity", "NaN"].into_iter().find(|word| rest.starts_with(word));
        if let Some(word) = word.filter(|_| !quoted) {
            result.push_str("null");
            rest = &rest[word.len()..];
            continue;
        }
        let taken = match letter {
            '\\' if quoted => rest.chars().take(2).map(char::len_utf8).sum(),
            _ => letter.len_utf8(),
        };
        quoted ^= letter == '"';
        result.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Opened, open};
    use tempfile::TempDir;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
    }

    fn opened(name: &str, keys: &[&str]) -> Result<Opened> {
        open(&fixture(name), &Choices { keys: keys.iter().map(|key| (*key).into()).collect() })
    }

    #[test]
    fn episodes_are_in_the_order_of_their_numbers_with_one_state_more_than_actions() {
        let rows = opened("minari-plain", &[]).unwrap().rows;
        let lengths: Vec<usize> = (0..12).map(|number| 3 + number % 3).collect();
        assert_eq!(rows.lengths, lengths);
        let expected = lengths.iter().enumerate().flat_map(|(number, &length)| {
            (0..length).flat_map(move |place| [number as f32, place as f32])
        });
        assert_eq!(rows.states, expected.collect::<Vec<_>>());
        let expected = lengths.iter().enumerate().flat_map(|(number, &length)| {
            (0..length).map(move |at| if at + 1 == length { 0.0 } else { number as f32 / 16.0 })
        });
        assert_eq!(rows.actions, expected.collect::<Vec<_>>());
    }

    #[test]
    fn named_observations_stand_side_by_side_by_name_or_as_chosen() {
        let found = opened("minari-dict", &[]).unwrap();
        assert_eq!(found.rows.state_size, 4);
        assert_eq!(found.rows.states[4..8], [0.0, 1.0, 100.0, 101.0]);
        let said = found.notes.iter().find(|note| note.starts_with("a state is")).unwrap();
        assert!(said.starts_with("a state is `achieved_goal`, `observation`, in this order; "));
        assert!(said.contains("`desired_goal` is the task"));
        assert_eq!(found.notes.len(), 2, "each thing is said once: {:?}", found.notes);
        let chosen = opened("minari-dict", &["observation", "achieved_goal"]).unwrap().rows;
        assert_eq!(chosen.states[4..8], [100.0, 101.0, 0.0, 1.0]);
        let error = opened("minari-dict", &["nothing"]).unwrap_err().to_string();
        assert!(error.contains("`episode_0/observations/nothing` is not there"), "{error}");
    }

    #[test]
    fn a_description_that_does_not_fit_is_refused() {
        let folder = TempDir::new().unwrap();
        let source = fixture("minari-plain/data");
        let data = folder.path().join(FILE);
        std::fs::copy(source.join(FILE), &data).unwrap();
        let text = std::fs::read_to_string(source.join("metadata.json")).unwrap();
        assert!(text.contains("Infinity"), "the fixture has no infinity");
        let complaint = |from: &str, to: &str| {
            let changed = text.replace(from, to);
            assert_ne!(changed, text);
            std::fs::write(folder.path().join("metadata.json"), changed).unwrap();
            open(&data, &Choices::default()).unwrap_err().to_string()
        };
        assert!(complaint("episodes\": 12", "episodes\": 13").contains("says 13"));
        assert!(complaint("steps\": 36", "steps\": 37").contains("36 steps, `metadata.json`"));
        assert!(complaint("\"hdf5\"", "\"arrow\"").contains("the data are in `arrow`"));
        assert!(complaint("Box", "Text").contains("an observation is a `Text`"));
        assert!(complaint("Infinity", "Infinite").contains("`observation_space` is not JSON"));
        let broken = complaint("{", "");
        assert!(broken.contains("the file is not JSON") && broken.contains("metadata.json"));
    }

    #[test]
    fn infinity_is_replaced_only_outside_of_quotes() {
        let text = r#"{"a": [-Infinity, Infinity, NaN], "NaN \" Infinity": 1}"#;
        assert_eq!(finite(text), r#"{"a": [null, null, null], "NaN \" Infinity": 1}"#);
    }
}
