//! Shares together are the whole, value by value, whoever holds what.

use super::*;
use crate::collective::threads::ranks;
use crate::data::{Normalization, Scaling, npz};
use tempfile::TempDir;

/// Trajectories of 5, 6, 7 … rows; the first value of each is −0.
fn recorded(trajectories: usize, shift: f32) -> Dataset {
    let lengths: Vec<usize> = (0..trajectories).map(|at| 5 + at).collect();
    let rows: usize = lengths.iter().sum();
    let numbers = |count: usize| -> Vec<f32> {
        (0..count).map(|at| (at as f32 * 0.37 + shift).sin()).collect()
    };
    let mut states = numbers(rows * 3);
    let mut first = 0;
    for length in &lengths {
        states[first * 3] = -0.0;
        first += length;
    }
    Dataset::new(states, 3, Some((numbers(rows * 2), 2)), &lengths).unwrap()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A folder of files with so many trajectories.
fn folder(files: &[usize]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (at, &trajectories) in files.iter().enumerate() {
        let path = folder.path().join(format!("part-{at}.npz"));
        npz::write(&path, &recorded(trajectories, at as f32)).unwrap();
    }
    folder
}

fn whole(path: &Path) -> Dataset {
    load(path, &Choices::default(), Memory(1 << 20)).unwrap().dataset
}

fn shared(path: &Path, memory: u64, collective: &Collective) -> Loaded {
    load_among(path, &Choices::default(), Memory(memory), collective).unwrap()
}

/// The bits of all rows, as a pass gives them and as they are gathered backwards, and of statistics.
fn bits(data: &Dataset) -> Vec<u32> {
    let mut all = Vec::new();
    let mut add = |values: &[f32]| {
        all.extend_from_slice(values);
        Ok(())
    };
    data.each_states(&mut add).unwrap();
    data.each_actions(&mut add).unwrap();
    let rows: Vec<u32> = (0..data.rows() as u32).rev().chain([0, 0]).collect();
    all.extend(data.gather_states(&rows).unwrap());
    all.extend(data.gather_actions(&rows).unwrap());
    for scaling in [Scaling::Standard, Scaling::Range] {
        let fitted = Normalization::fit(data, scaling).unwrap();
        all.extend(fitted.shift.into_iter().chain(fitted.scale));
    }
    all.iter().map(|value| value.to_bits()).collect()
}

/// Everything that all processes must agree on with a process that has all rows.
fn facts(data: &Dataset) -> (Vec<usize>, Option<usize>, Vec<Vec<u32>>) {
    let mut sides = vec![bits(data)];
    if data.trajectories() > 2 {
        let (training, validation) = data.split(0.4, 3).unwrap();
        let again = training.split(0.5, 4).unwrap().0;
        sides.extend([training, validation.unwrap(), again].iter().map(bits));
    }
    (data.lengths().collect(), data.choices(), sides)
}

/// Bytes of rows that a process has in memory.
fn held(data: &Dataset) -> usize {
    match &data.store {
        Store::Memory(numbers) => 4 * (numbers.states.len() + numbers.actions.len()),
        Store::Disk(_) => 0,
    }
}

#[test]
fn shares_are_the_whole_whatever_the_number_of_files_and_processes() {
    for files in [&[7][..], &[2, 3, 4], &[1, 1, 1, 1, 9], &[1], &[1, 1]] {
        let folder = folder(files);
        let one = folder.path().join("part-0.npz");
        let path = if files.len() == 1 { &one } else { folder.path() };
        let expected = facts(&whole(path));
        for size in [1, 2, 4, 8] {
            for memory in [1 << 20, 20] {
                let found = ranks(size, |collective| {
                    let data = shared(path, memory, &collective).dataset;
                    assert_eq!(data.is_divided(), size > 1);
                    (facts(&data), held(&data))
                });
                let total: usize = found.iter().map(|(_, held)| held).sum();
                let all = held(&whole(path));
                assert_eq!(total, if memory == 20 { 0 } else { all }, "each row is held once");
                for (rank, (found, _)) in found.into_iter().enumerate() {
                    assert!(found == expected, "{files:?} rank {rank} of {size}, memory {memory}");
                }
            }
        }
    }
}

#[test]
fn each_process_holds_about_an_equal_share() {
    let folder = folder(&[30, 31, 32, 33, 34, 35]);
    let all = held(&whole(folder.path()));
    let one = TempDir::new().unwrap();
    let single = one.path().join("all.npz");
    npz::write(&single, &whole(folder.path())).unwrap();
    for path in [folder.path(), &single] {
        for size in [2, 4] {
            let shares =
                ranks(size, |collective| held(&shared(path, 1 << 20, &collective).dataset));
            for share in shares {
                assert!(share.abs_diff(all / size) < all / 50, "{share} of {all} by {size}");
            }
        }
    }
}

#[test]
fn packed_files_and_discrete_actions_are_shared_alike() {
    for name in ["plain.npz", "ogbench.npz", "float64.npz", "compressed.npz"] {
        let path = fixture(name);
        let expected = facts(&whole(&path));
        let notes = load(&path, &Choices::default(), Memory(1 << 20)).unwrap().notes;
        let found = ranks(4, |collective| {
            let loaded = shared(&path, 1 << 20, &collective);
            (facts(&loaded.dataset), loaded.notes)
        });
        for (found, mut said) in found {
            assert!(found == expected, "{name}");
            assert_eq!(said.pop().unwrap(), "4 processes divide the rows among themselves");
            assert_eq!(said, notes, "{name}");
        }
    }
}

#[test]
fn the_number_of_discrete_actions_is_that_of_all_shares() {
    let folder = TempDir::new().unwrap();
    for (at, most) in [2u32, 5, 3].into_iter().enumerate() {
        let choices: Vec<u32> = (0..8).map(|row| row % (most + 1)).collect();
        let states = (0..8).map(|row| row as f32).collect();
        let count = most as usize + 1;
        let data = Dataset::with_choices(states, 1, (&choices, count), &[4, 4]).unwrap();
        npz::write(&folder.path().join(format!("{at}.npz")), &data).unwrap();
    }
    let expected = facts(&whole(folder.path()));
    assert_eq!(expected.1, Some(6));
    for memory in [1 << 20, 20] {
        let found =
            ranks(4, |collective| facts(&shared(folder.path(), memory, &collective).dataset));
        assert!(found.into_iter().all(|found| found == expected), "memory {memory}");
    }
}

#[test]
fn a_file_is_read_only_by_the_processes_that_hold_some_of_it_and_damage_names_it() {
    let folder = folder(&[5, 5, 5, 5]);
    let damaged = folder.path().join("part-3.npz");
    let mut bytes = std::fs::read(&damaged).unwrap();
    // Past the headers, which every process reads: a value.
    bytes[400] ^= 64;
    std::fs::write(&damaged, bytes).unwrap();
    let found = ranks(4, |collective| {
        let mut readers = readers(folder.path(), &Choices::default()).unwrap();
        let spans = Spans::new(&readers, &collective);
        let met: Vec<usize> = (0..4).filter(|&file| spans.meets(file)).collect();
        let read = [1 << 20, 20].map(|memory| {
            let (memory, choices) = (Memory(memory), Choices::default());
            let share = match memory.0 {
                20 => Share::on_disk(folder.path(), &mut readers, &spans, &choices, memory),
                _ => Share::in_memory(&mut readers, &spans, memory),
            };
            share.map(drop).map_err(|error| error.to_string())
        });
        (met, read)
    });
    for (rank, (met, read)) in found.into_iter().enumerate() {
        assert!(met.len() <= 2 && met.contains(&rank), "rank {rank} reads {met:?}");
        for read in read {
            match read {
                Ok(()) => assert!(!met.contains(&3), "rank {rank}"),
                Err(error) => assert!(met.contains(&3) && error.contains("part-3.npz"), "{error}"),
            }
        }
    }
}

#[test]
#[should_panic(expected = "divided among processes")]
fn rows_that_others_hold_are_not_taken_for_all() {
    let folder = folder(&[4, 4]);
    let mut found = ranks(2, |collective| shared(folder.path(), 1 << 20, &collective).dataset);
    found.remove(0).states();
}
