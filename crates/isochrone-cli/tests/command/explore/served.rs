//! Runs to explore, servers of them, and requests byte by byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use isochrone::data::{Dataset, npz};
use serde_json::Value;

use crate::program::said;

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// A run of a few updates in a world.
pub static RUN: LazyLock<PathBuf> = LazyLock::new(|| trained("run", &["pinwheel"]));

/// A run of three values per state, without actions, from a file.
pub static STATES: LazyLock<PathBuf> = LazyLock::new(|| {
    let logs = at("logs.npz");
    let angle = |row: usize| 0.7 * (row / 30) as f32 + 0.1 * (row % 30) as f32;
    let states = (0..900).flat_map(|row| [row as f32 * 1e-4, angle(row).cos(), angle(row).sin()]);
    npz::write(&logs, &Dataset::new(states.collect(), 3, None, &[30; 30]).unwrap()).unwrap();
    let set = ["--set", "algorithm.critic=state", "--set", "algorithm.extraction.name=none"];
    trained("states", &[&[logs.to_str().unwrap()], &set[..]].concat())
});

/// A run of two values per state, without actions, from a file: walks along a circle around the world of
/// [`RUN`].
pub static CIRCLE: LazyLock<PathBuf> = LazyLock::new(|| {
    let file = at("circle.npz");
    let angle = |row: usize| 0.7 * (row / 30) as f32 + 0.1 * (row % 30) as f32;
    let states = (0..900).flat_map(|row| [5.0 * angle(row).cos(), 5.0 * angle(row).sin()]);
    npz::write(&file, &Dataset::new(states.collect(), 2, None, &[30; 30]).unwrap()).unwrap();
    let set = ["--set", "algorithm.critic=state", "--set", "algorithm.extraction.name=none"];
    trained("circle", &[&[file.to_str().unwrap()], &set[..]].concat())
});

/// A run of an ant in a maze: 29 values per state, 8 per action.
pub static ANT: LazyLock<PathBuf> = LazyLock::new(|| {
    let file = at("ant.npz");
    // Ten times around a free corner of the maze, each time farther out, while legs swing.
    let swing = |row: usize, joint: usize| 0.5 * (0.9 * (row % 60) as f32 + joint as f32).sin();
    let state = |row: usize| {
        let (angle, radius) = (0.1 * (row % 60) as f32, 1.5 + 0.05 * (row / 60) as f32);
        let place = [2.0 + radius * angle.cos(), 2.0 + radius * angle.sin()];
        place.into_iter().chain((2..29).map(move |joint| swing(row, joint)))
    };
    let actions = (0..600).flat_map(|row| (0..8).map(move |joint| swing(row, joint))).collect();
    let states = (0..600).flat_map(state).collect();
    let recording = Dataset::new(states, 29, Some((actions, 8)), &[60; 10]).unwrap();
    npz::write(&file, &recording).unwrap();
    let folder = trained("ant", &[file.to_str().unwrap()]);
    // A run that names its world evaluates in the simulator, which may be missing here: name it now.
    let config = std::fs::read_to_string(folder.join("config.toml")).unwrap();
    let named = config.replace("[data]", "[data]\nrecorded_in = \"antmaze-medium-navigate\"");
    std::fs::write(folder.join("config.toml"), named).unwrap();
    folder
});

/// A folder for the files of tests.
pub fn at(name: &str) -> PathBuf {
    FOLDER.path().join(name)
}

/// A run of a few updates.
pub fn trained(name: &str, words: &[&str]) -> PathBuf {
    let folder = at(name);
    let usual = ["train", "--algorithm", "cmd1", "--set", "train.steps=20"];
    let small = ["--set", "data.episodes=40", "--out", folder.to_str().unwrap()];
    let small = if words[0].ends_with(".npz") { &small[2..] } else { &small[..] };
    said(&[&usual[..], words, small].concat());
    folder
}

/// A server, which ends with it.
pub struct Served {
    child: Child,
    /// Address and port.
    pub host: String,
    /// What follows the address: empty, or a token.
    pub query: String,
}

impl Served {
    pub fn new(runs: &[&Path]) -> Self {
        Self::with(runs, &[])
    }

    pub fn with(runs: &[&Path], words: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_isochrone"))
            .arg("explore")
            .args(runs)
            .args(["--port", "0", "--no-open"])
            .args(words)
            // No simulator, whatever this machine has.
            .env("MUJOCO_LIB", "nowhere.so")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let link = line.trim().rsplit(' ').next().unwrap().strip_prefix("http://").unwrap();
        let (host, query) = link.split_once('/').unwrap();
        Self { child, host: host.to_owned(), query: query.to_owned() }
    }

    pub fn connect(&self) -> TcpStream {
        let port = self.host.rsplit(':').next().unwrap();
        TcpStream::connect(format!("127.0.0.1:{port}")).unwrap()
    }

    /// Sends bytes and no more; the status and the whole answer.
    pub fn raw(&self, bytes: &[u8]) -> (u16, String) {
        let mut stream = self.connect();
        // A server that has answered early may have closed the connection already.
        stream.write_all(bytes).ok();
        stream.shutdown(std::net::Shutdown::Write).ok();
        answer(stream)
    }

    /// A request with headers; the status and the whole answer.
    pub fn request(&self, line: &str, headers: &str, body: &str) -> (u16, String) {
        let host = &self.host;
        let length = body.len();
        self.raw(
            format!(
                "{line} HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: {length}\r\n\
                 Connection: close\r\n\r\n{body}"
            )
            .as_bytes(),
        )
    }

    pub fn get(&self, path: &str) -> (u16, String) {
        self.request(&format!("GET {path}"), "", "")
    }

    pub fn post(&self, path: &str, body: &str) -> (u16, Value) {
        let (status, text) =
            self.request(&format!("POST {path}"), "Content-Type: application/json\r\n", body);
        (status, serde_json::from_str(body_of(&text)).unwrap())
    }

    /// What a question is answered with.
    #[track_caller]
    pub fn asked(&self, path: &str, body: &Value) -> Value {
        let (status, value) = self.post(path, &body.to_string());
        assert_eq!(status, 200, "{value}");
        value
    }

    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none() && self.get("/api/runs").0 == 200
    }

    /// Memory in use, in kilobytes, where the system tells.
    pub fn memory(&self) -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = text.lines().find(|line| line.starts_with("VmRSS:"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Reads an answer to its end.
pub fn answer(mut stream: TcpStream) -> (u16, String) {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    (status, text)
}

pub fn body_of(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}
