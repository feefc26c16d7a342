//! A road map in a file, so that the next process need not build it again.
//!
//! The file is a name (8 bytes), BLAKE3 of the key that says what the map was built from, the map as
//! 32-bit little-endian words, and BLAKE3 of all that. Whatever does not fit exactly is not read.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::cover::Cover;
use super::roadmap::{RecordedWay, RoadMap};
use super::shortest::{Edge, Edges};
use crate::checkpoint::write_whole;
use crate::data::{Dataset, check_room};
use crate::error::Result;
use crate::plain;

/// The name of the format and its version.
const NAME: &[u8; 8] = b"isoplan3";
const HASH: usize = blake3::OUT_LEN;
/// Counts of nodes, edges and supports; squared radius and threshold.
const HEADER: usize = 5;
const EDGE: usize = 5;
const SUPPORT: usize = 6;
/// Bytes before the nodes: name, key and header.
const OPENING: usize = NAME.len() + HASH + 4 * HEADER;
/// What a file and the map made of it take at most, in lengths of the file.
const HELD: u64 = 3;
const HINT: &str = "raise `--max-memory`, or ask for fewer nodes: `--nodes`";

/// The length in bytes of the file of a map with these counts.
fn length([nodes, edges, supports]: [u64; 3]) -> u64 {
    (OPENING + HASH) as u64 + 4 * (nodes + (EDGE as u64 + 1) * edges + SUPPORT as u64 * supports)
}

/// Writes `map`, which was built from what `key` names.
pub(super) fn write(path: &Path, key: &str, map: &RoadMap) -> Result<()> {
    let RoadMap { cover, edges, supports, support_ends, threshold } = map;
    let counts = [cover.rows.len(), edges.list.len(), supports.len()];
    let length = length(counts.map(|count| count as u64));
    check_room("the bytes of the graph", length, HINT)?;
    let mut bytes = Vec::with_capacity(length as usize);
    bytes.extend_from_slice(NAME);
    bytes.extend_from_slice(blake3::hash(key.as_bytes()).as_bytes());
    let mut put = |words: &[u32]| bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    put(&counts.map(|count| count as u32));
    put(&[cover.squared_radius.to_bits(), threshold.to_bits()]);
    cover.rows.iter().for_each(|&row| put(&[row as u32]));
    for edge in &edges.list {
        put(&[edge.from, edge.to, edge.steps.to_bits(), edge.rows, edge.doubted.into()]);
    }
    support_ends.iter().for_each(|&end| put(&[end as u32]));
    for one in supports {
        put(&[one.to, one.from, one.trajectory, one.rows, one.leaves, one.arrives]);
    }
    let seal = blake3::hash(&bytes);
    bytes.extend_from_slice(seal.as_bytes());
    write_whole(path, &bytes)
}

/// Reads the map of `dataset` that was built from what `key` names; `None` unless every bit is as it
/// was written.
///
/// # Errors
/// A map that does not fit into memory.
pub(super) fn read(
    path: &Path,
    key: &str,
    dataset: &Dataset,
    axes: &[usize],
) -> Result<Option<RoadMap>> {
    let Some((file, opening, length)) = open(path, key) else { return Ok(None) };
    check_room("the kept graph", HELD.saturating_mul(length), HINT)?;
    let words = words(file, opening, length as usize);
    Ok(words.and_then(|words| decode(&words, dataset, axes)))
}

/// Opens the file and reads its first bytes; `None` unless the file is of what `key` names and as
/// long as they say.
fn open(path: &Path, key: &str) -> Option<(File, [u8; OPENING], u64)> {
    let mut file = plain::open(path).ok()?;
    let mut opening = [0; OPENING];
    file.read_exact(&mut opening).ok()?;
    let rest = opening.strip_prefix(NAME)?;
    let header = rest.strip_prefix(blake3::hash(key.as_bytes()).as_bytes())?;
    let count = |at: usize| u64::from(word(&header[4 * at..][..4]));
    let length = length([count(0), count(1), count(2)]);
    (file.metadata().ok()?.len() == length).then_some((file, opening, length))
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("a word has four bytes"))
}

