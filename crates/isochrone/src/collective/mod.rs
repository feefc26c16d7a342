//! Processes that carry one run together: what they gather, add and tell each other.
//!
//! Every operation gives each process the same bits: a gather copies, and a sum adds pairs of
//! neighbours, then pairs of pairs, whatever the order in which processes finish. There is one kind
//! of processes, those that `mpirun` started (`mpi.rs`); without it a process is alone.

#[cfg(all(feature = "mpi", unix))]
mod mpi;
mod processes;

use std::fmt;
use std::sync::Arc;

pub use processes::Processes;

use crate::error::{Error, Result};

/// The processes of a run; by default this one alone.
#[derive(Clone, Default)]
pub struct Collective {
    processes: Option<Arc<dyn Processes>>,
}

impl fmt::Debug for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank(), self.size())
    }
}

impl Collective {
    /// These processes.
    pub fn new(processes: Arc<dyn Processes>) -> Self {
        Self { processes: Some(processes) }
    }

    /// The processes that `mpirun` started with this one, or this one alone.
    ///
    /// # Errors
    /// `mpirun` was used, and this build has no MPI or the library cannot be loaded.
    pub fn launched() -> Result<Self> {
        match JobPlace::read() {
            None => Ok(Self::default()),
            Some(launch) => launch.join(),
        }
    }

    /// The number of this process, from 0.
    pub fn rank(&self) -> usize {
        self.processes.as_ref().map_or(0, |processes| processes.rank())
    }

    /// How many processes there are.
    pub fn size(&self) -> usize {
        self.processes.as_ref().map_or(1, |processes| processes.size())
    }

    /// Adds up the `numbers` of all processes, of which there is a power of two; `room` is reused.
    pub fn sum(&self, numbers: &mut [f32], room: &mut Vec<f32>) {
        let Some(processes) = &self.processes else { return };
        room.resize(numbers.len(), 0.0);
        let mut apart = 1;
        while apart < processes.size() {
            processes.exchange(processes.rank() ^ apart, numbers, room);
            // a + b has the bits of b + a: both sides of a pair have the same sum.
            numbers.iter_mut().zip(&*room).for_each(|(sum, &number)| *sum += number);
            apart *= 2;
        }
    }

    /// Cuts `numbers` into one equal part per process; each has its own and receives the others'.
    pub fn all_gather(&self, numbers: &mut [f32]) {
        if let Some(processes) = &self.processes {
            processes.all_gather(numbers);
        }
    }

    /// The bytes of rank 0 become everybody's.
    pub fn broadcast(&self, bytes: &mut [u8]) {
        self.broadcast_from(0, bytes);
    }

    /// The bytes of rank `from` become everybody's.
    pub fn broadcast_from(&self, from: usize, bytes: &mut [u8]) {
        if let Some(processes) = &self.processes {
            processes.broadcast(from, bytes);
        }
    }

    /// What every process says, in the order of their ranks; each may say as much as it likes.
    pub fn all_say(&self, own: Vec<u8>) -> Vec<Vec<u8>> {
        let said = |rank: usize| {
            let is_own = rank == self.rank();
            let mut length = (own.len() as u64).to_le_bytes();
            self.broadcast_from(rank, &mut length);
            let mut bytes =
                if is_own { own.clone() } else { vec![0; u64::from_le_bytes(length) as usize] };
            self.broadcast_from(rank, &mut bytes);
            bytes
        };
        (0..self.size()).map(said).collect()
    }

    /// Waits for all processes and leaves; nothing is exchanged afterwards.
    pub fn leave(&self) {
        if let Some(processes) = &self.processes {
            processes.leave();
        }
    }
}

/// How `mpirun` started this process, as its environment says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobPlace {
    /// The number of this process, from 0.
    pub rank: usize,
    /// How many processes were started.
    pub size: usize,
    /// How many of them are on this machine.
    pub here: usize,
}

impl JobPlace {
    /// What Open MPI's `mpirun` says; `None` if it did not start this process.
    pub fn read() -> Option<Self> {
        Self::of(|name| std::env::var(name).ok()?.parse().ok())
    }

