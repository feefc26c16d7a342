//! Minari's HDF5: a group `episode_N` for each episode, T + 1 observations and T actions.
//!
//! Observations are one array, or named arrays in (nested) groups; those are concatenated in the
//! order of their names, without `desired_goal`, or as the caller chose. The last row of an episode
//! gets an action of zeros, which is never read. Source: Minari, "Dataset standards", version 0.5.

mod description;

use std::path::{Path, PathBuf};

use hdf5_reader::Dataset as Array;
use hdf5_reader::group::Group;

use self::description::{DEEPEST, Description};
use super::complaints::refuse_misspelling;
use super::dataset::{Dataset, check_located};
use super::format::Format;
use super::hdf5::{self, Hdf5};
use super::memory::Memory;
use super::npz::Writer;
use super::origins::{EpisodeArrays, Origins};
use super::raw::RawRows;
use super::reader::{Choices, Pieces, Reader, Widths};
use crate::error::{Error, Result};

const PREFIX: &str = "episode_";
const OBSERVATIONS: &str = "observations";
const ACTIONS: &str = "actions";
/// The other keys of an episode.
const OTHERS: [&str; 5] = ["rewards", "terminations", "truncations", "infos", OBSERVATIONS];
/// Named arrays of an episode at most, and groups of them.
const MOST_NAMES: usize = 1_000;
/// The task of an episode, which is not part of a state.
const TASK: &str = "desired_goal";

/// Whether a file has a group for each episode.
pub(super) fn is(file: &Hdf5) -> Result<bool> {
    let (groups, arrays) = file.names()?;
    Ok(!arrays.iter().any(|name| name == OBSERVATIONS)
        && groups.iter().any(|name| number(name).is_some()))
}

fn number(name: &str) -> Option<u64> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// Reads one file of episodes.
pub(super) struct MinariReader {
    path: PathBuf,
    file: Hdf5,
    /// By number.
    episodes: Vec<Episode>,
    state_size: usize,
    action_size: usize,
    /// Which observations make up a state, if they have names.
    note: Option<String>,
}

/// One episode, as its headers describe it.
struct Episode {
    /// The arrays that are concatenated to states.
    parts: Vec<Part>,
    actions: Option<Part>,
    rows: usize,
}

/// One array of an episode.
struct Part {
    /// Its name in the file.
    place: String,
    array: Array,
    rows: usize,
    size: usize,
}

impl MinariReader {
    /// Reads the headers of all episodes.
    pub(super) fn open(path: &Path, file: Hdf5, choices: &Choices) -> Result<Self> {
        let description = Description::beside(path)?;
        let names = file.names()?.0.into_iter();
        let mut names: Vec<(u64, String)> =
            names.filter_map(|name| Some((number(&name)?, name))).collect();
        names.sort_unstable();
        description.check_episodes(names.len())?;
        let mut survey = Survey { chosen: choices.keys.clone(), note: None };
        let (mut state_size, mut action_size, mut opened) = (0, 0, 0);
        let mut episodes: Vec<Episode> = Vec::new();
        for (_, name) in &names {
            let episode = survey.episode(&file.group(name)?, name)?;
            let first = episodes.is_empty();
            let sizes = [episode.state_size(), episode.actions.as_ref().map_or(0, |a| a.size)];
            same_size(name, OBSERVATIONS, sizes[0], &mut state_size, first)?;
            same_size(name, ACTIONS, sizes[1], &mut action_size, first)?;
            // Links may name one array many times.
            opened += episode.parts.len() + 1;
            file.check_opened(opened)?;
            episodes.push(episode);
        }
        let steps = episodes.iter().map(|episode| (episode.rows as u64).saturating_sub(1));
        description.check_steps(steps.fold(0, u64::saturating_add))?;
        // Links may name one array many times.
        let rows = episodes.iter().fold(0, |rows: usize, one| rows.saturating_add(one.rows));
        file.check_claim(OBSERVATIONS, rows, state_size.saturating_add(action_size))?;
        let note = survey.note;
        Ok(Self { path: path.to_path_buf(), file, episodes, state_size, action_size, note })
    }

    fn lengths(&self) -> Vec<usize> {
        self.episodes.iter().map(|episode| episode.rows).collect()
    }

    /// Reads each episode through `of` and passes the values to `take`.
    fn each(
        &self,
        notes: &mut Vec<String>,
        of: impl Fn(&Episode, &Hdf5, &mut Vec<String>) -> Result<Vec<f32>>,
        mut take: impl FnMut(&Episode, Vec<f32>) -> Result<()>,
    ) -> Result<()> {
        for (index, episode) in self.episodes.iter().enumerate() {
            // What is noted about one episode holds for all, so it is noted once.
            let mut repeated = Vec::new();
            let notes = if index == 0 { &mut *notes } else { &mut repeated };
            take(episode, of(episode, &self.file, notes)?)?;
        }
        Ok(())
    }
}

