#!/usr/bin/env python3
"""Times the explorer's page in a real browser: its first picture, and frames per second while a goal is dragged.

    benches/explore.py RUN                                       # prints the figures of one run
    benches/explore.py RUN RUN2                                  # of two, side by side
    benches/explore.py RUN RUN2 --out benches/results/NAME       # writes explore.json: RUN alone, then both

Chromium is driven by playwright-core; tests/explore/browser/install of the command's crate installs both into
target/browser. Figures count only on an idle machine: the load before is part of them.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOOLS = ROOT / "target/browser"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="one run, or two")
    parser.add_argument("--isochrone", default=str(ROOT / "target/release/isochrone"))
    parser.add_argument("--repeats", type=int, default=3, help="pages opened; the median one is told")
    parser.add_argument("--out", type=pathlib.Path, help="a folder for explore.json")
    return parser.parse_args()


def measured(options, runs):
    """The median page of a few, by frames per second."""
    words = [options.isochrone, "explore", *runs, "--port", "0", "--no-open"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split()[-1]
        # The first page also waits for the server to embed the map.
        pages = [json.loads(subprocess.check_output(["node", TOOLS / "explore.mjs", address])) for _ in range(options.repeats)]
    finally:
        server.kill()
        server.wait()
    return {"runs": len(runs), **sorted(pages, key=lambda page: page["frames_per_second"])[len(pages) // 2]}


def machine():
    names = [line for line in open("/proc/cpuinfo") if line.startswith("model name")]
    cpu = names[0].split(":")[1].strip() if names else "unknown"
    return {"cpu": cpu, "cores": os.cpu_count(), "load": os.getloadavg()[0]}


def main():
    options = arguments()
    subprocess.run([ROOT / "crates/isochrone-cli/tests/explore/browser/install", TOOLS], check=True)
    shutil.copy(ROOT / "benches/explore.mjs", TOOLS)
    report = {"machine": machine(), "pages": []}
    chosen = [options.runs] if not options.out else [options.runs[:count + 1] for count in range(len(options.runs))]
    for runs in chosen:
        page = measured(options, runs)
        report["pages"].append(page)
        print(
            f"{page['runs']} run(s), {page['cells']} cells each: first picture after {page['first_picture_ms']:.0f} ms, "
            f"{page['frames_per_second']:.0f} frames per second, {page['slow_frame_ms']:.0f} ms for a slow frame (95 %), "
            f"{page['redraw_ms']:.1f} ms for a redraw; load {report['machine']['load']:.1f} before"
        )
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "explore.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
