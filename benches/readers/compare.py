#!/usr/bin/env python3
"""Times our readers beside numpy and h5py: 1,000,000 x 29 32-bit floats.

    python benches/readers/compare.py [--isochrone path] [--out benches/results/NAME]

Needs numpy, and h5py for HDF5. Both sides read the same file into arrays in memory, warm, in turn, five
times each in one run; medians are compared. Ours is `read_seconds` of `isochrone data inspect --json`:
from the opening of the file to rows in memory, checksums compared, values not yet looked at. Numpy's and
h5py's is the time to load the same arrays. Prints one line per file, writes readers.json with --out, and
exits with 1 if a bound is exceeded.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

try:
    import h5py
except ImportError:
    h5py = None

ROWS, STATE, LENGTH = 1_000_000, 29, 1_000
REPEATS = 5
NPZ = {"npz, deflated": np.savez_compressed, "npz, stored": np.savez}
HDF5 = {
    "hdf5, one piece": {},
    "hdf5, chunks": {"chunks": True},
    "hdf5, chunks, gzip": {"compression": "gzip"},
    "hdf5, chunks, shuffle, gzip": {"compression": "gzip", "shuffle": True},
}


def bar(name):
    """The most that our time may be, as a multiple of theirs."""
    return 0.8 if name.startswith("npz") else 1.5


def smooth(generator, width):
    """Waves with noise: packs about as well as recorded joints do."""
    time_axis = np.arange(ROWS, dtype=np.float32)[:, None]
    rates = generator.uniform(0.001, 0.1, (1, width)).astype(np.float32)
    values = np.sin(time_axis * rates) + generator.normal(0, 0.01, (ROWS, width))
    return values.astype(np.float32)


def files(folder):
    """Writes one file after the other; gives its name and path."""
    rows = smooth(np.random.default_rng(0), STATE)
    ends = np.arange(ROWS) % LENGTH == LENGTH - 1
    for name, save in NPZ.items():
        path = folder / "rows.npz"
        save(path, observations=rows, terminals=ends)
        yield name, path
    for name, layout in HDF5.items() if h5py else ():
        path = folder / "rows.hdf5"
        with h5py.File(path, "w") as file:
            file.create_dataset("observations", data=rows, **layout)
            file.create_dataset("timeouts", data=ends, **layout)
        yield name, path


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


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isochrone", default="target/release/isochrone")
    parser.add_argument("--out", type=pathlib.Path, help="a folder for readers.json")
    options = parser.parse_args()
    versions = [f"numpy {np.__version__}"] + ([f"h5py {h5py.__version__}"] if h5py else [])
    machine = {"cpu": processor(), "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}
    report = {"machine": machine, "versions": versions, "rows": ROWS, "columns": STATE, "files": []}
    with tempfile.TemporaryDirectory() as folder:
        for name, path in files(pathlib.Path(folder)):
            theirs(path), ours(options.isochrone, path)
            pairs = [(theirs(path), ours(options.isochrone, path)) for _ in range(REPEATS)]
            their, our = (statistics.median(times) for times in zip(*pairs))
            found = {"name": name, "bytes": path.stat().st_size, "theirs_s": their, "ours_s": our, "bar": bar(name)}
            report["files"].append(found | {"theirs_all_s": [p[0] for p in pairs], "ours_all_s": [p[1] for p in pairs]})
            print(f"{name:<28} {found['bytes'] / 1e6:5.0f} MB   theirs {their:.3f} s   ours {our:.3f} s   "
                  f"ratio {our / their:.2f}   bar {bar(name)}", flush=True)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "readers.json").write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(any(file["ours_s"] > file["bar"] * file["theirs_s"] for file in report["files"]))


main()
