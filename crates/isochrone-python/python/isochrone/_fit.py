"""Training with a progress bar."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Union

from . import _isochrone
from ._isochrone import Dataset, Model
from ._progress import Bar, is_shown

Progress = Callable[[int, int, dict[str, float]], object]
"""Called with the updates done, all updates, and the newest metrics."""

LOG = logging.getLogger("isochrone")
"""Hears what a user should know about the data and the run."""


class _Listener:
    """Hears what a run tells: draws the bar, or calls the function."""

    def __init__(self, name: str, progress: bool | Progress | None) -> None:
        shown = is_shown(sys.stderr) if progress is None else progress is True
        self.bar = Bar(name, sys.stderr) if shown else None
        self.function = progress if callable(progress) else None
        self.metrics: dict[str, float] = {}

    def __call__(self, kind: str, *news: Any) -> None:
        getattr(self, kind)(*news)

    def solved(self, solved: int, goals: int) -> None:
        if self.bar:
            self.bar.update("goals", solved, goals)

    def updated(self, step: int, steps: int) -> None:
        if self.bar:
            self.bar.update("updates", step, steps)
        if self.function:
            self.function(step, steps, dict(self.metrics))

    def logged(self, step: int, metrics: dict[str, float]) -> None:
        self.metrics.update(metrics)

    def evaluating(self, ended: int, episodes: int) -> None:
        if self.bar:
            self.bar.update("episodes", ended, episodes)

    def evaluated(self, step: int, rate: float) -> None:
        self.metrics["evaluation/overall_success"] = rate
        if self.bar:
            self.bar.extra = f"  reached {100 * rate:.0f} %"

    def resumed(self, step: int) -> None:
        if self.bar:
            self.bar.draw(f"{self.bar.name} resuming from step {step:,}")

    def noted(self, note: str) -> None:
        if self.bar:
            self.bar.draw("")
            self.bar.stream.write("\r")
        LOG.warning(note)

    def close(self) -> None:
        if self.bar:
            self.bar.close()


def fit(
    dataset: Union[Dataset, str, os.PathLike[str]],
    algorithm: str = "atlas",
    *,
    steps: int | None = None,
    seed: int = 0,
    discount: float | None = None,
    device: str = "auto",
    out: str | os.PathLike[str] | None = None,
    progress: bool | Progress | None = None,
    threads: int | None = None,
    check: bool = True,
    settings: Mapping[str, Any] | None = None,
) -> Model:
    """Learns a distance and a policy from recorded trajectories.

    ``dataset`` is a :class:`Dataset`, the path of a file, or the name of a built-in world.
    ``algorithm`` is one of ``isochrone.ALGORITHMS``. ``steps`` is the number of updates. ``device``
    is ``"auto"`` (a GPU if there is one), ``"cpu"`` or ``"cuda:N"``.

    With ``out`` the run is kept in that folder: Ctrl-C saves it, and the same call resumes from
    where it stopped and ends with the same model as an uninterrupted run. Without ``out`` nothing
    is written.

    ``progress`` is True or False, or a function that is called with the updates done, all updates
    and the newest metrics; by default a bar is drawn in terminals and notebooks. ``settings`` sets
    any other key of the config, by dotted keys or nested dicts: ``isochrone config`` prints them.
    Notes about the data go to the logger ``isochrone``.

    At the end the learned steps are compared with those that elapsed and with the fewest along
    recorded moves, which takes seconds: if they should not be read as steps, ``model.doubt`` says
    why, and so does the logger. With ``check=False`` this is left out.

    >>> walk = [[0.1 * step] for step in range(20)]
    >>> data = isochrone.Dataset.from_trajectories([walk] * 10)
    >>> seen = []
    >>> model = isochrone.fit(
    ...     data, "cmd1", steps=5, seed=3, settings={"train.batch_size": 16},
    ...     progress=lambda step, steps, metrics: seen.append(step))
    >>> seen[-1], model.has_policy
    (5, False)
    """
    chosen: dict[str, Any] = {"algorithm.name": algorithm, "seed": seed}
    if steps is not None:
        chosen["train.steps"] = steps
    if discount is not None:
        chosen["discount"] = discount
    pairs = [(key, _text(key, value)) for key, value in _flat(chosen)]
    pairs += [(key, _text(key, value)) for key, value in _flat(settings or {})]
    listener = _Listener(algorithm, progress)
    data = dataset if isinstance(dataset, Dataset) else os.fspath(dataset)
    folder = None if out is None else os.fspath(out)
    try:
        model = _isochrone.fit(data, pairs, device, folder, threads, check, listener)
    finally:
        listener.close()
    if model.doubt:
        LOG.warning(model.doubt)
    return model


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values; ``name`` and ``kind`` first, because they reset what is beside them."""
    for key in sorted(settings, key=lambda key: key.rsplit(".")[-1] not in ("name", "kind")):
        value = settings[key]
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _text(key: str, value: Any) -> str:
    """A value as JSON; numbers of numpy and paths included."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    try:
        return json.dumps(value)
    except TypeError:
        kind = type(value).__name__
        raise ValueError(f"`{key}` is a `{kind}`, expected a number, a string or a list") from None
