//! `isochrone data`: every good format is described and converted, every bad file is refused with one
//! line that names the mistake and its remedy.
use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../isochrone/tests/fixtures").join(name)
}

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isochrone"));
    command.arg("data").args(arguments).env_remove("RUST_BACKTRACE").output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The one line that a file is refused with.
#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {line}");
    assert_eq!(line.trim_end().lines().count(), 1, "{line}");
    assert!(line.starts_with("error: ") && line.contains("; hint: "), "{line}");
    line
}

#[track_caller]
fn told(arguments: &[&str]) -> String {
    let output = run(arguments);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

fn report(path: &Path) -> serde_json::Value {
    serde_json::from_str(&told(&["inspect", text(path), "--json"])).unwrap()
}

/// The arrays of a file that OGBench wrote, by key: what stands in its npz.
fn arrays() -> Vec<(String, Vec<u8>)> {
    let bytes = std::fs::read(fixture("ogbench.npz")).unwrap();
    let mut archive = ZipArchive::new(Cursor::new(bytes)).unwrap();
    (0..archive.len())
        .map(|index| {
            let mut entry = archive.by_index(index).unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            (entry.name().unwrap().trim_end_matches(".npy").to_owned(), bytes)
        })
        .collect()
}

fn npz(arrays: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (key, bytes) in arrays {
        archive.start_file(format!("{key}.npy"), options).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// An array as numpy writes it.
fn npy(item: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{item}', 'fortran_order': False, 'shape': {shape}, }}");
    let length = (header.len() + 1 + 10).next_multiple_of(64) - 10;
    header = format!("{header:<width$}\n", width = length - 1);
    let start = [&b"\x93NUMPY\x01\x00"[..], &(length as u16).to_le_bytes()].concat();
    [&start, header.as_bytes(), data].concat()
}

/// The numbers of an array that numpy wrote.
fn numbers(array: &[u8]) -> Vec<f32> {
    let header = 10 + usize::from(u16::from_le_bytes([array[8], array[9]]));
    array[header..].as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

/// The file of OGBench with one array replaced; none takes it away.
fn with(key: &str, array: Option<Vec<u8>>) -> Vec<u8> {
    let mut arrays = arrays();
    let place = arrays.iter().position(|(name, _)| name == key).unwrap();
    match array {
        Some(bytes) => arrays[place].1 = bytes,
        None => drop(arrays.remove(place)),
    }
    npz(&arrays)
}

/// The array `key` of the file of OGBench.
fn array(key: &str) -> Vec<u8> {
    arrays().into_iter().find(|(name, _)| name == key).unwrap().1
}

fn wide(key: &str, change: impl Fn(usize, f64) -> f64) -> Vec<u8> {
    let values = numbers(&array(key));
    let wide = values.iter().enumerate().map(|(at, &value)| change(at, f64::from(value)));
    let bytes: Vec<u8> = wide.flat_map(f64::to_le_bytes).collect();
    npy("<f8", "(120, 2)", &bytes)
}

#[test]
fn a_file_of_ogbench_is_described_truly() {
    let found = report(&fixture("ogbench.npz"));
    assert_eq!((&found["rows"], &found["trajectories"]), (&120.into(), &3.into()));
    assert_eq!(found["lengths"]["median"], 40.0);
    assert_eq!((&found["format"], &found["positions"]), (&"npz".into(), &[0, 1].into()));
    let (values, actions) = (numbers(&array("observations")), numbers(&array("actions")));
    for axis in 0..2 {
        let column = || values.iter().skip(axis).step_by(2).copied();
        let least = column().fold(f32::INFINITY, f32::min);
        let largest = column().fold(f32::NEG_INFINITY, f32::max);
        assert_eq!(found["states"][axis]["least"].as_f64().unwrap() as f32, least);
        assert_eq!(found["states"][axis]["largest"].as_f64().unwrap() as f32, largest);
    }
    let bound = actions.iter().filter(|action| action.abs() >= 1.0).count() as f64;
    assert!((found["at_bounds"].as_f64().unwrap() - bound / 240.0).abs() < 1e-9);
    assert_eq!(found["jumps"]["suspicious"], 0);
    assert!(found["read_seconds"].as_f64().unwrap() > 0.0);
    let words = told(&["inspect", text(&fixture("ogbench.npz"))]);
    assert!(words.contains("120 in 3 trajectories of 40 to 40 rows"), "{words}");
    assert!(words.contains("looks like x") && words.contains("no duplicated"), "{words}");
}

#[test]
fn every_bad_variant_of_an_ogbench_file_has_its_own_line() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("bad.npz");
    let whole = std::fs::read(fixture("ogbench.npz")).unwrap();
    let complaint = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let line = refused(&["inspect", text(&path)]);
        assert!(line.contains("bad.npz"), "{line}");
        line
    };
    let says = |bytes: &[u8], expected: &str| {
        let line = complaint(bytes);
        assert!(line.contains(expected), "`{expected}` is not in: {line}");
    };
    for part in [1, 2, 3] {
        says(&whole[..whole.len() * part / 4], "truncated or damaged");
    }
    let mut flipped = whole.clone();
    flipped[whole.len() / 3] ^= 16;
    says(&flipped, "truncated or damaged");
    let zeros = vec![0; 80 << 20];
    let bomb = npy("<f4", "(10485760, 2)", &zeros);
    says(&with("observations", Some(bomb)), "more than 100 times");
    says(&with("observations", Some(npy("|O", "(120, 2)", &[0; 960]))), "holds Python objects");
    says(&with("terminals", None), "no key `terminals`, found `observations`");
    says(&with("observations", None), "no key `states`, found");
    let large = wide("observations", |at, value| if at == 9 { 1e300 } else { value });
    says(&with("observations", Some(large)), "row 4 column 1 is `1e300`, too large for 32 bits");
    let short = array("actions");
    let short = npy("<f4", "(119, 2)", &short[short.len() - 119 * 8..]);
    says(&with("actions", Some(short)), "`actions` has 119 rows, `observations` has 120");
    let ends = npy("|b1", "(120,)", &[0; 120]);
    says(&with("terminals", Some(ends)), "`terminals` is 0 on all 120 rows: no trajectory ends");
    says(b"\x80\x04\x95\x00", "the file is a pickle");
    says(b"", "the file is empty");
    let pickle = folder.path().join("old.pkl");
    std::fs::copy(fixture("ogbench.npz"), &pickle).unwrap();
    assert!(refused(&["inspect", text(&pickle)]).contains("`.pkl` files are pickles"));
}

#[test]
fn a_row_that_is_not_finite_is_counted_and_then_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("nan.npz");
    let mut values = numbers(&array("observations"));
    values[2 * 31 + 1] = f32::NAN;
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let bytes = with("observations", Some(npy("<f4", "(120, 2)", &bytes)));
    std::fs::write(&path, bytes).unwrap();
    let line = refused(&["inspect", text(&path)]);
    assert!(line.contains("`observations` row 31 column 1 is `NaN`"), "{line}");
    let output = run(&["inspect", text(&path)]);
    let words = String::from_utf8(output.stdout).unwrap();
    assert!(words.contains("1 value that is not finite"), "{words}");
    let target = folder.path().join("out.npz");
    assert!(refused(&["convert", text(&path), text(&target)]).contains("row 31"));
    assert!(!target.exists());
}

#[test]
fn wide_numbers_are_rounded_and_said_to_be() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("wide.npz");
    std::fs::write(&path, with("observations", Some(wide("observations", |_, v| v)))).unwrap();
    let words = told(&["inspect", text(&path)]);
    assert!(words.contains("note      `observations` holds 64-bit values"), "{words}");
    let (wide, plain) = (report(&path), report(&fixture("ogbench.npz")));
    assert_eq!(wide["states"], plain["states"]);
}