impl Reader for MinariReader {
    fn format(&self) -> Format {
        Format::Minari
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn bytes(&self) -> u64 {
        let rows: u64 = self.episodes.iter().map(|episode| episode.rows as u64).sum();
        let width = self.state_size.saturating_add(self.action_size) as u64;
        rows.saturating_mul(width.saturating_mul(4))
    }

    fn widths(&self) -> Option<Widths> {
        Some(Widths { state: self.state_size, action: self.action_size, discrete: false })
    }

    fn read(&mut self, notes: &mut Vec<String>) -> Result<RawRows> {
        let (mut states, mut actions) = (Vec::new(), Vec::new());
        notes.extend(self.note.clone());
        self.each(notes, Episode::read_states, |_, values| {
            states.extend(values);
            Ok(())
        })?;
        self.each(notes, Episode::read_actions, |_, values| {
            actions.extend(values);
            Ok(())
        })?;
        Ok(RawRows {
            states,
            state_size: self.state_size,
            states_key: OBSERVATIONS.into(),
            actions,
            action_size: self.action_size,
            lengths: self.lengths(),
            origins: Origins::Apart(self.episodes.iter().map(Episode::arrays).collect()),
            ..RawRows::default()
        })
    }

    fn pieces(&mut self) -> Option<&mut dyn Pieces> {
        Some(self)
    }
}

impl Pieces for MinariReader {
    fn in_place(&mut self, _: Memory, _: &mut Vec<String>) -> Result<Option<Dataset>> {
        Ok(None)
    }

    fn unpack(&mut self, writer: &mut Writer, notes: &mut Vec<String>) -> Result<Vec<usize>> {
        let lengths = self.lengths();
        let rows = lengths.iter().sum();
        notes.extend(self.note.clone());
        writer.states([rows, self.state_size], |take| {
            self.each(notes, Episode::read_states, |episode, values| {
                episode.check(OBSERVATIONS, &values, self.state_size)?;
                take(&values)
            })
        })?;
        if self.action_size > 0 {
            writer.actions([rows, self.action_size], |take| {
                self.each(notes, Episode::read_actions, |episode, values| {
                    episode.check(ACTIONS, &values, self.action_size)?;
                    take(&values)
                })
            })?;
        }
        Ok(lengths)
    }
}

impl Episode {
    fn state_size(&self) -> usize {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.size))
    }

    /// Where its rows stand in the file.
    fn arrays(&self) -> EpisodeArrays {
        let states = self.parts.iter().map(|part| (part.place.clone(), part.size)).collect();
        let actions = self.actions.as_ref().map_or(String::new(), |part| part.place.clone());
        EpisodeArrays { states, actions }
    }

    /// Checks its states, or its actions if these are `key`.
    fn check(&self, key: &str, values: &[f32], size: usize) -> Result<()> {
        let arrays = self.arrays();
        check_located(values, key == ACTIONS, |at| arrays.place(key, at / size, at % size))
    }

    fn read_states(&self, file: &Hdf5, notes: &mut Vec<String>) -> Result<Vec<f32>> {
        let mut read = |part: &Part| Ok(file.matrix(&part.array, &part.place, notes)?.0);
        if let [only] = &self.parts[..] {
            return read(only);
        }
        let values = self.parts.iter().map(read).collect::<Result<Vec<_>>>()?;
        let mut states = Vec::with_capacity(self.rows * self.state_size());
        for row in 0..self.rows {
            for (part, values) in self.parts.iter().zip(&values) {
                states.extend(&values[row * part.size..][..part.size]);
            }
        }
        Ok(states)
    }

    /// The actions, and zeros for the last row; nothing without actions.
    fn read_actions(&self, file: &Hdf5, notes: &mut Vec<String>) -> Result<Vec<f32>> {
        let Some(part) = &self.actions else { return Ok(Vec::new()) };
        let (mut values, ..) = file.matrix(&part.array, &part.place, notes)?;
        values.extend(std::iter::repeat_n(0.0, part.size));
        Ok(values)
    }
}

/// What the first episode decides for the others.
struct Survey {
    /// The observations that make up a state, in this order; decided by the first episode.
    chosen: Vec<String>,
    note: Option<String>,
}

