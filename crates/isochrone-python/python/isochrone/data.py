"""Files of trajectories: what they hold and what looks wrong with them."""

from __future__ import annotations

from ._isochrone import inspect

__all__ = ["inspect"]
