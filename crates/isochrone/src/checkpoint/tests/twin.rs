//! A file system in memory that fails on request.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use crate::checkpoint::Files;

/// A file system in memory that keeps track of what a power cut may undo.
#[derive(Default)]
pub(super) struct Twin {
    pub(super) state: Mutex<State>,
    pub(super) fault: Option<(usize, Fault)>,
    pub(super) forgets_folders: bool,
}

#[derive(Default)]
pub(super) struct State {
    contents: Vec<Vec<u8>>,
    names: BTreeMap<PathBuf, usize>,
    durable: BTreeMap<PathBuf, usize>,
    pending: Vec<Change>,
    pub(super) operations: usize,
    dead: bool,
}

/// A change of names that is not yet on the disk.
#[derive(Clone)]
enum Change {
    Create(PathBuf, usize),
    Rename(PathBuf, PathBuf, usize),
    Remove(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    /// The process dies before the operation, half way through it, or right after it.
    DieBefore,
    DieMidway,
    DieAfter,
    /// The operation alone fails; a write leaves half its bytes.
    Refuse,
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Self::Create(path, content) => drop(names.insert(path.clone(), *content)),
            Self::Remove(path) => drop(names.remove(path)),
            Self::Rename(from, to, content) => {
                names.remove(from);
                names.insert(to.clone(), *content);
            }
        }
    }
}

impl Twin {
    pub(super) fn with_fault(fault: Option<(usize, Fault)>) -> Self {
        Self { fault, ..Self::default() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Counts an operation and does it, unless its fault has come.
    fn operate<T>(
        &self,
        half: impl FnOnce(&mut State),
        whole: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.lock();
        let gone = || io::Error::other("the process is gone");
        if state.dead {
            return Err(gone());
        }
        let now = state.operations;
        state.operations += 1;
        let fault = self.fault.filter(|fault| fault.0 == now).map(|fault| fault.1);
        state.dead = fault.is_some_and(|fault| fault != Fault::Refuse);
        match fault {
            None => whole(&mut state),
            Some(Fault::DieBefore) => Err(gone()),
            Some(Fault::DieAfter) => whole(&mut state).and(Err(gone())),
            Some(Fault::DieMidway) => {
                half(&mut state);
                Err(gone())
            }
            Some(Fault::Refuse) => {
                half(&mut state);
                Err(io::ErrorKind::StorageFull.into())
            }
        }
    }

    /// Every file system that may be found after the end: all names, or any part of those
    /// changes that were not yet on the disk.
    pub(super) fn afterwards(&self) -> Vec<Self> {
        let state = self.lock();
        let mut all = Vec::new();
        for chosen in 0..1usize << state.pending.len() {
            let mut names = state.durable.clone();
            for (index, change) in state.pending.iter().enumerate() {
                if chosen >> index & 1 == 1 {
                    change.apply(&mut names);
                }
            }
            let (contents, durable) = (state.contents.clone(), names.clone());
            let state = State { contents, names, durable, ..State::default() };
            all.push(Self { state: Mutex::new(state), ..Self::default() });
        }
        all
    }
}

impl State {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.pending.push(change);
    }

    fn create(&mut self, path: &Path, bytes: &[u8]) {
        self.contents.push(bytes.to_vec());
        self.change(Change::Create(path.to_path_buf(), self.contents.len() - 1));
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or(io::ErrorKind::NotFound.into())
    }
}

impl Files for Twin {
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.operate(
            |state| state.create(path, &bytes[..bytes.len() / 2]),
            |state| {
                state.create(path, bytes);
                Ok(())
            },
        )
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operate(
            |_| (),
            |state| {
                let content = state.find(from)?;
                state.change(Change::Rename(from.into(), to.into(), content));
                Ok(())
            },
        )
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        self.operate(
            |_| (),
            |state| {
                if !self.forgets_folders {
                    state.durable = state.names.clone();
                    state.pending.clear();
                }
                Ok(())
            },
        )
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.operate(|_| (), |state| state.find(path).map(|at| state.contents[at].clone()))
    }

    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_string();
        self.operate(|_| (), |state| Ok(state.names.keys().map(name).collect()))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.operate(
            |_| (),
            |state| {
                state.find(path)?;
                state.change(Change::Remove(path.into()));
                Ok(())
            },
        )
    }
}
