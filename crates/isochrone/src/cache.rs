//! Where what can be made again is kept: the user's cache folder.

use std::path::PathBuf;

/// The folder of one part of what is kept; `None` if the system names no place for it.
pub(crate) fn folder(part: &str) -> Option<PathBuf> {
    let variable =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME")
        .or_else(|| variable("LOCALAPPDATA"))
        .or_else(|| variable("HOME").map(|home| home.join(".cache")));
    cache.map(|cache| cache.join("isochrone").join(part))
}
