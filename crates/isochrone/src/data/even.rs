//! Rows drawn evenly over places: rarely visited places are seen as often as crowded ones.
//!
//! Space is divided into boxes of equal side along the chosen axes. A share of the draws picks a box,
//! all equally likely, and a row in it; the others pick a row, all equally likely.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::dataset::Dataset;
use crate::error::{Error, Result};

/// How starts and random goals are spread over the places that data visit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Even {
    /// The coordinates that say where a state is.
    pub axes: Vec<usize>,
    /// The side of a box, in the units of the coordinates.
    pub side: f64,
    /// The share of draws that are even over boxes; 0 up to, not including, 1.
    pub share: f64,
}

impl Even {
    fn check(&self, state_size: usize) -> Result<()> {
        let wrong = |key: &str, value: String, expected: &str| {
            Err(Error::input(format!("`data.even.{key}` is `{value}`, expected {expected}"))
                .hint("for example `{ axes = [0, 1], side = 0.5, share = 0.5 }`"))
        };
        if self.axes.is_empty() || self.axes.iter().any(|&axis| axis >= state_size) {
            let expected = format!("coordinates below {state_size}, one or more");
            return wrong("axes", format!("{:?}", self.axes), &expected);
        }
        if !(self.side > 0.0 && self.side.is_finite()) {
            return wrong("side", self.side.to_string(), "a positive number");
        }
        if !(0.0..1.0).contains(&self.share) {
            return wrong("share", self.share.to_string(), "0 up to, not including, 1");
        }
        Ok(())
    }
}

impl Dataset {
    /// The same rows, with starts and random goals drawn as `law` says.
    ///
    /// # Errors
    /// A law that does not fit the data, and data on disk.
    pub fn evened(self, law: &Even) -> Result<Self> {
        law.check(self.state_size())?;
        if let Some(path) = self.stays_in() {
            return Err(Error::memory("`data.even` needs the data in memory").in_file(path));
        }
        let starts: Vec<u32> = (0..self.starts()).map(|index| self.start(index) as u32).collect();
        let mut boxes: BTreeMap<Vec<i64>, Vec<u32>> = BTreeMap::new();
        for &row in &starts {
            let state = self.state(row as usize);
            let place = |&axis: &usize| (f64::from(state[axis]) / law.side).floor() as i64;
            boxes.entry(law.axes.iter().map(place).collect()).or_default().push(row);
        }
        let more = starts.len() as f64 * law.share / (1.0 - law.share);
        let each = (more / boxes.len() as f64).round() as usize;
        let mut drawn = starts;
        for rows in boxes.values() {
            drawn.extend((0..each).map(|index| rows[index * rows.len() / each]));
        }
        Ok(Self { drawn: drawn.into(), ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 90 rows at 0.1, then one each at 1.1 and 2.1 and a last one that is no start.
    fn crowded() -> Dataset {
        let mut states = vec![0.1f32; 90];
        states.extend([1.1, 2.1, 3.1]);
        Dataset::new(states, 1, None, &[93]).unwrap()
    }

    fn law(share: f64) -> Even {
        Even { axes: vec![0], side: 1.0, share }
    }

    #[test]
    fn every_place_gets_its_share_and_every_start_stays() {
        let data = crowded().evened(&law(0.75)).unwrap();
        let all: Vec<usize> = (0..data.starts()).map(|index| data.start(index)).collect();
        assert_eq!(all.len(), 4 * 92);
        let count = |wanted: fn(usize) -> bool| all.iter().filter(|&&row| wanted(row)).count();
        assert_eq!(count(|row| row == 90), 1 + 92);
        assert_eq!(count(|row| row == 91), 1 + 92);
        assert_eq!(count(|row| row < 90), 90 + 92);
        assert!((0..92).all(|row| all.contains(&row)), "every start is drawn");
        assert_eq!(count(|row| row == 92), 0, "the last row has no successor");
        assert_eq!(data.anywhere(0), 0);
        assert_eq!(data.anywhere(u32::MAX), 91);
    }

    #[test]
    fn nothing_changes_without_a_share() {
        let (plain, even) = (crowded(), crowded().evened(&law(0.0)).unwrap());
        let starts = |data: &Dataset| -> Vec<usize> {
            (0..data.starts()).map(|index| data.start(index)).collect()
        };
        assert_eq!(starts(&plain), starts(&even));
        assert_eq!(plain.anywhere(u32::MAX), 92);
    }

    #[test]
    fn laws_without_a_meaning_are_refused() {
        for (law, wanted) in [
            (Even { axes: vec![1], ..law(0.5) }, "`data.even.axes` is `[1]`"),
            (Even { axes: vec![], ..law(0.5) }, "`data.even.axes` is `[]`"),
            (Even { side: 0.0, ..law(0.5) }, "`data.even.side` is `0`"),
            (law(1.0), "`data.even.share` is `1`"),
        ] {
            let error = crowded().evened(&law).unwrap_err().to_string();
            assert!(error.starts_with(wanted), "{error}");
        }
    }
}
