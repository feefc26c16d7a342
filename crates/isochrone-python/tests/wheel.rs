//! The wheel: built by maturin, installed in a virtual environment, tested there with pytest.
//!
//! The environment is made under the target folder and kept as long as the requirements and the
//! interpreter stay the same. Where Python, pip or the network is missing, a line says so.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// No wheel is larger than this.
const LARGEST: u64 = 15_000_000;

fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A folder of this test that outlives it.
fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("python").join(name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a command prints; where it fails, the last line of its errors.
fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let Output { status, stdout, stderr } =
        command.output().map_err(|error| format!("{name}: {error}"))?;
    if status.success() {
        return Ok(text(&stdout));
    }
    let told = text(&stderr);
    let last = told.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    Err(format!("{name}: {last}"))
}

/// A virtual environment with everything in `requirements`, made by `make` where there is none that fits.
fn environment(
    name: &str,
    requirements: &str,
    make: impl Fn(&Path, &Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let old =
        "import sys; print(sys.version); sys.exit('too old' if sys.version_info < (3, 10) else 0)";
    let version = run(Command::new("python3").args(["-c", old]))?;
    let (folder, wanted) = (kept(name), format!("{version}{requirements}"));
    let (python, stamp) = (folder.join("bin/python"), folder.join("made-of.txt"));
    if std::fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) && python.exists() {
        return Ok(python);
    }
    std::fs::create_dir_all(kept("")).unwrap();
    let list = kept(&format!("{name}-requirements.txt"));
    std::fs::write(&list, requirements).unwrap();
    make(&folder, &list)?;
    std::fs::write(&stamp, wanted).unwrap();
    Ok(python)
}

/// Maturin and uv, made once.
fn tools() -> Result<PathBuf, String> {
    static TOOLS: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let make = |folder: &Path, list: &Path| {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
        let words = ["-m", "pip", "install", "--quiet", "-r"];
        run(Command::new(folder.join("bin/python")).args(words).arg(list)).map(drop)
    };
    TOOLS.get_or_init(|| environment("build", &(maturin() + "uv\n"), make)).clone()
}

/// An environment made by uv, which takes a sixth of pip's time.
fn quick_environment(name: &str, requirements: &str) -> Result<PathBuf, String> {
    let tools = tools()?;
    let uv = || {
        let mut command = Command::new(&tools);
        command.env("UV_CACHE_DIR", kept("uv")).args(["-m", "uv"]);
        command
    };
    environment(name, requirements, |folder, list| {
        let words = ["venv", "--quiet", "--clear", "--seed", "--python", "python3"];
        run(uv().args(words).arg(folder))?;
        let words = ["pip", "install", "--quiet", "--python"];
        run(uv().args(words).arg(folder.join("bin/python")).arg("-r").arg(list)).map(drop)
    })
}

fn text_of(file: &str) -> String {
    std::fs::read_to_string(here().join(file)).unwrap()
}

/// The maturin that `pyproject.toml` asks for.
fn maturin() -> String {
    let project = text_of("pyproject.toml");
    let wanted = |line: &str| {
        Some(line.strip_prefix("requires = [\"")?.strip_suffix("\"]")?.to_owned() + "\n")
    };
    project.lines().find_map(wanted).unwrap()
}

/// A cargo that finds everything as this test's own build left it: maturin describes the interpreter
/// in variables, which make no difference to the stable ABI but would build PyO3 again, twice per test.
fn cargo() -> PathBuf {
    const VARIABLES: &str =
        "PYO3_CONFIG_FILE PYO3_PYTHON PYO3_ENVIRONMENT_SIGNATURE PYO3_BUILD_EXTENSION_MODULE";
    let script = kept("cargo");
    let text = format!("#!/bin/sh\nunset {VARIABLES}\nexec '{}' \"$@\"\n", env!("CARGO"));
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    script
}

