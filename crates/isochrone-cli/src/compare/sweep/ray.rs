//! A Ray cluster, through a small driver in Python.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use isochrone::checkpoint::write_whole;
use isochrone::{Error, Result};
use serde_json::json;

use super::engine::{Engine, Resources, asked, terminate};
use super::list::Sweep;

/// The driver: one task per run, tried again on another node where its own is gone.
const DRIVER: &str = include_str!("driver.py");

/// Flags of this engine.
#[derive(clap::Args)]
pub struct RayFlags {
    /// The Python that has Ray; RAY_ADDRESS names the cluster, without it one is started here
    #[arg(long, value_name = "PYTHON", default_value = "python3", requires = "engine")]
    python: String,
}

/// Runs processes on the nodes of a cluster.
pub struct Ray {
    resources: Resources,
    python: String,
    driver: Option<Child>,
    log: PathBuf,
}

impl Ray {
    pub fn new(resources: Resources, flags: &RayFlags) -> Result<Self> {
        let python = flags.python.clone();
        if asked(&python, &["-c", "import ray"]).is_none() {
            return Err(Error::input(format!("`{python}` has no Ray"))
                .hint("`pip install ray`, or name another Python with `--python`"));
        }
        Ok(Self { resources, python, driver: None, log: PathBuf::new() })
    }
}

impl Engine for Ray {
    fn place(&self) -> String {
        "Ray".to_owned()
    }

    fn submit(&mut self, sweep: &Sweep, left: &[usize]) -> Result<()> {
        let [script, tasks] = ["driver.py", "ray.json"].map(|name| sweep.folder().join(name));
        self.log = sweep.folder().join("ray.log");
        let asked = json!({
            "command": sweep.command("INDEX"),
            "runs": left,
            "logs": sweep.folder(),
            "cpus": self.resources.cpus,
            "gpus": self.resources.gpus,
            "memory": self.resources.memory.map(|memory| memory.0),
            "retries": self.resources.retries,
        });
        write_whole(&script, DRIVER.as_bytes())?;
        write_whole(&tasks, asked.to_string().as_bytes())?;
        let refused = |error| Error::disk("write", &self.log, error);
        let log = File::create(&self.log).map_err(refused)?;
        let same = log.try_clone().map_err(refused)?;
        let mut command = Command::new(&self.python);
        command.arg(&script).arg(&tasks).stdin(Stdio::null()).stdout(log).stderr(same);
        let started = command.spawn();
        self.driver = Some(started.map_err(|error| Error::disk("start", &self.python, error))?);
        Ok(())
    }

    fn is_alive(&mut self) -> Result<bool> {
        let Some(driver) = &mut self.driver else { return Ok(false) };
        match driver.try_wait() {
            Ok(None) => Ok(true),
            Ok(Some(status)) if status.success() => Ok(false),
            _ => Err(Error::input("the driver of Ray failed")
                .in_file(&self.log)
                .hint("its last lines say why; the same command resumes")),
        }
    }

    fn stop(&mut self) {
        if let Some(mut driver) = self.driver.take() {
            terminate(driver.id());
            let _ = driver.wait();
        }
    }
}
