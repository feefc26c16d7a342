"""What is promised around the code: examples, stubs, what the wheel holds."""

import doctest
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import pytest
from conftest import FIXTURES

import isochrone
from isochrone import _isochrone


def documented():
    """Everything that has a docstring: compiled classes and their members, modules in Python."""
    import isochrone.worlds

    modules = [isochrone, isochrone.data, isochrone.exact, isochrone.worlds, isochrone._fit]
    for thing in [_isochrone.Dataset, _isochrone.Model, _isochrone.load]:
        yield thing.__name__, thing.__doc__
        for name, member in sorted(vars(thing).items() if isinstance(thing, type) else []):
            if not name.startswith("_"):
                yield f"{thing.__name__}.{name}", member.__doc__
    for module in modules:
        yield module.__name__, module.__doc__
        for name in getattr(module, "__all__", ["fit"]):
            member = getattr(module, name)
            if getattr(member, "__module__", None) == module.__name__:
                yield f"{module.__name__}.{name}", member.__doc__


def test_everything_public_has_a_docstring_and_its_examples_work(model):
    shutil.copy(FIXTURES / "model-format-1.safetensors", "model.safetensors")
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    for name, text in documented():
        assert text, f"{name} has no docstring"
        names = {"isochrone": isochrone, "numpy": numpy, "exact": isochrone.exact}
        names["model"] = isochrone.load("model.safetensors")
        runner.run(parser.get_doctest(text, names, name, None, 0))
    tried, failed = runner.summarize(verbose=False)[::-1]
    assert failed == 0 and tried > 25, f"{failed} of {tried} examples fail"


USE = """
import isochrone
from isochrone import Dataset, Model, exact, worlds

data: Dataset = Dataset.from_arrays([[0.0], [1.0]], terminals=[0, 1])
model: Model = isochrone.fit(data, "cmd1", steps=3, out="run", settings={"train.batch_size": 2})
violations: int = model.audit()["violations"]
rows: int = model.pairwise(data.observations, data.observations).shape[0]
names: list[str] = worlds.names()
steps = exact.distances([[0.0, 1.0], [0.0, 1.0]], 0.9)
found: int = isochrone.data.inspect("a.npz")["rows"]
"""


def test_the_stubs_hold_and_say_what_the_code_does():
    pytest.importorskip("mypy")
    Path("good.py").write_text(USE)
    Path("bad.py").write_text(USE + "\nmodel.stepss([0.0], [0.0])\nfound = data.rows + 'a'\n")
    check = [sys.executable, "-m", "mypy", "--strict"]
    for what in [["good.py"], ["-p", "isochrone"]]:
        good = subprocess.run([*check, *what], capture_output=True, text=True)
        assert good.returncode == 0, good.stdout
    bad = subprocess.run([*check, "bad.py"], capture_output=True, text=True)
    assert "Found 2 errors" in bad.stdout, bad.stdout
    words = [sys.executable, "-m", "mypy.stubtest", "isochrone", "--ignore-disjoint-bases"]
    stubs = subprocess.run(words, capture_output=True, text=True)
    assert stubs.returncode == 0, stubs.stdout


def test_the_wheel_holds_stubs_and_licences_and_needs_numpy_alone():
    wheel = os.environ.get("WHEEL")
    if wheel is None:
        pytest.skip("no WHEEL to look into")
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        metadata = next(name for name in names if name.endswith("METADATA"))
        text = file.read(metadata).decode()
    for expected in ["isochrone/py.typed", "isochrone/_isochrone.pyi"]:
        assert expected in names
    assert sum("LICENSE" in name for name in names) == 2
    needed = [line for line in text.splitlines() if line.startswith("Requires-Dist")]
    assert [line for line in needed if "extra" not in line] == ["Requires-Dist: numpy>=1.24"]


def test_the_package_works_without_gymnasium_and_scipy():
    code = """
import sys
sys.modules["gymnasium"] = sys.modules["scipy"] = None
import isochrone
assert isochrone.worlds.names()
isochrone.exact.distances([[1.0]], 0.9)
try:
    isochrone.worlds.World("pinwheel")
except ImportError as missing:
    print(missing)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install gymnasium" in told.stdout, told.stderr
