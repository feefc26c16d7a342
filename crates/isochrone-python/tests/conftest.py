"""Data and models that several tests share."""

from pathlib import Path

import numpy as np
import pytest

import isochrone

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "crates/isochrone/tests/fixtures"
SMALL = {"train.batch_size": 32}


def circle(count=20, length=30):
    """Walks round a circle, one way, with the actions taken."""
    angle = 0.7 * np.arange(count)[:, None] + 0.1 * np.arange(length)
    walks = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    headings = np.stack([-np.sin(angle), np.cos(angle)], axis=-1)
    return walks, headings


@pytest.fixture(scope="session")
def walks():
    return isochrone.Dataset.from_trajectories(list(zip(*circle())))


@pytest.fixture(scope="session")
def model(walks):
    return isochrone.fit(walks, "cmd1", steps=40, discount=0.95, settings=SMALL)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
