"""The worlds as Gymnasium environments."""

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env

import isochrone
from isochrone import worlds

TRIED = ["pinwheel", "pinwheel-shortcut", "roads", "pointmaze-medium-navigate", "pointmaze-teleport-navigate"]


@pytest.mark.parametrize("name", TRIED)
@pytest.mark.filterwarnings("ignore:.*infinity.*:UserWarning")
@pytest.mark.filterwarnings("ignore:.*render.*:UserWarning")
def test_the_checker_of_gymnasium_passes(name):
    env = gymnasium.make(f"isochrone/{name}-v0", disable_env_checker=True)
    check_env(env.unwrapped, skip_render_check=True)


def test_every_world_is_registered():
    registered = {name for name in gymnasium.registry if name.startswith("isochrone/")}
    assert registered == {f"isochrone/{name}-v0" for name in worlds.names()}


def test_a_seed_decides_the_episode_and_options_the_task():
    env = worlds.World("pointmaze-medium-navigate")
    first, info = env.reset(seed=3, options={"task_id": 2})
    again, same = env.reset(seed=3, options={"task_id": 2})
    assert np.array_equal(first, again) and np.array_equal(info["goal"], same["goal"])
    assert not np.array_equal(info["goal"], env.reset(options={"task_id": 2})[1]["goal"])
    goal = first + np.float32(0.1)
    start, info = env.reset(seed=3, options={"start": first, "goal": goal})
    assert np.array_equal(start, first) and np.array_equal(info["goal"], goal)
    _, reward, terminated, truncated, info = env.step([0.0, 0.0])
    assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, 1.0)
    for options in [{"task_id": 6}, {"task_id": 0}, {"tsk": 1}, {"goal": [1.0]}]:
        with pytest.raises(ValueError):
            env.reset(options=options)
    for action in [[0.0], [0.0, np.nan], np.zeros((2, 3))]:
        with pytest.raises(ValueError):
            env.step(action)
    with pytest.raises(ValueError, match="reset"):
        worlds.World("pinwheel").step([0.0, 0.0])
    with pytest.raises(ValueError, match="unknown world"):
        worlds.World("pinwhel")


def test_an_episode_ends_at_the_horizon():
    env = worlds.World("pinwheel")
    env.reset(seed=0)
    ends = [env.step([0.0, 0.0])[2:4] for _ in range(env.core.horizon)]
    assert ends[-1] == (False, True) and ends[-2] == (False, False)


def test_a_policy_reaches_goals_in_the_loop_as_in_the_evaluation():
    model = isochrone.fit("pinwheel", "gcbc", steps=2_000, settings={"train.evaluate_every": 0})
    env, reached = worlds.World("pinwheel"), []
    for episode in range(200):
        observation, info = env.reset(seed=episode)
        terminated = truncated = False
        while not (terminated or truncated):
            action = model.act(observation, info["goal"])
            observation, _, terminated, truncated, info = env.step(action)
        reached.append(terminated)
    # Two means of 200 and 400 outcomes: three standard errors.
    noise = 3 * np.sqrt(0.25 / 200 + 0.25 / 400)
    assert abs(np.mean(reached) - model.success) < noise
