#!/usr/bin/env python3
"""Writes the small data files that the readers' tests use.

    python scripts/fixtures.py            # HDF5 and parquet, needs numpy, h5py and pyarrow
    python scripts/fixtures.py FILE.npz   # and cuts an OGBench file: needs the file itself

The files are committed; this script is how they were made.
"""

import json
import sys
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

TARGET = Path(__file__).parent.parent / "crates" / "isochrone" / "tests" / "fixtures"


def walk(lengths, width):
    """States that count: column 0 is the trajectory, column 1 the place in it, the rest waves."""
    rows = []
    for index, length in enumerate(lengths):
        for place in range(length):
            rest = np.sin(0.1 * place + np.arange(width - 2) + index)
            rows.append(np.concatenate([[index, place / 4], rest]))
    return np.array(rows, dtype=np.float32)


def d4rl():
    """Two whole trajectories of 6 and 5 rows, and a tail of 3; terminals fire inside."""
    states = walk([6, 5, 3], 4)
    rows = len(states)
    timeouts = np.zeros(rows, dtype=bool)
    timeouts[[5, 10]] = True
    terminals = np.zeros(rows, dtype=bool)
    terminals[[2, 3, 8]] = True
    actions = (np.arange(2 * rows, dtype=np.float32) / (2 * rows)).reshape(rows, 2)
    kinds = {"bool": bool, "u8": np.uint8, "f32": np.float32, "f64": np.float64}
    for name, kind in kinds.items():
        with h5py.File(TARGET / f"d4rl-{name}.hdf5", "w", libver="latest" if name == "u8" else None) as file:
            wide = np.float64 if name == "f64" else np.float32
            for key, value in [("observations", states.astype(wide)), ("actions", actions.astype(wide))]:
                file.create_dataset(key, data=value, chunks=(4, value.shape[1]), compression="gzip", shuffle=name == "u8")
            file.create_dataset("rewards", data=np.zeros(rows, np.float32))
            file.create_dataset("terminals", data=terminals.astype(kind), compression="gzip")
            file.create_dataset("timeouts", data=timeouts.astype(kind), compression="gzip")
            if name == "bool":
                for key, width in [("qpos", 3), ("qvel", 3), ("goal", 2)]:
                    file.create_dataset(f"infos/{key}", data=np.zeros((rows, width)))


def claims():
    """Files of a few kilobytes that claim far more rows, or that link one group many times."""
    for name, shape in [("wide", (60, 10**12)), ("broad", (60, 11 * 10**6)), ("tall", (10**7, 1000))]:
        with h5py.File(TARGET / f"claims-{name}.hdf5", "w", libver="latest") as file:
            file.create_dataset("observations", shape=shape, dtype="f4", chunks=(min(shape[0], 1000), 1000))
            ends = np.ones(shape[0], np.uint8)
            file.create_dataset("timeouts", data=ends, compression="gzip", compression_opts=9, chunks=(len(ends),))
    with h5py.File(TARGET / "claims-links.hdf5", "w", libver="latest") as file:
        group = file.create_group("below-0")
        group.create_dataset("place", data=np.zeros((3, 2), np.float32))
        for level in range(1, 8):
            above = file.create_group(f"below-{level}")
            for link in range(12):
                above[f"link-{link}"] = group
            group = above
        episode = file.create_group("episode_0")
        episode["observations"] = group
        episode.create_dataset("actions", data=np.zeros((2, 2), np.float32))


def elsewhere():
    """Files whose observations are in another file: by a link, and by bytes stored outside."""
    rows = np.zeros((4, 2), np.float32)
    ends = np.array([0, 1, 0, 1], np.uint8)
    with h5py.File(TARGET / "elsewhere-link.hdf5", "w", libver="latest") as file:
        file["observations"] = h5py.ExternalLink("secret.hdf5", "/observations")
        file.create_dataset("timeouts", data=ends)
    with h5py.File(TARGET / "elsewhere-storage.hdf5", "w", libver="latest") as file:
        storage = [("secret.bin", 0, rows.nbytes)]
        file.create_dataset("observations", shape=rows.shape, dtype="f4", external=storage)
        file.create_dataset("timeouts", data=ends)


