//! A Kubernetes Job with one index per run.

use std::path::{Path, PathBuf};

use isochrone::checkpoint::write_whole;
use isochrone::{Error, Result};
use serde_json::{Value, json};

use super::engine::{Engine, Resources, asked, demanded};
use super::list::Sweep;

/// Seconds that a pod has to save when it is asked to stop.
const GRACE: u32 = 60;
const MANIFEST: &str = "job.json";
const VOLUME: &str = "runs";

/// Flags of this engine.
#[derive(Clone, clap::Args)]
pub struct KubernetesFlags {
    /// Kubernetes: the image, which has the command `isochrone`
    #[arg(long, value_name = "IMAGE", requires = "engine")]
    image: Option<String>,
    /// Kubernetes: the volume claim that holds --out
    #[arg(long, value_name = "CLAIM", requires = "engine")]
    claim: Option<String>,
    /// Kubernetes: the folder that the claim holds, here and in every pod [default: --out]
    #[arg(long, value_name = "FOLDER", requires = "engine")]
    mount: Option<PathBuf>,
    /// Kubernetes: the namespace [default: that of kubectl]
    #[arg(long, value_name = "NAME", requires = "engine")]
    namespace: Option<String>,
    /// Kubernetes: pods at a time [default: as many as there are runs, at most 100]
    #[arg(long, value_name = "N", requires = "engine")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    parallelism: Option<u32>,
}

/// Runs processes in pods.
pub struct Kubernetes {
    resources: Resources,
    flags: KubernetesFlags,
}

impl Kubernetes {
    pub fn new(resources: Resources, flags: &KubernetesFlags, out: &Path) -> Result<Self> {
        check(&resources, flags, out)?;
        if asked("kubectl", &["version", "--client"]).is_none() {
            return Err(Error::input("there is no `kubectl` here")
                .hint("submit from where it is, or see the manifest with `--dry-run`"));
        }
        Ok(Self { resources, flags: flags.clone() })
    }

    /// The arguments, and the namespace where one was named.
    fn within<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        let namespace = self.flags.namespace.iter().flat_map(|name| ["--namespace", name.as_str()]);
        arguments.iter().copied().chain(namespace).collect()
    }

    /// The job's conditions, such as `Complete`; none if there is no such job.
    fn conditions(&self) -> Result<Option<String>> {
        let format =
            "--output=jsonpath={.metadata.name} {range .status.conditions[*]}{.type} {end}";
        let question = ["get", "job", &self.resources.name, "--ignore-not-found", format];
        let answer = demanded("kubectl", &self.within(&question))?;
        Ok(Some(answer).filter(|text| !text.trim().is_empty()))
    }
}

/// Whether conditions are those of a job that has ended.
fn is_over(conditions: &str) -> bool {
    conditions.split(' ').skip(1).any(|word| ["Complete", "Failed"].contains(&word))
}

/// Refuses flags that are missing and names that Kubernetes would refuse.
fn check(resources: &Resources, flags: &KubernetesFlags, out: &Path) -> Result<()> {
    let KubernetesFlags { image, claim, mount, namespace, .. } = flags;
    for (flag, found) in [("--image", image), ("--claim", claim)] {
        if found.is_none() {
            return Err(Error::input(format!("`--engine kubernetes` needs `{flag}`"))
                .hint("`isochrone compare --help` explains it"));
        }
    }
    let bad_image = |image: &&String| image.is_empty() || image.contains(char::is_whitespace);
    if let Some(image) = image.as_ref().filter(bad_image) {
        return Err(Error::input(format!("`--image` is `{image}`, not the name of an image"))
            .hint("write it as `registry/name:tag`"));
    }
    let names = [
        ("--job-name", Some(&resources.name)),
        ("--claim", claim.as_ref()),
        ("--namespace", namespace.as_ref()),
    ];
    for (flag, name) in names {
        if let Some(name) = name.filter(|name| !is_label(name)) {
            return Err(Error::input(format!("`{flag}` is `{name}`, not a valid Kubernetes name"))
                .hint("use at most 63 characters of a-z, 0-9 and `-`, with no `-` at either end"));
        }
    }
    let (mount, out) = (mount.as_deref().unwrap_or(out), absolute(out)?);
    if out.starts_with(absolute(mount)?) {
        return Ok(());
    }
    Err(Error::input("`--out` is not in the folder of `--mount`")
        .in_file(mount)
        .hint("the claim must hold the runs; choose another `--out` or `--mount`"))
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| Error::disk("find", path, error))
}

