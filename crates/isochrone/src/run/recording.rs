//! Recordings that take minutes: made once on a machine and kept in the user's cache folder.
//!
//! What is recorded depends on this program, the simulator and the processor, whose versions nobody
//! lists. So the first and the last episode of a kept recording are recorded again: where they are not
//! the same to the bit, all of it is.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use crate::cache;
use crate::checkpoint::Lock;
use crate::data::{Dataset, npz, rounded};
use crate::error::{Error, Result};
use crate::simulate::Recording;

/// The file in the folder of a recording.
const ROWS: &str = "recording.npz";
/// What all kept recordings may take, in bytes; those that were not asked for longest make room.
const ROOM: u64 = 10 << 30;

/// Records episodes of a world; each is a function of the seed and its number.
type Record<'a> = &'a (dyn Fn(Range<u32>, &(dyn Fn() + Sync)) -> Result<Recording> + Sync);

/// A recording to make or to find.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// Records these episodes, and calls its other argument after each.
    pub record: Record<'a>,
    /// The world's name.
    pub name: &'a str,
    /// The seed of the recording.
    pub seed: u64,
    /// Episodes.
    pub count: u32,
    /// Is told how many episodes are recorded; 0 while another process records them.
    pub told: &'a (dyn Fn(u32) + Sync),
}

impl Wanted<'_> {
    /// Records it or, where it is `kept` on this machine, finds it there; also what a user should know.
    ///
    /// # Errors
    /// Those of recording.
    pub fn get(self, kept: bool) -> Result<(Recording, Option<String>)> {
        let kept = kept && self.count > 0;
        match kept.then(|| cache::folder("recordings")).flatten() {
            Some(folder) => self.of_folder(&folder, ROOM),
            None => Ok((self.all()?, None)),
        }
    }

    /// As [`get`](Self::get), with a folder of kept recordings that together take at most `room` bytes.
    fn of_folder(self, folder: &Path, room: u64) -> Result<(Recording, Option<String>)> {
        let place = folder.join(format!("{}-seed-{}-{}", self.name, self.seed, self.count));
        let path = place.join(ROWS);
        if let Some(kept) = self.reopened(&path)? {
            return Ok((kept, None));
        }
        let lock = loop {
            match Lock::take(&place) {
                Err(Error::Busy(_)) => (self.told)(0),
                taken => break taken,
            }
        };
        // Whoever had the folder may have kept what is wanted.
        if let Some(kept) = self.reopened(&path)? {
            (self.told)(self.count);
            return Ok((kept, None));
        }
        let made = self.all()?;
        let note = match lock.and_then(|_held| keep(&made, &path, folder, room)) {
            Ok(note) => note,
            Err(error) => format!("the recording is not kept for the next command: {error}"),
        };
        Ok((made, Some(note)))
    }

    fn all(self) -> Result<Recording> {
        let done = AtomicU32::new(0);
        let told = || (self.told)(done.fetch_add(1, Ordering::Relaxed) + 1);
        (self.record)(0..self.count, &told)
    }

    /// The recording in `path`, if there is one and it is what would be recorded.
    fn reopened(self, path: &Path) -> Result<Option<Recording>> {
        // One that cannot be read is as good as none.
        let Ok(dataset) = npz::read(path) else { return Ok(None) };
        if dataset.trajectories() != self.count as usize {
            return Ok(None);
        }
        let again = |episode: u32| {
            let again = (self.record)(episode..episode + 1, &|| {})?;
            let same = is_part(&again.dataset, &dataset, episode as usize);
            Ok::<_, Error>(same.then_some(again.family_names))
        };
        let (first, last) = rayon::join(|| again(0), || again(self.count - 1));
        let (Some(family_names), Some(_)) = (first?, last?) else { return Ok(None) };
        // When it was last asked for decides which recordings make room for others.
        let file = std::fs::File::options().append(true).open(path);
        file.and_then(|file| file.set_modified(SystemTime::now())).ok();
        let families = vec![0; dataset.trajectories()];
        Ok(Some(Recording { dataset, families, family_names }))
    }
}

