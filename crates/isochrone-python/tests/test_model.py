"""Training, and questions to a model."""

import importlib
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import FIXTURES, ROOT, SMALL, circle

import isochrone
from isochrone import Dataset


def test_answers_have_the_shape_of_the_question(model):
    one, many = [1.0, 0.0], circle(1, 7)[0][0]
    assert isinstance(model.steps(one, one), float) and model.steps(one, one) == 0.0
    assert model.steps(many, one).shape == model.steps(one, many).shape == (7,)
    assert model.steps(many, many).tolist() == [0.0] * 7
    assert model.steps([one], one).shape == (1,)
    assert model.act(one, one).shape == (2,) and model.act(many, one).shape == (7, 2)
    assert model.act(many, one).dtype == np.float32
    assert model.pairwise(many, many[:3]).shape == (7, 3)
    assert isinstance(model.novelty(one), float) and model.novelty(many).shape == (7,)
    empty = np.zeros((0, 2))
    assert model.steps(empty, one).shape == (0,) and model.act(empty, one).shape == (0, 2)
    assert model.steps(empty, empty).shape == (0,) and model.novelty(empty).shape == (0,)
    assert model.pairwise(empty, many).shape == (0, 7)
    assert model.pairwise(many, empty).shape == (7, 0)


def test_one_question_has_one_answer_however_it_is_asked(model):
    states = circle(4, 9)[0].reshape(-1, 2)
    table = model.pairwise(states, states)
    for column, goal in enumerate(states):
        assert np.allclose(model.steps(states, goal), table[:, column], rtol=1e-5, atol=1e-4)
    assert np.allclose(model.steps(states[0], states), table[0], rtol=1e-5, atol=1e-4)
    assert np.allclose(
        model.distance(states, states[0]),
        model.steps(states, states[0]) * np.log(1 / model.discount),
        rtol=1e-6,
    )
    wide = np.zeros((36, 4))
    wide[:, ::2] = states
    narrow = states.astype(np.float32)
    expected = model.steps(narrow, narrow[5]), model.act(narrow, narrow[5])
    unaligned = np.frombuffer(b"x" + narrow.tobytes(), np.float32, offset=1).reshape(-1, 2)
    layouts = [states, np.asfortranarray(states), wide[:, ::2], states.tolist(), narrow]
    for given in [*layouts, unaligned, narrow.astype(">f4"), narrow.astype(np.longdouble)]:
        assert np.array_equal(model.steps(given, narrow[5]), expected[0])
        assert np.array_equal(model.act(given, narrow[5]), expected[1])
    assert np.array_equal(model.steps(narrow[::-1], narrow[5]), expected[0][::-1])


@pytest.mark.parametrize("ask", ["steps", "distance", "pairwise", "act", "plan"])
def test_what_cannot_be_answered_is_refused(model, ask):
    ask = getattr(model, ask)
    for start, goal, words in [
        ([1.0, 0.0, 0.0], [1.0, 0.0], "shape (3,), expected (2,) or (rows, 2)"),
        ([1.0, 0.0], [1.0], "shape (1,)"),
        (1.0, [1.0, 0.0], "shape ()"),
        ([[np.nan, 0.0]], [1.0, 0.0], "row 0 has `NaN`"),
        ([1.0, np.inf], [1.0, 0.0], "row 0 has `inf`"),
        ("here", [1.0, 0.0], "expected numbers"),
        (None, [1.0, 0.0], "expected numbers"),
        ([1j, 0], [1.0, 0.0], "expected numbers"),
    ]:
        with pytest.raises(ValueError) as error:
            ask(start, goal)
        assert words in str(error.value)
    if ask.__name__ != "pairwise":
        with pytest.raises(ValueError):
            ask(np.zeros((3, 2)), np.zeros((2, 2)))


def test_a_model_goes_through_a_file(model, tmp_path):
    model.save(tmp_path / "model.safetensors")
    again = isochrone.load(tmp_path / "model.safetensors")
    states = circle(2, 9)[0].reshape(-1, 2)
    assert np.array_equal(model.pairwise(states, states), again.pairwise(states, states))
    assert repr(again) == repr(model) and again.config_toml is None
    with pytest.raises(ValueError, match="contains no data"):
        again.audit()
    with pytest.raises(OSError, match="cannot"):
        model.save(tmp_path / "no" / "such" / "model.safetensors")