/// The words of header and map, if their seal is whole.
fn words(file: File, opening: [u8; OPENING], length: usize) -> Option<Vec<u32>> {
    let mut bytes = Vec::with_capacity(length);
    bytes.extend(opening);
    file.take((length - OPENING) as u64).read_to_end(&mut bytes).ok()?;
    let (content, hash) = bytes.split_at_checked(bytes.len().checked_sub(HASH)?)?;
    if blake3::hash(content).as_bytes() != hash {
        return None;
    }
    Some(content[NAME.len() + HASH..].chunks_exact(4).map(word).collect())
}

fn decode(words: &[u32], dataset: &Dataset, axes: &[usize]) -> Option<RoadMap> {
    let (header, rest) = words.split_at_checked(HEADER)?;
    let [nodes, edges, supports] = [header[0], header[1], header[2]].map(|count| count as usize);
    let (rows, rest) = rest.split_at_checked(nodes)?;
    let (list, rest) = rest.split_at_checked(edges.checked_mul(EDGE)?)?;
    let (ends, rest) = rest.split_at_checked(edges)?;
    if rest.len() != supports.checked_mul(SUPPORT)? {
        return None;
    }
    let rows: Vec<usize> = rows.iter().map(|&row| row as usize).collect();
    let list: Vec<Edge> = list
        .chunks_exact(EDGE)
        .map(|e| {
            let (steps, doubted) = (f32::from_bits(e[2]), e[4] != 0);
            Edge { from: e[0], to: e[1], steps, rows: e[3], doubted }
        })
        .collect();
    let support_ends: Vec<usize> = ends.iter().map(|&end| end as usize).collect();
    let found: Vec<RecordedWay> = rest
        .chunks_exact(SUPPORT)
        .map(|s| RecordedWay {
            to: s[0],
            from: s[1],
            trajectory: s[2],
            rows: s[3],
            leaves: s[4],
            arrives: s[5],
        })
        .collect();
    // A sealed file that another program wrote must not lead out of the data either.
    let recorded = |row: u32| (row as usize) < dataset.rows();
    let fits = rows.iter().all(|&row| row < dataset.rows())
        && list.iter().all(|edge| edge.from.max(edge.to) < header[0] && edge.steps >= 0.0)
        && list.is_sorted_by_key(|edge| edge.to)
        && support_ends.is_sorted()
        && support_ends.last().is_none_or(|&end| end == supports)
        && found.iter().all(|one| recorded(one.leaves) && recorded(one.arrives))
        && found.iter().all(|one| (one.trajectory as usize) < dataset.trajectories());
    let [squared_radius, threshold] = [header[3], header[4]].map(f32::from_bits);
    let cover = Cover::of(dataset, axes, rows, squared_radius).ok().filter(|_| fits)?;
    let edges = Edges::new(nodes, list);
    Some(RoadMap { cover, edges, supports: found, support_ends, threshold })
}

#[cfg(test)]
mod tests {
    use super::super::toy::{Toy, euclid};
    use super::super::{Graph, GraphSettings};
    use super::*;

    /// Walks along a circle, so many degrees per step.
    fn walks(degrees: f32) -> Dataset {
        let angle = |row: usize| (degrees * (row % 40) as f32 + (row / 40) as f32).to_radians();
        let states = (0..400).flat_map(|row| [angle(row).cos(), angle(row).sin()]).collect();
        Dataset::new(states, 2, None, &[40; 10]).unwrap()
    }

    const SETTINGS: GraphSettings = GraphSettings {
        nodes: 60,
        ahead: 2,
        longest: super::super::Longest::Share(0.9),
        waypoint: 3,
        far: 2.0,
        seed: 0,
    };

