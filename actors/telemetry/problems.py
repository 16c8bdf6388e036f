"""The latest warnings and errors of the log, for people who look at the scheduler.

Those of the workshop are left out: in a toy cluster its kubelets log in the same process.
"""

from __future__ import annotations

from collections import deque
from time import time

import msgspec

from ..scheduling.framework.logger import Fields
from .klog import RENAMED, pair, printable

MOST_KEPT = 20
MOST_CHARACTERS = 500  # of a line
OTHERS = "berth.tools."


class LoggedProblem(msgspec.Struct, frozen=True):
    """A warning or error in the log: its time in Unix seconds, its level and its text."""

    at: float
    level: str
    text: str


class LatestProblems:
    """The last MOST_KEPT problems. Any thread may add one."""

    def __init__(self) -> None:
        self._lines: deque[LoggedProblem] = deque(maxlen=MOST_KEPT)

    def add(self, module: str, level: str, fields: Fields) -> None:
        """Keeps a line of this module if it reports a problem."""
        if level != "info" and not module.startswith(OTHERS):
            severity = "warning" if level == "warning" else "error"
            self._lines.append(LoggedProblem(time(), severity, _text(fields)))

    def lines(self) -> tuple[LoggedProblem, ...]:
        """Returns the problems, oldest first."""
        return tuple(self._lines)


def _text(fields: Fields) -> str:
    message = fields["event"]
    pairs = (
        pair(RENAMED.get(name, name), value)
        for name, value in fields.items()
        if name not in ("event", "exception", "v")
    )
    last = str(fields.get("exception", "")).strip().rpartition("\n")[2]  # of a traceback
    text = f"{message}{''.join(pairs)}{f': {last}' if last else ''}"
    text = printable(" ".join(text.split()))
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


latest_problems = LatestProblems()
