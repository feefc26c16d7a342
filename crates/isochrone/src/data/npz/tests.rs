//! How every sound, damaged and hostile archive is read or refused.

use std::io::{self, Write};

use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use super::*;
use tempfile::TempDir;

const PLAIN: &[u8] = include_bytes!("../../../tests/fixtures/plain.npz");
const COMPRESSED: &[u8] = include_bytes!("../../../tests/fixtures/compressed.npz");
const FLOAT64: &[u8] = include_bytes!("../../../tests/fixtures/float64.npz");
const FORTRAN: &[u8] = include_bytes!("../../../tests/fixtures/fortran.npz");
const OBJECT: &[u8] = include_bytes!("../../../tests/fixtures/object.npz");
const NO_TERMINALS: &[u8] = include_bytes!("../../../tests/fixtures/no-terminals.npz");

/// What every sound fixture holds.
fn expected() -> Dataset {
    let states = vec![0.0, 0.5, 1.0, -1.5, 2.0, 2.25, 3.0, 0.0, 4.0, 1e-3];
    Dataset::new(states, 2, Some((vec![0.5, -1.0, 0.0, 1.0, 0.25], 1)), &[3, 2]).unwrap()
}

struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn read_named(&self, name: &str, bytes: &[u8]) -> Result<Dataset> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        read(&path)
    }

    fn read(&self, bytes: &[u8]) -> Result<Dataset> {
        self.read_named("data.npz", bytes)
    }

    fn complaint(&self, bytes: &[u8]) -> String {
        let error = self.read(bytes).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{error}");
        let text = error.to_string();
        assert!(text.contains("data.npz"), "no file named: {text}");
        text
    }
}

