//! A table that only grows: one CSV line per row, with `step` as the first column.
//!
//! A run that is resumed at step k keeps the rows with step ≤ k and writes the others again, so that
//! the file has the same bytes as that of an uninterrupted run. A number is written with the fewest
//! digits that read back as the same 32-bit number if it is one, else as the same 64-bit number; NaN
//! is left empty.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::checkpoint::{Disk, Files};
use crate::error::{Error, Result};

const STEP: &str = "step";

/// The steps at which a table has rows: multiples of `every`, unless it is 0, and the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Steps between two rows.
    pub every: u64,
    /// The last step of all.
    pub last: u64,
}

impl Due {
    /// Whether a row is due at `step`.
    pub fn at(self, step: u64) -> bool {
        step == self.last || self.every > 0 && step.is_multiple_of(self.every)
    }

    /// The first step up to `until` at which a row is due and that is not among the rising `steps`.
    pub fn first_missing(self, until: u64, steps: impl IntoIterator<Item = u64>) -> Option<u64> {
        let mut expected = self.after(0);
        for step in steps {
            if step > expected {
                break;
            }
            if step == expected {
                expected = self.after(step);
            }
        }
        (expected <= until.min(self.last)).then_some(expected)
    }

    /// The first step after `step` at which a row is due; beyond the last one, any later step.
    fn after(self, step: u64) -> u64 {
        let next = step
            .checked_div(self.every)
            .map_or(u64::MAX, |rows| (rows + 1).saturating_mul(self.every));
        if step < self.last { next.min(self.last) } else { u64::MAX }
    }
}

/// Where a table is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resumed {
    /// Later rows are removed.
    pub step: u64,
    /// The rows that must be there, and up to which step; none if any rows will do.
    pub due: Option<(Due, u64)>,
}

/// A CSV file to which rows are added.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: File,
    length: u64,
    columns: usize,
    last_step: Option<u64>,
}

impl Ledger {
    /// Opens or creates the table with `columns` after the `step`.
    ///
    /// Unless it is resumed the table starts empty. If it is, rows of later steps and an incomplete
    /// last line are removed; call [`Ledger::sync`] before the checkpoint of a step is saved, so that
    /// the rows up to that step are there.
    ///
    /// # Errors
    /// [`Error::Input`] if the file has other columns, or if rows up to the step it is resumed at are
    /// missing or cannot be read; [`Error::Disk`] if disk I/O fails.
    pub fn open(path: &Path, columns: &[String], resumed: Option<Resumed>) -> Result<Self> {
        let header = header_line(columns)?;
        let disk = |error| Error::disk("open", path, error);
        let text = match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            _ => read_plain(path)?,
        };
        let fresh = text.len() < header.len() && header.as_bytes().starts_with(&text);
        let kept = match (fresh, resumed) {
            (true, None) => Kept { length: 0, last_step: None },
            (true, Some(Resumed { step, .. })) => {
                return Err(Error::input(format!("no rows up to step {step} to resume from"))
                    .in_file(path)
                    .hint(RESTORE));
            }
            (false, _) => {
                let rows = body(&text, &header).map_err(|error| error.in_file(path))?;
                let kept = resumed.map(|resumed| Kept::up_to(resumed, rows, columns.len()));
                let kept = kept.transpose().map_err(|error| error.in_file(path))?;
                let kept = kept.unwrap_or(Kept { length: 0, last_step: None });
                Kept { length: header.len() + kept.length, ..kept }
            }
        };
        let (length, last_step) = (kept.length as u64, kept.last_step);
        let options = OpenOptions::new().create(true).write(true).truncate(false).clone();
        let file = options.open(path).map_err(disk)?;
        let path = path.to_path_buf();
        let mut ledger = Self { path, file, length, columns: columns.len(), last_step };
        ledger.cut().map_err(|error| Error::disk("cut", &ledger.path, error))?;
        if fresh {
            ledger.add(&header)?;
            let folder = ledger.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            Disk.sync_folder(folder).map_err(|error| Error::disk("sync", folder, error))?;
            ledger.sync()?;
        }
        Ok(ledger)
    }

    /// Adds a row. NaN leaves its field empty.
    ///
    /// # Errors
    /// [`Error::Disk`] if disk I/O fails, which leaves the file as it was; [`Error::Input`] if the row
    /// has another number of values or an earlier step.
    pub fn append(&mut self, step: u64, values: &[f64]) -> Result<()> {
        if values.len() != self.columns {
            let (found, expected) = (values.len(), self.columns);
            return Err(Error::input(format!("a row of {found} values, expected {expected}"))
                .in_file(&self.path));
        }
        if let Some(last) = self.last_step.filter(|&last| step < last) {
            return Err(
                Error::input(format!("a row of step {step} after step {last}")).in_file(&self.path)
            );
        }
        let mut line = step.to_string();
        for &value in values {
            line.push(',');
            line += &number(value);
        }
        line.push('\n');
        self.add(&line)?;
        self.last_step = Some(step);
        Ok(())
    }

    /// The step of the last row; none if there is no row.
    pub fn last_step(&self) -> Option<u64> {
        self.last_step
    }

    /// Returns when all rows are on disk.
    ///
    /// # Errors
    /// [`Error::Disk`] if disk I/O fails.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|error| Error::disk("sync", &self.path, error))
    }

    fn add(&mut self, line: &str) -> Result<()> {
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            // Remove what was written of the line; if that fails too, it is removed when resuming.
            self.cut().ok();
            return Err(Error::disk("write", &self.path, error));
        }
        self.length += line.len() as u64;
        Ok(())
    }

    fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(self.length)?;
        self.file.seek(SeekFrom::Start(self.length)).map(drop)
    }
}