#[test]
fn a_column_that_rounding_destroys_is_named_wherever_data_are_read() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("far.npz");
    let far = |at: usize, value: f64| if at % 2 == 1 { value + 4_649_776.0 } else { value };
    std::fs::write(&path, with("observations", Some(wide("observations", far)))).unwrap();
    let is_told = |words: &str| {
        assert!(words.contains("column 1 of `observations` changes by 0."), "{words}");
        assert!(words.contains("but is rounded by up to 0.2"), "{words}");
        assert!(words.contains("subtract an offset before saving"), "{words}");
    };
    let target = folder.path().join("out.npz");
    for arguments in [&["inspect", text(&path)][..], &["convert", text(&path), text(&target)]] {
        is_told(&told(arguments));
    }
    for (memory, out) in [("1 GiB", "run"), ("1 kB", "other")] {
        let memory = format!("data.memory={memory}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_isochrone"));
        command.args(["train", text(&path), "--algorithm", "cmd1", "--set", &memory]);
        command.args(["--set", "train.steps=2", "--set", "train.batch_size=8", "--out", out]);
        command.current_dir(folder.path()).env("XDG_CACHE_HOME", folder.path());
        let output = command.output().unwrap();
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{words}");
        is_told(&words);
    }
}

/// What a short training on `file` warns of.
fn trained(file: &Path) -> String {
    let out = TempDir::new().unwrap();
    let words = ["train", text(file), "--algorithm", "cmd1", "--set", "train.steps=1"];
    let more =
        ["--set", "train.batch_size=4", "--set", "data.validation=0", "--extraction", "none"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_isochrone"));
    let output =
        command.args(words).args(more).arg("--out").arg(out.path().join("run")).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    told
}

#[test]
fn a_dimension_that_leaps_is_told_by_its_number() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("leap.npz");
    let swing = |at: usize, half: usize| 0.05 * (at % (2 * half)).abs_diff(half) as f32;
    let state = |row: usize| {
        let leap = if row < 200 { 0.0 } else { 0.8 };
        [swing(row, 80), swing(row + 33, 80), swing(row + 7, 20), swing(row, 20) + leap]
    };
    let states: Vec<u8> = (0..400).flat_map(state).flat_map(f32::to_le_bytes).collect();
    let mut ends = vec![0; 400];
    ends[399] = 1;
    let arrays = [
        ("states".to_owned(), npy("<f4", "(400, 4)", &states)),
        ("terminals".to_owned(), npy("|b1", "(400,)", &ends)),
    ];
    std::fs::write(&path, npz(&arrays)).unwrap();
    let words = told(&["inspect", text(&path)]);
    assert!(words.contains("1 step that looks like an unmarked end"), "{words}");
    assert!(words.contains("the first after row 199"), "{words}");
    assert!(words.contains("they leap in dimension 3 (by up to 0."), "{words}");
    assert!(trained(&path).contains("1 step looks like an unmarked end of a trajectory but is"));
    let words = told(&["inspect", text(&fixture("ogbench.npz"))]);
    assert!(!words.contains("they leap in"), "{words}");
    assert!(!trained(&fixture("ogbench.npz")).contains("unmarked"));
}

