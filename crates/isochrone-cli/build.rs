//! Writes the commit that the command is built from into it, as `ISOCHRONE_COMMIT`.

use std::path::Path;
use std::process::Command;

/// What the command is built of, from the root of the checkout.
const BUILT_OF: [&str; 3] = ["crates", "Cargo.toml", "Cargo.lock"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    if let Some(commit) = checkout.and_then(commit) {
        println!("cargo:rustc-env=ISOCHRONE_COMMIT={commit}");
    }
}

/// The commit of `checkout`, and whether what is built has changed since; `None` if it is no
/// checkout, such as a package that lies inside another one.
fn commit(checkout: &Path) -> Option<String> {
    let git = |words: &[&str]| {
        let output = Command::new("git").arg("-C").arg(checkout).args(words).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let root = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&root).canonicalize().ok()? != checkout.canonicalize().ok()? {
        return None;
    }
    let watched = BUILT_OF.iter().map(|name| checkout.join(name));
    let heads = ["HEAD", "logs/HEAD"].map(|name| git(&["rev-parse", "--git-path", name]));
    let heads = heads.into_iter().flatten().map(|path| checkout.join(path));
    for path in watched.chain(heads).filter(|path| path.exists()) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let status = ["status", "--porcelain", "--untracked-files=no", "--"];
    let changed = git(&[&status[..], &BUILT_OF].concat())?;
    Some(if changed.is_empty() { commit } else { format!("{commit} with changes") })
}
