#!/usr/bin/env python3
"""Times one run over several processes: `isochrone train` under `mpirun`, CMD-1 at 4x512.

    benches/ranks.py --out benches/results/two-cores-ranks              # writes ranks.json and ranks.md
    benches/ranks.py --out benches/results/two-cores-ranks --single --realtime
    benches/ranks.py --out benches/results/two-cores-ranks --data       # measures divided data again
    benches/ranks.py --out benches/results/two-cores-ranks --report     # writes ranks.md again

Every process has one thread. Cases take turns, so that what else runs on the machine slows all of them
alike; of the repeated measurements the fastest counts, which other load disturbs least. Times are
those between two checkpoints, without start and evaluation. Memory is the most that a process had. Needs numpy.
"""

import argparse
import csv
import ctypes
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

HERE = pathlib.Path(__file__).resolve().parent
ROWS = 256
SHARDS = 4
# Numbers of an exchange: the gradients of CMD-1 at 4x512, and the embeddings of a batch.
EXCHANGES = (1_800_000, 256 * 512, 256)
# Files of walks, whose rows processes divide.
FILES, DATA_ROWS, WALK, STATE, ACTION = 16, 2_000_000, 100, 29, 8


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isochrone", default=str(HERE.parent / "target/release/isochrone"))
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--steps", type=int, default=40, help="updates that are timed")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="a folder for ranks.json and ranks.md")
    parser.add_argument("--report", action="store_true", help="only writes ranks.md again")
    parser.add_argument("--single", action="store_true", help="only measures a single process again")
    parser.add_argument("--data", action="store_true", help="only measures divided data again")
    parser.add_argument("--realtime", action="store_true", help="as root: with a core to itself, a process waits for nobody")
    parser.add_argument("--exchange", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--peak", nargs=argparse.REMAINDER, default=[], help=argparse.SUPPRESS)
    return parser.parse_args()


def launcher(options, processes):
    # Processes that wait for each other on one core would never give way.
    first = ["chrt", "-f", "10"] if options.realtime and processes <= os.cpu_count() else []
    if processes == 0:
        return first
    crowded = ["--oversubscribe"] if processes > os.cpu_count() else []
    return first + [options.mpirun, *crowded, "-n", str(processes)]


def milliseconds(options, processes, rows, shards, steps):
    """One update of CMD-1 by the clock; 0 processes are one without mpirun."""
    wide = "[512,512,512,512]"
    settings = {
        "train.steps": steps + 10,
        "train.save_every": 10,
        "train.log_every": steps + 10,
        "train.batch_size": rows,
        "train.shards": shards,
        "evaluation.tasks": 1,
        "algorithm.network.hidden": wide,
        "algorithm.policy.network.hidden": wide,
        "algorithm.head.latent": 512,
    }
    # The first ten updates warm up; of the rest every ten are timed.
    with tempfile.TemporaryDirectory() as folder:
        words = launcher(options, processes) + [options.isochrone, "train", "pinwheel", "--algorithm", "cmd1-paper"]
        words += ["--threads", "1", "--out", f"{folder}/run"]
        for name, value in settings.items():
            words += ["--set", f"{name}={value}"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        rows = list(csv.DictReader(open(f"{folder}/run/timing.csv")))
    rates = [float(row["time/updates_per_second"]) for row in rows]
    return 1000 / max(rates)


def exchange():
    """What this script does as one of two processes: sends numbers to and fro, as `isochrone` does."""
    mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
    handle = lambda name: ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))
    world, number = handle("ompi_mpi_comm_world"), handle("ompi_mpi_float")
    mpi.MPI_Init(None, None)
    rank = ctypes.c_int()
    mpi.MPI_Comm_rank(world, ctypes.byref(rank))
    found = {}
    for count in EXCHANGES:
        own, theirs = (ctypes.c_float * count)(), (ctypes.c_float * count)()
        times = []
        for _ in range(50):
            since = time.perf_counter()
            mpi.MPI_Sendrecv(own, count, number, 1 - rank.value, 0, theirs, count, number, 1 - rank.value, 0, world, None)
            times.append(time.perf_counter() - since)
        found[count] = 1000 * statistics.median(times)
    mpi.MPI_Finalize()
    if rank.value == 0:
        print(json.dumps(found))


