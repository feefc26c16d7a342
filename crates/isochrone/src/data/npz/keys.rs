//! The keys of a file of trajectories in npz.

use std::io::{Read, Seek};

use super::super::archive::Archive;
use super::super::complaints::{missing, refuse_misspelling};
use super::super::npy;
use crate::error::{Error, Result};

/// Keys that hold the states; a file has one of them.
pub(in crate::data) const STATES: [&str; 2] = ["states", "observations"];
pub(in crate::data) const ACTIONS: &str = "actions";
pub(in crate::data) const TERMINALS: &str = "terminals";
pub(in crate::data) const VALIDS: &str = "valids";

/// The entry that holds `key`.
pub(super) fn find<R: Read + Seek>(archive: &Archive<R>, key: &str) -> Option<usize> {
    archive.entries().iter().position(|entry| entry.name.strip_suffix(".npy") == Some(key))
}

/// Checks the names of all entries; returns the key of the states.
pub(super) fn check<R: Read + Seek>(archive: &mut Archive<R>) -> Result<&'static str> {
    archive.check_headers()?;
    refuse_torch(archive)?;
    let names = archive.entries().iter().filter_map(|entry| entry.name.strip_suffix(".npy"));
    let found: Vec<&str> = names.collect();
    let states = states_key(&found)?;
    if !found.contains(&TERMINALS) {
        return Err(missing(
            TERMINALS,
            &found,
            &format!(
                "mark the last row of each trajectory; for a single one: `terminals = \
                 numpy.zeros(len({states})); terminals[-1] = 1`"
            ),
        ));
    }
    if !found.contains(&ACTIONS) {
        refuse_misspelling(ACTIONS, &found, &[states, TERMINALS, VALIDS])?;
    }
    Ok(states)
}

fn states_key(found: &[&str]) -> Result<&'static str> {
    match STATES.map(|key| found.contains(&key)) {
        [true, false] => Ok(STATES[0]),
        [false, true] => Ok(STATES[1]),
        [true, true] => {
            Err(Error::input(format!("both `{}` and `{}` are there", STATES[0], STATES[1]))
                .hint("keep one of the two"))
        }
        [false, false] => Err(missing(
            STATES[0],
            found,
            "save it with `numpy.savez(file, states=…, terminals=…)`",
        )),
    }
}

fn refuse_torch<R: Read + Seek>(archive: &Archive<R>) -> Result<()> {
    if archive.entries().iter().all(|entry| !entry.name.ends_with(".pkl")) {
        return Ok(());
    }
    Err(Error::input("the file is a PyTorch pickle, expected npz").hint(npy::CONVERT))
}
