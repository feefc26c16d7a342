"""A line of progress: in terminals and in notebooks, without other packages."""

from __future__ import annotations

import sys
import time
from typing import TextIO

WIDTH = 24
"""Characters of the bar."""
EVERY = 0.1
"""Seconds between two drawings."""


def is_shown(stream: TextIO) -> bool:
    """Whether somebody is likely to look: a terminal, or a notebook."""
    try:
        return stream.isatty() or in_notebook()
    except (AttributeError, ValueError):
        return False


def in_notebook() -> bool:
    """Whether a kernel of Jupyter runs this."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class Bar:
    """One line that is drawn again and again."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self.name = name
        self.stream = stream
        self.began = time.monotonic()
        self.drawn = -EVERY
        self.length = 0
        self.what = ""
        self.first = 0
        self.extra = ""

    def update(self, what: str, done: int, total: int) -> None:
        """Draws how far it is, unless that was done a moment ago."""
        now = time.monotonic()
        if what != self.what:
            self.what, self.first, self.began = what, done, now
        if now - self.drawn < EVERY and done < total:
            return
        self.drawn = now
        self.draw(self.line(what, done, total, now - self.began))

    def line(self, what: str, done: int, total: int, seconds: float) -> str:
        """The text: bar, count, rate and time left."""
        share = done / total if total else 1.0
        bar = "#" * int(share * WIDTH)
        text = f"{self.name} {what} [{bar:{WIDTH}}] {done:,}/{total:,}"
        gained = done - self.first
        if gained > 0 and seconds > 0:
            rate = gained / seconds
            text += f"  {rate:,.0f}/s  {clock((total - done) / rate)} left"
        return text + self.extra

    def draw(self, text: str) -> None:
        """Replaces the line."""
        self.stream.write("\r" + text.ljust(self.length))
        self.stream.flush()
        self.length = len(text)

    def close(self) -> None:
        """Ends the line, if there is one."""
        if self.length:
            self.stream.write("\n")
            self.stream.flush()
            self.length = 0


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    whole = int(seconds + 0.5)
    return f"{whole // 60:02}:{whole % 60:02}"
