"""The dicts that questions are answered with; their keys are those that the command prints."""

from __future__ import annotations

from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt


class Plan(TypedDict):
    """A path over recorded states."""

    arrived: bool
    states: npt.NDArray[np.float32]
    steps: float
    direct: float
    recorded: int | None
    hops: list[dict[str, int]]
    trajectories: list[int]
    ending: dict[str, str]
    novelty: dict[str, float]
    doubts: dict[str, Any]


class Audit(TypedDict):
    """Whether a distance is a quasimetric."""

    states: int
    triples: int
    violations: int
    worst: dict[str, Any] | None
    mean_steps: float
    asymmetry: float
    identity: float
    not_finite: int


class Calibration(TypedDict):
    """Learned against elapsed steps and, under `against_solved`, the fewest along recorded moves."""

    held_out: bool | None
    trajectories: int
    pairs: int
    at_or_below: float
    spearman: float | None
    drop_per_step: float | None
    bands: list[dict[str, float]]
    reading: str
    against_solved: dict[str, Any] | None


class Inspection(TypedDict):
    """What a file holds and what looks wrong with it."""

    file: str
    format: str
    notes: list[str]
    held_out: str | None
    rows: int
    trajectories: int
    lengths: dict[str, float]
    states: list[dict[str, Any]]
    actions: list[dict[str, Any]]
    choices: int | None
    at_bounds: float | None
    beyond_bounds: float | None
    positions: list[int] | None
    jumps: dict[str, Any]
    duplicates: int
