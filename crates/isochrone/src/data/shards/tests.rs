//! Many files give the rows, the refusals and the bytes of one file.

use super::*;
use crate::data::{Choices, Dataset, Memory, OpenedFile, load, npz, open};
use tempfile::TempDir;

fn recorded(trajectories: usize, shift: f32) -> Dataset {
    let numbers = |count: usize| (0..count).map(|at| (at as f32 * 0.37 + shift).sin()).collect();
    let rows = 8 * trajectories;
    Dataset::new(numbers(rows * 3), 3, Some((numbers(rows * 2), 2)), &vec![8; trajectories])
        .unwrap()
}

/// Three files, written out of order, beside files that are no data.
fn three() -> (TempDir, Vec<Dataset>) {
    let folder = TempDir::new().unwrap();
    let parts: Vec<Dataset> = (0..3).map(|at| recorded(2 + at, at as f32)).collect();
    for at in [2, 0, 1] {
        npz::write(&folder.path().join(format!("part-{at}.npz")), &parts[at]).unwrap();
    }
    std::fs::write(folder.path().join("README.txt"), "not data").unwrap();
    std::fs::write(folder.path().join("._part-0.npz"), "left by a file manager").unwrap();
    (folder, parts)
}

fn all_states(data: &Dataset) -> Vec<f32> {
    let mut all = Vec::new();
    let mut add = |values: &[f32]| {
        all.extend_from_slice(values);
        Ok(())
    };
    data.each_states(&mut add).unwrap();
    data.each_actions(&mut add).unwrap();
    all
}

fn expected(parts: &[Dataset]) -> Vec<f32> {
    let of = |pick: fn(&Dataset) -> &[f32]| parts.iter().flat_map(move |part| pick(part).to_vec());
    of(Dataset::states).chain(of(Dataset::actions)).collect()
}

fn loaded(path: &Path, memory: u64) -> Dataset {
    load(path, &Choices::default(), Memory(memory)).unwrap().dataset
}

#[test]
fn a_folder_and_a_pattern_are_one_dataset_in_the_order_of_names_in_memory_and_on_disk() {
    let (folder, parts) = three();
    for path in [folder.path().to_path_buf(), folder.path().join("part-?.n*z")] {
        for memory in [1 << 20, 100] {
            let found = loaded(&path, memory);
            assert_eq!(found.stays_in(), (memory == 100).then_some(&*path));
            assert_eq!(found.lengths().collect::<Vec<_>>(), [8; 9]);
            assert_eq!(all_states(&found), expected(&parts));
            for row in [0, 15, 16, 39, 40, 71] {
                let state = found.read_state(row).unwrap().to_vec();
                assert_eq!(state, expected(&parts)[row * 3..][..3], "row {row}");
            }
            let (training, validation) = found.split(0.4, 3).unwrap();
            let (one, other) = loaded(folder.path(), 1 << 20).split(0.4, 3).unwrap();
            assert_eq!(all_states(&training), all_states(&one));
            assert_eq!(all_states(&validation.unwrap()), all_states(&other.unwrap()));
            found.check_unchanged().unwrap();
        }
    }
}

#[test]
fn discrete_actions_have_as_many_choices_as_all_files_together() {
    let folder = TempDir::new().unwrap();
    for (name, choices, count) in [("a", [0, 1, 0, 1], 2), ("b", [2, 0, 2, 1], 3)] {
        let data = Dataset::with_choices(vec![0.5; 4], 1, (&choices, count), &[4]).unwrap();
        npz::write(&folder.path().join(format!("{name}.npz")), &data).unwrap();
    }
    let (memory, disk) = (loaded(folder.path(), 1 << 20), loaded(folder.path(), 10));
    assert_eq!((memory.choices(), disk.choices()), (Some(3), Some(3)));
    for row in 0..8 {
        assert_eq!(*disk.read_action(row).unwrap(), *memory.action(row), "row {row}");
    }
    assert_eq!(memory.action(1), [0.0, 1.0, 0.0]);
}

