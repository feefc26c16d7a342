"""The exact solver on numpy arrays and scipy's sparse matrices."""

import numpy as np
import pytest
from conftest import ROOT

from isochrone import exact


def grid():
    """A line of five states with the actions left and right; the wind is 20 % of the time."""
    table = np.zeros((5, 2, 5))
    for state in range(5):
        for action, move in enumerate([-1, 1]):
            table[state, action, min(max(state + move, 0), 4)] += 0.8
            table[state, action, state] += 0.2
    return table


def test_dense_and_sparse_processes_have_the_same_distances():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    table = grid()
    steps = exact.distances(table, 0.9)
    for kind in ["csr_array", "csc_array", "coo_array", "csr_matrix"]:
        layers = [getattr(scipy_sparse, kind)(table[:, action]) for action in range(2)]
        assert np.array_equal(exact.distances(layers, 0.9), steps)
        chain = exact.distances(layers[0], 0.9)
        assert np.array_equal(chain, exact.distances(table[:, 0], 0.9))
        assert np.isinf(chain[0, 1]) and chain[1, 0] == pytest.approx(steps[1, 0])
    assert np.array_equal(exact.distances(np.asfortranarray(table), 0.9), steps)
    assert np.all(np.diag(steps) == 0)
    # Geometric waiting: E γ^H = 0.8 γ / (1 − 0.2 γ).
    expected = np.log(0.8 * 0.9 / (1 - 0.2 * 0.9)) / np.log(0.9)
    assert steps[0, 1] == pytest.approx(expected)
    assert steps[0, 4] == pytest.approx(4 * expected)


def test_the_policy_goes_to_the_goal():
    assert exact.policy(grid(), 0.9, goal=4)[:4].tolist() == [1, 1, 1, 1]
    assert exact.policy(grid(), 0.9, goal=0)[1:].tolist() == [0, 0, 0, 0]


def test_a_file_has_names():
    names, steps = exact.read(ROOT / "docs/examples/commute.toml")
    assert steps.shape == (len(names), len(names))
    slower = exact.read(ROOT / "docs/examples/commute.toml", discount=0.5)[1]
    assert not np.array_equal(steps, slower)


@pytest.mark.parametrize(
    "table, words",
    [
        ([[0.5, 0.4], [0.0, 1.0]], "sum to `0.9`"),
        ([[0.5, np.nan], [0.0, 1.0]], "NaN"),
        ([[1.5, -0.5], [0.0, 1.0]], "probability"),
        ([[1.0, 0.0]], "expected (1, 1)"),
        ([[0.0, 0.0], [0.0, 1.0]], "state `0` has no action"),
        ([], "shape (0,)"),
        ([1.0], "shape (1,)"),
        ([["a"]], "expected numbers"),
    ],
)
def test_what_is_no_process_is_refused(table, words):
    with pytest.raises(ValueError) as error:
        exact.distances(table, 0.9)
    assert words in str(error.value)


def test_discount_and_goal_are_checked():
    for discount in [0.0, 1.0, np.nan]:
        with pytest.raises(ValueError, match="discount"):
            exact.distances(np.eye(2), discount)
    with pytest.raises(ValueError, match="below 5"):
        exact.policy(grid(), 0.9, goal=5)
    with pytest.raises((ValueError, OverflowError)):
        exact.policy(grid(), 0.9, goal=-1)