def space(kind, **more):
    return {"type": kind, **more}


def minari():
    """Twelve episodes, so that the order of names is not the order of numbers."""
    box = space("Box", dtype="float64", shape=[2], low=[-float("inf")] * 2, high=[float("inf")] * 2)
    both = {"desired_goal": box, "achieved_goal": box, "observation": box}
    spaces = {"minari-plain": box, "minari-dict": space("Dict", subspaces=both)}
    for folder, observation_space in spaces.items():
        data = TARGET / folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        steps = 0
        with h5py.File(data / "main_data.hdf5", "w", track_order=True) as file:
            for number in range(12):
                group = file.create_group(f"episode_{number}", track_order=True)
                length = 2 + number % 3
                steps += length
                place = np.stack([np.full(length + 1, number), np.arange(length + 1)], axis=1)
                place = place.astype(np.float32)
                if folder == "minari-plain":
                    group.create_dataset("observations", data=place)
                else:
                    inner = group.create_group("observations")
                    inner.create_dataset("observation", data=place + 100)
                    inner.create_dataset("achieved_goal", data=place.astype(np.float64))
                    inner.create_dataset("desired_goal", data=place * 0)
                group.create_dataset("actions", data=np.full((length, 1), number / 16, np.float32))
                group.create_dataset("rewards", data=np.zeros(length))
                group.create_dataset("terminations", data=np.zeros(length, dtype=bool))
                truncations = np.zeros(length, dtype=bool)
                truncations[-1] = True
                group.create_dataset("truncations", data=truncations)
                group.attrs["id"] = number
                group.attrs["total_steps"] = length
        description = {
            "dataset_id": f"{folder}-v0",
            "data_format": "hdf5",
            "total_episodes": 12,
            "total_steps": steps,
            "observation_space": json.dumps(observation_space),
            "minari_version": "0.5.3",
        }
        (data / "metadata.json").write_text(json.dumps(description, indent=1) + "\n")


def lerobot():
    """Three episodes of 4, 5 and 6 frames; actions in the units of a robot."""
    frames = [(episode, frame) for episode in range(3) for frame in range(4 + episode)]
    table = pa.table(
        {
            "observation.state": pa.array([[e, f, 0.5] for e, f in frames], pa.list_(pa.float32())),
            "action": pa.array(
                [[10.0 * i, [-5.0, 0.0, 5.0][i % 3]] for i in range(len(frames))],
                pa.list_(pa.float32()),
            ),
            "timestamp": pa.array([f / 30 for _, f in frames], pa.float32()),
            "frame_index": pa.array([f for _, f in frames], pa.int64()),
            "episode_index": pa.array([e for e, _ in frames], pa.int64()),
        }
    )
    for version in ["v2.1", "v3.0"]:
        folder = TARGET / f"lerobot-{version}"
        (folder / "meta").mkdir(parents=True, exist_ok=True)
        (folder / "data" / "chunk-000").mkdir(parents=True, exist_ok=True)
        info = {"codebase_version": version, "total_episodes": 3, "total_frames": len(frames)}
        (folder / "meta" / "info.json").write_text(json.dumps(info) + "\n")
        if version == "v3.0":
            # Two row groups, the border inside an episode.
            pq.write_table(table, folder / "data/chunk-000/file-000.parquet", row_group_size=6)
            continue
        for episode in range(3):
            part = table.filter(pa.compute.equal(table["episode_index"], episode))
            pq.write_table(part, folder / f"data/chunk-000/episode_{episode:06}.parquet")


def ogbench(source):
    """The first three trajectories of a file that OGBench wrote, cut to 40 rows each."""
    whole = np.load(source)
    ends = np.flatnonzero(whole["terminals"])
    firsts = np.concatenate([[0], ends[:2] + 1])
    rows = np.concatenate([np.arange(first, first + 40) for first in firsts])
    cut = {key: whole[key][rows] for key in whole}
    cut["terminals"] = np.arange(len(rows)) % 40 == 39
    np.savez_compressed(TARGET / "ogbench.npz", **cut)


d4rl()
claims()
elsewhere()
minari()
lerobot()
if len(sys.argv) > 1:
    ogbench(sys.argv[1])