/// The words of the README's `maturin build`, but for the folder that the wheel goes to.
fn build_words() -> Vec<String> {
    let readme = text_of("../../README.md");
    let line = readme.lines().find(|line| line.starts_with("maturin build ")).unwrap();
    let words = line.strip_suffix(" --out wheels").unwrap().split_whitespace();
    words.skip(1).map(str::to_owned).collect()
}

/// Builds the wheel as the README says, in the target folder of this build.
fn build(python: &Path) -> Result<PathBuf, String> {
    let folder = kept("wheels");
    std::fs::remove_dir_all(&folder).ok();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let built = Command::new(python)
        .args(["-m", "maturin"])
        .args(build_words())
        .args([Path::new("--interpreter"), python, Path::new("--out"), &folder])
        .args([Path::new("--target-dir"), target])
        .current_dir(here().join("../.."))
        .env("CARGO", cargo())
        .output()
        .map_err(|error| error.to_string())?;
    let told = text(&built.stderr);
    // Crates that only other platforms need may be missing without a network.
    if told.contains("Cargo metadata failed") {
        return Err("maturin: cargo cannot fetch the list of all crates".into());
    }
    assert!(built.status.success(), "{told}");
    let mut files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let (found, others) = (files.next().unwrap(), files.count());
    assert_eq!(others, 0, "more than one wheel");
    Ok(found)
}

/// The wheel, built once.
fn wheel() -> Result<PathBuf, String> {
    static WHEEL: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    WHEEL.get_or_init(|| build(&tools()?)).clone()
}

/// What a test needs; without it, a line says why.
fn or_skipped<T>(made: Result<T, String>) -> Option<T> {
    made.map_err(|reason| eprintln!("skipped: {reason}")).ok()
}

fn install(python: &Path, wheel: &Path) -> Result<(), String> {
    let words = ["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps"];
    run(Command::new(python).args(words).arg(wheel)).map(drop)
}

#[test]
fn the_wheel_passes_its_tests_in_python() {
    // Installed while the other test builds the wheel.
    let made = quick_environment("venv", &text_of("tests/requirements.txt"));
    let Some((python, wheel)) = or_skipped(made.and_then(|python| Ok((python, wheel()?)))) else {
        return;
    };
    let size = std::fs::metadata(&wheel).unwrap().len();
    assert!(size < LARGEST, "{} has {size} bytes", wheel.display());
    let name = wheel.file_name().unwrap().to_string_lossy().into_owned();
    assert!(name.contains("-cp310-abi3-"), "{name} is not of the stable ABI from 3.10 on");
    install(&python, &wheel).unwrap();
    let tested = Command::new(&python)
        .args(["-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"])
        .args(["-W", "error::pytest.PytestWarning"])
        .arg(here().join("tests"))
        .env("WHEEL", &wheel)
        .env("MYPY_CACHE_DIR", kept("mypy"))
        .env("PYTHONPYCACHEPREFIX", kept("bytecode"))
        .env_remove("PYTHONDONTWRITEBYTECODE")
        .current_dir(kept(""))
        .output()
        .unwrap();
    assert!(tested.status.success(), "{}\n{}", text(&tested.stdout), text(&tested.stderr));
}

#[test]
fn the_quickstart_runs_with_the_wheel_and_numpy_alone() {
    let made = wheel().and_then(|wheel| Ok((wheel, quick_environment("fresh", "numpy\n")?)));
    let Some((wheel, python)) = or_skipped(made) else { return };
    install(&python, &wheel).unwrap();
    let folder = kept("quickstart");
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir(&folder).unwrap();
    let script = here().join("../../examples/quickstart.py");
    let told = run(Command::new(&python).arg(script).current_dir(&folder)).unwrap();
    for name in ["map.png", "map.svg", "rooms.onnx", "rooms.safetensors"] {
        assert!(folder.join(name).metadata().unwrap().len() > 10_000, "{name}: {told}");
    }
    let reached = told.lines().find_map(|line| line.strip_prefix("reached ")).unwrap();
    let count: usize = reached.split(' ').next().unwrap().parse().unwrap();
    assert!(count >= 25, "{told}");
}