#[test]
fn a_file_that_is_read_is_never_replaced() {
    let folder = TempDir::new().unwrap();
    let logs = folder.path().join("logs");
    std::fs::create_dir(&logs).unwrap();
    let [first, second] = ["part-0.npz", "part-1.npz"].map(|name| logs.join(name));
    let odd = folder.path().join("map.svg");
    for file in [&first, &second, &odd] {
        std::fs::copy(fixture("ogbench.npz"), file).unwrap();
    }
    let before = std::fs::read(&second).unwrap();
    for source in [&second, &logs, &logs.join("part-*.npz")] {
        let line = refused(&["convert", text(source), text(&second), "--force"]);
        assert!(line.contains("would replace a file that is read"), "{line}");
        assert!(std::fs::read(&second).unwrap() == before);
    }
    // A picture is two files.
    let picture = folder.path().join("map.png");
    let line = refused(&["inspect", text(&odd), "--picture", text(&picture), "--force"]);
    assert!(line.contains("would replace a file that is read"), "{line}");
    assert!(std::fs::read(&odd).unwrap() == before && !picture.exists());
    // What is not read may be replaced.
    told(&["convert", text(&first), text(&second), "--force"]);
    assert!(std::fs::read(&second).unwrap() != before);
}

#[cfg(feature = "hdf5")]
#[test]
fn every_format_becomes_an_npz_that_says_the_same() {
    let folder = TempDir::new().unwrap();
    for name in ["ogbench.npz", "d4rl-u8.hdf5", "minari-plain", "minari-dict"] {
        let to = folder.path().join(format!("{name}.npz"));
        let words = told(&["convert", text(&fixture(name)), text(&to)]);
        assert!(words.contains("wrote     "), "{words}");
        let (before, after) = (report(&fixture(name)), report(&to));
        for key in ["rows", "trajectories", "lengths", "states", "actions", "jumps"] {
            assert_eq!(before[key], after[key], "{name}: {key}");
        }
        let again = refused(&["convert", text(&fixture(name)), text(&to)]);
        assert!(again.contains("the file exists already"), "{again}");
    }
    let names = |path: &Path| -> Vec<String> {
        let archive = ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
        archive.file_names().map(|name| name.unwrap().into_owned()).collect()
    };
    let keys = names(&folder.path().join("ogbench.npz.npz"));
    assert_eq!(keys, ["observations.npy", "actions.npy", "terminals.npy"]);
}

