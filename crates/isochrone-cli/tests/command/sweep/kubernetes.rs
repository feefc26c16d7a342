//! The manifest of a job against the schema that Kubernetes publishes, and a job whose pods are
//! processes of this machine.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use super::{FOLDER, compare, same, told};

/// The part of the published schema of `batch/v1 Job` (Kubernetes 1.33, strict) that a manifest meets:
/// all names of keys, and the types of those that are used.
const SCHEMA: &str = include_str!("job.schema.json");

/// What stands in for `kubectl`: `apply` runs the command of every index, four at a time.
const KUBECTL: &str = r#"#!/usr/bin/env python3
import json, pathlib, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
state = pathlib.Path(__file__).with_name("job")
verb = sys.argv[1]
if verb == "get":
    print(state.read_text() if state.exists() else "", end="")
elif verb == "apply":
    job = json.loads(pathlib.Path(sys.argv[3]).read_text())
    name, spec = job["metadata"]["name"], job["spec"]
    state.write_text(name + " ")
    command = spec["template"]["spec"]["containers"][0]["command"]
    def run(index):
        words = [word.replace("$(JOB_COMPLETION_INDEX)", str(index)) for word in command]
        subprocess.run(words, check=True)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(spec["completions"])))
    state.write_text(name + " Complete ")
"#;

/// What is wrong with a value, by the names of its keys.
fn wrong(value: &Value, schema: &Value, place: &str) -> Vec<String> {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let mut found = Vec::new();
    let allowed = match &schema["type"] {
        Value::String(one) => one == kind,
        Value::Array(several) => several.iter().any(|one| one == kind),
        _ => false,
    };
    if !allowed {
        found.push(format!("{place} is {kind}, expected {}", schema["type"]));
    }
    if let Some(known) = schema["enum"].as_array()
        && !known.contains(value)
    {
        found.push(format!("{place} is {value}"));
    }
    for key in schema["required"].as_array().into_iter().flatten() {
        if value.get(key.as_str().unwrap()).is_none() {
            found.push(format!("{place} has no {key}"));
        }
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        let place = format!("{place}.{key}");
        match schema["properties"].get(key).or(schema.get("additionalProperties")) {
            Some(schema) => found.extend(wrong(inner, schema, &place)),
            None => found.push(format!("{place} is unknown")),
        }
    }
    for inner in value.as_array().into_iter().flatten() {
        found.extend(wrong(inner, &schema["items"], &format!("{place}[]")));
    }
    found
}

#[test]
fn the_manifest_fits_the_published_schema() {
    let out = FOLDER.path().join("manifest");
    let flags = ["--engine", "kubernetes", "--image", "iso:1", "--claim", "runs", "--dry-run"];
    let more = ["--gpus", "1", "--memory", "4 GiB", "--namespace", "lab", "--parallelism", "3"];
    let [text, _] = told(compare(&out, &[&flags[..], &more].concat()).output().unwrap(), 0);
    let job: Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    assert_eq!(wrong(&job, &schema, "job"), Vec::<String>::new());
    let spec = &job["spec"];
    assert_eq!((&spec["completions"], &spec["parallelism"]), (&12.into(), &3.into()));
    // The check notices what Kubernetes would refuse.
    for (place, value) in [
        ("/spec/completions", Value::from("12")),
        ("/spec/template/spec/containers", Value::from("run")),
        ("/spec/podFailurePolicy/rules/0/onExitCodes/operator", Value::Null),
    ] {
        let mut broken = job.clone();
        *broken.pointer_mut(place).unwrap() = value;
        assert_eq!(wrong(&broken, &schema, "job").len(), 1, "{place}");
    }
    let mut broken = job.clone();
    broken["spec"]["completion"] = 12.into();
    assert_eq!(wrong(&broken, &schema, "job"), ["job.spec.completion is unknown"]);
}

#[test]
fn a_job_of_kubernetes_ends_all_runs_with_the_same_bytes() {
    let tools = tempfile::tempdir().unwrap();
    let kubectl = tools.path().join("kubectl");
    std::fs::write(&kubectl, KUBECTL).unwrap();
    std::fs::set_permissions(&kubectl, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = tools.path().join("isochrone");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_isochrone"), program).unwrap();
    let path = format!("{}:{}", tools.path().display(), std::env::var("PATH").unwrap());
    let out = FOLDER.path().join("kubernetes");
    let flags = ["--engine", "kubernetes", "--image", "iso:1", "--claim", "runs"];
    told(compare(&out, &flags).env("PATH", path).output().unwrap(), 0);
    same(&out);
}
