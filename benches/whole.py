#!/usr/bin/env python3
"""Times a whole `isochrone train`: CMD-1 on Pinwheel at the paper's size, with evaluations and checkpoints.

    benches/whole.py --device cuda:0 --out benches/results/h200    # writes run.json

The time includes generating the data, compiling kernels and the last evaluation.
"""

import argparse
import csv
import json
import pathlib
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
WHAT = "CMD-1 on Pinwheel, 4x512, latent 512 (MRN 256 + 256), batch {batch}, states and actions of 2 numbers"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isochrone", default=str(HERE.parent / "target/release/isochrone"))
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N")
    parser.add_argument("--steps", type=int, default=500_000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--evaluations", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="a folder for run.json")
    return parser.parse_args()


def main():
    options = arguments()
    every = options.steps // options.evaluations
    wide = "[512,512,512,512]"
    settings = {
        "train.steps": options.steps,
        "train.batch_size": options.batch,
        "train.evaluate_every": every,
        "train.save_every": every,
        "train.log_every": max(1, options.steps // 100),
        "algorithm.network.hidden": wide,
        "algorithm.policy.network.hidden": wide,
        "algorithm.head.latent": 512,
    }
    with tempfile.TemporaryDirectory() as folder:
        words = [options.isochrone, "train", "pinwheel", "--algorithm", "cmd1", "--device", options.device]
        words += ["--out", f"{folder}/run"]
        for name, value in settings.items():
            words += ["--set", f"{name}={value}"]
        since = time.perf_counter()
        subprocess.run(words, check=True)
        seconds = time.perf_counter() - since
        rows = list(csv.DictReader(open(f"{folder}/run/evaluation.csv")))
        rates = [float(row["time/updates_per_second"]) for row in csv.DictReader(open(f"{folder}/run/timing.csv"))]
    success = float(list(rows[-1].values())[1])
    report = {
        "what": WHAT.format(batch=options.batch),
        "steps": int(list(rows[-1].values())[0]),
        "seconds": seconds,
        "evaluations": len(rows),
        "success": success,
        "updates_per_second": rates,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "run.json").write_text(json.dumps(report, indent=1) + "\n")
    print(f"{report['steps']} updates in {seconds:.1f} s, success {success}")


if __name__ == "__main__":
    main()