/// A zip of arrays given by key, dtype, shape and bytes.
fn pack(method: CompressionMethod, arrays: &[(&str, npy::Item, &[usize], &[u8])]) -> Vec<u8> {
    let mut archive = ZipWriter::new(io::Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(method);
    for &(key, item, shape, data) in arrays {
        archive.start_file(format!("{key}.npy"), options).unwrap();
        npy::write_header(&mut archive, item, shape).unwrap();
        archive.write_all(data).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// As [`read`], from memory.
fn read_bytes(bytes: &[u8]) -> Result<Dataset> {
    let archive = Archive::new(io::Cursor::new(bytes))?;
    let mut other = archive.again(io::Cursor::new(bytes));
    NpzReader::new(PathBuf::new(), archive)?.read_with(&mut other, None, &mut Vec::new())?.check()
}

fn stored(arrays: &[(&str, npy::Item, &[usize], &[u8])]) -> Vec<u8> {
    pack(CompressionMethod::Stored, arrays)
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn files_of_numpy_are_read_plain_packed_and_wide() {
    let bench = Bench::new();
    for (name, bytes) in [("plain", PLAIN), ("packed", COMPRESSED), ("wide", FLOAT64)] {
        assert_eq!(bench.read(bytes).unwrap(), expected(), "{name}");
    }
}

#[test]
fn many_plain_numbers_are_read_and_a_flipped_bit_among_them_is_noticed() {
    let (rows, bench) = (npy::MANY / 2 + 1, Bench::new());
    let values: Vec<f32> = (0..2 * rows).map(|at| at as f32).collect();
    let mut ends = vec![0; rows];
    ends[rows - 1] = 1;
    let states = ("states", npy::Item::Float32, &[rows, 2][..], &floats(&values)[..]);
    let mut bytes = stored(&[states, ("terminals", npy::Item::Bool, &[rows], &ends)]);
    assert_eq!(bench.read(&bytes).unwrap(), Dataset::new(values, 2, None, &[rows]).unwrap());
    let (first, last) = (200, 8 * rows);
    for place in [first, first + last / 2, last] {
        bytes[place] ^= 4;
        let text = bench.complaint(&bytes);
        assert!(text.contains("`states` cannot be read: invalid checksum"), "{text}");
        bytes[place] ^= 4;
    }
}

#[test]
fn what_is_written_is_read_back_and_its_bytes_are_a_function_of_the_data() {
    let folder = TempDir::new().unwrap();
    let bare = Dataset::new(vec![1.0, 2.0, 3.0], 1, None, &[1, 2]).unwrap();
    for dataset in [expected(), bare] {
        let paths = [folder.path().join("one.npz"), folder.path().join("two.npz")];
        for path in &paths {
            write(path, &dataset).unwrap();
            assert_eq!(read(path).unwrap(), dataset);
        }
        assert_eq!(std::fs::read(&paths[0]).unwrap(), std::fs::read(&paths[1]).unwrap());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "a leftover");
}

#[test]
fn a_write_that_fails_leaves_what_was_there() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("data.npz");
    write(&path, &expected()).unwrap();
    let before = std::fs::read(&path).unwrap();
    if cfg!(target_os = "linux") {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let writer = Writer::onto(&path, folder.path().join("full.tmp"), full);
        let error = writer.finish([10_000_000].into_iter()).unwrap_err();
        assert_eq!(error.exit_code(), 4, "{error}");
        // The first write that fails ends it, however much was to follow.
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut writer = Writer::onto(&path, folder.path().join("full.tmp"), full);
        let mut given = 0;
        let written = writer.states([1_000_000, 100], |take| {
            (0..1_000_000).try_for_each(|_| {
                given += 1;
                take(&[0.0; 100])
            })
        });
        assert_eq!(written.unwrap_err().exit_code(), 4);
        assert!(given < 10_000, "{given} rows were given");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(write(&folder.path().join("no/data.npz"), &expected()).unwrap_err().exit_code(), 4);
}

#[test]
fn every_truncation_is_refused() {
    for bytes in [PLAIN, COMPRESSED] {
        for length in 0..bytes.len() {
            assert!(read_bytes(&bytes[..length]).is_err(), "{length} bytes");
        }
    }
    println!("figures: npz: {} cuts, all refused", PLAIN.len() + COMPRESSED.len());
}

#[test]
fn every_flipped_bit_gives_an_error_or_the_right_data() {
    for bytes in [PLAIN, COMPRESSED] {
        let mut bytes = bytes.to_vec();
        let mut refused = 0;
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            match read_bytes(&bytes) {
                Ok(dataset) => assert_eq!(dataset, expected(), "bit {bit}"),
                Err(_) => refused += 1,
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(refused > bytes.len() * 4, "only {refused} flips were noticed");
        println!("figures: npz: {} flips, 0 other values", 8 * bytes.len());
    }
}

#[test]
fn foreign_files_are_named_with_the_way_to_convert() {
    let bench = Bench::new();
    assert!(bench.complaint(OBJECT).contains("`states` holds Python objects"));
    assert!(bench.complaint(OBJECT).contains("numpy.savez(file, states=…, terminals=…)"));
    assert!(bench.complaint(FORTRAN).contains("`states` is in Fortran order"));
    assert!(bench.complaint(b"\x80\x04\x95pickle").contains("the file is a pickle"));
    assert!(bench.complaint(b"\x89HDF\r\n\x1a\n").contains("HDF5"));
    assert!(bench.complaint(b"\x93NUMPY\x01\x00").contains("one npy array"));
    assert!(bench.complaint(b"").contains("empty"));
    assert!(bench.complaint(b"x,y\n1,2\n").contains("not read from csv"));
    assert!(bench.complaint(b"\x00\x01\x02\x03").contains("not npz"));
    for name in ["a.pkl", "a.pt", "a.PTH", "a.pickle"] {
        let error = bench.read_named(name, PLAIN).unwrap_err().to_string();
        assert!(error.contains("are pickles") && error.contains("numpy.savez"), "{error}");
    }
    let mut torch = ZipWriter::new(io::Cursor::new(Vec::new()));
    torch.start_file("archive/data.pkl", SimpleFileOptions::default()).unwrap();
    let torch = torch.finish().unwrap().into_inner();
    assert!(bench.complaint(&torch).contains("a PyTorch pickle"));
    let folder = read(bench.folder.path()).unwrap_err().to_string();
    assert!(folder.contains("expected a plain file"), "{folder}");
    let none = read(&bench.folder.path().join("none.npz")).unwrap_err();
    assert!(none.to_string().contains("none.npz") && none.exit_code() == 2, "{none}");
}

#[test]
fn a_missing_key_is_named_with_the_keys_that_are_there() {
    let bench = Bench::new();
    let error = bench.complaint(NO_TERMINALS);
    assert!(error.starts_with("no key `terminals`, found `states`, `actions`, `dones` (`"));
    assert!(error.ends_with("is `dones` meant? save it as `terminals`"), "{error}");
    let data = floats(&[1.0]);
    let typo = stored(&[("statse", npy::Item::Float32, &[1, 1], &data)]);
    assert!(bench.complaint(&typo).contains("is `statse` meant?"));
    let other = stored(&[("zebra", npy::Item::Float32, &[1, 1], &data)]);
    assert!(bench.complaint(&other).contains("found `zebra`"));
    assert!(!bench.complaint(&other).contains("meant"));
    assert!(bench.complaint(&stored(&[])).contains("found no arrays"));
}

#[test]
fn each_mistake_in_honest_data_has_its_own_message() {
    use npy::Item::{Bool, Byte, Float32};
    let bench = Bench::new();
    let four = floats(&[0.0, 1.0, 2.0, 3.0]);
    let states = ("states", Float32, &[4, 1][..], &four[..]);
    let ends = ("terminals", Bool, &[4][..], &[0, 1, 0, 1][..]);
    assert!(bench.read(&stored(&[states, ends])).is_ok());
    let says = |arrays: &[(&str, npy::Item, &[usize], &[u8])], text: &str| {
        let error = bench.complaint(&stored(arrays));
        assert!(error.contains(text), "expected `{text}` in: {error}");
    };
    says(&[("states", Float32, &[4], &four), ends], "`states` has 1 dimension, expected 2");
    says(&[("states", Float32, &[4, 0], &[]), ends], "the rows of `states` have no values");
    says(&[("states", Byte, &[4, 1], &[0; 4]), ends], "`states` has dtype `|u1`");
    says(&[states, ("observations", Float32, &[4, 1], &four), ends], "both `states` and");
    says(&[states, ("terminals", Bool, &[4, 1], &[0, 1, 0, 1])], "`terminals` has 2 dimens");
    says(&[states, ("terminals", Bool, &[3], &[0, 0, 1])], "`terminals` has 3 rows, `states`");
    says(&[states, ("terminals", Bool, &[4], &[0, 7, 0, 1])], "`terminals` row 1 is `7`");
    says(
        &[states, ("terminals", Bool, &[4], &[0, 1, 0, 0])],
        "the trajectory of rows 2 to 3 does not end",
    );
    says(
        &[states, ("terminals", Bool, &[4], &[0; 4])],
        "`terminals` is 0 on all 4 rows: no trajectory ends",
    );
    says(&[states, ("terminals", Bool, &[4], &[1; 4])], "no trajectory has two rows");
    says(&[states, ends, ("valids", Bool, &[4], &[1; 4])], "`terminals` row 1 is 1, expected 0");
    says(&[states, ends, ("valids", Bool, &[3], &[1; 3])], "`valids` has 3 rows");
    let short = ("actions", Float32, &[3, 1][..], &four[..12]);
    says(&[states, short, ends], "`actions` has 3 rows, `states` has 4");
    let wide = ("actions", Float32, &[4, 1][..], &four[..]);
    says(&[states, wide, ends], "`actions` row 2 column 0 is `2`, expected within [-1, 1]");
    let holed = floats(&[0.0, f32::NAN, 2.0, 3.0]);
    let holed = ("states", Float32, &[2, 2][..], &holed[..]);
    let end = ("terminals", Bool, &[2][..], &[0, 1][..]);
    says(&[holed, end], "`states` row 0 column 1 is `NaN`, expected a finite number");
}

#[test]
fn likely_mistakes_are_named_with_the_line_of_python_that_fixes_them() {
    use npy::Item::{Bool, Float32};
    let bench = Bench::new();
    let four = floats(&[0.0, 0.5, -0.5, 1.0]);
    let states = ("observations", Float32, &[4, 1][..], &four[..]);
    let ends = ("terminals", Bool, &[4][..], &[0, 1, 0, 1][..]);
    let says = |arrays: &[(&str, npy::Item, &[usize], &[u8])], what: &str, hint: &str| {
        let error = bench.complaint(&stored(arrays));
        assert!(error.starts_with(what), "expected `{what}` in: {error}");
        assert!(error.ends_with(hint), "expected `{hint}` in: {error}");
    };
    for key in ["action", "Actions", "acts", "acitons"] {
        let misspelled = (key, Float32, &[4, 1][..], &four[..]);
        let what = format!("`{key}` looks like a misspelling of `actions`, found");
        let hint = "save it as `actions`; to train on states alone, leave it out";
        says(&[states, misspelled, ends], &what, hint);
    }
    for key in ["rewards", "options", "next_observations", "qpos"] {
        let other = (key, Float32, &[4, 1][..], &four[..]);
        assert_eq!(bench.read(&stored(&[states, other, ends])).unwrap().action_size(), 0, "{key}");
    }
    says(
        &[states],
        "no key `terminals`, found `observations`",
        "for a single one: `terminals = numpy.zeros(len(observations)); terminals[-1] = 1`",
    );
    says(
        &[("states", Float32, &[2, 2, 1], &four), ends],
        "`states` has 3 dimensions, expected 2",
        "save `states.reshape(-1, states.shape[-1])`",
    );
    says(
        &[("states", Float32, &[4], &four), ends],
        "`states` has 1 dimension, expected 2",
        "save `states.reshape(-1, 1)` if each row has one value",
    );
    says(
        &[states, ("actions", Float32, &[4], &four), ends],
        "`actions` has 1 dimension, expected 2",
        "save `actions.reshape(-1, 1)`, or `actions.astype('<i8')` if each names one of several \
         discrete actions",
    );
    let tall = "looks transposed: its shape is (1, 4), expected (4, 1)";
    says(
        &[("states", Float32, &[1, 4], &four), ends],
        &format!("`states` {tall}"),
        "save `numpy.ascontiguousarray(states.T)`",
    );
    says(
        &[states, ("actions", Float32, &[1, 4], &four), ends],
        &format!("`actions` {tall}"),
        "save `numpy.ascontiguousarray(actions.T)`",
    );
}

#[test]
fn the_compact_form_ends_a_trajectory_where_valids_is_0() {
    let states = floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let compact = stored(&[
        ("observations", npy::Item::Float32, &[7, 1], &states),
        ("terminals", npy::Item::Float32, &[7], &floats(&[0., 1., 1., 0., 0., 1., 1.])),
        ("valids", npy::Item::Float32, &[7], &floats(&[1., 1., 0., 1., 1., 1., 0.])),
    ]);
    let dataset = Bench::new().read(&compact).unwrap();
    assert_eq!(dataset.trajectories(), 2);
    assert_eq!((dataset.trajectory(0), dataset.trajectory(1)), (0..3, 3..7));
}

#[test]
fn bombs_are_refused_before_they_are_unpacked() {
    let bench = Bench::new();
    let zeros = vec![0; 80 << 20];
    let shape = [zeros.len() / 4, 1];
    let bomb = pack(
        CompressionMethod::Deflated,
        &[
            ("states", npy::Item::Float32, &shape, &zeros),
            ("terminals", npy::Item::Bool, &[1], &[1]),
        ],
    );
    assert!(bomb.len() < 1 << 20);
    let error = bench.complaint(&bomb);
    assert!(error.contains("more than 100 times"), "{error}");
}

/// Where the directory's record of the first entry begins.
fn first_record(bytes: &[u8]) -> usize {
    bytes.windows(4).position(|window| window == b"PK\x01\x02").unwrap()
}

#[test]
fn sizes_that_lie_are_refused() {
    let bench = Bench::new();
    for (bytes, packed_offset, claim) in [
        (PLAIN, 24, u32::MAX - 1),
        (PLAIN, 24, 3),
        (COMPRESSED, 24, u32::MAX - 1),
        (COMPRESSED, 24, 200_000),
        (COMPRESSED, 24, 130),
        (COMPRESSED, 20, u32::MAX - 1),
        (COMPRESSED, 20, 5),
    ] {
        let mut bytes = bytes.to_vec();
        let at = first_record(&bytes) + packed_offset;
        bytes[at..at + 4].copy_from_slice(&claim.to_le_bytes());
        bench.complaint(&bytes);
    }
}

#[test]
fn a_thousand_entries_are_read_and_one_more_is_refused() {
    let bench = Bench::new();
    let crowd = |count: usize| {
        let mut archive = zip::ZipWriter::new_append(io::Cursor::new(PLAIN.to_vec())).unwrap();
        for index in 0..count - 3 {
            archive.start_file(format!("{index}"), SimpleFileOptions::default()).unwrap();
        }
        archive.finish().unwrap().into_inner()
    };
    assert_eq!(bench.read(&crowd(1_000)).unwrap(), expected());
    assert!(bench.complaint(&crowd(1_001)).contains("1001 entries"));
    // The end record claims 64-bit numbers that say a million.
    assert!(bench.complaint(&with_large_end(PLAIN, 1_000_000)).contains("1000000 entries"));
}

/// The same archive with its end record in 64 bits.
fn with_large_end(bytes: &[u8], entries: u64) -> Vec<u8> {
    let end = bytes.len() - 22;
    let (size, start) = (&bytes[end + 12..end + 16], &bytes[end + 16..end + 20]);
    let mut large = bytes[..end].to_vec();
    large.extend(b"PK\x06\x06");
    large.extend(44u64.to_le_bytes());
    large.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    large.extend(entries.to_le_bytes());
    large.extend(entries.to_le_bytes());
    for number in [size, start] {
        large.extend(number);
        large.extend([0; 4]);
    }
    large.extend(b"PK\x06\x07\0\0\0\0");
    large.extend((end as u64).to_le_bytes());
    large.extend(1u32.to_le_bytes());
    large.extend(b"PK\x05\x06\0\0\0\0");
    large.extend([0xff; 12]);
    large.extend([0, 0]);
    large
}

#[test]
fn a_64_bit_end_record_is_read() {
    assert_eq!(Bench::new().read(&with_large_end(PLAIN, 3)).unwrap(), expected());
}

#[test]
fn a_key_that_stands_twice_is_refused() {
    // Both the directory and the header of `actions` say `states`, padded by nothing.
    let data = floats(&[1.0]);
    let mut bytes = stored(&[
        ("states", npy::Item::Float32, &[1, 1], &data),
        ("stateS", npy::Item::Float32, &[1, 1], &data),
    ]);
    let spots = (0..bytes.len() - 6).filter(|&at| &bytes[at..at + 6] == b"stateS");
    for at in spots.collect::<Vec<_>>() {
        bytes[at + 5] = b's';
    }
    assert!(Bench::new().complaint(&bytes).contains("`states.npy` occurs twice"));
}
