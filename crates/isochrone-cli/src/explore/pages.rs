//! The page's files, part of the command, and one self-contained page for export.

use serde_json::Value;

use super::http::Answer;

/// A file of the page: its address, its media type, its text.
type File = (&'static str, &'static str, &'static str);

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The page, its style, then the scripts: each uses only those before it.
pub const FILES: [File; 19] = [
    ("/", "text/html; charset=utf-8", include_str!("../../web/index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("../../web/style.css")),
    ("/iqe.js", SCRIPT, include_str!("../../web/iqe.js")),
    ("/model.js", SCRIPT, include_str!("../../web/model.js")),
    ("/field.js", SCRIPT, include_str!("../../web/field.js")),
    ("/colour.js", SCRIPT, include_str!("../../web/colour.js")),
    ("/source.js", SCRIPT, include_str!("../../web/source.js")),
    ("/address.js", SCRIPT, include_str!("../../web/address.js")),
    ("/charts.js", SCRIPT, include_str!("../../web/charts.js")),
    ("/svg.js", SCRIPT, include_str!("../../web/svg.js")),
    ("/shapes.js", SCRIPT, include_str!("../../web/shapes.js")),
    ("/map.js", SCRIPT, include_str!("../../web/map.js")),
    ("/view.js", SCRIPT, include_str!("../../web/view.js")),
    ("/readings.js", SCRIPT, include_str!("../../web/readings.js")),
    ("/drawing.js", SCRIPT, include_str!("../../web/drawing.js")),
    ("/questions.js", SCRIPT, include_str!("../../web/questions.js")),
    ("/saving.js", SCRIPT, include_str!("../../web/saving.js")),
    ("/choosing.js", SCRIPT, include_str!("../../web/choosing.js")),
    ("/app.js", SCRIPT, include_str!("../../web/app.js")),
];

/// The file at `path`.
pub fn file(path: &str) -> Option<Answer> {
    let (_, kind, text) = FILES.iter().find(|(at, ..)| *at == path)?;
    Some(Answer { status: 200, kind, body: text.as_bytes().to_vec(), headers: Vec::new() })
}

/// The whole page in one file, with `data` inside.
pub fn bundled(data: &Value) -> String {
    let of = |path: &str| FILES.iter().find(|(at, ..)| *at == path).map_or("", |file| file.2);
    let scripts = FILES.iter().filter(|(_, kind, _)| *kind == SCRIPT);
    let script: String = scripts.map(|(_, _, text)| joined(text)).collect();
    // Within a script, `<` could end it.
    let data = data.to_string().replace('<', "\\u003c");
    of("/")
        .replace(
            "<link rel=\"stylesheet\" href=\"/style.css\">",
            &format!("{POLICY}<style>\n{}</style>", of("/style.css")),
        )
        .replace(
            "<script type=\"module\" src=\"/app.js\"></script>",
            &format!(
                "<script type=\"application/json\" id=\"offline\">{data}</script>\n\
                 <script type=\"module\">\n{script}</script>"
            ),
        )
}

/// Nothing is fetched by an exported page.
const POLICY: &str = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:\">\n";

/// A module as a part of one script: without imports, and with its exports as plain names.
fn joined(module: &str) -> String {
    let lines = module.lines().filter(|line| !line.starts_with("import "));
    lines.map(|line| format!("{}\n", line.strip_prefix("export ").unwrap_or(line))).collect()
}
