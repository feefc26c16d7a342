"""What the programs of the peers have in common: cases from a file, and times when they are asked for.

A peer prepares every case (compiles it, warms it up), prints `{"ready": N}`, and then, for every number
of a case on its standard input, times that case in all its forms and prints one JSON line a form and
an empty object as the end. So ours and theirs can be timed in turns, with everything compiled before.
"""

import json
import sys
import time


def cases_of(path):
    with open(path) as file:
        return json.load(file)["cases"]


def timed(run, steps, seconds):
    """Milliseconds a step: median and best of at least three runs."""
    times, begin = [], time.perf_counter()
    while len(times) < 3 or (time.perf_counter() - begin < seconds and len(times) < 300):
        since = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - since) / steps)
    return {"median_ms": sorted(times)[len(times) // 2], "best_ms": min(times), "steps": steps * len(times)}


def serve(ready, forms):
    """Answers until the input ends; `forms(case number)` gives functions that each time one form."""
    print(json.dumps({"ready": ready}), flush=True)
    for line in sys.stdin:
        for form in forms(int(line)):
            print(json.dumps(form()), flush=True)
        print("{}", flush=True)
