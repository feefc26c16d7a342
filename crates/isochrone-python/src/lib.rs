//! The Python package `isochrone`: types, arrays and errors are converted here; everything else is
//! the library's.
//!
//! Arrays are copied before the interpreter is released, so that no thread can change them while they
//! are read. `python/isochrone` has what is written in Python: the progress bar, Gymnasium's
//! interface to worlds, and the type stubs.

mod answers;
mod arrays;
mod dataset;
mod errors;
mod exact;
mod fit;
mod inspect;
mod model;
mod origin;
mod world;

/// The compiled part of the package `isochrone`.
#[pyo3::pymodule]
mod _isochrone {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::dataset::PyDataset;
    #[pymodule_export]
    use super::exact::{exact_distances, exact_file, exact_policy};
    #[pymodule_export]
    use super::fit::fit;
    #[pymodule_export]
    use super::inspect::inspect;
    #[pymodule_export]
    use super::model::{PyModel, load};
    #[pymodule_export]
    use super::world::{PyWorld, world_names};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("ALGORITHMS", isochrone::algorithms::Config::NAMES.to_vec())
    }
}