    #[test]
    fn a_kept_map_answers_as_a_new_one_and_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        let (toy, dataset) = (Toy { size: 2, steps: euclid }, walks(5.0));
        let fresh = Graph::new(&toy, &dataset, SETTINGS).unwrap();
        let (start, goal) = ([1.0, 0.1], [-0.9, 0.3]);
        for _ in 0..2 {
            let kept = Graph::kept(&toy, &dataset, SETTINGS, (&path, "a")).unwrap();
            let answer = kept.path(&start, &goal).unwrap();
            assert!(answer.hops.len() > 5);
            assert_eq!(answer, fresh.path(&start, &goal).unwrap());
            assert_eq!((kept.nodes(), kept.edges()), (fresh.nodes(), fresh.edges()));
            assert_eq!(kept.threshold(), fresh.threshold());
        }
        // Not written again: what is there is used.
        let written = std::fs::read(&path).unwrap();
        let before = std::fs::metadata(&path).unwrap().modified().unwrap();
        Graph::kept(&toy, &dataset, SETTINGS, (&path, "a")).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), before);
        assert_eq!(std::fs::read(&path).unwrap(), written);
    }

    #[test]
    fn a_map_of_other_data_distance_or_settings_is_built_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        let (toy, dataset) = (Toy { size: 2, steps: euclid }, walks(5.0));
        let keep = |settings, key| {
            let graph = Graph::kept(&toy, &dataset, settings, (&path, key)).unwrap();
            let fresh = Graph::new(&toy, &dataset, settings).unwrap();
            assert_eq!((graph.nodes(), graph.edges()), (fresh.nodes(), fresh.edges()));
            std::fs::read(&path).unwrap()
        };
        let first = keep(SETTINGS, "a");
        assert_ne!(keep(GraphSettings { nodes: 30, ..SETTINGS }, "a"), first);
        assert_eq!(keep(SETTINGS, "a"), first);
        assert_ne!(keep(GraphSettings { ahead: 1, ..SETTINGS }, "a"), first);
        assert_ne!(keep(SETTINGS, "b"), first, "another key");
    }

    #[test]
    fn a_damaged_map_is_never_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        let (toy, dataset) = (Toy { size: 2, steps: euclid }, walks(5.0));
        let key = format!("a {SETTINGS:?} {:?}", [0, 1]);
        Graph::kept(&toy, &dataset, SETTINGS, (&path, "a")).unwrap();
        let whole = std::fs::read(&path).unwrap();
        assert!(read(&path, &key, &dataset, &[0, 1]).unwrap().is_some());
        for length in (0..whole.len()).step_by(97) {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(read(&path, &key, &dataset, &[0, 1]).unwrap().is_none(), "{length} bytes");
        }
        for bit in (0..8 * whole.len()).step_by(101) {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &damaged).unwrap();
            assert!(read(&path, &key, &dataset, &[0, 1]).unwrap().is_none(), "bit {bit}");
        }
        // It is replaced by a whole one.
        Graph::kept(&toy, &dataset, SETTINGS, (&path, "a")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), whole);
    }

    #[test]
    fn a_sealed_map_that_leads_out_of_the_data_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        let (toy, dataset) = (Toy { size: 2, steps: euclid }, walks(5.0));
        let key = format!("a {SETTINGS:?} {:?}", [0, 1]);
        Graph::kept(&toy, &dataset, SETTINGS, (&path, "a")).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let content = &whole[..whole.len() - HASH];
        let words = (content.len() - NAME.len() - HASH) / 4;
        // All of the header and of the nodes, and some of the rest.
        for word in (0..words).filter(|word| *word < 70 || word % 29 == 0) {
            let mut forged = content.to_vec();
            forged[NAME.len() + HASH + 4 * word..][..4].fill(0xff);
            forged.extend(*blake3::hash(&forged).as_bytes());
            std::fs::write(&path, &forged).unwrap();
            if let Some(map) = read(&path, &key, &dataset, &[0, 1]).unwrap() {
                assert!(map.cover.rows.iter().all(|&row| row < dataset.rows()));
                let supported = |edge| map.supports_of(edge).len() <= map.supports.len();
                assert!((0..map.edges.list.len()).all(supported));
            }
        }
    }
}
