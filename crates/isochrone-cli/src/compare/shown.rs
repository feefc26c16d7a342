//! Pictures of routes that `isochrone evaluate` left in the folders of runs, copied beside a page.

use std::path::Path;

use isochrone::checkpoint::write_whole;
use isochrone::run::compare::Results;
use isochrone::{Error, Result};

/// What `isochrone evaluate` calls its picture of routes.
const ROUTES: &str = "routes.png";

/// A picture beside the page.
pub struct Shown {
    /// The name of its file.
    pub file: String,
    /// What it shows.
    pub words: String,
}

/// Copies the routes of every row, of its first seed that has them, beside `page`.
///
/// # Errors
/// The disk refuses.
pub fn copy(results: &Results, page: &Path) -> Result<Vec<Shown>> {
    let stem = page.file_stem().and_then(|stem| stem.to_str()).unwrap_or("results");
    let mut found: Vec<Shown> = Vec::new();
    for run in &results.runs {
        let path = run.folder.join(ROUTES);
        let file = format!("{stem}-{}-{}.png", run.world, run.algorithm);
        if !path.exists() || found.iter().any(|shown| shown.file == file) {
            continue;
        }
        let bytes = std::fs::read(&path).map_err(|error| Error::disk("read", &path, error))?;
        write_whole(&page.with_file_name(&file), &bytes)?;
        let words = format!("{} in {}, seed {}", run.algorithm, run.world, run.config.seed);
        found.push(Shown { file, words });
    }
    Ok(found)
}
