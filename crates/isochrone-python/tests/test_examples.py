"""The code in the documents and the notebook."""

import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT


@pytest.mark.parametrize("name", ["README.md", "docs/python.md", "crates/isochrone-python/README.md"])
def test_the_python_of_the_documents_runs(name, tmp_path):
    blocks = (ROOT / name).read_text().split("```python\n")[1:]
    rows = np.zeros((4, 2))
    names = {"numpy": np, "states": rows, "actions": rows, "terminals": np.array([0, 1, 0, 1])}
    for block in blocks:
        exec(compile(block.split("```")[0], name, "exec"), names)
    assert blocks


def test_the_notebook_is_the_quickstart_and_runs(tmp_path):
    check = [sys.executable, ROOT / "scripts/notebook", "--check"]
    made = subprocess.run(check, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(ROOT / "examples/quickstart.ipynb", as_version=4)
    nbformat.validate(notebook)
    # Whether it learns well, the script shows; here it only has to run.
    for cell in notebook.cells:
        cell.source = cell.source.replace("steps=1000", "steps=20")
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": tmp_path}}).execute()
    page, _ = pytest.importorskip("nbconvert").HTMLExporter().from_notebook_node(notebook)
    assert "From recorded trajectories" in page and "data:image/png;base64," in page
    assert "updates [########################] 20/20" in page
