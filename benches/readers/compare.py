#!/usr/bin/env python3
"""Times our readers beside numpy and h5py: 1,000,000 x 29 numbers of 32 bits.

    python benches/readers/compare.py [path/to/isochrone]

Needs numpy and h5py. Both sides read the same file into arrays in memory, warm, alternating, five
times each in one run; medians are compared. Ours is `read_seconds` of `isochrone data inspect
--json`: from the opening of the file to rows in memory, checksums compared, values not yet looked
at. Numpy's and h5py's is the time to load the same arrays. Prints one line a file and leaves with
1 where a bar is missed.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

ROWS, STATE, LENGTH = 1_000_000, 29, 1_000
REPEATS = 5
# The most that our time may be, as a multiple of theirs; none for what no known dataset ships.
BARS = {"npz, deflated": 0.8, "npz, stored": 0.8, "hdf5, gzip": 1.5, "hdf5, plain": None}


def smooth(generator, width):
    """Waves with noise: packs about as well as recorded joints do."""
    time_axis = np.arange(ROWS, dtype=np.float32)[:, None]
    rates = generator.uniform(0.001, 0.1, (1, width)).astype(np.float32)
    values = np.sin(time_axis * rates) + generator.normal(0, 0.01, (ROWS, width))
    return values.astype(np.float32)


def write(folder):
    generator = np.random.default_rng(0)
    arrays = {"observations": smooth(generator, STATE)}
    ends = np.arange(ROWS) % LENGTH == LENGTH - 1
    place = lambda kind, packing: folder / f"{packing}.{kind}"
    files = {name: place(*name.split(", ")) for name in BARS}
    np.savez_compressed(files["npz, deflated"], terminals=ends, **arrays)
    np.savez(files["npz, stored"], terminals=ends, **arrays)
    for name, more in [("hdf5, gzip", {"compression": "gzip"}), ("hdf5, plain", {})]:
        with h5py.File(files[name], "w") as file:
            for key, value in arrays.items():
                file.create_dataset(key, data=value, **more)
            file.create_dataset("timeouts", data=ends, **more)
    return files


def theirs(path):
    since = time.perf_counter()
    if path.suffix == ".npz":
        with np.load(path) as file:
            kept = {key: file[key] for key in file.files}
    else:
        with h5py.File(path) as file:
            kept = {key: file[key][()] for key in file}
    took = time.perf_counter() - since
    assert kept["observations"].shape == (ROWS, STATE)
    return took


def ours(program, path):
    told = subprocess.run([program, "data", "inspect", path, "--json"], check=True, capture_output=True)
    return json.loads(told.stdout)["read_seconds"]


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "target/release/isochrone"
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        for name, path in write(Path(folder)).items():
            theirs(path), ours(program, path)
            pairs = [(theirs(path), ours(program, path)) for _ in range(REPEATS)]
            their, our = (statistics.median(times) for times in zip(*pairs))
            ratio = our / their
            bar = BARS[name]
            missed |= bar is not None and ratio > bar
            size = path.stat().st_size / 1e6
            print(f"{name:<14} {size:6.0f} MB   theirs {their:.3f} s   ours {our:.3f} s   ratio {ratio:.2f}   bar {bar or '–'}")
    sys.exit(missed)


main()
