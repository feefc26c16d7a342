//! A parquet file, one group of rows for each portion, under another name until it is whole.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Repetition, Type as Physical};
use parquet::data_type::{FloatType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::field::{Field, Values};
use crate::beside;
use crate::data::npy::Item;
use crate::data::npz::sync_folder_of;
use crate::error::{Error, Result};

/// A parquet file on its way.
pub(super) struct Frames {
    writer: Option<SerializedFileWriter<File>>,
    temporary: PathBuf,
}

impl Frames {
    /// Starts the file that will be moved to `path`.
    pub(super) fn create(path: &Path, fields: &[Field]) -> Result<Self> {
        let refused = |error| Error::disk("write", path, error);
        let (temporary, file) = beside::create(path).map_err(refused)?;
        let writer = schema(fields)
            .and_then(|schema| {
                let properties = Arc::new(WriterProperties::builder().build());
                SerializedFileWriter::new(file, Arc::new(schema), properties)
            })
            .map_err(|error| refused(failed(error)))?;
        Ok(Self { writer: Some(writer), temporary })
    }

    /// Adds a group of rows.
    pub(super) fn rows(
        &mut self,
        count: usize,
        fields: &[Field],
        values: &[Values<'_>],
    ) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let mut write = || {
            let mut group = writer.next_row_group()?;
            for (field, values) in fields.iter().zip(values) {
                for column in 0..field.width() {
                    let Some(mut target) = group.next_column()? else { break };
                    let places = (0..count).map(|row| row * field.width() + column);
                    match values {
                        Values::Numbers(values) => {
                            let values: Vec<f32> = places.map(|at| values[at]).collect();
                            target.typed::<FloatType>().write_batch(&values, None, None)?;
                        }
                        Values::Wholes(values) => {
                            let values: Vec<i64> = places.map(|at| values[at] as i64).collect();
                            target.typed::<Int64Type>().write_batch(&values, None, None)?;
                        }
                    }
                    target.close()?;
                }
            }
            group.close().map(drop)
        };
        write().map_err(failed)
    }

    /// Moves the file into place.
    pub(super) fn finish(mut self, path: &Path) -> io::Result<()> {
        if let Some(writer) = self.writer.take() {
            writer.into_inner().map_err(failed)?.sync_all()?;
        }
        std::fs::rename(&self.temporary, path)?;
        sync_folder_of(path)
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        // After the rename there is none.
        std::fs::remove_file(&self.temporary).ok();
    }
}

fn failed(error: ParquetError) -> io::Error {
    io::Error::other(error)
}

/// One column for each value of a row; none is ever missing.
fn schema(fields: &[Field]) -> std::result::Result<Type, ParquetError> {
    let columns = fields.iter().flat_map(|field| {
        let kind = if field.item == Item::Int64 { Physical::INT64 } else { Physical::FLOAT };
        field.columns().into_iter().map(move |name| (name, kind))
    });
    let columns = columns.map(|(name, kind)| {
        let column = Type::primitive_type_builder(&name, kind);
        column.with_repetition(Repetition::REQUIRED).build().map(Arc::new)
    });
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    Type::group_type_builder("rows").with_fields(columns).build()
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use crate::data::{Field, TableWriter, Values};

    #[test]
    fn a_parquet_file_holds_every_row_of_every_portion() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        let fields = vec![Field::whole("frame"), Field::rows("actions", "action", &[2])];
        let mut writer = TableWriter::create(&path, fields).unwrap();
        let add = |writer: &mut TableWriter, frames: &[u64], actions: &[f32]| {
            let values = [Values::Wholes(frames), Values::Numbers(actions)];
            writer.rows(frames.len(), &values).unwrap();
        };
        add(&mut writer, &[0, 1], &[1.0, 2.0, 3.0, 4.0]);
        add(&mut writer, &[2], &[5.0, 6.5]);
        writer.finish().unwrap();
        let reader = SerializedFileReader::try_from(path.as_path()).unwrap();
        let rows: Vec<String> =
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[2], "{frame: 2, action_0: 5.0, action_1: 6.5}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
