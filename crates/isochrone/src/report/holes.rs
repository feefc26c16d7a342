//! NaN ↔ `null`, for numbers that may be unknown: JSON has no NaN.

fn known(value: &f32) -> Option<f32> {
    Some(*value).filter(|value| !value.is_nan())
}

fn unknown(value: Option<f32>) -> f32 {
    value.unwrap_or(f32::NAN)
}

/// A row of numbers.
pub(super) mod one_row {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::report::holes::{known, unknown};

    pub(crate) fn serialize<S: Serializer>(row: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(row.iter().map(known))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<f32>, D::Error> {
        let row = Vec::<Option<f32>>::deserialize(input)?;
        Ok(row.into_iter().map(unknown).collect())
    }
}

/// Rows of numbers.
pub(super) mod many_rows {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::report::holes::{known, unknown};

    pub(crate) fn serialize<S: Serializer>(
        rows: &[Vec<f32>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let known_row = |row: &Vec<f32>| row.iter().map(known).collect::<Vec<_>>();
        serializer.collect_seq(rows.iter().map(known_row))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<Vec<Vec<f32>>, D::Error> {
        let rows = Vec::<Vec<Option<f32>>>::deserialize(input)?;
        Ok(rows.into_iter().map(|row| row.into_iter().map(unknown).collect()).collect())
    }
}
