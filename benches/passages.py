#!/usr/bin/env python3
"""Compares learned steps with the fastest recorded passages, where no exact solver knows the answer.

    benches/passages.py DATA.npz RUN [RUN …] [--isochrone target/release/isochrone]

Draws pairs of recorded places that at least 20 trajectories pass one after the other, finds for each the
fastest passage from within the radius of the first to within the radius of the second, and asks every run
how many steps that passage takes. The fastest of many is near the best that the body can do; it is an upper
bound of the exact number. Needs numpy. The data are an npz file of `isochrone data generate`, with
`observations` and `terminals`; the first two coordinates are the place.
"""

import argparse
import pathlib
import subprocess
import tempfile

import numpy as np

BINS = (5, 20, 40, 80, 120, 160, 240)
FEWEST = 20


def fastest(places, ends, first, second, radius):
    """The shortest passage as (steps, from row, to row), and how many trajectories made one."""
    near = [((places - places[row]) ** 2).sum(1) <= radius**2 for row in (first, second)]
    best, count, begin = None, 0, 0
    for end in ends:
        here, there = (np.flatnonzero(close[begin : end + 1]) for close in near)
        left = np.searchsorted(here, there) - 1
        there, left = there[left >= 0], left[left >= 0]
        if len(there):
            steps = there - here[left]
            at = steps.argmin()
            count += 1
            if best is None or steps[at] < best[0]:
                best = (steps[at], begin + here[left[at]], begin + there[at])
        begin = end + 1
    return best, count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--radius", type=float, default=0.5)
    parser.add_argument("--isochrone", default="isochrone")
    asked = parser.parse_args()
    data = np.load(asked.data)
    states = data["observations"]
    places, ends = states[:, :2].astype(float), np.flatnonzero(data["terminals"])
    draws, found = np.random.default_rng(0), []
    while len(found) < asked.pairs:
        first, second = draws.integers(0, len(places), 2)
        best, count = fastest(places, ends, first, second, asked.radius)
        if count >= FEWEST:
            found.append(best)
    steps, begins, stops = np.array(found).T
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder, name) for name in ("from.npz", "to.npz", "steps.npz")]
        for file, rows in zip(files, (begins, stops)):
            np.savez(file, observations=states[rows])
        for run in asked.runs:
            command = [asked.isochrone, "query", run, "--from", files[0], "--to", files[1]]
            command += ["--answers", "steps", "--force", "-o", files[2]]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            ratio = np.load(files[2])["steps"].reshape(-1) / steps
            far = steps >= BINS[0]
            print(f"{run}: off by {np.median(np.abs(ratio[far] - 1)):.1%} in the median")
            print("  fastest recorded  pairs  learned / recorded: 10 %, median, 90 %")
            for low, high in zip(BINS, BINS[1:]):
                some = ratio[(steps >= low) & (steps < high)]
                if len(some):
                    shown = ", ".join(f"{share:.2f}" for share in np.quantile(some, [0.1, 0.5, 0.9]))
                    print(f"  {f'{low} to {high - 1}':16s}  {len(some):5d}  {shown}")


if __name__ == "__main__":
    main()
