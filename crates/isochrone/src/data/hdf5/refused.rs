//! What the `hdf5-reader` crate refuses, in our words.

use hdf5_reader::error::Error as Cause;

use super::super::complaints::DAMAGED;
use crate::error::Error;

/// The complaint about what the crate refused to read.
pub(in crate::data) fn refused(key: &str, error: &Cause) -> Error {
    use Cause::{Context, ResourceLimit, UnsupportedFilter};
    let mut cause = error;
    while let Context { source, .. } = cause {
        cause = source;
    }
    let text = cause.to_string().to_lowercase();
    let complaint = Error::input(format!("`{}` cannot be read: {text}", shortened(key)));
    complaint.hint(match cause {
        UnsupportedFilter(_) => "save it with `compression=\"gzip\"`, or unpacked",
        ResourceLimit(_) => "if this is intended, save it uncompressed",
        _ => DAMAGED,
    })
}

/// The first letters of a name that may be as long as the file.
fn shortened(name: &str) -> String {
    name.escape_debug().take(80).collect()
}
