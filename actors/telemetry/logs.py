"""Logs: one line for each fact, on standard error, in Kubernetes' formats (klog.py).

This module sets structlog up: which lines each module shows, how lines are rendered and where they
are written. Modules log with `get_logger` of runtime/logger.py.

A module has the verbosity of the process, or a higher one that `--vmodule` gives it: a
pattern with a slash is compared with the end of the module's path, such as `queue/actor`, any other
pattern with its last part.

    0   what operators need: start, leadership, failures, missing rights
    2   the end of each attempt to schedule a pod, preemptions
    3   the beginning of each attempt
    4   every step of a pod: docs/operating.md follows one
    10  the scores of all nodes

The story of a pod is the lines with its key. Lines that are not about a pod have the keys `node`,
`path` or `child`; an `error` says why something failed. An outage is logged once for each kind that
is watched ("watch interrupted", "watch resumed"), and not for each retry.

An exception of a plugin is logged as an error with its traceback. If a plugin fails for every pod,
such a line appears once a minute; the next one counts those that were `left_out`.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Hashable
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import TextIO

import msgspec
import structlog
from structlog.processors import ExceptionRenderer
from structlog.typing import EventDict, ExcInfo

from berth.config.options import LoggingOptions

from ..runtime.logger import Logger
from .klog import TextLines, render_json
from .line_writer import LineWriter
from .problems import latest_problems

DEFAULTS = LoggingOptions()
Write = Callable[[str], None]  # writes a line
QUIET = -1
REPEAT_SECONDS = 60.0
MOST_REPEATED = 256  # kinds of lines
MOST_FRAMES = 50  # the innermost ones of a traceback


class Repeats:
    """A limit on lines that repeat: one line of each kind is shown in REPEAT_SECONDS."""

    def __init__(self) -> None:
        self._shown_at: dict[Hashable, float] = {}
        self._left_out: dict[Hashable, int] = {}

    def __call__(self, _logger: object, _level: str, fields: EventDict) -> EventDict:
        """Drops a line if a line of its kind, the field `repeats`, was shown lately."""
        kind = fields.pop("repeats", None)
        if kind is not None:
            left_out = self.admit(kind, time.monotonic())
            if left_out is None:
                raise structlog.DropEvent
            if left_out:
                fields["left_out"] = left_out
        return fields

    def admit(self, kind: Hashable, now: float) -> int | None:
        """Returns how many lines of a kind were left out since the last one that was shown; None to
        leave this one out too. `now` is monotonic seconds.
        """
        shown_at = self._shown_at.get(kind)
        if shown_at is not None and now - shown_at < REPEAT_SECONDS:
            self._left_out[kind] += 1
            return None
        left_out = self._left_out.get(kind, 0)
        self._shown_at.pop(kind, None)
        self._shown_at[kind], self._left_out[kind] = now, 0
        if len(self._shown_at) > MOST_REPEATED:
            oldest = next(iter(self._shown_at))
            del self._shown_at[oldest], self._left_out[oldest]
        return left_out


class Streams(msgspec.Struct):
    """The destinations of the lines of one module by level, and its verbosity: that of the process,
    or `raised` if it is higher.
    """

    module: str
    verbosity: int
    raised: int
    info: Write
    warning: Write
    error: Write

    @property
    def critical(self) -> Write:
        return self.error


class _Process:
    """The verbosity of the process, and the streams of all modules that have logged."""

    def __init__(self) -> None:
        self.verbosity = 0
        self.streams: list[Streams] = []


def _write(stream: TextIO | None, line: str) -> None:
    """Writes a line. It is lost if nobody reads, or the disk is full: scheduling goes on."""
    with suppress(OSError):
        if stream is None or stream.closed:
            return
        try:
            stream.write(line + "\n")
        except UnicodeEncodeError:  # standard output, unlike standard error, is strict
            stream.write(line.encode("ascii", "backslashreplace").decode() + "\n")
        stream.flush()


def _trace(exc_info: ExcInfo) -> str:
    return "".join(traceback.format_exception(*exc_info, limit=-MOST_FRAMES)).rstrip()


def _fits(pattern: str, module: str) -> bool:
    """True if a pattern of --vmodule fits a module, which has a name with dots."""
    parts = module.split(".")
    length = pattern.count("/") + 1
    return fnmatchcase("/".join(parts[-length:]), pattern.removesuffix(".py"))


_process = _Process()
_writers: dict[TextIO | None, LineWriter] = {}  # the threads of this process, by stream


def configure_logs(
    options: LoggingOptions = DEFAULTS, *, quiet: bool = False, aside: bool = False
) -> None:
    """Sets up the logs of this process. If `quiet`, only warnings and errors are shown. If `aside`,
    lines are written in threads of their own; call `flush_logs` before the end.
    """
    errors: TextIO | None = sys.stderr  # None if closed at the start
    write_error = _writer(errors, aside=aside)
    write_info = _writer(sys.stdout, aside=aside) if options.split_stream else write_error
    is_json = options.format == "json"
    # Kubernetes' JSON has no warnings: they are no errors.
    write_warning = write_info if is_json else write_error
    verbosity = QUIET if quiet else options.verbosity
    patterns = () if quiet else options.vmodule

    _process.verbosity = verbosity
    _process.streams.clear()

    @cache
    def streams(module: str = "") -> Streams:
        raised = next((level for pattern, level in patterns if _fits(pattern, module)), QUIET)
        shown = max(_process.verbosity, raised)
        made = Streams(module, shown, raised, write_info, write_warning, write_error)
        _process.streams.append(made)
        return made

    colours = errors is not None and errors.isatty()
    structlog.configure(
        processors=[
            Repeats(),
            ExceptionRenderer(_trace),
            latest_problems,
            render_json if is_json else TextLines(os.getpid(), colours=colours),
        ],
        wrapper_class=Logger,
        logger_factory=streams,
    )


def set_verbosity(verbosity: int) -> None:
    """Gives the process another verbosity while it runs."""
    _process.verbosity = verbosity
    for streams in _process.streams:
        streams.verbosity = max(verbosity, streams.raised)


def _writer(stream: TextIO | None, *, aside: bool) -> Write:
    writer = _writers.get(stream)
    if writer is None and aside and stream is not None:
        try:
            stream.flush()
            writer = _writers[stream] = LineWriter(stream.fileno(), stream.encoding)
        except (OSError, ValueError):  # closed, or no file
            pass
    return partial(_write, stream) if writer is None else writer.write


def write_error_line(line: str) -> None:
    """Writes a line to standard error as it stands, after the lines of the log."""
    _writer(sys.stderr, aside=False)(line)


def flush_logs(seconds: float) -> None:
    """Waits until the lines so far are written, for at most this time for each stream."""
    for writer in _writers.values():
        writer.flush(seconds)


def dropped_lines() -> int:
    """Returns the number of lines that nobody read in time, or that could not be written."""
    return sum(writer.dropped for writer in _writers.values())