fn is_label(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=63).contains(&name.len())
        && name.bytes().all(|byte| plain(byte) || byte == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
}

impl Engine for Kubernetes {
    fn place(&self) -> String {
        format!("Kubernetes job {}", self.resources.name)
    }

    fn attach(&mut self, _: &Sweep) -> Result<bool> {
        Ok(self.conditions()?.is_some_and(|conditions| !is_over(&conditions)))
    }

    fn submit(&mut self, sweep: &Sweep, _: &[usize]) -> Result<()> {
        let path = sweep.folder().join(MANIFEST);
        write_whole(&path, manifest(sweep, &self.resources, &self.flags)?.as_bytes())?;
        if self.conditions()?.is_some() {
            // A job that is over cannot be changed.
            demanded("kubectl", &self.within(&["delete", "job", &self.resources.name]))?;
        }
        let path = path.display().to_string();
        demanded("kubectl", &self.within(&["apply", "--filename", &path])).map(drop)
    }

    fn is_alive(&mut self) -> Result<bool> {
        // A cluster that does not answer for a moment still has the job.
        let found = self.conditions();
        Ok(found.map_or(true, |found| found.is_some_and(|conditions| !is_over(&conditions))))
    }

    fn stop(&mut self) {}

    fn left_behind(&self) -> String {
        format!("{} goes on (`kubectl delete job` ends it)", self.place())
    }
}

/// The manifest of the job, as JSON.
pub fn manifest(sweep: &Sweep, resources: &Resources, flags: &KubernetesFlags) -> Result<String> {
    check(resources, flags, &sweep.out)?;
    let count = sweep.runs.len();
    let mut taken = json!({ "cpu": resources.cpus.to_string() });
    if let Some(memory) = resources.memory {
        taken["memory"] = json!(memory.0.to_string());
    }
    let mut limits = json!({});
    if resources.gpus > 0 {
        limits["nvidia.com/gpu"] = json!(resources.gpus.to_string());
    }
    let mount = absolute(flags.mount.as_deref().unwrap_or(&sweep.out))?;
    let mut metadata = json!({ "name": resources.name });
    if let Some(namespace) = &flags.namespace {
        metadata["namespace"] = json!(namespace);
    }
    let container = json!({
        "name": "run",
        "image": flags.image,
        "command": sweep.command_of("isochrone", "$(JOB_COMPLETION_INDEX)"),
        "resources": { "requests": taken, "limits": limits },
        "volumeMounts": [{ "name": VOLUME, "mountPath": mount }],
    });
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": flags.parallelism.map_or(count.min(100), |most| most as usize),
            "backoffLimitPerIndex": resources.retries,
            "podFailurePolicy": { "rules": policy() },
            "template": { "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": GRACE,
                "containers": [container],
                "volumes": [
                    { "name": VOLUME, "persistentVolumeClaim": { "claimName": flags.claim } }
                ],
            } },
        },
    });
    serde_json::to_string_pretty(&job)
        .map_err(|error| Error::input(format!("the manifest cannot be written: {error}")))
}

/// Bad input and divergence are not tried again; a pod that was preempted or lost its node is, and
/// does not count.
fn policy() -> Value {
    json!([
        {
            "action": "FailIndex",
            "onExitCodes": { "containerName": "run", "operator": "In", "values": [2, 3] },
        },
        {
            "action": "Ignore",
            "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }],
        },
    ])
}