impl Survey {
    fn episode(&mut self, group: &Group, name: &str) -> Result<Episode> {
        let (groups, arrays) = group.member_names().map_err(|e| hdf5::refused(name, &e))?;
        let parts = if arrays.iter().any(|array| array == OBSERVATIONS) {
            self.refuse_choice()?;
            vec![Part::of(group, OBSERVATIONS, format!("{name}/{OBSERVATIONS}"))?]
        } else if groups.iter().any(|group| group == OBSERVATIONS) {
            self.parts(group, name)?
        } else {
            return Err(Error::input(format!("`{name}` has no `{OBSERVATIONS}`"))
                .hint("a Minari episode has `observations` and `actions`"));
        };
        let rows = parts[0].rows;
        if let Some(other) = parts.iter().find(|part| part.rows != rows) {
            return Err(Error::input(format!(
                "the observations of `{name}` have {rows} rows and {}",
                other.rows
            )));
        }
        let found: Vec<&str> = arrays.iter().map(String::as_str).collect();
        if !found.contains(&ACTIONS) {
            refuse_misspelling(ACTIONS, &found, &OTHERS)?;
            return Ok(Episode { parts, actions: None, rows });
        }
        let actions = Part::of(group, ACTIONS, format!("{name}/{ACTIONS}"))?;
        if actions.rows.checked_add(1) != Some(rows) {
            return Err(Error::input(format!(
                "`{name}` has {rows} observations and {} actions, expected one more observation",
                actions.rows
            ))
            .hint("Minari keeps the state before every action and the one after the last"));
        }
        Ok(Episode { parts, actions: Some(actions), rows })
    }

    fn refuse_choice(&self) -> Result<()> {
        if self.chosen.is_empty() {
            return Ok(());
        }
        Err(Error::input("keys are chosen, but the observations are one array without names")
            .hint("leave `--keys` out"))
    }

    /// The chosen observations of an episode whose observations have names.
    fn parts(&mut self, group: &Group, name: &str) -> Result<Vec<Part>> {
        let place = format!("{name}/{OBSERVATIONS}");
        let group = group.group(OBSERVATIONS).map_err(|e| hdf5::refused(&place, &e))?;
        if self.chosen.is_empty() {
            let mut found = Vec::new();
            leaves(&group, "", 0, (&mut 0, &mut found))
                .map_err(|error| error.hint("save it again"))?;
            found.sort_unstable();
            let left_out = found.iter().position(|key| key == TASK).map(|at| found.remove(at));
            let aside = left_out.map_or(String::new(), |key| {
                format!("; `{key}` is the task, not the state, and is left out")
            });
            let list: Vec<String> = found.iter().map(|key| format!("`{key}`")).collect();
            self.note = Some(format!("a state is {}, in this order{aside}", list.join(", ")));
            self.chosen = found;
        }
        if self.chosen.is_empty() {
            return Err(Error::input(format!("`{place}` has no arrays")));
        }
        let of = |key: &String| Part::of(&group, key, format!("{place}/{key}"));
        self.chosen.iter().map(of).collect()
    }
}

impl Part {
    /// The array called `key`, `outer/inner`, below a group.
    fn of(group: &Group, key: &str, place: String) -> Result<Self> {
        let mut inside = None;
        let mut name = key;
        while let Some((outer, inner)) = name.split_once('/') {
            let from = inside.as_ref().unwrap_or(group);
            inside = Some(from.group(outer).map_err(|_| no_observation(&place))?);
            name = inner;
        }
        let from = inside.as_ref().unwrap_or(group);
        let array = from.dataset(name).map_err(|_| no_observation(&place))?;
        let [rows, size] =
            hdf5::shape(&array, &place)?.map(|side| usize::try_from(side).unwrap_or(usize::MAX));
        Ok(Self { place, array, rows, size })
    }
}

/// Refuses an episode whose rows differ in size from those of the first.
fn same_size(name: &str, key: &str, found: usize, size: &mut usize, first: bool) -> Result<()> {
    if first {
        *size = found;
    }
    if *size == found {
        return Ok(());
    }
    Err(Error::input(format!("`{name}/{key}` has {found} values per row, others have {size}")))
}

fn no_observation(place: &str) -> Error {
    Error::input(format!("`{place}` is missing or not an array"))
        .hint("every episode has the same keys; choose them with `--keys`")
}