fn refused(path: &Path) -> String {
    let memory = open(path, &Choices::default()).and_then(OpenedFile::into_dataset).unwrap_err();
    let disk = load(path, &Choices::default(), Memory(100)).unwrap_err();
    assert_eq!(memory.to_string(), disk.to_string());
    assert_eq!(disk.exit_code(), 2);
    memory.to_string()
}

#[test]
fn a_damaged_file_is_named() {
    let (folder, _) = three();
    let path = folder.path().join("part-1.npz");
    let sound = std::fs::read(&path).unwrap();
    std::fs::write(&path, &sound[..sound.len() / 2]).unwrap();
    assert!(refused(folder.path()).contains("part-1.npz"));
    let mut flipped = sound.clone();
    flipped[300] ^= 1;
    std::fs::write(&path, flipped).unwrap();
    assert!(refused(folder.path()).contains("part-1.npz"));
    // A hole, with the checksum that belongs to it, is named by the row of its own file.
    let mut states = recorded(3, 1.0).states().to_vec();
    states[3 * 7 + 2] = f32::NAN;
    let mut writer = npz::Writer::create(&path).unwrap();
    writer.states([24, 3], |take| take(&states)).unwrap();
    writer.actions([24, 2], |take| take(recorded(3, 1.0).actions())).unwrap();
    writer.finish([8; 3].into_iter()).unwrap();
    let text = refused(folder.path());
    assert!(text.contains("row 7 column 2 is `NaN`") && text.contains("part-1.npz"), "{text}");
    let mut actions = recorded(3, 1.0).actions().to_vec();
    actions[2 * 9] = 1.5;
    let mut writer = npz::Writer::create(&path).unwrap();
    writer.states([24, 3], |take| take(recorded(3, 1.0).states())).unwrap();
    writer.actions([24, 2], |take| take(&actions)).unwrap();
    writer.finish([8; 3].into_iter()).unwrap();
    let text = refused(folder.path());
    assert!(text.contains("`actions` row 9 column 0") && text.contains("part-1.npz"), "{text}");
}

#[test]
fn files_that_do_not_belong_together_are_both_named() {
    let (folder, _) = three();
    let odd = Dataset::new(vec![0.5; 8], 4, None, &[2]).unwrap();
    npz::write(&folder.path().join("part-9.npz"), &odd).unwrap();
    let text = refused(folder.path());
    assert!(text.contains("part-0.npz` has 3 values per state and 2 per action"), "{text}");
    assert!(text.contains("part-9.npz` has 4 values per state and no actions"), "{text}");
    assert!(refused(&folder.path().join("nothing-*.npz")).contains("no file matches the pattern"));
    #[cfg(feature = "hdf5")]
    {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        let other = folder.path().join("part-8.hdf5");
        std::fs::copy(fixtures.join("d4rl-u8.hdf5"), other).unwrap();
        let text = refused(folder.path());
        assert!(text.contains("is OGBench npz, but") && text.contains("is D4RL hdf5"), "{text}");
    }
}

