//! ONNX files pass ONNX's own checker and answer in ONNX Runtime as our models do.

use std::path::Path;

use isochrone::onnx::export;

use crate::models::models;
use crate::questions::{Questions, python_with};

/// Checks every ONNX file of a folder and answers its questions, all at once and one row alone.
const ASK: &str = "
import glob, sys
import numpy, onnx, onnxruntime
asked = numpy.load(sys.argv[2] + '/questions.npz')
asked = {'observation': asked['from'], 'goal': asked['to']}
for path in glob.glob(sys.argv[2] + '/*.onnx'):
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version == 8 and [o.version for o in model.opset_import] == [18]
    facts = {entry.key: entry.value for entry in model.metadata_props}
    assert facts['unit'] == 'steps' and facts['discount'] == '0.9', facts
    session = onnxruntime.InferenceSession(path, providers=['CPUExecutionProvider'])
    names = [output.name for output in session.get_outputs()]
    assert ','.join(names) == facts['outputs'], facts
    answers = dict(zip(names, session.run(names, asked)))
    alone = session.run(names, {key: rows[:1] for key, rows in asked.items()})
    for name, one in zip(names, alone):
        assert numpy.allclose(one, answers[name][:1], rtol=1e-5, atol=1e-5), (path, name)
    numpy.savez(path.replace('.onnx', '.npz'), **answers)
";

#[test]
fn onnx_runtime_answers_as_the_model_does_for_every_form_and_law() {
    let Some(python) = python_with(&["onnx", "onnxruntime"]) else {
        eprintln!("skipped: no python3, or onnx and onnxruntime cannot be installed from PyPI");
        return;
    };
    let (questions, models) = (Questions::new(10_000), models());
    for (at, (_, model)) in models.iter().enumerate() {
        let path = questions.folder.path().join(format!("{at}.onnx"));
        std::fs::write(path, export(model).unwrap()).unwrap();
    }
    questions.ask(&python, ASK, Path::new("."));
    for (at, (name, model)) in models.iter().enumerate() {
        questions.check(at, name, model);
    }
}
