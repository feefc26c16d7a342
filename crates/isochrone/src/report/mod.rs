//! What a reader looks at: distance fields, learning curves and calibration, as data and as pictures.
//!
//! Everything here takes plain numbers. The data part (`DistanceField`, its contours, the inputs of the
//! pictures) needs no feature; with the feature `pictures` each input is written as `.svg` and
//! `.png` by one drawing that both writers read.

mod contour;
mod coverage;
mod field;
mod grid;
mod holes;
mod input;
#[cfg(feature = "pictures")]
pub mod pictures;
mod remaining;
mod routes;

pub use coverage::Coverage;
pub use field::DistanceField;
pub use grid::{MapCells, natural_axes};
pub use input::{
    CalibrationChart, CalibrationPanel, Comparison, Curves, Families, Isochrones, Panel, Reference,
    Series, Spread, Summary, Trend,
};
pub use remaining::{Remaining, TrajectoryCourse};
pub use routes::{Routed, Routes};
