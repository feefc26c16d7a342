"""Exact distances of small decision processes, without learning.

A process is given by its probabilities P:

- states × states: a chain, without actions;
- states × actions × states: P[s, a, t] is the probability of t after action a in s; a row of zeros
  is an action that is not available;
- a scipy sparse matrix: a chain; a list of them: one per action.

>>> from isochrone import exact
>>> street = [[0, 1, 0], [0, 0, 1], [0, 0, 1]]
>>> exact.distances(street, discount=0.9)
array([[ 0.,  1.,  2.],
       [inf,  0.,  1.],
       [inf, inf,  0.]])
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _isochrone

__all__ = ["Moves", "distances", "policy", "read"]


class Moves:
    """A process as columns of its moves, as the solver takes it."""

    def __init__(self, probabilities: Any) -> None:
        layers, self.is_chain = _layers(probabilities)
        self.actions = len(layers)
        self.states: int = layers[0][0][0]
        for action, (shape, *_) in enumerate(layers):
            if shape != (self.states, self.states):
                raise ValueError(
                    f"the probabilities of action `{action}` have the shape {shape}, "
                    f"expected ({self.states}, {self.states})"
                )
        self.origins = np.concatenate([rows for _, rows, _, _ in layers]).astype(np.int64)
        self.targets = np.concatenate([columns for _, _, columns, _ in layers]).astype(np.int64)
        values = np.concatenate([values for _, _, _, values in layers])
        self.probabilities = np.ascontiguousarray(values, dtype=np.float64)
        counts = [len(rows) for _, rows, _, _ in layers]
        self.choices = np.repeat(np.arange(self.actions, dtype=np.int64), counts)


Layer = tuple[tuple[int, ...], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]
"""The shape of one action's probabilities, and the rows, columns and values that are not 0."""


def _layers(probabilities: Any) -> tuple[list[Layer], bool]:
    if hasattr(probabilities, "tocoo"):
        return [_sparse(probabilities)], True
    if isinstance(probabilities, (list, tuple)) and probabilities:
        if all(hasattr(one, "tocoo") for one in probabilities):
            return [_sparse(one) for one in probabilities], False
    table = np.asarray(probabilities)
    if table.dtype.kind not in "fiub" or table.ndim not in (2, 3) or table.size == 0:
        raise ValueError(
            f"the probabilities have the dtype `{table.dtype}` and the shape {table.shape}, "
            "expected numbers of (states, states) or (states, actions, states)"
        )
    if table.ndim == 2:
        return [_dense(table)], True
    return [_dense(table[:, action]) for action in range(table.shape[1])], False


def _sparse(matrix: Any) -> Layer:
    entries = matrix.tocoo()
    return entries.shape, entries.row, entries.col, entries.data


def _dense(table: npt.NDArray[Any]) -> Layer:
    # A value that is not a number counts as not 0, and is refused by the solver.
    rows, columns = np.nonzero(table)
    return table.shape, rows, columns, table[rows, columns]


def distances(probabilities: Any, discount: float) -> npt.NDArray[np.float64]:
    """Steps from every state to every other, each under the best policy for its goal.

    Unreachable is ``inf``. If motion is random, steps are a certainty equivalent:
    −ln E[γ^H] / ln(1/γ), with H the number of steps until the goal is first reached.
    """
    moves = Moves(probabilities)
    return _isochrone.exact_distances(moves, discount, moves.is_chain)


def policy(probabilities: Any, discount: float, goal: int) -> npt.NDArray[np.int64]:
    """The best action of every state on the way to ``goal``.

    >>> left_or_right = [[[1, 0], [0, 1]], [[1, 0], [0, 1]]]
    >>> exact.policy(left_or_right, discount=0.9, goal=1)
    array([1, 1])
    """
    return _isochrone.exact_policy(Moves(probabilities), discount, goal)


def read(
    path: str | os.PathLike[str], discount: float | None = None
) -> tuple[list[str], npt.NDArray[np.float64]]:
    """The states of a TOML or JSON file by name, and the steps between them."""
    return _isochrone.exact_file(os.fspath(path), discount)
