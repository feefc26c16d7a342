"""The built-in worlds as Gymnasium environments.

An episode asks to reach ``info["goal"]``. As in OGBench, the reward is 1 on arrival and 0 before,
and ``info["success"]`` says whether the goal is reached.

>>> import gymnasium, isochrone.worlds
>>> env = gymnasium.make("isochrone/pinwheel-v0")
>>> observation, info = env.reset(seed=0)
>>> observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
>>> info["goal"].shape, reward
((2,), 0.0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._isochrone import Dataset, WorldCore, world_names

__all__ = ["World", "names"]

Array = npt.NDArray[np.float32]

if TYPE_CHECKING:
    import gymnasium

    Base = gymnasium.Env[Array, Array]
else:
    try:
        import gymnasium

        Base = gymnasium.Env
    except ImportError:
        gymnasium, Base = None, object


def names() -> list[str]:
    """The names of all worlds.

    >>> isochrone.worlds.names()[:3]
    ['pinwheel', 'pinwheel-shortcut', 'roads']
    """
    return world_names()


class World(Base):
    """One world: ``World("pinwheel")``, or ``gymnasium.make("isochrone/pinwheel-v0")``."""

    metadata: dict[str, Any] = {"render_modes": []}
    render_mode: str | None = None

    def __init__(self, name: str) -> None:
        if gymnasium is None:
            raise ImportError("worlds need Gymnasium: `pip install gymnasium`")
        self.core = WorldCore(name)
        self.steps = 0
        self.goal: Array = np.zeros(0, np.float32)
        size = (self.core.state_size,)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, size, np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (self.core.action_size,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begins an episode; ``options`` may hold ``task_id`` (from 1), ``start`` and ``goal``."""
        super().reset(seed=seed)
        options = dict(options or {})
        task = options.pop("task_id", None)
        start, goal = options.pop("start", None), options.pop("goal", None)
        if options:
            raise ValueError(
                f"unknown option `{next(iter(options))}`; hint: known are `task_id`, `start`, `goal`"
            )
        drawn = int(self.np_random.integers(2**63))
        kind = drawn % self.core.kinds if task is None else int(task) - 1
        if not 0 <= kind < self.core.kinds:
            raise ValueError(f"`task_id` is `{task}`, expected 1 to {self.core.kinds}")
        observation, self.goal = self.core.begin(drawn, kind, start, goal)
        self.steps = 0
        return observation, self.info(False)

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Moves by one action, each value within [−1, 1]."""
        observation, reached = self.core.step(action)
        self.steps += 1
        is_late = not reached and self.steps >= self.core.horizon
        return observation, float(reached), reached, is_late, self.info(reached)

    def info(self, reached: bool) -> dict[str, Any]:
        """The goal and whether it is reached."""
        return {"goal": self.goal.copy(), "success": float(reached)}

    def record(self, seed: int = 0, episodes: int | None = None) -> Dataset:
        """Records the world's own dataset, or so many episodes of it."""
        return self.core.record(seed, episodes)


if gymnasium is not None:
    for _name in names():
        gymnasium.register(
            id=f"isochrone/{_name}-v0",
            entry_point="isochrone.worlds:World",
            kwargs={"name": _name},
        )