#[test]
fn what_cannot_be_written_is_refused_with_what_can() {
    for target in ["a.hdf5", "a.parquet", "a.csv", "a"] {
        let line = refused(&["convert", text(&fixture("ogbench.npz")), target]);
        assert!(line.contains("name a file that ends in `.npz`"), "{line}");
        assert!(!Path::new(target).exists());
    }
    let output = run(&["convert", text(&fixture("ogbench.npz")), "/proc/none/a.npz"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_map_is_drawn_where_two_axes_look_like_positions() {
    let folder = TempDir::new().unwrap();
    let picture = folder.path().join("map.png");
    let logs = fixture("ogbench.npz");
    told(&["inspect", text(&logs), "--picture", text(&picture)]);
    assert!(std::fs::read(&picture).unwrap().starts_with(b"\x89PNG"));
    let again = ["inspect", text(&logs), "--picture", text(&picture)];
    assert!(refused(&again).contains("the file exists already"));
    assert!(told(&[&again[..], &["--force"]].concat()).contains("map.svg"));
    let other = ["inspect", text(&logs), "--picture", "map.jpg"];
    assert!(refused(&other).contains("not written as `.jpg`"));
    let drawn = std::fs::read_to_string(folder.path().join("map.svg")).unwrap();
    assert!(drawn.contains("Coverage of ogbench.npz"));
}

#[cfg(feature = "hdf5")]
#[test]
fn no_map_is_drawn_where_no_two_axes_look_like_positions() {
    let line = refused(&["inspect", text(&fixture("minari-plain")), "--picture", "none.png"]);
    assert!(line.contains("no two axes look like positions"), "{line}");
}

#[cfg(feature = "hdf5")]
#[test]
fn observations_of_a_minari_file_are_chosen_by_name() {
    let path = fixture("minari-dict");
    let words = told(&["inspect", text(&path), "--keys", "observation"]);
    assert!(words.contains("states    2 values per row"), "{words}");
    let line = refused(&["inspect", text(&path), "--keys", "nothing"]);
    assert!(line.contains("`episode_0/observations/nothing`"), "{line}");
}

#[test]
fn many_files_are_inspected_converted_and_trained_on_as_one() {
    let folder = TempDir::new().unwrap();
    let shards = folder.path().join("logs");
    std::fs::create_dir(&shards).unwrap();
    for (name, first) in [("part-0.npz", "3"), ("part-1.npz", "4")] {
        let path = shards.join(name);
        told(&["generate", "pinwheel", "-o", text(&path), "--episodes", "20", "--seed", first]);
    }
    let rows = |path: &Path| report(path)["rows"].as_u64().unwrap();
    let pattern = shards.join("part-*.npz");
    let whole = rows(&shards.join("part-0.npz")) + rows(&shards.join("part-1.npz"));
    assert_eq!((rows(&shards), rows(&pattern)), (whole, whole));
    let one = folder.path().join("one.npz");
    told(&["convert", text(&pattern), text(&one)]);
    assert_eq!(rows(&one), whole);
    let trained = |source: &Path, memory: &str| {
        let out = folder.path().join("run");
        let memory = format!("data.memory={memory}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_isochrone"));
        command.args(["train", text(source), "--algorithm", "cmd1", "--out", text(&out)]);
        for setting in
            ["train.steps=6", "train.batch_size=8", "train.log_every=1", "data.held_out=none"]
        {
            command.args(["--set", setting]);
        }
        let output = command.args(["--set", &memory]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let read = |name: &str| std::fs::read(out.join(name)).unwrap();
        let provenance = String::from_utf8(read("provenance.toml")).unwrap();
        let data = provenance.lines().find(|line| line.starts_with("data = ")).unwrap().to_owned();
        let found = (read("metrics.csv"), data);
        std::fs::remove_dir_all(&out).unwrap();
        found
    };
    let expected = trained(&one, "1 GiB");
    for (source, memory) in [(&shards, "1 GiB"), (&pattern, "1 GiB"), (&pattern, "1 kB")] {
        assert!(trained(source, memory) == expected, "{} {memory}", source.display());
    }
    std::fs::write(shards.join("part-1.npz"), b"PK").unwrap();
    assert!(refused(&["inspect", text(&shards)]).contains("part-1.npz"));
}