@pytest.mark.parametrize("learner, head", [
    ("cmd1", {"kind": "mrn", "components": 4}),
    ("cmd1", {"kind": "max"}),
    ("cmd1", {"kind": "iqe"}),
    ("cmd1", {"kind": "pqe"}),
    ("cmd1", {"kind": "wide-norm"}),
    ("cmd1", {"kind": "deep-norm"}),
    ("atlas", {"kind": "iqe", "latent": 256}),
])
def test_all_pairs_have_the_formula_of_the_format_to_a_millionth(walks, learner, head, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    formula = importlib.import_module("model")
    model = isochrone.fit(walks, learner, steps=100, settings={**SMALL, "algorithm.head": head})
    model.save("model.safetensors")
    states = np.random.default_rng(0).uniform(-1, 1, (120, 2)).astype(np.float32)
    starts, goals = np.repeat(states, 120, 0), np.tile(states, (120, 1))
    expected = formula.Model("model.safetensors").steps(starts, goals).reshape(120, 120)
    assert np.abs(model.pairwise(states, states) - expected).max() < 1e-6 * expected.max()


def test_more_pairs_than_memory_are_refused(model):
    states = np.zeros((10_000_000, 2), np.float32)
    with pytest.raises(RuntimeError, match="10000000 × 10000000 distances do not fit in memory"):
        model.pairwise(states, states)


def test_files_that_are_no_models_are_refused(model, tmp_path):
    good = tmp_path / "model.safetensors"
    model.save(good)
    bytes_ = good.read_bytes()
    (tmp_path / "short.safetensors").write_bytes(bytes_[: len(bytes_) // 2])
    (tmp_path / "text.safetensors").write_text("hello")
    (tmp_path / "newer.safetensors").write_bytes(bytes_.replace(b'"format":"1"', b'"format":"9"'))
    for name in ["short.safetensors", "text.safetensors", "newer.safetensors", "absent"]:
        with pytest.raises(ValueError, match=name):
            isochrone.load(tmp_path / name)
    with pytest.raises(ValueError):
        isochrone.load(FIXTURES / "checkpoint-format-1.safetensors")
    assert isochrone.load(FIXTURES / "model-format-1.safetensors").has_distance


def test_a_plan_an_audit_and_a_calibration_use_the_data(model, walks):
    plan = model.plan([1.0, 0.0], [0.0, 1.0])
    assert plan["arrived"] and plan["states"].shape[1] == 2
    assert np.allclose(plan["states"][[0, -1]], [[1, 0], [0, 1]])
    assert model.plan([1.0, 0.0], [0.0, 1.0], walks)["steps"] == plan["steps"]
    found = model.audit(triples=1_000)
    assert found["violations"] == 0 and found["triples"] == 1_000
    assert model.audit(walks, triples=1_000) == found
    assert 0 <= model.calibration()["at_or_below"] <= 1
    judged = model.calibration(walks)
    assert judged["pairs"] > 100 and judged["held_out"] is None
    assert judged["against_solved"] is None, "too few rows for places of a step's width"
    dense = Dataset.from_trajectories(list(zip(*circle(60))))
    dense = isochrone.fit(dense, "cmd1", steps=40, discount=0.95, settings=SMALL)
    assert dense.calibration()["against_solved"]["median_relative_error"] > 0
    other = Dataset.from_arrays(np.zeros((4, 4)))
    for ask in [lambda: model.audit(other), lambda: model.calibration(other)]:
        with pytest.raises(ValueError, match="4.*2"):
            ask()
    with pytest.raises(ValueError):
        model.plan([1.0, 0.0], [0.0, 1.0], other)


def test_the_same_seed_gives_the_same_model_and_settings_count(walks, model):
    again = isochrone.fit(walks, "cmd1", steps=40, discount=0.95, settings={"train": {"batch_size": 32}})
    states = circle(2, 9)[0].reshape(-1, 2)
    assert np.array_equal(model.pairwise(states, states), again.pairwise(states, states))
    other = isochrone.fit(walks, "cmd1", steps=40, seed=1, discount=0.95, settings=SMALL)
    assert not np.array_equal(model.pairwise(states, states), other.pairwise(states, states))
    assert "batch_size = 32" in model.config_toml and "discount = 0.95" in model.config_toml
    for arguments, words in [
        ({"algorithm": "cmd3"}, "cmd3"),
        ({"settings": {"train.stps": 3}}, "unknown key `stps`"),
        ({"settings": {"train.steps": "many"}}, "train.steps"),
        ({"settings": {"train.steps": object()}}, "is a `object`"),
        ({"settings": {"discount": float("nan")}}, "discount"),
        ({"steps": -1}, "train.steps"),
        ({"threads": 10**6}, "expected 1 to 1024"),
        ({"device": "gpu"}, "expected `auto`, `cpu` or `cuda:N`"),
        ({"dataset": "no-such.npz"}, "no file called"),
        ({"dataset": 5}, "int"),
    ]:
        with pytest.raises((ValueError, TypeError)) as error:
            isochrone.fit(**{"dataset": walks, "steps": 3, **arguments})
        assert words in str(error.value)


def test_discrete_actions_are_answered_with_integers():
    states, moves = circle()[0], np.tile(np.arange(30) % 3, (20, 1))
    data = Dataset.from_trajectories(list(zip(states, moves)))
    model = isochrone.fit(data, "gcbc", steps=5, settings=SMALL)
    assert isinstance(model.act([1.0, 0.0], [0.0, 1.0]), int)
    chosen = model.act(states[0], [0.0, 1.0])
    assert chosen.dtype == np.int64 and set(chosen) <= {0, 1, 2}
    assert model.act(np.zeros((0, 2)), [0.0, 1.0]).shape == (0,)
    with pytest.raises(ValueError, match="no distance"):
        model.steps([1.0, 0.0], [0.0, 1.0])
    with pytest.raises(ValueError, match="no distance"):
        model.pairwise(np.zeros((0, 2)), [0.0, 1.0])


def test_a_run_in_a_folder_resumes_and_is_opened(walks, tmp_path):
    walks.save(tmp_path / "walks.npz")
    data = Dataset.load(tmp_path / "walks.npz")
    first = isochrone.fit(data, "cmd1", steps=6, out="run", settings=SMALL)
    second = isochrone.fit(data, "cmd1", steps=6, out="run", settings=SMALL)
    opened = isochrone.load("run")
    states = circle(2, 9)[0].reshape(-1, 2)
    for other in [second, opened]:
        assert np.array_equal(first.pairwise(states, states), other.pairwise(states, states))
    assert opened.audit(triples=100)["violations"] == 0 and opened.calibration() is not None
    (tmp_path / "run/judged.toml").write_text('distance = "of another"\ndoubt = "not steps"\n')
    assert first.doubt == second.doubt == opened.doubt and isochrone.load("run").doubt is None
    with pytest.raises(ValueError, match="run"):
        isochrone.fit(data, "cmd1", steps=6, seed=2, out="run", settings=SMALL)


def test_a_fit_says_why_its_numbers_are_not_steps(walks, tmp_path, caplog):
    fit = lambda **more: isochrone.fit(walks, "cmd1", steps=5, settings=SMALL, **more)
    model = fit(out=tmp_path / "run")
    assert model.doubt.startswith("do not read the learned numbers as steps: ")
    assert [record.message for record in caplog.records].count(model.doubt) == 1
    assert isochrone.load(tmp_path / "run").doubt == model.doubt
    caplog.clear()
    assert fit(check=False).doubt is None and not caplog.records
    # Nobody checks again what was checked before.
    assert fit(out=tmp_path / "run", check=False).doubt == model.doubt


def test_progress_is_told_and_an_exception_in_it_stops_the_run(walks):
    seen = []
    isochrone.fit(walks, "cmd1", steps=5, settings=SMALL, progress=lambda *news: seen.append(news))
    assert seen[-1][:2] == (5, 5)

    def refuse(step, steps, metrics):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        isochrone.fit(walks, "cmd1", steps=1_000_000, settings=SMALL, progress=refuse)


def test_a_bar_is_drawn_when_asked_for(walks, capsys):
    isochrone.fit(walks, "cmd1", steps=5, settings=SMALL, progress=True)
    drawn = capsys.readouterr().err
    assert "\rcmd1 updates [########################] 5/5" in drawn and drawn.endswith("\n")
    isochrone.fit(walks, "cmd1", steps=5, settings=SMALL)
    assert capsys.readouterr().err == ""


def test_a_bar_counts_episodes_while_it_waits_for_them(capsys):
    settings = {**SMALL, "data.episodes": 4, "evaluation.tasks": 2}
    isochrone.fit("pinwheel", "cmd1", steps=5, settings=settings, progress=True)
    drawn = capsys.readouterr().err
    assert "\rcmd1 episodes [########################] 2/2" in drawn and drawn.endswith("\n")


def test_other_threads_run_while_a_model_trains(walks):
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    isochrone.fit(walks, "cmd1", steps=60, settings=SMALL)
    done.set()
    thread.join()
    assert counted[0] > 10


INTERRUPTED = """
import isochrone, sys
try:
    isochrone.fit(
        "walks.npz", "cmd1", steps=1_000_000, out=sys.argv[1] or None,
        settings={"train.batch_size": 32},
        progress=lambda step, steps, metrics: print(step, flush=True))
except KeyboardInterrupt as stopped:
    print("stopped:", stopped, flush=True)
"""


@pytest.mark.parametrize("folder", ["run", ""])
def test_ctrl_c_stops_a_run_and_saves_it(walks, folder):
    walks.save("walks.npz")
    words = [sys.executable, "-c", INTERRUPTED, folder]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        os.kill(process.pid, signal.SIGINT)
        last = process.stdout.read().splitlines()[-1]
    assert process.returncode == 0
    if folder:
        assert last == "stopped: stopped by signal 2; the run is saved"
        assert isochrone.load("run").has_distance
    else:
        assert last == "stopped: stopped; nothing is saved without a folder (`out=…`)"


def test_onnx_answers_as_the_model_does(model, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    model.export_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    states = circle(10, 30)[0].reshape(-1, 2).astype(np.float32)
    goals = states[::-1].copy()
    steps, actions = session.run(["steps", "action"], {"observation": states, "goal": goals})
    assert np.allclose(steps, model.steps(states, goals), rtol=1e-4, atol=1e-4)
    assert np.allclose(actions, model.act(states, goals), atol=1e-5)
