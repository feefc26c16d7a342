//! Many files that are one dataset: those of a folder, or those that a pattern names.
//!
//! They are taken in the order of their names, byte by byte. In a pattern `*` stands for any number of
//! characters and `?` for one, in any part of the path but never for a `/`; hidden files are left
//! out. Of npz files those that end with `-val` are held-out data, unless there are no others.

use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};

/// The extensions of the files that a folder's dataset consists of.
const ENDINGS: [&str; 4] = ["npz", "hdf5", "h5", "parquet"];
/// How the names of held-out npz files end.
const HELD_OUT: &str = "-val";
/// Notes about single files that are told.
const TOLD: usize = 5;

/// Whether `path` names data: a file, a folder or, with `*` or `?`, several files.
pub fn exists(path: &Path) -> bool {
    path.exists() || is_pattern(path)
}

/// Whether `path` is a pattern; a file or folder of that very name is none.
pub(super) fn is_pattern(path: &Path) -> bool {
    has_wildcard(path.as_os_str()) && !path.exists()
}

/// The files of data in `folder`, in order.
///
/// # Errors
/// The folder cannot be listed.
pub(super) fn in_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for ending in ENDINGS {
        found.extend(matching(&folder.join(format!("*.{ending}")))?);
    }
    found.sort();
    Ok(found)
}

/// The files that a pattern names, in order.
///
/// # Errors
/// None matches, or a folder cannot be listed.
pub(super) fn named_by(pattern: &Path) -> Result<Vec<PathBuf>> {
    let found = matching(pattern)?;
    if found.is_empty() {
        return Err(Error::input("no file matches the pattern")
            .hint("`*` stands for any characters, `?` for one; neither for a `/`"));
    }
    Ok(found)
}

/// The files to train on; those to validate on, where there are any, are named by [`held_out`].
fn without_held_out(found: Vec<PathBuf>) -> Vec<PathBuf> {
    let held_out = |path: &PathBuf| {
        path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("npz"))
            && path
                .file_stem()
                .is_some_and(|stem| stem.as_encoded_bytes().ends_with(HELD_OUT.as_bytes()))
    };
    if found.iter().all(held_out) {
        return found;
    }
    found.into_iter().filter(|path| !held_out(path)).collect()
}

/// The held-out data that belong to the data at `path`, if there are any: `a-val.npz` for `a.npz`,
/// `part-*-val.npz` for `part-*.npz`, `*-val.npz` in a folder.
pub(super) fn held_out(path: &Path) -> Option<PathBuf> {
    let of_folder;
    let path = if path.is_dir() {
        of_folder = path.join("*.npz");
        &of_folder
    } else {
        path
    };
    path.extension().filter(|ending| ending.eq_ignore_ascii_case("npz"))?;
    let stem = path.file_stem()?.to_str()?;
    let beside = path.with_file_name(format!("{stem}{HELD_OUT}.npz"));
    let is_pattern = has_wildcard(path.as_os_str());
    let there = if is_pattern && !path.is_file() {
        // Where all files are held-out ones, they are the data.
        let all = all_matching(path).ok()?;
        let some = all_matching(&beside).ok()?;
        !some.is_empty() && some.len() < all.len()
    } else {
        beside.is_file()
    };
    there.then_some(beside)
}

fn matching(pattern: &Path) -> Result<Vec<PathBuf>> {
    all_matching(pattern).map(without_held_out)
}

/// Every file that matches.
fn all_matching(pattern: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let Component::Normal(name) = part else {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        };
        if !has_wildcard(name) {
            found.iter_mut().for_each(|path| path.push(name));
            continue;
        }
        let mut next = Vec::new();
        for folder in found.iter().filter(|path| path.is_dir() || path.as_os_str().is_empty()) {
            next.extend(children(folder, &name.to_string_lossy())?);
        }
        found = next;
    }
    found.retain(|path| path.is_file());
    found.sort();
    Ok(found)
}

/// What lies in `folder` and matches `pattern`.
fn children(folder: &Path, pattern: &str) -> Result<Vec<PathBuf>> {
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let refused = |error: std::io::Error| {
        Error::input(format!("cannot list the folder: {error}")).in_file(listed)
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(listed).map_err(refused)? {
        let name = entry.map_err(refused)?.file_name();
        let text = name.to_string_lossy();
        if matches(pattern.as_bytes(), text.as_bytes())
            && (pattern.starts_with('.') || !text.starts_with('.'))
        {
            found.push(folder.join(&name));
        }
    }
    Ok(found)
}

fn has_wildcard(text: &std::ffi::OsStr) -> bool {
    text.as_encoded_bytes().iter().any(|byte| matches!(byte, b'*' | b'?'))
}

/// Whether `name` matches `pattern`. Time is at most the product of their lengths.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    // After the last star: where to go back to, one byte further each time.
    let mut star: Option<(usize, usize)> = None;
    while place < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, place));
                at += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[place] => {
                at += 1;
                place += if byte == b'?' { character(&name[place..]) } else { 1 };
            }
            _ => {
                let Some((after, from)) = star else { return false };
                star = Some((after, from + 1));
                (at, place) = (after, from + 1);
            }
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

/// Bytes of the first character.
fn character(text: &[u8]) -> usize {
    1 + text[1..].iter().take_while(|&&byte| byte & 0xC0 == 0x80).count()
}

/// The notes about all files: once where all have it, else with the file's name, for the first few.
pub(super) fn joined_notes(of_files: &[(PathBuf, Vec<String>)]) -> Vec<String> {
    let everywhere = |note: &String| of_files.iter().all(|(_, notes)| notes.contains(note));
    let Some((_, first)) = of_files.first() else { return Vec::new() };
    let mut told: Vec<String> = first.iter().filter(|note| everywhere(note)).cloned().collect();
    let mut own = of_files.iter().flat_map(|(path, notes)| {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        notes.iter().filter(|note| !everywhere(note)).map(move |note| format!("{name}: {note}"))
    });
    told.extend(own.by_ref().take(TOLD));
    match own.count() {
        0 => {}
        more => told.push(format!("{more} more notes like these are about other files")),
    }
    told
}

#[cfg(test)]
mod tests;
