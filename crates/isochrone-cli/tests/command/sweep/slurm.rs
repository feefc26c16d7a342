//! Debian's Slurm with two nodes on loopback.

use std::cell::RefCell;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{FOLDER, compare, finished, same, signal, told, until};

/// Daemons that end with the test.
struct Cluster {
    folder: tempfile::TempDir,
}

impl Cluster {
    /// Starts it; none, with a line that says why, where it cannot be.
    fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let free: Vec<TcpListener> =
            (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<String> =
            free.iter().map(|port| port.local_addr().unwrap().port().to_string()).collect();
        drop(free);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/slurm");
        let cluster = Self { folder };
        let output = Command::new(script).arg(cluster.folder.path()).args(ports).output().unwrap();
        if output.status.success() {
            return Some(cluster);
        }
        eprintln!("skipped: {}", String::from_utf8_lossy(&output.stdout).trim());
        None
    }

    fn within<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("SLURM_CONF", self.folder.path().join("slurm.conf"))
    }

    fn asked(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.within(Command::new(program).args(arguments)).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn kill(&self, daemon: &str) {
        if let Ok(process) = std::fs::read_to_string(self.folder.path().join(daemon)) {
            signal("-KILL", process.trim());
        }
    }

    fn set_node(&self, node: &str, state: &str) {
        let words = [format!("NodeName={node}"), format!("State={state}")];
        self.asked("scontrol", &["update", &words[0], &words[1], "Reason=test"]);
    }

    /// Starts what was queued again: Slurm lets two minutes pass.
    fn hurry(&self) {
        let format = ["--noheader", "--array", "--states=PENDING", "--format=%i %r"];
        for line in self.asked("squeue", &format).lines() {
            if let Some(task) = line.strip_suffix(" BeginTime") {
                let task = format!("JobId={task}");
                self.asked("scontrol", &["update", &task, "StartTime=now"]);
            }
        }
    }

    /// The tasks that run on a node.
    fn running(&self, node: &str) -> Vec<String> {
        let node = format!("--nodelist={node}");
        let listed =
            self.asked("squeue", &["--noheader", "--states=RUNNING", &node, "--format=%i"]);
        listed.lines().map(str::to_owned).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.asked("scancel", &["--user=root"]);
        ["n1.pid", "n2.pid", "slurmctld.pid"].iter().for_each(|daemon| self.kill(daemon));
    }
}

#[test]
fn slurm_ends_all_runs_with_the_same_bytes_though_a_node_is_lost_and_a_run_is_asked_to_save() {
    let Some(cluster) = Cluster::start() else { return };
    let out = FOLDER.path().join("slurm");
    let engine = ["--engine", "slurm", "--partition"];
    let mut wrong = compare(&out, &[&engine[..], &["debugg"]].concat());
    let [_, error] = told(cluster.within(&mut wrong).output().unwrap(), 2);
    assert!(error.contains("no partition `debugg`") && error.contains("debug`?"), "{error}");
    assert!(!out.exists());
    let mut command = compare(&out, &[&engine[..], &["debug", "--time-limit", "30"]].concat());
    let child = cluster.within(&mut command).spawn().unwrap();
    let log = || std::fs::read_to_string(cluster.folder.path().join("slurmctld.log")).unwrap();
    // A run may end before its node is lost: those that have just begun are tried until one has not.
    let (lost, mut seen) = (|| log().contains("due to failure of node n2"), Vec::new());
    until(lost, || {
        let running = cluster.running("n2");
        if running.iter().all(|job| seen.contains(job)) {
            return;
        }
        seen.extend(running);
        cluster.set_node("n2", "DOWN");
        until(|| cluster.running("n2").is_empty(), || {});
        if !lost() {
            cluster.set_node("n2", "RESUME");
        }
    });
    cluster.kill("n2.pid");
    until(|| !cluster.running("n1").is_empty(), || {});
    // What Slurm sends before the time limit; the command would ask again until the job is gone. A run
    // may end before it is asked, so all that begin are asked until one is queued again; a run has begun
    // to listen when it has a log.
    let asked: RefCell<Vec<(String, Child)>> = RefCell::default();
    until(
        || asked.borrow().iter().any(|(job, _)| log().contains(&format!("Requeuing JobId={job}"))),
        || {
            let listens = |job: &String| {
                let run = job.rsplit('_').next().unwrap();
                out.join(format!("sweep/{run}.log")).exists()
                    && asked.borrow().iter().all(|(other, _)| other != job)
            };
            let Some(job) = cluster.running("n1").into_iter().find(listens) else { return };
            let mut cancel = Command::new("scancel");
            cancel.args(["--signal=TERM", "--batch", &job]).stderr(Stdio::null());
            asked.borrow_mut().push((job, cluster.within(&mut cancel).spawn().unwrap()));
        },
    );
    for (_, mut cancel) in asked.into_inner() {
        // It has ended if its job has.
        let _ = cancel.kill();
        cancel.wait().unwrap();
    }
    told(finished(child, || cluster.hurry()), 0);
    same(&out);
}