fn read_plain(path: &Path) -> Result<Vec<u8>> {
    Disk.read(path).map_err(|error| Error::disk("read", path, error))
}

fn header_line(columns: &[String]) -> Result<String> {
    let plain =
        |name: &String| !name.is_empty() && name != STEP && !name.contains([',', '"', '\n', '\r']);
    if let Some(name) = columns.iter().find(|name| !plain(name)) {
        let name = name.escape_debug();
        return Err(Error::input(format!("`{name}` cannot name a column of a table")));
    }
    let names = columns.iter().map(|name| format!(",{name}")).collect::<String>();
    Ok(format!("{STEP}{names}\n"))
}

/// The text after the header, which must be the expected one.
fn body<'a>(text: &'a [u8], header: &str) -> Result<&'a [u8]> {
    text.strip_prefix(header.as_bytes()).ok_or_else(|| {
        let found = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let found =
            String::from_utf8_lossy(&found[..found.len().min(200)]).escape_debug().to_string();
        Error::input(format!("the columns are `{found}`, expected `{}`", header.trim_end()))
            .hint("start in another folder")
    })
}

const RESTORE: &str = "restore the file or start in another folder";

/// A table without a row that was due.
pub(crate) fn lost_row(step: u64) -> Error {
    Error::input(format!("the row of step {step} is missing")).hint(RESTORE)
}

/// The rows of a table that are kept.
struct Kept {
    length: usize,
    last_step: Option<u64>,
}

impl Kept {
    fn up_to(Resumed { step, due }: Resumed, rows: &[u8], columns: usize) -> Result<Self> {
        let mut kept = Self { length: 0, last_step: None };
        let mut steps = Vec::new();
        let mut length = 0;
        let mut cut = None;
        for (index, line) in rows.split_inclusive(|&byte| byte == b'\n').enumerate() {
            length += line.len();
            let row = parse(line, columns);
            match (row.filter(|row| row.0 <= step && Some(row.0) >= kept.last_step), cut) {
                (Some(row), None) => {
                    kept = Self { length, last_step: Some(row.0) };
                    steps.push(row.0);
                }
                // Rows up to the step were on disk, in order, before its checkpoint was.
                (Some(_), Some(line)) => {
                    return Err(Error::input(format!("line {line} is incomplete or out of order"))
                        .hint(RESTORE));
                }
                (None, _) => cut = cut.or(Some(index + 2)),
            }
        }
        match due.and_then(|(due, until)| due.first_missing(until, steps)) {
            Some(missing) => Err(lost_row(missing)),
            None => Ok(kept),
        }
    }
}

