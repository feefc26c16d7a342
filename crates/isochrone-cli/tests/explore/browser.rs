//! The page in a real browser: Debian's chromium, driven by playwright-core.
//!
//! `tests/explore/browser/install` installs both where they are missing and can be had.

use std::path::Path;
use std::process::Command;

use crate::served::{RUN, Served, at, said};

#[test]
fn the_page_works_in_a_browser() {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/explore/browser");
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/browser");
    let installed = Command::new(scripts.join("install")).arg(&tools).output();
    match installed {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let reason = String::from_utf8_lossy(&output.stderr);
            return eprintln!("skipped: {}", reason.lines().last().unwrap_or("no browser"));
        }
        Err(error) => return eprintln!("skipped: the browser cannot be installed: {error}"),
    }
    let page = at("browser.html");
    let run: &Path = &RUN;
    said(&["explore", run.to_str().unwrap(), "--export", page.to_str().unwrap()]);
    let (one, two) = (Served::new(&[&RUN]), Served::new(&[&RUN, &RUN]));
    let script = tools.join("test.mjs");
    std::fs::copy(scripts.join("test.mjs"), &script).unwrap();
    let output = Command::new("node")
        .arg(script)
        .args([&one.host, &two.host])
        .args([page.as_path(), &tools.join("pictures")])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
}
