//! What a file of trajectories can be, told by its content.
//!
//! | first bytes, or what a folder holds | container | format |
//! |---|---|---|
//! | anything else; a zip file is expected | npz | npz, as OGBench writes it |
//! | `\x89HDF` | HDF5 | D4RL if `observations` is at the root, Minari if `episode_0`, … are |
//! | `data/main_data.hdf5` in the folder | HDF5 | Minari |
//! | `PAR1`; or `meta/info.json` in the folder | parquet | LeRobot |
//! | a folder of other files, or a pattern | those of the files | those of the files |

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::files::first_bytes;
use super::shards;
use crate::error::{Error, Result};

/// What a file of trajectories can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// A NumPy archive, as OGBench lays it out.
    Npz,
    /// One flat HDF5 file.
    D4rl,
    /// One HDF5 file with a group for each episode.
    Minari,
    /// Parquet files with a row for each frame.
    LeRobot,
}

impl Format {
    /// Every format that can be written.
    pub const WRITTEN: [Self; 1] = [Self::Npz];

    /// The format of a file to be written, by its extension.
    pub fn by_ending(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "npz" => Some(Self::Npz),
            "hdf5" | "h5" => Some(Self::D4rl),
            "parquet" => Some(Self::LeRobot),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Npz => "OGBench npz",
            Self::D4rl => "D4RL hdf5",
            Self::Minari => "Minari hdf5",
            Self::LeRobot => "LeRobot parquet",
        })
    }
}

/// How a file packs its arrays, and where it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Container {
    /// A zip file of npy arrays.
    Npz(PathBuf),
    /// An HDF5 file.
    Hdf5(PathBuf),
    /// A parquet file, or a folder of them.
    Parquet(PathBuf),
    /// Several files, in order.
    Shards(Vec<PathBuf>),
}

impl Container {
    /// Looks at the first bytes of a file, or at what a folder holds.
    pub(super) fn sniff(path: &Path) -> Result<Self> {
        if path.is_dir() {
            return Self::sniff_folder(path);
        }
        if shards::is_pattern(path) {
            return shards::named_by(path).map(Self::Shards);
        }
        let path = path.to_path_buf();
        Ok(match first_bytes(&path)? {
            [b'P', b'A', b'R', b'1', ..] => Self::Parquet(path),
            [0x89, b'H', b'D', b'F', b'\r', b'\n', 0x1a, b'\n'] => Self::Hdf5(path),
            _ => Self::Npz(path),
        })
    }

    fn sniff_folder(folder: &Path) -> Result<Self> {
        const MINARI: [&str; 2] = ["data/main_data.hdf5", "main_data.hdf5"];
        let minari = MINARI.map(|name| folder.join(name)).into_iter().find(|path| path.is_file());
        if let Some(path) = minari {
            return Ok(Self::Hdf5(path));
        }
        if folder.join("meta/info.json").is_file() {
            return Ok(Self::Parquet(folder.to_path_buf()));
        }
        let files = shards::in_folder(folder)?;
        if !files.is_empty() {
            return Ok(Self::Shards(files));
        }
        Err(Error::input("the folder holds no known dataset").hint(
            "name a file or a folder of .npz, .hdf5 or .parquet files; a Minari folder has \
             `data/main_data.hdf5`, a LeRobot folder `meta/info.json`",
        ))
    }
}
