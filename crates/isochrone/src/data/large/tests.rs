//! Data on disk equal the data in memory, value by value, and damage is an error.

use super::*;
use crate::data::npz;
use crate::data::{Normalization, Scaling};
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// The file, so large that it stays on disk; what must be unpacked is kept in `cache`.
fn on_disk(path: &Path, cache: &Path) -> Result<(Dataset, Vec<String>)> {
    let mut readers = crate::data::door::readers(path, &Choices::default())?;
    assert!(is_large(&readers, Memory(100)));
    open_with(path, &mut readers, &Choices::default(), Memory(100), Some(cache))
}

fn in_memory(path: &Path) -> Dataset {
    crate::data::open(path, &Choices::default()).unwrap().into_dataset().unwrap()
}

/// Sixty trajectories of eight rows with three numbers in a state, and two in an action.
fn recorded() -> Dataset {
    let numbers = |count: usize| (0..count).map(|at| (at as f32 * 0.37).sin()).collect();
    Dataset::new(numbers(480 * 3), 3, Some((numbers(480 * 2), 2)), &[8; 60]).unwrap()
}

/// All numbers, in the order in which a pass gives them.
fn passed(data: &Dataset) -> Result<Vec<f32>> {
    let mut all = Vec::new();
    data.each_states(|states| {
        all.extend_from_slice(states);
        Ok(())
    })?;
    data.each_actions(|actions| {
        all.extend_from_slice(actions);
        Ok(())
    })?;
    Ok(all)
}

fn same(disk: &Dataset, memory: &Dataset) {
    assert!(disk.stays_in().is_some() && memory.stays_in().is_none());
    assert_eq!(disk.lengths().collect::<Vec<_>>(), memory.lengths().collect::<Vec<_>>());
    assert_eq!(disk.choices(), memory.choices());
    for row in 0..memory.rows() {
        assert_eq!(*disk.read_state(row).unwrap(), *memory.state(row), "row {row}");
        assert_eq!(*disk.read_action(row).unwrap(), *memory.action(row), "row {row}");
    }
    assert_eq!(passed(disk).unwrap(), passed(memory).unwrap());
    for scaling in [Scaling::Standard, Scaling::Range] {
        let [one, other] = [disk, memory].map(|data| Normalization::fit(data, scaling).unwrap());
        let bits = |numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&one.shift), bits(&other.shift));
        assert_eq!(bits(&one.scale), bits(&other.scale));
    }
    assert_eq!(disk.standard().unwrap(), disk.standard().unwrap());
}

#[cfg(feature = "hdf5")]
#[test]
fn every_format_gives_the_same_rows_from_disk_as_in_memory() {
    let cache = TempDir::new().unwrap();
    for (name, in_place) in [
        ("plain.npz", true),
        ("compressed.npz", false),
        ("float64.npz", false),
        ("ogbench.npz", false),
        #[cfg(feature = "hdf5")]
        ("d4rl-bool.hdf5", false),
        #[cfg(feature = "hdf5")]
        ("d4rl-u8.hdf5", false),
        #[cfg(feature = "hdf5")]
        ("d4rl-f32.hdf5", false),
        #[cfg(feature = "hdf5")]
        ("d4rl-f64.hdf5", false),
        #[cfg(feature = "hdf5")]
        ("minari-plain", false),
        #[cfg(feature = "hdf5")]
        ("minari-dict", false),
    ] {
        let path = fixture(name);
        let ((disk, notes), memory) = (on_disk(&path, cache.path()).unwrap(), in_memory(&path));
        same(&disk, &memory);
        assert!(notes[0].contains("they stay on disk"), "{notes:?}");
        assert_eq!(disk.stays_in() == Some(&*path), in_place, "{name}");
        // What the reader in memory says is said here too.
        for note in crate::data::open(&path, &Choices::default()).unwrap().notes {
            assert!(notes.contains(&note), "{name}: `{note}` is not among {notes:?}");
        }
    }
}

#[test]
fn a_split_on_disk_is_the_split_in_memory() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.npz");
    npz::write(&path, &recorded()).unwrap();
    let disk = on_disk(&path, folder.path()).unwrap().0;
    let (training, validation) = disk.split(0.2, 5).unwrap();
    let (expected_training, expected_validation) = recorded().split(0.2, 5).unwrap();
    same(&training, &expected_training);
    same(&validation.unwrap(), &expected_validation.unwrap());
}

#[test]
fn discrete_actions_stay_whole_numbers_on_disk_and_are_one_hot_when_read() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.npz");
    let choices = [0, 2, 1, 0, 2, 2, 1, 0];
    let data = Dataset::with_choices(vec![0.5; 80], 10, (&choices, 3), &[4, 4]).unwrap();
    npz::write(&path, &data).unwrap();
    same(&on_disk(&path, folder.path()).unwrap().0, &data);
    let copy = folder.path().join("b.npz");
    npz::write(&copy, &on_disk(&path, folder.path()).unwrap().0).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&copy).unwrap());
}

