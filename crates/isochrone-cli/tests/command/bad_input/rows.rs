//! Files of rows, written by hand so that anything can be wrong with them.

/// Rows as numpy's npz, also those that no dataset may have.
pub struct Rows {
    pub states: Vec<f32>,
    pub actions: Option<Vec<f32>>,
    pub lengths: Vec<usize>,
}

impl Rows {
    pub fn square(trajectories: usize) -> Self {
        let lengths = vec![10; trajectories];
        let wave = |at: usize| (at as f32 * 0.37).sin();
        let states = (0..20 * trajectories).map(wave).collect();
        let actions = Some((0..20 * trajectories).map(|at| wave(at + 5)).collect());
        Self { states, actions, lengths }
    }

    pub fn npz(&self) -> Vec<u8> {
        let rows = self.states.len() / 2;
        let numbers = |values: &[f32]| -> Vec<u8> {
            values.iter().flat_map(|value| value.to_le_bytes()).collect()
        };
        let mut ends = vec![0; rows];
        let mut last = 0;
        for length in &self.lengths {
            last += length;
            ends[last - 1] = 1;
        }
        let matrix = format!("({rows}, 2)");
        let mut files = vec![
            ("states.npy", npy("<f4", &matrix, &numbers(&self.states))),
            ("terminals.npy", npy("|b1", &format!("({rows},)"), &ends)),
        ];
        if let Some(actions) = &self.actions {
            files.push(("actions.npy", npy("<f4", &matrix, &numbers(actions))));
        }
        zip(&files)
    }
}

fn npy(item: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
    let mut text = format!("{{'descr': '{item}', 'fortran_order': False, 'shape': {shape}, }}");
    let length = (text.len() + 1 + 10).next_multiple_of(64) - 10;
    text = format!("{text:<width$}\n", width = length - 1);
    let header = [&b"\x93NUMPY\x01\x00"[..], &(length as u16).to_le_bytes(), text.as_bytes()];
    [&header.concat(), bytes].concat()
}

/// Files stored one after the other in a zip archive.
fn zip(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in files {
        let offset = archive.len() as u32;
        let size = (bytes.len() as u32).to_le_bytes();
        let mut facts = [[20, 0], [0; 2], [0; 2], [0; 2], [0x21, 0]].concat();
        facts.extend(checksum(bytes).to_le_bytes());
        facts.extend([size, size].concat());
        facts.extend((name.len() as u16).to_le_bytes());
        facts.extend([0; 2]);
        archive.extend([b"PK\x03\x04", &facts[..], name.as_bytes(), bytes].concat());
        directory.extend([b"PK\x01\x02\x14\x00", &facts[..], &[0; 10]].concat());
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let count = (files.len() as u16).to_le_bytes();
    let end = [&b"PK\x05\x06\0\0\0\0"[..], &count, &count].concat();
    let (size, start) = (directory.len() as u32, archive.len() as u32);
    let sizes = [size.to_le_bytes(), start.to_le_bytes()].concat();
    [archive, directory, end, sizes, vec![0; 2]].concat()
}

/// CRC-32 as zip uses it.
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| (sum >> 1) ^ (0xEDB8_8320 * (sum & 1)))
    })
}
