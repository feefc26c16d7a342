//! `examples/model.py`, which needs numpy alone, reads every form of distance and every policy.

use std::path::Path;

use crate::models::models;
use crate::questions::{Questions, succeeds};

/// Loads every model of a folder and answers its questions.
const ASK: &str = "
import glob, sys
import numpy
sys.path.insert(0, sys.argv[1])
from model import Model
asked = numpy.load(sys.argv[2] + '/questions.npz')
for path in glob.glob(sys.argv[2] + '/*.safetensors'):
    model = Model(path)
    answers = {}
    if model.nats:
        answers['steps'] = model.steps(asked['from'], asked['to'])
    if model.policy:
        answers['action'] = model.act(asked['from'], asked['to'])
    numpy.savez(path.replace('.safetensors', '.npz'), **answers)
";

#[test]
fn a_loader_of_numpy_alone_reads_every_form() {
    let python = Path::new("python3");
    if !succeeds(python, &["-c", "import numpy"]) {
        eprintln!("skipped: no python3 with numpy to read models with");
        return;
    }
    let (questions, models) = (Questions::new(300), models());
    for (at, (_, model)) in models.iter().enumerate() {
        model.save(questions.folder.path().join(format!("{at}.safetensors"))).unwrap();
    }
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    questions.ask(python, ASK, &examples);
    for (at, (name, model)) in models.iter().enumerate() {
        questions.check(at, name, model);
    }
}