def peak(folder, words):
    """What this script does as one of several processes: runs a command and writes the most memory it had."""
    code = subprocess.run(words).returncode
    kilobytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    pathlib.Path(folder, os.environ["OMPI_COMM_WORLD_RANK"]).write_text(str(1024 * kilobytes))
    return code


def shards(folder):
    """Writes FILES npz files of walks, stored."""
    rows = DATA_ROWS // FILES
    ends = numpy.zeros(rows, dtype=bool)
    ends[WALK - 1 :: WALK] = ends[-1] = True
    chance = numpy.random.default_rng(0)
    for at in range(FILES):
        states = chance.standard_normal((rows, STATE), dtype=numpy.float32)
        actions = numpy.tanh(chance.standard_normal((rows, ACTION), dtype=numpy.float32))
        numpy.savez(f"{folder}/{at:02}.npz", observations=states, actions=actions, terminals=ends)


def divided(options, data, processes, whole):
    """Peak bytes of each process and milliseconds per update of a small CMD-1 on the files in `data`; `whole`
    makes every process hold all rows."""
    steps = 400
    settings = {
        "train.steps": steps + 100,
        "train.save_every": 100,
        "train.log_every": steps + 100,
        "train.batch_size": ROWS,
        "train.shards": SHARDS,
        "data.validation": 0.0,
        "algorithm.network.hidden": "[64,64]",
        "algorithm.policy.network.hidden": "[64,64]",
    }
    if whole:
        # Draws as without it, but looks at all rows first.
        settings["data.even"] = "{axes=[0],side=1000.0,share=0.0}"
    with tempfile.TemporaryDirectory() as folder:
        words = launcher(options, processes) + ["python3", __file__, "--out", ".", "--peak", folder]
        words += [options.isochrone, "train", data, "--algorithm", "cmd1", "--threads", "1", "--out", f"{folder}/run"]
        for name, value in settings.items():
            words += ["--set", f"{name}={value}"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        rows = list(csv.DictReader(open(f"{folder}/run/timing.csv")))
        peaks = [int(pathlib.Path(folder, str(rank)).read_text()) for rank in range(processes)]
    return peaks, 1000 / max(float(row["time/updates_per_second"]) for row in rows)


def measure_data(options):
    with tempfile.TemporaryDirectory() as folder:
        shards(folder)
        found = {"bytes": 4 * DATA_ROWS * (STATE + ACTION), "load": [os.getloadavg()[0]]}
        for _ in range(options.repeat):
            for processes in options.processes:
                for whole in (False, True):
                    case = found.setdefault(f"{processes} {'whole' if whole else 'divided'}", [])
                    case.append(divided(options, folder, processes, whole))
        found["load"].append(os.getloadavg()[0])
    return found


def measure_single(options):
    cases = {"alone": (0, 1), "mpirun": (1, 1), "alone, cut": (0, SHARDS), "mpirun, cut": (1, SHARDS)}
    times = {name: [] for name in cases}
    for _ in range(options.repeat):
        for name, (processes, shards) in cases.items():
            times[name].append(milliseconds(options, processes, ROWS, shards, options.steps))
    return {"realtime": options.realtime, "milliseconds": times}


def measure(options):
    counts = options.processes
    several = {"strong 1": (1, ROWS)}
    several |= {f"strong {n}": (n, ROWS) for n in counts if n > 1}
    several |= {f"weak {n}": (n, ROWS * n) for n in counts if n > 1}
    several |= {f"weak alone {n}": (1, ROWS * n) for n in counts if n > 1}
    times = {name: [] for name in several}
    load = [os.getloadavg()[0]]
    for _ in range(options.repeat):
        for name, (processes, rows) in several.items():
            times[name].append(milliseconds(options, processes, rows, SHARDS, options.steps))
        load.append(os.getloadavg()[0])
    words = launcher(options, 2) + ["python3", __file__, "--exchange", "--out", "."]
    exchanged = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    model = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load": load,
        "rows": ROWS,
        "shards": SHARDS,
        "processes": counts,
        "milliseconds": times,
        "exchange_milliseconds": exchanged,
    }


