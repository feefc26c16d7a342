//! Tables as comma-separated text: a line of column names, then one line of numbers per row. Columns
//! of one array are called `key_0`, `key_1`, ….

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::files::open_file;
use crate::error::{Error, Result};

/// Bytes read at a time.
const BLOCK: usize = 1 << 18;
/// The longest line that is read, in bytes.
const LONGEST_LINE: usize = 16 << 20;
/// The most columns of a table.
const MOST_COLUMNS: usize = 1 << 17;

/// A file whose column names were read and whose lines were counted.
pub(super) struct CsvReader {
    file: BufReader<File>,
    names: Vec<String>,
    /// Where each column is, by its name.
    places: HashMap<String, usize>,
    rows: usize,
}

impl CsvReader {
    /// Reads the names of the columns and counts the rows.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let mut file = BufReader::with_capacity(BLOCK, open_file(path)?);
        let mut line = Vec::new();
        if !next_line(&mut file, &mut line)? {
            return Err(Error::input("the file is empty").hint(EXPECTED));
        }
        let text = std::str::from_utf8(&line)
            .map_err(|_| Error::input("neither an npz file nor text").hint(EXPECTED))?;
        let count = fields(&line);
        if count > MOST_COLUMNS {
            return Err(Error::input(format!("{count} columns, at most {MOST_COLUMNS} are read"))
                .hint("save the rows as npz"));
        }
        let names: Vec<String> = text
            .trim_start_matches('\u{feff}')
            // `numpy.savetxt` marks its header as a comment.
            .trim_start_matches('#')
            .split(',')
            .map(|name| name.trim().trim_matches('"').to_owned())
            .collect();
        let mut places = HashMap::with_capacity(names.len());
        for (at, name) in names.iter().enumerate() {
            if places.insert(name.clone(), at).is_some() {
                return Err(Error::input(format!("the column `{}` occurs twice", shown(name)))
                    .hint("give every column a name of its own"));
            }
        }
        let mut rows = 0;
        while next_line(&mut file, &mut line)? {
            rows += 1;
        }
        Ok(Self { file, names, places, rows })
    }

    /// How many rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The names of the columns, those of one array once and without their numbers.
    pub(super) fn groups(&self) -> Vec<String> {
        let mut groups: Vec<String> = Vec::new();
        let mut known = HashSet::new();
        for name in &self.names {
            let numbered =
                name.rsplit_once('_').filter(|(_, number)| number.parse::<u32>().is_ok());
            let group = numbered.map_or(name.as_str(), |(group, _)| group);
            if known.insert(group) {
                groups.push(group.to_owned());
            }
        }
        groups
    }

    /// The places of `key_0`, `key_1`, …, or of `key` itself.
    pub(super) fn columns_of(&self, key: &str) -> Result<Vec<usize>> {
        let place = |name: &str| self.places.get(name).copied();
        if let Some(alone) = place(key) {
            return Ok(vec![alone]);
        }
        let prefix = format!("{key}_");
        let numbered = |name: &&String| {
            name.strip_prefix(&prefix).is_some_and(|number| number.parse::<u32>().is_ok())
        };
        let count = self.names.iter().filter(numbered).count();
        (0..count)
            .map(|at| {
                place(&format!("{key}_{at}")).ok_or_else(|| {
                    Error::input(format!("no column `{key}_{at}` among {count} of `{key}`"))
                        .hint("number the columns from 0 on")
                })
            })
            .collect()
    }

    /// Passes the values of these columns to `take`, row after row.
    pub(super) fn each(
        mut self,
        columns: &[usize],
        mut take: impl FnMut(&[f32]) -> Result<()>,
    ) -> Result<()> {
        self.file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
        let mut line = Vec::new();
        next_line(&mut self.file, &mut line)?;
        let (mut row, mut values) = (0, vec![0.0; columns.len()]);
        while next_line(&mut self.file, &mut line)? {
            let found = fields(&line);
            if found != self.names.len() {
                return Err(Error::input(format!(
                    "row {row} has {found} {}, expected {}",
                    if found == 1 { "value" } else { "values" },
                    self.names.len()
                ))
                .hint("every line has one value per column"));
            }
            let of_line: Vec<&[u8]> = line.split(|&byte| byte == b',').collect();
            for (value, &column) in values.iter_mut().zip(columns) {
                *value = number(of_line[column], row, &self.names[column])?;
            }
            take(&values)?;
            row += 1;
        }
        Ok(())
    }
}

const EXPECTED: &str = "expected an npz file, or csv with a line of column names first";

/// How many values a line has.
fn fields(line: &[u8]) -> usize {
    1 + line.iter().filter(|&&byte| byte == b',').count()
}

/// The beginning of a text, for an error.
fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

fn number(field: &[u8], row: usize, name: &str) -> Result<f32> {
    let text = std::str::from_utf8(field).ok().map(str::trim);
    text.and_then(|text| text.parse().ok()).ok_or_else(|| {
        let (found, name) = (shown(&String::from_utf8_lossy(field)), shown(name));
        Error::input(format!("row {row} of column `{name}` is `{found}`, expected a number"))
    })
}

/// The next line that is not blank, without its end; false after the last.
fn next_line(file: &mut BufReader<File>, line: &mut Vec<u8>) -> Result<bool> {
    loop {
        line.clear();
        let most = LONGEST_LINE as u64 + 1;
        let read = file.by_ref().take(most).read_until(b'\n', line).map_err(unreadable)?;
        if read == 0 {
            return Ok(false);
        }
        if read > LONGEST_LINE {
            return Err(
                Error::input(format!("a line of more than {LONGEST_LINE} bytes")).hint(EXPECTED)
            );
        }
        let end = line.trim_ascii_end().len();
        line.truncate(end);
        if !line.is_empty() {
            return Ok(true);
        }
    }
}

fn unreadable(error: std::io::Error) -> Error {
    Error::input(format!("cannot read the file: {}", error.to_string().to_lowercase()))
}