/// The names of all arrays below a group, `outer/inner`.
///
/// `visited` counts groups: a group that links name many times is visited as often.
fn leaves(
    group: &Group,
    before: &str,
    depth: usize,
    (visited, found): (&mut usize, &mut Vec<String>),
) -> Result<()> {
    if depth > DEEPEST {
        return Err(Error::input(format!("observations are nested deeper than {DEEPEST} names")));
    }
    let (groups, arrays) = group.member_names().map_err(|e| hdf5::refused(before, &e))?;
    *visited += 1;
    found.extend(arrays.iter().map(|name| format!("{before}{name}")));
    if *visited > MOST_NAMES || found.len() > MOST_NAMES {
        return Err(Error::input(format!("observations have more than {MOST_NAMES} names")));
    }
    for name in groups {
        let inner = group.group(&name).map_err(|e| hdf5::refused(&name, &e))?;
        leaves(&inner, &format!("{before}{name}/"), depth + 1, (visited, found))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{OpenedFile, open};
    use tempfile::TempDir;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
    }

    fn opened(name: &str, keys: &[&str]) -> Result<OpenedFile> {
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
    fn named_observations_are_concatenated_by_name_or_as_chosen() {
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
        assert!(error.contains("`episode_0/observations/nothing` is missing"), "{error}");
    }

    /// The bytes of a fixture with the numbers `from`, wherever they are, replaced by `to`.
    fn replaced<const N: usize>(name: &str, from: [f32; N], to: [f32; N]) -> Vec<u8> {
        let mut bytes = std::fs::read(fixture(name).join("data/main_data.hdf5")).unwrap();
        let [from, to] = [from, to].map(|numbers| numbers.map(f32::to_le_bytes).concat());
        let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
        bytes[at..at + to.len()].copy_from_slice(&to);
        bytes
    }

    #[test]
    fn values_that_cannot_be_learned_from_are_named_by_episode_and_row() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("b.hdf5");
        let complaint = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let found = open(&path, &Choices::default()).unwrap();
            let read = found.into_dataset().unwrap_err().to_string();
            let file = Hdf5::open(&path).unwrap();
            let mut reader = MinariReader::open(&path, file, &Choices::default()).unwrap();
            let mut writer = Writer::create(&folder.path().join("kept.npz")).unwrap();
            let unpacked = reader.unpack(&mut writer, &mut Vec::new()).unwrap_err();
            assert_eq!(unpacked.in_file(&path).to_string(), read);
            read
        };
        let nan = f32::NAN;
        let [from, to] = [[3., 0., 3., 1., 3., 2.], [3., 0., 3., nan, 3., 2.]];
        let told = complaint(&replaced("minari-plain", from, to));
        let place = "`episode_3/observations` row 1 column 1 is `NaN`, expected a finite number";
        assert!(told.starts_with(place) && told.contains("b.hdf5`); hint: split"), "{told}");
        // In a second file, too.
        let clean = folder.path().join("a.hdf5");
        std::fs::copy(fixture("minari-plain/data/main_data.hdf5"), &clean).unwrap();
        let found = open(folder.path(), &Choices::default()).unwrap();
        assert_eq!(found.into_dataset().unwrap_err().to_string(), told);
        let told = complaint(&replaced("minari-plain", [0.25; 3], [0.25, 0.25, 2.0]));
        assert!(told.starts_with("`episode_4/actions` row 2 column 0 is `2`"), "{told}");
        let told = complaint(&replaced("minari-dict", [103., 101.], [103., nan]));
        let place = "`episode_3/observations/observation` row 1 column 1 is `NaN`";
        assert!(told.starts_with(place), "{told}");
    }

    #[test]
    fn rounding_that_hides_what_a_column_changes_by_is_noted() {
        let mut bytes = std::fs::read(fixture("minari-dict/data/main_data.hdf5")).unwrap();
        let rows = |numbers: [f64; 6]| numbers.map(f64::to_le_bytes).concat();
        let goal = rows([0.0, 0.0, 0.0, 1.0, 0.0, 2.0]);
        let at = bytes.windows(goal.len()).position(|window| window == goal).unwrap();
        let far = rows([0.0, 1e9, 0.0, 1e9 + 0.01, 0.0, 1e9 + 0.02]);
        bytes[at..at + far.len()].copy_from_slice(&far);
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("main_data.hdf5");
        std::fs::write(&path, bytes).unwrap();
        let notes = open(&path, &Choices::default()).unwrap().notes;
        let told = "column 1 of `episode_0/observations/achieved_goal` changes by 0.01 per row";
        assert!(notes.iter().any(|note| note.starts_with(told)), "{notes:?}");
    }

    #[test]
    fn a_small_file_has_few_arrays_and_narrow_rows() {
        let file = Hdf5::open(&fixture("minari-plain/data/main_data.hdf5")).unwrap();
        // 64 MiB, of which each array counts for 4 KiB.
        file.check_opened(16 << 10).unwrap();
        let error = file.check_opened((16 << 10) + 1).unwrap_err().to_string();
        assert!(error.contains("16385 arrays are named, more than the file can hold"), "{error}");
        file.check_claim("a", 0, 1 << 20).unwrap();
        let error = file.check_claim("a", 0, (1 << 20) + 1).unwrap_err().to_string();
        assert!(error.contains("at most 1048576 values per row"), "{error}");
    }

    #[test]
    fn a_description_that_does_not_fit_is_refused() {
        let folder = TempDir::new().unwrap();
        let source = fixture("minari-plain/data");
        let data = folder.path().join("main_data.hdf5");
        std::fs::copy(source.join("main_data.hdf5"), &data).unwrap();
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
}
