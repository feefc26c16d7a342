//! The explorer's page reads every form of distance as the library does.

use std::path::Path;

use serde_json::{Value, json};

use crate::models::{STATE, assert_near, models, points};
use crate::questions::succeeds;

/// Reads every model of a folder with the page's own module: steps of pairs, and of a map's cells.
const ASK: &str = "
import fs from 'node:fs';
const [folder, module] = process.argv.slice(-2);
const { Distance, embeddedCells } = await import(module);
const { from, to, outside } = JSON.parse(fs.readFileSync(`${folder}/questions.json`));
const answers = {};
for (const name of fs.readdirSync(folder).filter((name) => name.endsWith('.safetensors'))) {
  const raw = fs.readFileSync(`${folder}/${name}`);
  const size = Number(raw.readBigUInt64LE(0));
  const header = JSON.parse(raw.subarray(8, 8 + size));
  const tensor = (key) => raw.subarray(...(header[key]?.data_offsets ?? [0, 0]).map((at) => 8 + size + at)).toString('base64');
  const shape = JSON.parse(header.__metadata__.shape);
  const distance = new Distance({
    shape, distance: tensor('distance'), stored_actions: tensor('stored_actions'), directions: tensor('features.directions'),
  });
  const cells = from.map((state) => distance.embed(state));
  const joined = distance.copies.map((_, at) => {
    const rows = (side) => Float64Array.from(cells.flatMap((cell) => [...cell[at][side]]));
    return { from: rows('from'), to: rows('to'), fromWidth: cells[0][at].from.length, toWidth: cells[0][at].to.length };
  });
  const filled = (goal, towards) => {
    const out = new Float64Array(from.length);
    distance.fill(joined, from.length, distance.embed(goal), towards, out);
    return [...out];
  };
  answers[name] = {
    steps: from.map((state, at) => distance.steps(state, to[at])),
    to: filled(to[0], true), from: filled(to[0], false),
    outTo: filled(outside, true), outFrom: filled(outside, false), again: filled(to[0], true),
  };
}
fs.writeFileSync(`${folder}/answers.json`, JSON.stringify(answers));
";

#[test]
fn the_page_reads_every_form() {
    let node = Path::new("node");
    if !succeeds(node, &["--version"]) {
        eprintln!("skipped: no node to run the page's scripts with");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let count = 100;
    let (from, to) = (points(count, 5), points(count, 6));
    let rows = |values: &[f32]| -> Vec<Vec<f32>> {
        values.chunks_exact(STATE).map(<[f32]>::to_vec).collect()
    };
    // Far beyond the cells of the map.
    let outside: Vec<f32> = to[..STATE].iter().map(|value| 40.0 * value).collect();
    let asked = json!({ "from": rows(&from), "to": rows(&to), "outside": outside });
    std::fs::write(at("questions.json"), asked.to_string()).unwrap();
    let models: Vec<_> = models().into_iter().filter(|(_, model)| model.has_distance()).collect();
    for (index, (_, model)) in models.iter().enumerate() {
        model.save(at(&format!("{index}.safetensors"))).unwrap();
    }
    std::fs::write(at("ask.mjs"), ASK).unwrap();
    // Node knows modules by what their folder says, browsers by the tag that asks for them.
    std::fs::write(at("package.json"), r#"{"type":"module"}"#).unwrap();
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../isochrone-cli/web");
    for name in ["model.js", "iqe.js"] {
        std::fs::copy(web.join(name), at(name)).unwrap();
    }
    let (script, copy) = (at("ask.mjs"), at("model.js"));
    let words = [&*script, folder.path(), &*copy].map(|path| path.to_str().unwrap());
    assert!(succeeds(node, &words));
    let answers = std::fs::read_to_string(at("answers.json")).unwrap();
    let answers: Value = serde_json::from_str(&answers).unwrap();
    for (index, (name, model)) in models.iter().enumerate() {
        // In nats, the unit in which a network's rounding does not depend on the discount.
        let unit = (1.0 / model.shape().discount).ln();
        let found = &answers[format!("{index}.safetensors")];
        let compare = |key: &str, from: &[f32], to: &[f32]| {
            let steps = found[key].as_array().unwrap().iter();
            let nats: Vec<f64> = steps.map(|steps| steps.as_f64().unwrap() * unit).collect();
            let expected = model.steps(from, to).unwrap();
            let expected: Vec<f32> =
                expected.iter().map(|&steps| (f64::from(steps) * unit) as f32).collect();
            assert_near(&format!("{name}: {key}"), &nats, &expected);
        };
        let goal = &to[..STATE];
        compare("steps", &from, &to);
        compare("to", &from, goal);
        compare("from", &goal.repeat(count), &from);
        compare("outTo", &from, &outside);
        compare("outFrom", &outside.repeat(count), &from);
        compare("again", &from, goal);
    }
}
