"""Runs the processes of a sweep as Ray tasks: `python driver.py TASKS.json`.

A task is tried again where its node is gone or its process failed. A run that is complete, was given
bad input or diverged (exit codes 0, 2 and 3) is not tried again.
"""

import ctypes
import json
import pathlib
import signal
import subprocess
import sys
import time

import ray

FINAL = (0, 2, 3)
BUSY = 7
PR_SET_PDEATHSIG = 1


def die_with_the_worker():
    """Where its node is taken away, a process is asked to save and stop."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def execute(command, log):
    """Runs one process to its end; its exit code."""
    with open(log, "ab") as out:
        patience = time.monotonic() + 60
        while True:
            code = subprocess.call(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=die_with_the_worker
            )
            # The process of a node that is gone may still be saving.
            if code != BUSY or time.monotonic() > patience:
                break
            time.sleep(1)
    if code not in FINAL:
        raise RuntimeError(f"exit code {code}, see {log}")
    return code


def main():
    asked = json.loads(pathlib.Path(sys.argv[1]).read_text())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    ray.init(log_to_driver=False, logging_level="error")
    options = {"num_cpus": asked["cpus"], "num_gpus": asked["gpus"]}
    options |= {"max_retries": asked["retries"], "retry_exceptions": True}
    if asked["memory"]:
        options["memory"] = asked["memory"]
    task = ray.remote(**options)(execute)
    logs = pathlib.Path(asked["logs"])
    waiting = []
    for run in asked["runs"]:
        command = [str(run) if word == "INDEX" else word for word in asked["command"]]
        waiting.append(task.remote(command, str(logs / f"{run}.log")))
    while waiting:
        done, waiting = ray.wait(waiting)
        for one in done:
            try:
                ray.get(one)
            except ray.exceptions.RayError as error:
                print(error, file=sys.stderr)


if __name__ == "__main__":
    main()
