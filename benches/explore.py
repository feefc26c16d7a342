#!/usr/bin/env python3
"""Times the explorer: its page in a real browser (the first picture, frames per second while a goal is dragged) and
its answers to programs (pairs per second; the slowest of a hundred answers while 300 clients send half a request).

    benches/explore.py RUN                                       # prints the figures of one run
    benches/explore.py RUN RUN2                                  # of two, side by side
    benches/explore.py RUN RUN2 --out benches/results/NAME       # writes explore.json: RUN alone, then both

Chromium is driven by playwright-core; tests/command/explore/browser/install of the command's crate installs both into
target/browser. Figures count only on an idle machine: the load before is part of them.
"""

import argparse
import http.client
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOOLS = ROOT / "target/browser"
PAIRS, QUESTIONS = 10_000, 10
SLOW, GOOD = 300, 500


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="one run, or two")
    parser.add_argument("--isochrone", default=str(ROOT / "target/release/isochrone"))
    parser.add_argument("--repeats", type=int, default=3, help="pages opened; the median one is told")
    parser.add_argument("--out", type=pathlib.Path, help="a folder for explore.json")
    return parser.parse_args()


def served(options, runs, ask):
    """What `ask` finds at the address of an explorer of `runs`."""
    words = [options.isochrone, "explore", *runs, "--port", "0", "--no-open"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        return ask(server.stdout.readline().split()[-1])
    finally:
        server.kill()
        server.wait()


def measured(options, runs):
    """The median page of a few, by frames per second."""
    def opened(address):
        # The first page also waits for the server to embed the map.
        return [json.loads(subprocess.check_output(["node", TOOLS / "explore.mjs", address])) for _ in range(options.repeats)]

    pages = served(options, runs, opened)
    return {"runs": len(runs), **sorted(pages, key=lambda page: page["frames_per_second"])[len(pages) // 2]}


def answers(address):
    """Pairs per second of one client, and how long answers take beside slow clients."""
    host = urllib.parse.urlparse(address)
    client = http.client.HTTPConnection(host.hostname, host.port)

    def asked(path, body=None):
        since = time.monotonic()
        client.request("POST" if body else "GET", path, body, {"Content-Type": "application/json"} if body else {})
        answer = client.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        return time.monotonic() - since, text

    size = len(json.loads(asked("/api/map?run=0")[1])["axes"])
    draws = random.Random(0)
    states = lambda count: [[draws.uniform(-0.9, 0.9) for _ in range(size)] for _ in range(count)]
    many, one = (json.dumps({"from": states(count), "to": states(count)}) for count in (PAIRS, 1))
    asked("/api/steps", many)
    seconds = sum(asked("/api/steps", many)[0] for _ in range(QUESTIONS))
    slow = [socket.create_connection((host.hostname, host.port)) for _ in range(SLOW)]
    for connection in slow:
        connection.sendall(b"GET / HTTP/1.1\r\n")
    times = sorted(asked("/api/steps", one)[0] for _ in range(GOOD))
    for connection in slow:
        connection.close()
    return {"pairs_per_second": PAIRS * QUESTIONS / seconds, "slow_clients": SLOW, "p99_ms": 1000 * times[GOOD * 99 // 100]}


def machine():
    names = [line for line in open("/proc/cpuinfo") if line.startswith("model name")]
    cpu = names[0].split(":")[1].strip() if names else "unknown"
    return {"cpu": cpu, "cores": os.cpu_count(), "load": os.getloadavg()[0]}


def main():
    options = arguments()
    subprocess.run([ROOT / "crates/isochrone-cli/tests/command/explore/browser/install", TOOLS], check=True)
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
    report["answers"] = found = served(options, options.runs[:1], answers)
    print(
        f"{found['pairs_per_second']:,.0f} pairs per second by POST /api/steps; beside {found['slow_clients']} slow clients "
        f"99 of 100 answers within {found['p99_ms']:.1f} ms"
    )
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "explore.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
