//! Processes that are threads of a test.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use super::{Collective, Processes};

/// One thread, with a channel from and to every other.
struct Rank {
    rank: usize,
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Mutex<Receiver<Vec<u8>>>>,
}

impl Rank {
    fn send(&self, to: usize, bytes: Vec<u8>) {
        self.to[to].send(bytes).unwrap();
    }

    fn receive(&self, from: usize) -> Vec<u8> {
        self.from[from].lock().unwrap().recv().unwrap()
    }
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn read(bytes: &[u8], numbers: &mut [f32]) {
    assert_eq!(bytes.len(), 4 * numbers.len(), "both sides send as much");
    for (number, bytes) in numbers.iter_mut().zip(bytes.chunks_exact(4)) {
        *number = f32::from_le_bytes(bytes.try_into().unwrap());
    }
}

impl Processes for Rank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn exchange(&self, with: usize, numbers: &[f32], theirs: &mut [f32]) {
        self.send(with, bytes(numbers));
        read(&self.receive(with), theirs);
    }

    fn all_gather(&self, numbers: &mut [f32]) {
        let length = numbers.len() / self.size();
        let own = bytes(&numbers[self.rank * length..][..length]);
        (0..self.size()).for_each(|to| self.send(to, own.clone()));
        for (from, part) in numbers.chunks_exact_mut(length).enumerate() {
            read(&self.receive(from), part);
        }
    }

    fn broadcast(&self, from: usize, bytes: &mut [u8]) {
        if self.rank == from {
            let others = (0..self.size()).filter(|&to| to != from);
            others.for_each(|to| self.send(to, bytes.to_vec()));
        } else {
            bytes.copy_from_slice(&self.receive(from));
        }
    }

    fn leave(&self) {}
}

/// Calls `work` as each of `size` ranks, in threads of their own; what they return, in order.
pub(crate) fn ranks<R: Send>(size: usize, work: impl Fn(Collective) -> R + Sync) -> Vec<R> {
    let mut to: Vec<Vec<_>> = (0..size).map(|_| Vec::new()).collect();
    let mut from: Vec<Vec<_>> = (0..size).map(|_| Vec::new()).collect();
    for sender in &mut to {
        for receiver in &mut from {
            let (give, take) = channel();
            sender.push(give);
            receiver.push(Mutex::new(take));
        }
    }
    let ranks = to.into_iter().zip(from).enumerate();
    let ranks: Vec<Rank> = ranks.map(|(rank, (to, from))| Rank { rank, to, from }).collect();
    std::thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = ranks
            .into_iter()
            .map(|rank| scope.spawn(move || work(Collective::new(Arc::new(rank)))))
            .collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    })
}
