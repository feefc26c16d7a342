//! Answers written as they come: csv line by line, npz array by array and, with the feature
//! `parquet`, parquet group by group. Nothing is at the target before all of it is there.

mod field;
#[cfg(feature = "parquet")]
mod frames;

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

pub use field::{Field, Values};

use super::npy::{self, Item};
use super::npz::{Writer, sync_folder_of};
use crate::beside;
use crate::error::{Error, Result};

/// Writes a table; without [`TableWriter::finish`] nothing is kept.
pub struct TableWriter {
    path: PathBuf,
    fields: Vec<Field>,
    rows: usize,
    form: Form,
}

enum Form {
    Csv(Text),
    /// Every array in a file of its own until all rows are known.
    Npz(Vec<BufWriter<File>>, Vec<(String, Vec<f32>)>),
    #[cfg(feature = "parquet")]
    Parquet(frames::Frames),
}

impl TableWriter {
    /// Starts a table of these fields; the extension says which format: `.csv`, `.npz`, or
    /// `.parquet` in a build with that feature.
    ///
    /// # Errors
    /// Another extension, or the file cannot be written.
    pub fn create(path: &Path, fields: Vec<Field>) -> Result<Self> {
        let form = match ending(path)? {
            Ending::Csv => Form::Csv(Text::create(path, &fields)?),
            Ending::Npz => {
                let spools = fields.iter().map(|_| spool(path)).collect::<Result<_>>()?;
                Form::Npz(spools, Vec::new())
            }
            #[cfg(feature = "parquet")]
            Ending::Parquet => Form::Parquet(frames::Frames::create(path, &fields)?),
        };
        Ok(Self { path: path.to_path_buf(), fields, rows: 0, form })
    }

    /// Whether tables at `path` are npz files.
    ///
    /// # Errors
    /// The extension of no format that can be written.
    pub fn is_npz(path: &Path) -> Result<bool> {
        ending(path).map(|ending| ending == Ending::Npz)
    }

    /// Adds `count` rows; `values` has those of every field.
    ///
    /// # Errors
    /// Disk I/O failed.
    ///
    /// # Panics
    /// If there are other values than those of `count` rows of every field.
    pub fn rows(&mut self, count: usize, values: &[Values<'_>]) -> Result<()> {
        assert_eq!(values.len(), self.fields.len(), "values for every field");
        for (field, values) in self.fields.iter().zip(values) {
            assert_eq!(values.len(), count * field.width(), "`{}` for {count} rows", field.key);
        }
        self.rows += count;
        let written = match &mut self.form {
            Form::Csv(text) => text.rows(count, &self.fields, values),
            Form::Npz(spools, _) => {
                spools.iter_mut().zip(values).try_for_each(|(spool, values)| values.write(spool))
            }
            #[cfg(feature = "parquet")]
            Form::Parquet(frames) => frames.rows(count, &self.fields, values),
        };
        written.map_err(|error| Error::disk("write", &self.path, error))
    }

    /// Adds an array that is not one of rows, to an npz file; other files have none.
    pub fn array(&mut self, key: &str, values: &[f32]) {
        if let Form::Npz(_, further) = &mut self.form {
            further.push((key.to_owned(), values.to_vec()));
        }
    }

    /// Moves the file into place.
    ///
    /// # Errors
    /// Disk I/O failed.
    pub fn finish(self) -> Result<()> {
        let refused = |error| Error::disk("write", &self.path, error);
        let (spools, further) = match self.form {
            Form::Csv(text) => return text.finish(&self.path).map_err(refused),
            Form::Npz(spools, further) => (spools, further),
            #[cfg(feature = "parquet")]
            Form::Parquet(frames) => return frames.finish(&self.path).map_err(refused),
        };
        let mut writer = Writer::create(&self.path)?;
        for (field, spool) in self.fields.iter().zip(spools) {
            let mut file = spool.into_inner().map_err(|error| refused(error.into_error()))?;
            file.seek(SeekFrom::Start(0)).map_err(refused)?;
            let shape: Vec<usize> =
                std::iter::once(self.rows).chain(field.shape.iter().copied()).collect();
            writer.start(&field.key, field.item, &shape)?;
            writer.put(|archive| copy(&mut file, archive))?;
        }
        for (key, values) in &further {
            writer.start(key, Item::Float32, &[values.len()])?;
            writer.put(|archive| npy::write_numbers(archive, values))?;
        }
        writer.close()
    }
}

#[derive(PartialEq, Eq)]
enum Ending {
    Csv,
    Npz,
    #[cfg(feature = "parquet")]
    Parquet,
}

fn ending(path: &Path) -> Result<Ending> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    match ending.to_ascii_lowercase().as_str() {
        "csv" => Ok(Ending::Csv),
        "npz" => Ok(Ending::Npz),
        #[cfg(feature = "parquet")]
        "parquet" => Ok(Ending::Parquet),
        #[cfg(not(feature = "parquet"))]
        "parquet" => Err(Error::input("this build does not write parquet")
            .hint("build it with the feature: `cargo build --release --features parquet`")),
        _ => Err(Error::input("the file to write ends neither in `.npz` nor in `.csv`")
            .in_file(path)
            .hint("for example `-o answers.npz`")),
    }
}