#[test]
fn what_was_unpacked_is_used_again_until_the_source_or_it_changes() {
    let (folder, cache) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let path = folder.path().join("a.npz");
    std::fs::copy(fixture("compressed.npz"), &path).unwrap();
    let kept = || std::fs::read_dir(cache.path()).unwrap().map(|entry| entry.unwrap().path());
    let said = |notes: &[String], text: &str| notes.iter().any(|note| note.contains(text));
    assert!(said(&on_disk(&path, cache.path()).unwrap().1, "once"));
    assert!(said(&on_disk(&path, cache.path()).unwrap().1, "before"));
    // One bit of the unpacked file flips: its checksum does not agree, and it is written again.
    let file = kept().next().unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[200] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let (dataset, notes) = on_disk(&path, cache.path()).unwrap();
    assert!(said(&notes, "once"));
    same(&dataset, &in_memory(&path));
    std::fs::copy(fixture("float64.npz"), &path).unwrap();
    assert!(said(&on_disk(&path, cache.path()).unwrap().1, "once"));
    assert_eq!(kept().count(), 2, "two sources, no leftovers");
}

#[test]
fn a_file_that_is_cut_under_way_is_an_error_that_names_the_byte() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.npz");
    npz::write(&path, &recorded()).unwrap();
    let disk = on_disk(&path, folder.path()).unwrap().0;
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(1_000).unwrap();
    assert!(disk.read_state(3).is_ok());
    let error = disk.read_state(300).unwrap_err();
    assert_eq!(error.exit_code(), 6, "{error}");
    let text = error.to_string();
    assert!(text.starts_with("row 300 at byte ") && text.contains("a.npz"), "{text}");
    assert!(disk.read_action(0).is_err());
    assert_eq!(passed(&disk).unwrap_err().exit_code(), 6);
    assert_eq!(disk.standard().unwrap_err().exit_code(), 6);
}

#[test]
fn what_is_refused_in_memory_is_refused_on_disk_with_the_same_words() {
    let (folder, cache) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let path = folder.path().join("a.npz");
    npz::write(&path, &recorded()).unwrap();
    let sound = std::fs::read(&path).unwrap();
    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let choices = Choices::default();
        let memory = crate::data::open(&path, &choices);
        let memory = memory.and_then(crate::data::OpenedFile::into_dataset).unwrap_err();
        let disk = crate::data::load(&path, &choices, Memory(100)).unwrap_err();
        assert_eq!(memory.to_string(), disk.to_string());
        assert_eq!(disk.exit_code(), 2);
    };
    for length in (0..sound.len()).step_by(97) {
        refused(&sound[..length]);
    }
    let mut flipped = sound.clone();
    flipped[3_000] ^= 4;
    refused(&flipped);
    // A hole, with the checksum that belongs to it.
    let mut states = recorded().states().to_vec();
    states[3 * 77 + 2] = f32::NAN;
    let mut writer = Writer::create(&path).unwrap();
    writer.states([480, 3], |take| take(&states)).unwrap();
    writer.finish([8; 60].into_iter()).unwrap();
    refused(&std::fs::read(&path).unwrap());
    let mut writer = Writer::create(&path).unwrap();
    writer.states([480, 3], |take| take(recorded().states())).unwrap();
    writer.actions([480, 1], |take| take(&[1.5; 480])).unwrap();
    writer.finish([8; 60].into_iter()).unwrap();
    refused(&std::fs::read(&path).unwrap());
    assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 0);
}

#[test]
fn a_sample_in_memory_is_whole_trajectories_within_the_bound() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.npz");
    npz::write(&path, &recorded()).unwrap();
    let choices = Choices::default();
    let loaded = crate::data::load(&path, &choices, Memory(4_000)).unwrap().dataset;
    let sample = loaded.in_memory().unwrap();
    // Ten trajectories take 1,600 bytes; half of 4,000 holds twelve.
    assert_eq!((sample.trajectories(), sample.rows()), (12, 96));
    let whole = recorded();
    let known = |index: usize| {
        let rows = sample.trajectory(index);
        let found = &sample.states()[rows.start * 3..rows.end * 3];
        (0..60).any(|other| &whole.states()[other * 24..][..24] == found)
    };
    assert!((0..12).all(known));
    assert!(
        crate::data::load(&path, &choices, Memory(1 << 20)).unwrap().dataset.stays_in().is_none()
    );
}

#[test]
fn of_a_large_file_a_sample_is_inspected_and_said_to_be_one() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.npz");
    npz::write(&path, &recorded()).unwrap();
    let choices = Choices::default();
    let few = crate::data::open_sample(&path, &choices, Memory(4_000)).unwrap();
    assert_eq!(few.rows.lengths, [8; 12]);
    assert!(few.notes.iter().any(|note| note.contains("12 of 60 trajectories")), "{:?}", few.notes);
    let all = crate::data::open_sample(&path, &choices, Memory(1 << 20)).unwrap();
    assert_eq!((all.rows.lengths.len(), all.notes.len()), (60, 0));
}

#[cfg(feature = "parquet")]
#[test]
fn a_format_that_is_read_only_into_memory_is_refused_by_the_plan() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.parquet");
    std::fs::write(&path, [&b"PAR1"[..], &[0; 400]].concat()).unwrap();
    let error = crate::data::load(&path, &Choices::default(), Memory(100)).unwrap_err();
    assert_eq!(error.exit_code(), 5, "{error}");
    assert!(error.to_string().contains("raise `data.memory`"), "{error}");
}