    fn of(variable: impl Fn(&str) -> Option<usize>) -> Option<Self> {
        let size = variable("OMPI_COMM_WORLD_SIZE")?;
        let rank = variable("OMPI_COMM_WORLD_RANK")?;
        Some(Self { rank, size, here: variable("OMPI_COMM_WORLD_LOCAL_SIZE").unwrap_or(1) })
    }

    #[cfg(all(feature = "mpi", unix))]
    fn join(self) -> Result<Collective> {
        let found = mpi::Mpi::init().map_err(|error| {
            Error::input(format!("cannot use MPI: {error}"))
                .hint("install Open MPI on every machine, such as Debian's `openmpi-bin`")
        })?;
        Ok(Collective::new(Arc::new(found)))
    }

    #[cfg(not(all(feature = "mpi", unix)))]
    fn join(self) -> Result<Collective> {
        if self.size == 1 {
            return Ok(Collective::default());
        }
        Err(Error::input(format!("started as {} processes, and this build has no MPI", self.size))
            .hint("build with the feature `mpi`, or start it without mpirun"))
    }
}

#[cfg(test)]
pub(crate) mod threads;

#[cfg(test)]
mod tests {
    use super::threads::ranks;
    use super::*;

    #[test]
    fn every_rank_gets_the_sum_of_neighbours_and_the_parts_of_all() {
        // Added from left to right, the threes would be lost: 1e8 + 3 = 1e8.
        let numbers = [1e8f32, 3.0, 3.0, 3.0];
        let expected = (numbers[0] + numbers[1]) + (numbers[2] + numbers[3]);
        assert_ne!(expected, 1e8 + 3.0 + 3.0 + 3.0);
        let found = ranks(4, |collective| {
            let rank = collective.rank();
            let (mut sum, mut parts, mut told) = ([numbers[rank]; 3], [0.0; 8], [rank as u8; 2]);
            collective.sum(&mut sum, &mut Vec::new());
            parts[2 * rank..2 * rank + 2].fill(rank as f32);
            collective.all_gather(&mut parts);
            collective.broadcast(&mut told);
            (sum, parts, told)
        });
        for found in found {
            assert_eq!(found, ([expected; 3], [0., 0., 1., 1., 2., 2., 3., 3.], [0, 0]));
        }
    }

    #[test]
    fn every_rank_hears_what_all_say_however_long() {
        let found = ranks(4, |collective| {
            let rank = collective.rank();
            let mut told = [rank as u8; 2];
            collective.broadcast_from(2, &mut told);
            (told, collective.all_say(vec![rank as u8; rank]))
        });
        for (told, said) in found {
            assert_eq!(told, [2, 2]);
            assert_eq!(said, [vec![], vec![1], vec![2, 2], vec![3, 3, 3]]);
        }
    }

    #[test]
    fn a_process_alone_keeps_what_it_has() {
        let (alone, mut numbers) = (Collective::default(), [1.0, 2.0]);
        alone.sum(&mut numbers, &mut Vec::new());
        alone.all_gather(&mut numbers);
        alone.broadcast(&mut [0]);
        assert_eq!(alone.all_say(vec![7]), [vec![7]]);
        alone.leave();
        assert_eq!((numbers, alone.rank(), alone.size()), ([1.0, 2.0], 0, 1));
    }

    #[test]
    fn the_environment_of_mpirun_is_read() {
        let of = |names: &'static [(&str, usize)]| {
            JobPlace::of(|name| names.iter().find(|(other, _)| *other == name).map(|(_, n)| *n))
        };
        assert_eq!(of(&[]), None);
        let names = &[
            ("OMPI_COMM_WORLD_SIZE", 4),
            ("OMPI_COMM_WORLD_RANK", 3),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", 2),
        ];
        assert_eq!(of(names), Some(JobPlace { rank: 3, size: 4, here: 2 }));
    }

    #[cfg(not(all(feature = "mpi", unix)))]
    #[test]
    fn a_build_without_mpi_carries_a_run_alone_and_names_the_feature() {
        let place = JobPlace { rank: 0, size: 1, here: 1 };
        assert_eq!(place.join().unwrap().size(), 1);
        let error = JobPlace { size: 2, ..place }.join().unwrap_err().to_string();
        assert!(error.contains("2 processes") && error.contains("the feature `mpi`"), "{error}");
    }
}
