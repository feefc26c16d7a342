"""The real OGBench from PyPI as a client: its loader reads our files, our policy acts in its maze."""

import numpy as np
import pytest

import isochrone

ogbench = pytest.importorskip("ogbench")
gymnasium = pytest.importorskip("gymnasium")

EPISODES = 60
"""Episodes in OGBench's maze: twelve of each task."""


def test_the_loader_of_ogbench_reads_our_files(tmp_path):
    data = isochrone.worlds.World("pointmaze-medium-navigate").record(episodes=3)
    data.save(tmp_path / "ours.npz")
    read = ogbench.utils.load_dataset(tmp_path / "ours.npz")
    starts = ~data.terminals
    assert np.array_equal(read["observations"], data.observations[starts])
    assert np.array_equal(read["next_observations"], data.observations[1:][starts[:-1]])
    assert np.array_equal(read["actions"], data.actions[starts])
    assert read["terminals"].sum() == data.trajectories


def test_our_policy_does_as_well_in_the_maze_of_ogbench_as_in_ours():
    # Cloning on a hundred episodes takes seconds and reaches some goals but not all.
    settings = {"data.episodes": 100, "evaluation.tasks": 400}
    model = isochrone.fit("pointmaze-medium-navigate", "gcbc", steps=3_000, settings=settings)
    env, reached = gymnasium.make("pointmaze-medium-v0"), []
    for episode in range(EPISODES):
        options = {"task_id": 1 + episode % 5}
        observation, info = env.reset(seed=episode, options=options)
        goal, terminated, truncated = info["goal"], False, False
        while not (terminated or truncated):
            action = model.act(observation, goal)
            observation, _, terminated, truncated, info = env.step(action)
        reached.append(info["success"])
    noise = 3 * np.sqrt(0.25 / EPISODES + 0.25 / 400)
    assert 0.1 < model.success < 0.9
    assert abs(np.mean(reached) - model.success) < noise, (np.mean(reached), model.success)
