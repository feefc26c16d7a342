//! Trajectories as a user saves them with numpy.

use std::io::{Cursor, Write};

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// What was done.
pub enum Actions {
    /// Two real numbers per row.
    Real(Vec<[f32; 2]>),
    /// One whole number per row.
    Whole(Vec<i64>),
}

/// Rows of trajectories in a plane.
pub struct Recorded {
    pub observations: Vec<[f32; 2]>,
    pub actions: Actions,
    /// Whether a trajectory ends with this row.
    pub terminals: Vec<bool>,
}

impl Recorded {
    /// The bytes of `numpy.savez(file, observations=…, actions=…, terminals=…)`.
    pub fn npz(&self) -> Vec<u8> {
        let rows = self.observations.len();
        let (pairs, single) = (format!("({rows}, 2)"), format!("({rows},)"));
        let real = |values: &[[f32; 2]]| -> Vec<u8> {
            values.as_flattened().iter().flat_map(|value| value.to_le_bytes()).collect()
        };
        let actions = match &self.actions {
            Actions::Real(values) => npy("<f4", &pairs, &real(values)),
            Actions::Whole(values) => {
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                npy("<i8", &single, &bytes)
            }
        };
        let ends: Vec<u8> = self.terminals.iter().map(|&end| end.into()).collect();
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        for (key, bytes) in [
            ("observations", npy("<f4", &pairs, &real(&self.observations))),
            ("actions", actions),
            ("terminals", npy("|b1", &single, &ends)),
        ] {
            archive.start_file(format!("{key}.npy"), SimpleFileOptions::default()).unwrap();
            archive.write_all(&bytes).unwrap();
        }
        archive.finish().unwrap().into_inner()
    }
}

/// An array as numpy writes it.
fn npy(item: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{item}', 'fortran_order': False, 'shape': {shape}, }}");
    let length = (header.len() + 1 + 10).next_multiple_of(64) - 10;
    header = format!("{header:<width$}\n", width = length - 1);
    let start = [&b"\x93NUMPY\x01\x00"[..], &(length as u16).to_le_bytes()].concat();
    [&start, header.as_bytes(), bytes].concat()
}
