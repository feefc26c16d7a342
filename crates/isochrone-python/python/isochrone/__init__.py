"""Learns how many steps apart states are, from recorded trajectories.

>>> import numpy, isochrone
>>> angle = 0.7 * numpy.arange(20)[:, None] + 0.1 * numpy.arange(30)
>>> walks = numpy.stack([numpy.cos(angle), numpy.sin(angle)], axis=-1)
>>> headings = numpy.stack([-numpy.sin(angle), numpy.cos(angle)], axis=-1)
>>> data = isochrone.Dataset.from_trajectories(list(zip(walks, headings)))
>>> model = isochrone.fit(data, "cmd1", steps=20, settings={"train.batch_size": 32})
>>> model.steps([1, 0], [1, 0])
0.0
>>> model.act([1, 0], [0, 1]).shape
(2,)
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from . import data, exact
from ._answers import Audit, Calibration, Inspection, Plan
from ._fit import fit
from ._isochrone import ALGORITHMS, Dataset, Model, __version__, load

if TYPE_CHECKING:
    from . import worlds

__all__ = [
    "ALGORITHMS",
    "Audit",
    "Calibration",
    "Dataset",
    "Inspection",
    "Model",
    "Plan",
    "__version__",
    "data",
    "exact",
    "fit",
    "load",
    "worlds",
]


def __getattr__(name: str) -> ModuleType:
    # Gymnasium is optional and takes a while to import.
    if name == "worlds":
        return importlib.import_module(".worlds", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
