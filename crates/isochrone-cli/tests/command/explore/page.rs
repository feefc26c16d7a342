//! The page: small, of itself alone, and whole in one exported file.

use std::process::Command;

use serde_json::Value;

use super::served::{RUN, Served, at, body_of};
use crate::program::said;

const FILES: [&str; 19] = [
    "/",
    "/style.css",
    "/iqe.js",
    "/model.js",
    "/field.js",
    "/colour.js",
    "/source.js",
    "/address.js",
    "/charts.js",
    "/svg.js",
    "/shapes.js",
    "/map.js",
    "/view.js",
    "/readings.js",
    "/drawing.js",
    "/questions.js",
    "/saving.js",
    "/choosing.js",
    "/app.js",
];

/// The name of SVG, which is no address that anything is fetched from.
const NAMESPACE: &str = "http://www.w3.org/2000/svg";

#[test]
fn the_page_is_small_and_asks_nobody_else() {
    let served = Served::new(&[&RUN]);
    let mut size = 0;
    for path in FILES {
        let (status, text) = served.get(path);
        assert_eq!(status, 200, "{path}");
        for header in
            ["X-Content-Type-Options: nosniff", "Content-Security-Policy: default-src 'none'"]
        {
            assert!(text.contains(header), "{path} lacks {header}");
        }
        assert!(!text.contains("Access-Control"), "{path}");
        let body = body_of(&text);
        size += body.len();
        assert!(!body.replace(NAMESPACE, "").contains("http://"), "{path}");
        assert!(!body.contains("https://"), "{path}");
    }
    assert!(size < 150_000, "{size} bytes");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), FILES.len());
}

#[test]
fn an_exported_page_is_whole() {
    let page = at("page.html");
    said(&["explore", RUN.to_str().unwrap(), "--export", page.to_str().unwrap()]);
    let text = std::fs::read_to_string(&page).unwrap();
    for outside in ["src=", "href=\"/", "import {", "import \"", "@import", "url("] {
        assert!(!text.replace("url(#", "").contains(outside), "{outside}");
    }
    assert!(!text.replace(NAMESPACE, "").contains("http://") && !text.contains("https://"));
    assert!(text.contains("default-src 'none'; script-src 'unsafe-inline'"));
    let data = text.split("id=\"offline\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    let run = &data["runs"][0];
    assert_eq!(run["about"]["algorithm"], "cmd1");
    // One script of all modules: their names must not meet.
    let script = text.split("<script type=\"module\">").nth(1).unwrap();
    let file = at("page.mjs");
    std::fs::write(&file, script.split("</script>").next().unwrap()).unwrap();
    match Command::new("node").arg("--check").arg(&file).output() {
        Ok(checked) => {
            assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr))
        }
        Err(_) => eprintln!("skipped: no node to check the exported script with"),
    }
    for key in ["map", "model", "trajectories", "curves", "audit", "calibration"] {
        assert!(run[key].is_object(), "{key}");
    }
}