/// A file beside `path` that is gone when it is closed, where the system allows it.
fn spool(path: &Path) -> Result<BufWriter<File>> {
    let created = beside::create(path).map_err(|error| Error::disk("write", path, error));
    let (name, file) = created?;
    std::fs::remove_file(&name).ok();
    Ok(BufWriter::with_capacity(1 << 20, file))
}

fn copy(from: &mut File, to: &mut impl Write) -> io::Result<()> {
    let mut bytes = vec![0; 1 << 20];
    loop {
        match from.read(&mut bytes)? {
            0 => return Ok(()),
            count => to.write_all(&bytes[..count])?,
        }
    }
}

/// A csv file under another name until it is whole.
struct Text {
    file: Option<BufWriter<File>>,
    temporary: PathBuf,
    line: Vec<u8>,
}

impl Text {
    fn create(path: &Path, fields: &[Field]) -> Result<Self> {
        let refused = |error| Error::disk("write", path, error);
        let (temporary, file) = beside::create(path).map_err(refused)?;
        let mut text = Self {
            file: Some(BufWriter::with_capacity(1 << 20, file)),
            temporary,
            line: Vec::new(),
        };
        let names: Vec<String> = fields.iter().flat_map(Field::columns).collect();
        text.put(format!("{}\n", names.join(",")).as_bytes()).map_err(refused)?;
        Ok(text)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }

    fn rows(&mut self, count: usize, fields: &[Field], values: &[Values<'_>]) -> io::Result<()> {
        let mut line = std::mem::take(&mut self.line);
        for row in 0..count {
            line.clear();
            for (field, values) in fields.iter().zip(values) {
                let width = field.width();
                for at in row * width..(row + 1) * width {
                    match values {
                        Values::Numbers(values) => write!(line, "{},", values[at])?,
                        Values::Wholes(values) => write!(line, "{},", values[at])?,
                    }
                }
            }
            line.pop();
            line.push(b'\n');
            self.put(&line)?;
        }
        self.line = line;
        Ok(())
    }

    fn finish(mut self, path: &Path) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        }
        std::fs::rename(&self.temporary, path)?;
        sync_folder_of(path)
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        // After the rename there is none.
        std::fs::remove_file(&self.temporary).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::arrays::Arrays;

    fn table(path: &Path) -> TableWriter {
        let fields = vec![
            Field::whole("row"),
            Field::number("steps"),
            Field::rows("actions", "action", &[2]),
        ];
        let mut writer = TableWriter::create(path, fields).unwrap();
        let numbers = |values| Values::Numbers(values);
        writer
            .rows(
                2,
                &[Values::Wholes(&[0, 1]), numbers(&[0.5, 2.0]), numbers(&[1.0, 2.0, 3.0, 4.0])],
            )
            .unwrap();
        writer.rows(1, &[Values::Wholes(&[2]), numbers(&[1e-7]), numbers(&[5.0, 6.0])]).unwrap();
        writer.array("extra", &[7.0, 8.0]);
        writer
    }

    #[test]
    fn a_table_is_written_as_text_and_as_arrays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        table(&path).finish().unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "row,steps,action_0,action_1\n0,0.5,1,2\n1,2,3,4\n2,0.0000001,5,6\n"
        );
        let path = folder.path().join("a.npz");
        table(&path).finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let mut arrays = Arrays::open(&bytes).unwrap();
        assert_eq!(arrays.get("row").unwrap().values, [0.0, 1.0, 2.0]);
        assert_eq!(arrays.get("actions").unwrap().shape, [3, 2]);
        assert_eq!(arrays.get("actions").unwrap().values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(arrays.get("extra").unwrap().values, [7.0, 8.0]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no file is left over");
    }

    #[test]
    fn a_table_that_is_not_finished_leaves_the_old_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.csv", "a.npz"] {
            let path = folder.path().join(name);
            std::fs::write(&path, "old").unwrap();
            drop(table(&path));
            assert_eq!(std::fs::read(&path).unwrap(), b"old");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
        let error = TableWriter::create(&folder.path().join("a.txt"), Vec::new()).err().unwrap();
        assert!(error.to_string().contains("neither in `.npz` nor in `.csv`"), "{error}");
    }
}
