//! Panics of foreign readers as errors: the crates that read HDF5 and Parquet may meet bytes that their
//! authors did not expect.
//!
//! Only unwinding is caught. Running out of memory aborts, which is why claims are checked first.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::complaints::DAMAGED;
use crate::error::{Error, Result};

/// Does the work; a panic is an error. Whatever the work has changed is not used afterwards.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Error::input("the file cannot be read: its structure is damaged").hint(DAMAGED))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_that_says_what_to_do() {
        let error = guarded::<()>(|| panic!("what no author expected")).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("its structure is damaged; hint: "), "{error}");
        assert_eq!(guarded(|| Ok(3)).unwrap(), 3);
    }
}
