"""The log of a hollow container: lines of a script, each at its time.

A script is text. A line may begin with its time: in RFC 3339, or as seconds after the start of the
container, such as `+1.5s ready`. A line without a time is as old as the line before it, the first
one as old as the container. A line whose time has not come is not in the log yet, and none is
written after the container's end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from math import inf

import msgspec

from berth.actors.scheduling.kube.times import seconds_of

from .container_states import ContainerRun
from .log_options import LogOptions

_AFTER = re.compile(r"\+([0-9]{1,9}(?:\.[0-9]{1,9})?)s(?: |$)")
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))(?: |$)")


class LogLine(msgspec.Struct, frozen=True):
    """A line of a log, without its end, and when it is written, in seconds since 1970."""

    time: float
    text: str


def lines_of(script: str, run: ContainerRun) -> list[LogLine]:
    """Returns the lines of a run of a container, those to come included."""
    last = inf if run.ended is None else run.ended
    time, lines = run.started, list[LogLine]()
    for written in script.removesuffix("\n").split("\n") if script else ():
        time, text = _timed(written, run, time)
        if time <= last:
            lines.append(LogLine(time, text))
    return lines


def _timed(written: str, run: ContainerRun, before: float) -> tuple[float, str]:
    """Returns the time of a line of a script, and the line without it."""
    if after := _AFTER.match(written):
        return run.started + float(after[1]), written[after.end() :]
    if (at := _TIME.match(written)) and (read := _seconds(at[1])) is not None:
        return read, written[at.end() :]
    return before, written


def first_lines(
    lines: Sequence[LogLine], options: LogOptions, now: float
) -> tuple[list[LogLine], int]:
    """Returns the lines that a request shows at once, and how many of all lines are written.

    Lines are written in their order: one that is due waits for those before it.
    """
    written = _written(lines, 0, now)
    shown = [
        line for line in lines[:written] if options.since is None or line.time >= options.since
    ]
    if options.tail is not None:
        shown = shown[len(shown) - options.tail :] if options.tail < len(shown) else shown
    return shown, written


def new_lines(lines: Sequence[LogLine], written: int, now: float) -> Sequence[LogLine]:
    """Returns the lines that have been written since so many were."""
    return lines[written : _written(lines, written, now)]


def next_time(lines: Sequence[LogLine], written: int) -> float | None:
    """Returns when the next line is written; None if there is none."""
    return lines[written].time if written < len(lines) else None


class LogWriter:
    """Writes lines as bytes, until the limit of a request is reached."""

    def __init__(self, options: LogOptions) -> None:
        self._timestamps = options.timestamps
        self._left = options.limit

    @property
    def is_full(self) -> bool:
        return self._left == 0

    def bytes_of(self, lines: Sequence[LogLine]) -> bytes:
        data = "".join(self._texts(lines)).encode("utf-8", "replace")
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        return data

    def _texts(self, lines: Sequence[LogLine]) -> Iterator[str]:
        for line in lines:
            yield f"{_stamp(line.time)} {line.text}\n" if self._timestamps else f"{line.text}\n"


def _written(lines: Sequence[LogLine], written: int, now: float) -> int:
    while written < len(lines) and lines[written].time <= now:
        written += 1
    return written


def _seconds(text: str) -> float | None:
    try:
        return seconds_of(text)
    except ValueError:
        return None


def _stamp(seconds: float) -> str:
    """Returns a time with nine digits after the second, as container runtimes write it."""
    time = datetime.fromtimestamp(round(seconds, 6), UTC).replace(tzinfo=None)
    return f"{time.isoformat(timespec='microseconds')}000Z"
