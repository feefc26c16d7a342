//! Pictures as SVG and PNG: one drawing, two writers.
//!
//! A picture is first a list of marks in pixels; the SVG writes them as elements, the PNG paints
//! them at twice the size. Both files are made before either is written, and each is written
//! beside its place and renamed, so that a file is there whole or not at all.

mod axes;
mod bands;
mod calibration;
mod chart;
mod colour;
mod comparison;
mod coverage;
mod drawing;
mod font;
mod geometry;
mod legend;
mod map;
mod page;
mod raster;
mod remaining;
mod routes;
mod svg;
mod thumbnail;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use self::drawing::Drawing;
pub(crate) use self::thumbnail::thumbnail;
use super::{CalibrationChart, Comparison, Coverage, Curves, Isochrones, Remaining, Routes};
use crate::Result;
use crate::checkpoint::write_whole;

/// Draws trajectories by family and learned distances as isochrones; writes `<path>.svg` and
/// `<path>.png`.
///
/// # Errors
///
/// What [`Isochrones::check`] refuses, and a disk that refuses a file.
pub fn isochrones(input: &Isochrones, path_without_extension: &Path) -> Result<()> {
    input.check()?;
    save(&map::draw(input), path_without_extension)
}

/// Draws learning curves as means with bands; writes `<path>.svg` and `<path>.png`.
///
/// # Errors
///
/// What [`Curves::check`] refuses, and a disk that refuses a file.
pub fn curves(input: &Curves, path_without_extension: &Path) -> Result<()> {
    input.check()?;
    save(&chart::curves(input), path_without_extension)
}

/// Draws the learning curves of several worlds beside each other; writes `<path>.svg` and
/// `<path>.png`.
///
/// # Errors
///
/// What [`Comparison::check`] refuses, and a disk that refuses a file.
pub fn comparison(input: &Comparison, path_without_extension: &Path) -> Result<()> {
    input.check()?;
    save(&comparison::draw(input), path_without_extension)
}

/// Draws learned against exact or elapsed steps; writes `<path>.svg` and `<path>.png`.
///
/// # Errors
///
/// What [`CalibrationChart::check`] refuses, and a disk that refuses a file.
pub fn calibration(input: &CalibrationChart, path_without_extension: &Path) -> Result<()> {
    input.check()?;
    save(&calibration::draw(input), path_without_extension)
}

/// Draws how often each part of a plane was visited; writes `<path>.svg` and `<path>.png`.
///
/// # Errors
///
/// A disk that refuses a file.
pub fn coverage(input: &Coverage, path_without_extension: &Path) -> Result<()> {
    save(&coverage::draw(input), path_without_extension)
}

/// Draws a maze from above, with isochrones and the paths of a policy; writes `<path>.svg` and
/// `<path>.png`.
///
/// # Errors
///
/// What [`Routes::check`] refuses, and a disk that refuses a file.
pub fn routes(input: &Routes, path_without_extension: &Path) -> Result<()> {
    input.check()?;
    save(&routes::draw(input), path_without_extension)
}

/// Draws the steps that remain along trajectories; writes `<path>.svg` and `<path>.png`.
///
/// # Errors
///
/// What [`Remaining::check`] refuses, and a disk that refuses a file.
pub fn remaining(input: &Remaining, path_without_extension: &Path) -> Result<()> {
    input.check()?;
    save(&remaining::draw(input), path_without_extension)
}

fn save(drawing: &Drawing, path: &Path) -> Result<()> {
    let image = raster::file(drawing)?;
    write_whole(&with_ending(path, ".svg"), svg::document(drawing).as_bytes())?;
    write_whole(&with_ending(path, ".png"), &image)
}

/// Adds an ending; a dot in the name is no extension.
fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests;
