#!/usr/bin/env python3
"""Times the Python package: all pairs beside the same formula in numpy, one observation, many rows.

    python benches/wheel.py [--steps N]

Needs the wheel and numpy. Models of Atlas and CMD-1 are trained for a few updates on the pinwheel, with
the settings tuned to it; how long an answer takes does not depend on how well they learned. The formula
in numpy is that of examples/model.py, in 32 bits as ours, over embedded states, in blocks that stay in
the cache; what differs is told too. Numpy uses as many threads as its BLAS does. Each figure is the
best of several turns.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import isochrone

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import model as formula  # noqa: E402

PAIRS, ROWS, BLOCK = 2_000, 10_000, 4


def best(task, turns=5):
    """The seconds of the fastest of several turns."""
    seconds = []
    for _ in range(turns):
        began = time.perf_counter()
        task()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


class InNumpy:
    """The distance of a model file over all pairs, embedded once."""

    def __init__(self, path, number):
        self.file = formula.Model(path)
        self.shape, self.flat = self.file.nats, self.file.arrays["distance"].astype(number)
        nats = self.shape["nats"] if self.shape["form"] == "stepped" else 1 / self.shape["temperature"]
        self.unit = nats / np.log(1 / self.file.shape["discount"])

    def embedded(self, states):
        """States once for every stored action, and what takes the head's numbers, however often."""
        seen, copies, taken = self.file.seen(states)[0].astype(self.flat.dtype), [], {}
        for action in self.file.stored.astype(self.flat.dtype):
            take = formula.taker(self.flat)
            latent = self.shape["head"]["latent"]
            copies.append(formula.network(take, self.shape["network"], latent, seen, action))
        return copies, lambda *shape: taken[shape] if shape in taken else taken.setdefault(shape, take(*shape))

    def pairwise(self, starts, goals):
        table = np.zeros((len(starts), len(goals)), self.flat.dtype)
        (starts, take), (goals, _) = self.embedded(starts), self.embedded(goals)
        for first in range(0, len(table), BLOCK):
            for x, y in zip(starts, goals):
                rows = np.repeat(x[first : first + BLOCK], len(y), 0)
                apart = formula.head(take, self.shape["head"], rows, np.tile(y, (len(rows) // len(y), 1)))
                table[first : first + BLOCK] += apart.reshape(-1, len(y))
        return table * (self.unit / len(starts))


def trained(algorithm, steps):
    settings = {"train.evaluate_every": 0, "evaluation.tasks": 10}
    return isochrone.fit("pinwheel", algorithm, steps=steps, settings=settings, device="cpu")


def one_core(path):
    """The seconds of both batch questions on one core, in a process of its own."""
    environment = {**os.environ, "RAYON_NUM_THREADS": "1"}
    words = [sys.executable, __file__, "--batch", path]
    told = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return [float(number) for number in told.stdout.split()]


def batch(model, states):
    rows, goal = np.resize(states, (ROWS, states.shape[1])), states[-1]
    return [best(lambda: model.act(rows, goal)), best(lambda: model.steps(rows, goal))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20, help="updates of each model")
    parser.add_argument("--batch", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    data = isochrone.Dataset.load("pinwheel").observations
    if arguments.batch:
        print(*batch(isochrone.load(arguments.batch), data))
        return
    starts, goals = data[:PAIRS], data[-PAIRS:]
    for algorithm in ["atlas", "cmd1"]:
        model = trained(algorithm, arguments.steps)
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "model.safetensors")
            model.save(path)
            numpys = InNumpy(path, np.float32)
            ours = best(lambda: model.pairwise(starts, goals))
            theirs = best(lambda: numpys.pairwise(starts, goals), turns=1)
            few = slice(0, 200)
            exact = InNumpy(path, np.float64).pairwise(starts[few], goals)
            apart = np.abs(model.pairwise(starts[few], goals) - exact).max() / exact.max()
            print(
                f"{algorithm:6} pairwise {PAIRS:,} x {PAIRS:,}: {ours:.3f} s, numpy {theirs:.2f} s,"
                f" {theirs / ours:.1f} times; largest difference {apart:.1e} of the largest distance"
            )
            one, other = data[0], data[-1]
            act = best(lambda: [model.act(one, other) for _ in range(500)]) / 500
            print(f"{algorithm:6} act on one observation: {1e6 * act:.1f} us")
            all_cores, single = batch(model, data), one_core(path)
            for name, many, alone in zip(["act", "steps"], all_cores, single):
                print(
                    f"{algorithm:6} {name} on {ROWS:,} rows: {1e3 * many:.1f} ms on"
                    f" {os.cpu_count()} cores, {1e3 * alone:.1f} ms on one, {alone / many:.2f} times"
                )


main()