/// The step and the values of a whole line.
fn parse(line: &[u8], columns: usize) -> Option<(u64, Vec<f64>)> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let mut fields = line.split(',');
    let step = fields.next()?.parse().ok()?;
    let value = |field: &str| if field.is_empty() { Some(f64::NAN) } else { field.parse().ok() };
    let values = fields.map(value).collect::<Option<Vec<_>>>()?;
    (values.len() == columns).then_some((step, values))
}

/// The fewest digits that read back as the same number; nothing for NaN.
pub(crate) fn number(value: f64) -> String {
    let narrow = value as f32;
    if value.is_nan() {
        String::new()
    } else if f64::from(narrow) == value {
        digits(value, narrow)
    } else {
        digits(value, value)
    }
}

/// Plain digits for numbers of a common size, powers of ten for the others.
fn digits(value: f64, text: impl std::fmt::Display + std::fmt::LowerExp) -> String {
    let common = value == 0.0 || value.is_infinite() || (1e-5..1e16).contains(&value.abs());
    if common { format!("{text}") } else { format!("{text:e}") }
}

/// A table as read back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// The names of the columns, `step` first.
    pub columns: Vec<String>,
    /// The rows, each with one value per column; an empty field is not a number.
    pub rows: Vec<Vec<f64>>,
}

impl Table {
    /// The values of a column, from the first row to the last.
    pub fn column(&self, name: &str) -> Option<Vec<f64>> {
        let index = self.columns.iter().position(|column| column == name)?;
        Some(self.rows.iter().map(|row| row[index]).collect())
    }
}

/// Reads a table, also one to which rows are still added: a torn last line is left out.
///
/// # Errors
/// [`Error::Input`] with the line that is not a row of the table; [`Error::Disk`] if the file cannot
/// be read.
pub fn read(path: &Path) -> Result<Table> {
    let text = read_plain(path)?;
    table(&text).map_err(|error| error.in_file(path))
}