#[cfg(feature = "hdf5")]
#[test]
fn hdf5_files_are_one_dataset_and_notes_are_told_once() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let folder = TempDir::new().unwrap();
    for name in ["a.hdf5", "b.h5"] {
        std::fs::copy(fixtures.join("d4rl-u8.hdf5"), folder.path().join(name)).unwrap();
    }
    let found = open(folder.path(), &Choices::default()).unwrap();
    let one = open(&fixtures.join("d4rl-u8.hdf5"), &Choices::default()).unwrap();
    assert_eq!(found.rows.lengths, [5, 4, 5, 4]);
    assert_eq!(found.rows.states, one.rows.states.repeat(2));
    assert_eq!(found.notes, one.notes);
    let bytes = std::fs::read(folder.path().join("b.h5")).unwrap();
    std::fs::write(folder.path().join("b.h5"), &bytes[..bytes.len() / 2]).unwrap();
    let text = open(folder.path(), &Choices::default()).unwrap_err().to_string();
    assert!(text.contains("b.h5"), "{text}");
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_files_share_the_range_of_their_actions() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let pattern = fixtures.join("lerobot-v2.1/data/chunk-000/*.parquet");
    let found = open(&pattern, &Choices::default()).unwrap();
    let whole = open(&fixtures.join("lerobot-v2.1"), &Choices::default()).unwrap();
    assert_eq!(found.rows.lengths, whole.rows.lengths);
    assert_eq!(found.rows.states, whole.rows.states);
    assert_eq!(found.rows.actions, whole.rows.actions);
    assert_eq!(found.notes, whole.notes);
    let folder = TempDir::new().unwrap();
    for name in ["a", "b"] {
        let file = fixtures.join("lerobot-v2.1/data/chunk-000/episode_000001.parquet");
        std::fs::copy(file, folder.path().join(format!("{name}.parquet"))).unwrap();
    }
    assert_eq!(open(folder.path(), &Choices::default()).unwrap().rows.lengths, [5, 5]);
    std::fs::write(folder.path().join("b.parquet"), b"PAR1....PAR1").unwrap();
    let text = open(folder.path(), &Choices::default()).unwrap_err().to_string();
    assert!(text.contains("b.parquet"), "{text}");
}

#[test]
fn held_out_files_are_a_pattern_of_their_own() {
    let (folder, _) = three();
    for at in 0..2 {
        let path = folder.path().join(format!("part-{at}-val.npz"));
        npz::write(&path, &recorded(1, 7.0 + at as f32)).unwrap();
    }
    for (path, beside) in [
        (folder.path().to_path_buf(), "*-val.npz"),
        (folder.path().join("part-*.npz"), "part-*-val.npz"),
    ] {
        let found = load(&path, &Choices::default(), Memory(1 << 20)).unwrap();
        assert_eq!(found.dataset.trajectories(), 9, "{}", path.display());
        assert_eq!(found.held_out, Some(folder.path().join(beside)));
        let held_out =
            load(&found.held_out.unwrap(), &Choices::default(), Memory(1 << 20)).unwrap();
        assert_eq!((held_out.dataset.trajectories(), held_out.held_out), (2, None));
    }
}

#[test]
fn patterns_match_names_as_a_shell_does() {
    for (pattern, name, expected) in [
        ("*", "a.npz", true),
        ("*.npz", "a.npz", true),
        ("*.npz", "a.npy", false),
        ("a*b*c", "a-b-b-c", true),
        ("a*b*c", "a-b-b", false),
        ("a?c", "abc", true),
        ("a?c", "ac", false),
        ("a?c", "aäc", true),
        ("a", "ab", false),
        ("**", "", true),
        ("", "a", false),
    ] {
        assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
    }
    let folder = TempDir::new().unwrap();
    for name in ["x", "y"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        npz::write(&folder.path().join(name).join("a.npz"), &recorded(1, 0.0)).unwrap();
    }
    assert_eq!(loaded(&folder.path().join("*/a.npz"), 1 << 20).trajectories(), 2);
    // A file of that very name is not a pattern.
    let odd = folder.path().join("x/*.npz");
    npz::write(&odd, &recorded(5, 0.0)).unwrap();
    assert_eq!(loaded(&odd, 1 << 20).trajectories(), 5);
}

#[test]
fn a_note_about_one_file_names_it_and_many_are_counted() {
    let of = |at: usize, own: &str| {
        let file = PathBuf::from(format!("logs/{at}.npz"));
        (file, vec!["rounded".to_owned(), own.to_owned()])
    };
    let told = joined_notes(&[of(0, "3 rows dropped"), of(1, "4 rows dropped")]);
    assert_eq!(told, ["rounded", "0.npz: 3 rows dropped", "1.npz: 4 rows dropped"]);
    let many: Vec<_> = (0..9).map(|at| of(at, &format!("{at} rows dropped"))).collect();
    assert_eq!(
        joined_notes(&many).last().unwrap(),
        "4 more notes like these are about other files"
    );
}