/// Whether `one` is the trajectory `index` of `all`, to the bit.
fn is_part(one: &Dataset, all: &Dataset, index: usize) -> bool {
    let rows = all.trajectory(index);
    let same = |one: &[f32], all: &[f32], size: usize| {
        let all = all.get(rows.start * size..rows.end * size).unwrap_or_default();
        one.iter().map(|x| x.to_bits()).eq(all.iter().map(|x| x.to_bits()))
    };
    let sizes = |data: &Dataset| (data.state_size(), data.action_size(), data.choices());
    sizes(one) == sizes(all)
        && same(one.states(), all.states(), one.state_size())
        && same(one.actions(), all.actions(), one.action_size())
}

/// Keeps what was made in `path`, one of the recordings in `folder`; says where.
fn keep(made: &Recording, path: &Path, folder: &Path, room: u64) -> Result<String> {
    if made.family_names.len() != 1 {
        return Err(Error::input("its trajectories are of several families"));
    }
    let data = &made.dataset;
    let bytes = (data.rows() * (data.state_size() + data.action_size()) * 4) as u64;
    if bytes > room {
        let [taken, room] = [bytes, room].map(rounded);
        return Err(Error::input(format!("it takes {taken}, and all of them may take {room}")));
    }
    let mut others: Vec<(SystemTime, u64, PathBuf)> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join(ROWS))
        .filter_map(|path| {
            let found = path.metadata().ok()?;
            Some((found.modified().ok()?, found.len(), path))
        })
        .collect();
    others.sort();
    let mut taken = others.iter().map(|(_, size, _)| size).sum::<u64>() + bytes;
    for (_, size, path) in &others {
        if taken <= room {
            break;
        }
        std::fs::remove_file(path).map_err(|error| Error::disk("remove", path, error))?;
        taken -= size;
    }
    npz::write(path, data)?;
    Ok(format!("the recording is kept for the next command, in {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    /// Rows of an episode.
    const LENGTH: usize = 4;
    /// Bytes of a recording of three episodes.
    const BYTES: u64 = (3 * LENGTH * (2 + 1) * 4) as u64;

    /// No episode.
    const NONE: u32 = u32::MAX;

    /// A world that counts its recorded episodes, of which one may change.
    struct Slow {
        recorded: AtomicU32,
        changed: AtomicU32,
        families: usize,
    }

    impl Default for Slow {
        fn default() -> Self {
            Self { recorded: AtomicU32::new(0), changed: AtomicU32::new(NONE), families: 1 }
        }
    }

    impl Slow {
        fn record(
            &self,
            seed: u64,
            episodes: Range<u32>,
            told: &(dyn Fn() + Sync),
        ) -> Result<Recording> {
            let changed = self.changed.load(Ordering::Relaxed);
            let (mut states, mut actions) = (Vec::new(), Vec::new());
            for episode in episodes.clone() {
                self.recorded.fetch_add(1, Ordering::Relaxed);
                for row in 0..LENGTH {
                    let value = (seed as f32 + episode as f32).sqrt() + row as f32 / 7.0;
                    states.extend([value, -0.0]);
                    actions.push(if episode == changed { 0.5 } else { 0.25 });
                }
                told();
            }
            let lengths = vec![LENGTH; episodes.len()];
            let dataset = Dataset::new(states, 2, Some((actions, 1)), &lengths)?;
            let family_names = vec!["slow".to_owned(); self.families];
            Ok(Recording { dataset, families: vec![0; lengths.len()], family_names })
        }
    }

    /// Three episodes with a seed from a folder with so much room, the note, and how many episodes were
    /// recorded for it.
    fn get(world: &Slow, seed: u64, folder: &Path, room: u64) -> (Recording, Option<String>, u32) {
        let before = world.recorded.load(Ordering::Relaxed);
        let record = |episodes, told: &(dyn Fn() + Sync)| world.record(seed, episodes, told);
        let wanted = Wanted { record: &record, name: "slow", seed, count: 3, told: &|_| {} };
        let (recording, note) = wanted.of_folder(folder, room).unwrap();
        (recording, note, world.recorded.load(Ordering::Relaxed) - before)
    }

    fn fresh(world: &Slow, seed: u64) -> Recording {
        world.record(seed, 0..3, &|| {}).unwrap()
    }

    #[test]
    fn a_recording_is_made_once_and_found_as_it_was_made() {
        let folder = tempfile::tempdir().unwrap();
        let world = Slow::default();
        let (made, note, episodes) = get(&world, 1, folder.path(), ROOM);
        assert_eq!((&made, episodes), (&fresh(&world, 1), 3));
        let path = folder.path().join("slow-seed-1-3").join(ROWS);
        assert!(note.unwrap().ends_with(&format!("in {}", path.display())));
        let (found, note, episodes) = get(&world, 1, folder.path(), ROOM);
        assert_eq!((found, note, episodes), (made, None, 2));
        assert_eq!(get(&world, 2, folder.path(), ROOM).0, fresh(&world, 2));
    }

    #[test]
    fn what_would_be_recorded_otherwise_or_cannot_be_read_is_recorded_anew() {
        let folder = tempfile::tempdir().unwrap();
        let world = Slow::default();
        get(&world, 1, folder.path(), ROOM);
        for changed in [0, 2, NONE] {
            world.changed.store(changed, Ordering::Relaxed);
            let (made, note, _) = get(&world, 1, folder.path(), ROOM);
            assert_eq!((made, note.is_some()), (fresh(&world, 1), true), "{changed}");
        }
        let path = folder.path().join("slow-seed-1-3").join(ROWS);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert_eq!(get(&world, 1, folder.path(), ROOM).0, fresh(&world, 1));
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }

    #[test]
    fn who_comes_while_another_process_records_waits_and_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (world, waits) = (Slow::default(), AtomicBool::new(false));
        let place = folder.path().join("slow-seed-1-3");
        let held = Lock::take(&place).unwrap();
        let told = |episodes| {
            waits.fetch_or(episodes == 0, Ordering::Relaxed);
        };
        let record = |episodes, told: &(dyn Fn() + Sync)| world.record(1, episodes, told);
        let wanted = Wanted { record: &record, name: "slow", seed: 1, count: 3, told: &told };
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| wanted.of_folder(folder.path(), ROOM).unwrap());
            while !waits.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            let made = fresh(&world, 1);
            keep(&made, &place.join(ROWS), folder.path(), ROOM).unwrap();
            drop(held);
            assert_eq!(waiting.join().unwrap(), (made, None));
        });
        assert_eq!(world.recorded.load(Ordering::Relaxed), 3 + 2);
    }

    #[test]
    fn what_was_not_asked_for_longest_makes_room_and_what_does_not_fit_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let world = Slow::default();
        let path = |seed: u64| folder.path().join(format!("slow-seed-{seed}-3")).join(ROWS);
        for seed in [1, 2] {
            get(&world, seed, folder.path(), ROOM);
            let asked = UNIX_EPOCH + Duration::from_secs(100 - seed);
            std::fs::File::options()
                .append(true)
                .open(path(seed))
                .unwrap()
                .set_modified(asked)
                .unwrap();
        }
        let size = path(1).metadata().unwrap().len();
        // The older one is asked for again.
        assert_eq!(get(&world, 2, folder.path(), ROOM).2, 2);
        get(&world, 3, folder.path(), 2 * size + 1);
        assert_eq!([1, 2, 3].map(|seed| path(seed).exists()), [false, true, true]);
        let (made, note, _) = get(&world, 4, folder.path(), BYTES - 1);
        assert_eq!(made, fresh(&world, 4));
        assert!(note.unwrap().contains("is not kept for the next command: it takes"));
        assert_eq!([2, 3, 4].map(|seed| path(seed).exists()), [true, true, false]);
        let several = Slow { families: 2, ..Slow::default() };
        assert!(get(&several, 5, folder.path(), ROOM).1.unwrap().contains("several families"));
        assert!(!path(5).exists());
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_no_reason_to_fail() {
        let folder = tempfile::tempdir().unwrap();
        let (world, file) = (Slow::default(), folder.path().join("file"));
        std::fs::write(&file, "").unwrap();
        let (made, note, _) = get(&world, 1, &file, ROOM);
        assert_eq!(made, fresh(&world, 1));
        assert!(note.unwrap().contains("is not kept for the next command"));
    }
}