fn table(text: &[u8]) -> Result<Table> {
    let mut lines =
        text.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let header = lines.next().and_then(|line| std::str::from_utf8(line).ok()).unwrap_or_default();
    let columns = header.trim_end().split(',').map(str::to_string).collect::<Vec<_>>();
    if columns[0] != STEP {
        let found = columns[0].escape_debug();
        return Err(Error::input(format!("the first column is `{found}`, expected `{STEP}`")));
    }
    let mut rows = Vec::new();
    for (index, line) in lines.enumerate() {
        let (step, values) = parse(line, columns.len() - 1).ok_or_else(|| {
            Error::input(format!("line {} is not a row of {} numbers", index + 2, columns.len()))
        })?;
        rows.push(std::iter::once(step as f64).chain(values).collect());
    }
    Ok(Table { columns, rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn columns() -> Vec<String> {
        vec!["training/critic/loss".into(), "multiplier".into()]
    }

    fn resumed(step: u64) -> Option<Resumed> {
        Some(Resumed { step, due: None })
    }

    fn fill(ledger: &mut Ledger, steps: impl IntoIterator<Item = u64>) {
        for step in steps {
            ledger
                .append(step, &[1.0 / (step as f64 + 3.0), f64::from(step as f32 * 0.1)])
                .unwrap();
        }
    }

    #[test]
    fn rows_are_written_in_the_fewest_digits_that_read_back() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (f64::from(0.1f32), "0.1"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.3333333333333333"),
            (f64::from(1e-7f32), "1e-7"),
            (-2.5e20, "-2.5e20"),
            (1e300, "1e300"),
            (123_456_789.0, "123456789"),
            (f64::INFINITY, "inf"),
            (f64::NAN, ""),
        ] {
            assert_eq!(number(value), text);
            if !value.is_nan() {
                let back = text.parse::<f64>().unwrap();
                let narrow = f64::from(value as f32) == value && back as f32 == value as f32;
                assert!(back == value || narrow, "{value} came back as {back}");
            }
        }
    }

    #[test]
    fn a_table_reads_back_with_its_columns() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("metrics.csv");
        let mut ledger = Ledger::open(&path, &columns(), None).unwrap();
        ledger.append(0, &[0.5, f64::NAN]).unwrap();
        ledger.append(100, &[0.25, -1.0]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "step,training/critic/loss,multiplier\n0,0.5,\n100,0.25,-1\n");
        std::fs::write(&path, text + "200,0.1").unwrap();
        let table = read(&path).unwrap();
        assert_eq!(table.columns, ["step", "training/critic/loss", "multiplier"]);
        assert_eq!(table.column("step").unwrap(), [0.0, 100.0]);
        assert_eq!(table.column("training/critic/loss").unwrap(), [0.5, 0.25]);
        assert!(table.column("multiplier").unwrap()[0].is_nan());
        assert_eq!(table.column("none"), None);
    }

    #[test]
    fn a_run_cut_anywhere_and_resumed_ends_with_the_same_bytes() {
        let folder = TempDir::new().unwrap();
        let whole = folder.path().join("whole.csv");
        fill(&mut Ledger::open(&whole, &columns(), None).unwrap(), 0..10);
        let whole = std::fs::read(whole).unwrap();
        for length in 0..=whole.len() {
            for garbage in [&b""[..], b"\0\0\0", b"7,\xff,\n"] {
                let path = folder.path().join(format!("{length}-{}.csv", garbage.len()));
                std::fs::write(&path, [&whole[..length], garbage].concat()).unwrap();
                let lines = whole[..length].iter().filter(|&&byte| byte == b'\n').count();
                if lines < 2 {
                    continue;
                }
                for resume in [lines as u64 - 2, (lines as u64 - 2) / 2] {
                    let mut ledger = Ledger::open(&path, &columns(), resumed(resume)).unwrap();
                    fill(&mut ledger, resume + 1..10);
                    assert_eq!(std::fs::read(&path).unwrap(), whole, "{length} bytes, {resume}");
                }
            }
        }
    }

    #[test]
    fn without_a_step_to_resume_from_the_table_starts_empty() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("metrics.csv");
        let header = "step,training/critic/loss,multiplier\n";
        for found in ["", "step,tr", header, "step,training/critic/loss,multiplier\n0,1,2\n1,"] {
            std::fs::write(&path, found).unwrap();
            fill(&mut Ledger::open(&path, &columns(), None).unwrap(), [0]);
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text, format!("{header}0,0.3333333333333333,0\n"));
        }
    }

    #[test]
    fn other_columns_lost_rows_and_disorder_are_refused_and_the_file_is_kept() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("metrics.csv");
        let refused = |text: &str, resume: Option<u64>, expected: &str| {
            std::fs::write(&path, text).unwrap();
            let resumed = resume.and_then(resumed);
            let error = Ledger::open(&path, &columns(), resumed).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            let said = error.to_string();
            assert!(said.contains(expected) && said.contains("metrics.csv"), "{said}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        };
        refused("step,other\n0,1\n", Some(0), "the columns are `step,other`, expected `step,tr");
        refused("notes of mine", None, "the columns are `notes of mine`");
        refused("", Some(3), "no rows up to step 3");
        let header = "step,training/critic/loss,multiplier\n";
        refused(&format!("{header}0,1,2\n1,x,2\n2,1,2\n"), Some(2), "line 3 is incomplete or out");
        refused(&format!("{header}0,1,2\n9,1,2\n2,1,2\n"), Some(2), "line 3 is incomplete or out");
        std::fs::remove_file(&path).unwrap();
        assert!(Ledger::open(&path, &columns(), resumed(3)).is_err());
        assert!(!path.exists());
    }

    #[test]
    fn a_table_that_lost_a_row_is_refused() {
        let due = Due { every: 4, last: 10 };
        let missing = |until, steps: &[u64]| due.first_missing(until, steps.iter().copied());
        assert_eq!(missing(3, &[]), None);
        assert_eq!(missing(4, &[]), Some(4));
        assert_eq!(missing(9, &[4]), Some(8));
        assert_eq!(missing(9, &[8]), Some(4));
        assert_eq!(missing(10, &[4, 8]), Some(10));
        assert_eq!(missing(10, &[4, 6, 8, 8, 10]), None);
        let at_the_end = Due { every: 0, last: 10 };
        assert_eq!(at_the_end.first_missing(9, []), None);
        assert_eq!(at_the_end.first_missing(10, [5]), Some(10));
        assert_eq!(at_the_end.first_missing(10, [5, 10]), None);

        let folder = TempDir::new().unwrap();
        let path = folder.path().join("metrics.csv");
        let resume = Some(Resumed { step: 10, due: Some((due, 10)) });
        for kept in [[4, 10], [8, 10], [4, 8]] {
            fill(&mut Ledger::open(&path, &columns(), None).unwrap(), kept);
            let error = Ledger::open(&path, &columns(), resume).unwrap_err().to_string();
            assert!(error.contains("is missing") && error.contains("metrics.csv"), "{error}");
        }
        fill(&mut Ledger::open(&path, &columns(), None).unwrap(), [4, 8, 10]);
        Ledger::open(&path, &columns(), resume).unwrap();

        // A row that is made again may be missing; those before it may not.
        let but_the_last = Some(Resumed { step: 10, due: Some((due, 9)) });
        fill(&mut Ledger::open(&path, &columns(), None).unwrap(), [4, 8]);
        let ledger = Ledger::open(&path, &columns(), but_the_last).unwrap();
        assert_eq!(ledger.last_step(), Some(8));
        fill(&mut Ledger::open(&path, &columns(), None).unwrap(), [4, 10]);
        Ledger::open(&path, &columns(), but_the_last).unwrap_err();
    }

    #[test]
    fn a_row_that_does_not_fit_is_refused() {
        let folder = TempDir::new().unwrap();
        let mut ledger = Ledger::open(&folder.path().join("a.csv"), &columns(), None).unwrap();
        ledger.append(5, &[0.0, 0.0]).unwrap();
        ledger.append(5, &[0.0, 0.0]).unwrap();
        assert!(ledger.append(4, &[0.0, 0.0]).unwrap_err().to_string().contains("after step 5"));
        assert!(ledger.append(6, &[0.0]).unwrap_err().to_string().contains("expected 2"));
        for name in ["", "a,b", "a\nb", "step", "\""] {
            assert!(Ledger::open(&folder.path().join("b.csv"), &[name.into()], None).is_err());
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_a_disk_error() {
        let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let path = PathBuf::from("/dev/full");
        let mut ledger = Ledger { path, file, length: 0, columns: 1, last_step: None };
        assert_eq!(ledger.append(0, &[1.0]).unwrap_err().exit_code(), 4);
        // Reading a device never ends; it is not begun.
        assert!(Ledger::open(Path::new("/dev/full"), &columns(), None).is_err());
        assert!(read(Path::new("/dev/full")).is_err());
    }

    #[test]
    fn every_truncation_and_flip_of_a_table_is_read_or_refused() {
        let text = b"step,a,b\n0,0.5,\n10,1e-7,inf\n20,-3,2\n";
        for length in 0..text.len() {
            let rows = text[..length].iter().filter(|&&byte| byte == b'\n').count();
            match table(&text[..length]) {
                Ok(table) => assert_eq!(table.rows.len(), rows - 1),
                Err(_) => assert_eq!(rows, 0),
            }
        }
        let mut text = *text;
        for bit in 0..text.len() * 8 {
            text[bit / 8] ^= 1 << (bit % 8);
            if let Ok(table) = table(&text) {
                assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
            }
            text[bit / 8] ^= 1 << (bit % 8);
        }
        println!("figures: {} cuts and flips of a table, 0 panics", 9 * text.len());
    }
}