def report(found):
    single = {name: min(times) for name, times in found["single"]["milliseconds"].items()}
    best = {name: min(times) for name, times in found["milliseconds"].items()}
    load = found["load"]
    priority = ", with real-time priority" if found["single"]["realtime"] else ""
    lines = [
        f"{found['cpu']}, {found['cores']} cores; CMD-1 as printed, 4 × 512, latent 512, one thread per process, least of "
        f"{len(found['single']['milliseconds']['alone'])} measurements or more{priority}.",
        "",
        "| one update of 256 rows in one process | ms | against the first |",
        "|---|---|---|",
    ]
    names = {
        "alone": "without `mpirun`, one shard",
        "mpirun": "`mpirun -n 1`, one shard: the collective path",
        "alone, cut": f"without `mpirun`, {found['shards']} shards",
        "mpirun, cut": f"`mpirun -n 1`, {found['shards']} shards",
    }
    for name, words in names.items():
        share = 100 * (single[name] / single["alone"] - 1)
        lines.append(f"| {words} | {single[name]:.1f} | {share:+.1f} % |")
    lines += [
        "",
        f"Load {min(load):.1f} to {max(load):.1f} including the measurement, least of {len(found['milliseconds']['strong 1'])}:",
        "",
        "| processes | 256 rows: ms per update | speed-up | 256 rows each: ms per update | the same rows in one process | speed-up |",
        "|---|---|---|---|---|---|",
    ]
    for n in found["processes"]:
        strong = best[f"strong {n}"]
        weak, alone = best.get(f"weak {n}", strong), best.get(f"weak alone {n}", strong)
        lines.append(
            f"| {n} | {strong:.1f} | {best['strong 1'] / strong:.2f} | {weak:.1f} | {alone:.1f} | {alone / weak:.2f} |"
        )
    lines += ["", "| exchange between two processes | ms | GB/s each way |", "|---|---|---|"]
    for count, taken in found["exchange_milliseconds"].items():
        size = 4 * int(count)
        lines.append(f"| {size:,} bytes | {taken:.3f} | {size / taken / 1e6:.2f} |")
    return "\n".join(lines + ["", *report_data(found)]) + "\n"


def report_data(found):
    data, mega = found["data"], 1e6
    lines = [
        f"{FILES} npz files with {DATA_ROWS:,} rows of {STATE} + {ACTION} values, {data['bytes'] / mega:.0f} MB; CMD-1, "
        f"2 × 64, {ROWS} rows per update, least time of {len(data['1 whole'])}, load {min(data['load']):.1f} to {max(data['load']):.1f}.",
        "",
        "| processes | most memory of a process, MB | if each held all rows | ms per update | if each held all rows |",
        "|---|---|---|---|---|",
    ]
    for n in found["processes"]:
        cells = []
        for case in (data[f"{n} divided"], data[f"{n} whole"]):
            most = max(max(peaks) for peaks, _ in case)
            cells.append((f"{most / mega:.0f}", f"{min(taken for _, taken in case):.2f}"))
        lines.append(f"| {n} | {cells[0][0]} | {cells[1][0]} | {cells[0][1]} | {cells[1][1]} |")
    return lines


def main():
    options = arguments()
    if options.peak:
        return peak(options.peak[0], options.peak[1:])
    if options.exchange:
        return exchange()
    os.environ |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    options.out.mkdir(parents=True, exist_ok=True)
    data = options.out / "ranks.json"
    if not options.report:
        every = not (options.single or options.data)
        found = measure(options) if every else json.loads(data.read_text())
        if every or options.single:
            found["single"] = measure_single(options)
        if every or options.data:
            found["data"] = measure_data(options)
        data.write_text(json.dumps(found, indent=1) + "\n")
    (options.out / "ranks.md").write_text(report(json.loads(data.read_text())))
    print((options.out / "ranks.md").read_text())


if __name__ == "__main__":
    sys.exit(main())
