//! Parts of a dataset: whole trajectories, a share held out or as many as fit into memory.

use std::borrow::Cow;
use std::sync::Arc;

use super::dataset::{Dataset, first_rows};
use super::store::{Numbers, Store};
use crate::error::{Error, Result};
use crate::random::{Purpose, Stream};

impl Dataset {
    /// Splits by trajectory: about a share `validation` of the trajectories is held out.
    ///
    /// # Errors
    /// A share above zero needs at least two trajectories with two rows on either side.
    pub fn split(&self, validation: f64, seed: u64) -> Result<(Self, Option<Self>)> {
        if validation == 0.0 {
            return Ok((self.clone(), None));
        }
        let mut order = self.shuffled(&Stream::new(seed, Purpose::SPLIT));
        if order.len() < 2 {
            return Err(Error::input(format!(
                "{} trajectory with two rows or more, a validation split needs two",
                order.len()
            ))
            .hint("set `data.validation = 0` to train on all of it"));
        }
        let held = ((order.len() as f64 * validation).round() as usize).clamp(1, order.len() - 1);
        let sides = [order.split_off(held), order].map(|mut side| {
            side.sort_unstable();
            self.select(&side)
        });
        let [training, validation] = sides;
        Ok((training, Some(validation)))
    }

    /// The trajectories with two rows or more, in random order.
    fn shuffled(&self, stream: &Stream) -> Vec<usize> {
        let long = (0..self.trajectories()).filter(|&index| self.trajectory(index).len() > 1);
        let mut order: Vec<(u32, usize)> =
            long.map(|index| (stream.block(0, index as u32)[0], index)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, index)| index).collect()
    }

    /// The dataset of the trajectories `chosen`, which are in order.
    pub(super) fn select(&self, chosen: &[usize]) -> Self {
        let lengths: Vec<usize> =
            chosen.iter().map(|&index| self.trajectory(index).len()).collect();
        let held = self.own_trajectories();
        let own: Vec<usize> = chosen.iter().copied().filter(|index| held.contains(index)).collect();
        let store = match &self.store {
            Store::Memory(numbers) => {
                let rows = |values: &[f32], size: usize| {
                    let of = |&index: &usize| {
                        let rows = self.trajectory(index);
                        &values[self.place(rows.start) * size..][..rows.len() * size]
                    };
                    own.iter().map(of).collect::<Vec<_>>().concat()
                };
                let states = rows(&numbers.states, self.state_size);
                let actions = rows(&numbers.actions, self.action_size);
                Store::Memory(Arc::new(Numbers { states, actions }))
            }
            Store::Disk(disk) => {
                let own: Vec<usize> = own.iter().map(|index| index - held.start).collect();
                Store::Disk(disk.select(&own))
            }
        };
        let division = self.division.as_ref().map(|division| {
            let place =
                |(&index, &length): (&usize, &usize)| (self.trajectory(index).start, length);
            division.select(chosen.iter().zip(&lengths).map(place))
        });
        let (rows, first_rows) = (lengths.iter().sum(), first_rows(&lengths));
        Self { rows, first_rows, store, division, ..self.clone() }
    }

    /// The same data in memory. Data on disk are replaced by as many whole trajectories, drawn at
    /// random, as memory allows, or by the beginning of a single one that is too long. Data that
    /// processes [divide](Self::is_divided) stay divided.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub fn in_memory(&self) -> Result<Cow<'_, Self>> {
        let Store::Disk(disk) = &self.store else { return Ok(Cow::Borrowed(self)) };
        if self.is_divided() {
            return Ok(Cow::Borrowed(self));
        }
        let row_bytes = 4 * (self.state_size + self.action_size) as u64;
        let most = usize::try_from(disk.memory / 2 / row_bytes).unwrap_or(usize::MAX).max(2);
        let (mut chosen, mut rows) = (Vec::new(), 0);
        for index in self.shuffled(&Stream::new(0, Purpose::SAMPLE)) {
            rows += self.trajectory(index).len();
            if rows > most && !chosen.is_empty() {
                break;
            }
            chosen.push(index);
        }
        chosen.sort_unstable();
        let mut sample = self.select(&chosen);
        // A single trajectory that is too long is cut.
        sample.rows = sample.rows.min(most);
        sample.copied().map(Cow::Owned)
    }

    /// The same rows, copied to memory.
    pub(super) fn copied(self) -> Result<Self> {
        let (mut states, mut actions) = (Vec::new(), Vec::new());
        self.each_states(|numbers| {
            states.extend_from_slice(numbers);
            Ok(())
        })?;
        self.each_actions(|numbers| {
            actions.extend_from_slice(numbers);
            Ok(())
        })?;
        let store = Store::Memory(Arc::new(Numbers { states, actions }));
        Ok(Self { store, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_keeps_trajectories_whole_and_loses_none() {
        let states: Vec<f32> = (0..30).map(|x| x as f32).collect();
        let dataset = Dataset::new(states, 1, None, &[5, 5, 1, 9, 10]).unwrap();
        let (training, validation) = dataset.split(0.25, 1).unwrap();
        let validation = validation.unwrap();
        assert_eq!(training.rows() + validation.rows(), 29, "the one-row trajectory is dropped");
        assert_eq!(training.trajectories() + validation.trajectories(), 4);
        for side in [&training, &validation] {
            for index in 0..side.trajectories() {
                let rows = side.trajectory(index);
                let first = side.state(rows.start)[0];
                assert!(
                    rows.clone().all(|row| side.state(row)[0] - first == (row - rows.start) as f32)
                );
            }
        }
        let one = Dataset::new(vec![0.0; 4], 1, None, &[4]).unwrap();
        assert!(one.split(0.1, 1).unwrap_err().to_string().contains("data.validation"));
    }
}
