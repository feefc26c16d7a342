//! Processes of this machine, as many at a time as it has threads for.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use isochrone::{Error, Result};

use super::engine::{Engine, Resources, terminate};
use super::list::{Outcome, Sweep};

/// Between two looks at a process.
const LOOK: Duration = Duration::from_millis(50);

/// Runs processes here.
pub struct Local {
    resources: Resources,
    at_once: usize,
    stop: Arc<AtomicBool>,
    workers: Vec<JoinHandle<()>>,
    failed: Arc<Mutex<Option<Error>>>,
}

impl Local {
    pub fn new(resources: Resources, threads: usize) -> Self {
        let at_once = (threads / resources.cpus as usize).max(1);
        let (stop, failed) = (Arc::default(), Arc::default());
        Self { resources, at_once, stop, workers: Vec::new(), failed }
    }
}

impl Engine for Local {
    fn place(&self) -> String {
        "local".to_owned()
    }

    fn submit(&mut self, sweep: &Sweep, left: &[usize]) -> Result<()> {
        let next = Arc::new(AtomicUsize::new(0));
        for _ in 0..self.at_once.min(left.len()) {
            let (sweep, left, next) = (sweep.clone(), left.to_vec(), Arc::clone(&next));
            let (stop, failed) = (Arc::clone(&self.stop), Arc::clone(&self.failed));
            let retries = self.resources.retries;
            self.workers.push(std::thread::spawn(move || {
                while let Some(&index) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let ended = bring_to_end(&sweep, index, retries, &stop);
                    if let (Err(error), Ok(mut failed)) = (ended, failed.lock()) {
                        failed.get_or_insert(error);
                    }
                }
            }));
        }
        Ok(())
    }

    fn is_alive(&mut self) -> Result<bool> {
        let failed = self.failed.lock().ok().and_then(|mut failed| failed.take());
        failed.map_or_else(|| Ok(self.workers.iter().any(|worker| !worker.is_finished())), Err)
    }

    fn patience(&self) -> Duration {
        Duration::ZERO
    }

    fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

/// Starts run `index` until its end is final, it has failed too often, or it is asked to stop.
fn bring_to_end(sweep: &Sweep, index: usize, retries: u32, stop: &AtomicBool) -> Result<()> {
    for _ in 0..=retries {
        let code = wait(start(sweep, index)?, stop);
        if code.is_some_and(Outcome::is_final) || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(())
}

fn start(sweep: &Sweep, index: usize) -> Result<Child> {
    let path = sweep.file(index, "log");
    let refused = |error| Error::disk("write", &path, error);
    let log = File::options().create(true).append(true).open(&path).map_err(refused)?;
    let same = log.try_clone().map_err(refused)?;
    let words = sweep.command(&index.to_string());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(log).stderr(same);
    command.spawn().map_err(|error| Error::disk("start", &words[0], error))
}

/// Waits for a process, which is told when to stop; its exit code, if it has one.
fn wait(mut child: Child, stop: &AtomicBool) -> Option<i32> {
    let mut told = false;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return status.code();
        }
        if stop.load(Ordering::Relaxed) && !told {
            told = true;
            terminate(child.id());
        }
        std::thread::sleep(LOOK);
    }
}
