"""Trajectories from files, worlds and arrays."""

import numpy as np
import pytest
from conftest import FIXTURES, circle

import isochrone
from isochrone import Dataset


def test_every_format_is_read():
    for name in ["plain.npz", "ogbench.npz", "compressed.npz", "d4rl-f32.hdf5", "minari-plain"]:
        data = Dataset.load(FIXTURES / name)
        assert len(data) == data.rows == data.lengths.sum() > 0
        assert data.observations.shape == (data.rows, data.state_size)
    assert Dataset.load("pinwheel").trajectories == 400


def test_arrays_of_any_layout_are_the_same_data():
    walks, headings = circle(6, 10)
    rows, moves = walks.reshape(-1, 2), headings.reshape(-1, 2)
    ends = np.arange(60) % 10 == 9
    plain = Dataset.from_arrays(rows.astype(np.float32), moves.astype(np.float32), ends)
    wide = np.zeros((60, 4))
    wide[:, ::2] = rows
    for observations in [rows, np.asfortranarray(rows), wide[:, ::2], rows.tolist(), rows[::-1][::-1]]:
        for terminals in [ends, ends.astype(float), ends.astype(np.int64), ends.tolist()]:
            data = Dataset.from_arrays(observations, np.asfortranarray(moves), terminals)
            assert np.array_equal(data.observations, plain.observations)
            assert np.array_equal(data.actions, plain.actions)
            assert np.array_equal(data.terminals, ends)
    assert plain.lengths.tolist() == [10] * 6
    states, actions = plain.trajectory(-1)
    assert np.array_equal(states, plain.observations[50:]) and actions.shape == (10, 2)
    with pytest.raises(IndexError):
        plain.trajectory(6)


def test_integers_are_discrete_actions_and_the_last_one_may_be_missing():
    states = [[0.0], [0.1], [0.2]]
    data = Dataset.from_trajectories([(states, [0, 2]), {"observations": states, "actions": [1, 1, 1]}])
    assert data.choices == 3 and data.action_size == 3
    assert data.actions[:2].tolist() == [[1, 0, 0], [0, 0, 1]]
    assert Dataset.from_trajectories([(states, np.array([[0], [2]]))]).choices == 3
    assert Dataset.from_trajectories([(states, [[0.5], [0.5]])]).choices is None


def test_a_saved_file_is_read_by_numpy_and_by_us(tmp_path):
    walks, headings = circle(3, 5)
    data = Dataset.from_trajectories(list(zip(walks, headings)))
    data.save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as file:
        assert set(file) == {"observations", "actions", "terminals"}
        assert np.allclose(file["observations"], walks.reshape(-1, 2))
    again = Dataset.load(tmp_path / "a.npz")
    assert np.array_equal(again.observations, data.observations)
    found = isochrone.data.inspect(tmp_path / "a.npz")
    assert (found["rows"], found["trajectories"], found["format"]) == (15, 3, "npz")


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"observations": [1.0, 2.0]}, "has the shape (2,)"),
        ({"observations": np.zeros((2, 2, 2))}, "has the shape (2, 2, 2)"),
        ({"observations": [[0.0], [np.nan]]}, "row 1 has `NaN`"),
        ({"observations": [[0.0], [1e300]]}, "row 1 has `inf`"),
        ({"observations": np.zeros((0, 2))}, "no trajectory has two rows"),
        ({"observations": np.zeros((3, 0))}, "no values"),
        ({"observations": [["a"], ["b"]]}, "expected numbers"),
        ({"observations": [[0j], [1j]]}, "complex128"),
        ({"observations": [[1.0], [1.0, 2.0]]}, "not an array"),
        ({"observations": [[0.0], [1.0]], "terminals": [0, 0]}, "no trajectory ends"),
        ({"observations": [[0.0], [1.0]], "terminals": [0, 2]}, "expected 0 or 1"),
        ({"observations": [[0.0], [1.0]], "terminals": [1]}, "`terminals` has 1 rows"),
        ({"observations": [[0.0], [1.0]], "actions": [[0.0], [3.0]]}, "expected"),
        ({"observations": [[0.0], [1.0]], "actions": [0.5, 0.5]}, "reshape(-1, 1)"),
        ({"observations": [[0.0], [1.0]], "actions": [0, -1]}, "expected 0 or more"),
        ({"observations": [[0.0]] * 4, "actions": [[0.0]] * 2}, "4 observations and 2 actions"),
    ],
)
def test_arrays_that_cannot_be_used_are_refused(arguments, words):
    with pytest.raises(ValueError) as error:
        Dataset.from_arrays(**arguments)
    assert words in str(error.value)


def test_trajectories_must_be_alike():
    for given, words in [
        ([], "no trajectories"),
        ([[[0.0], [1.0]], [[0.0, 1.0], [1.0, 1.0]]], "those before have 1"),
        ([([[0.0], [1.0]], [[0.0], [0.0]]), [[0.0], [1.0]]], "not like those"),
        ([([[0.0]], [[0.0]], [[0.0]])], "a tuple of 3"),
        ([{"obs": [[0.0]]}], "no key `observations`"),
    ]:
        with pytest.raises(ValueError, match=words):
            Dataset.from_trajectories(given)


def test_errors_of_files_have_the_words_of_the_command(tmp_path):
    with pytest.raises(ValueError, match="no key `terminals`.*hint"):
        Dataset.load(FIXTURES / "no-terminals.npz")
    with pytest.raises((ValueError, OSError), match="nowhere.npz"):
        Dataset.load(tmp_path / "nowhere.npz")
    with pytest.raises(OSError, match="cannot"):
        Dataset.load("pinwheel").save(tmp_path / "no" / "such" / "a.npz")
