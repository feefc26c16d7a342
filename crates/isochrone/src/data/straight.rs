//! Values stored in a file as they are in memory: read by all threads, straight into place.

use std::fs::File;
use std::io;

use rayon::prelude::*;

use super::files::read_at;
use crate::pages;

/// Values that one task reads.
const PART: usize = 1 << 20;
/// Values read at a time, few enough to stay in the cache of a core.
const BLOCK: usize = 1 << 16;

/// Fills `values` with the little-endian 32-bit floats that begin at byte `start`. The bytes of each
/// part are passed to `see` in order; its result for each part is returned.
///
/// # Errors
/// The file ends early or cannot be read.
pub(super) fn fill<S: Default + Send>(
    file: &File,
    start: u64,
    values: &mut [f32],
    see: impl Fn(&mut S, &[u8]) + Sync,
) -> io::Result<Vec<S>> {
    let part = |(part, values): (usize, &mut [f32])| {
        let mut seen = S::default();
        let mut at = start + 4 * (part * PART) as u64;
        for block in values.chunks_mut(BLOCK) {
            let bytes = pages::bytes_mut(block);
            read_at(file, bytes, at)?;
            see(&mut seen, bytes);
            at += bytes.len() as u64;
            if cfg!(target_endian = "big") {
                block.iter_mut().for_each(|x| *x = f32::from_bits(x.to_bits().swap_bytes()));
            }
        }
        Ok(seen)
    };
    // The first error in the order of the parts, whichever was read first.
    let read: Vec<_> = values.par_chunks_mut(PART).enumerate().map(part).collect();
    read.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn every_number_is_in_its_place_and_its_bytes_are_seen_once_in_order() {
        let numbers: Vec<f32> = (0..PART + 3 * BLOCK / 2).map(|at| at as f32).collect();
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"before").unwrap();
        file.write_all(&bytes).unwrap();
        let mut values = vec![0.0; numbers.len()];
        let see = |seen: &mut Vec<u8>, bytes: &[u8]| seen.extend_from_slice(bytes);
        let seen = fill(&file, 6, &mut values, see).unwrap();
        assert_eq!(values, numbers);
        assert_eq!(seen.iter().map(Vec::len).collect::<Vec<_>>(), [4 * PART, 6 * BLOCK]);
        assert_eq!(seen.concat(), bytes);
        let error = fill(&file, 7, &mut values, |(), _| {}).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
