"""Logs: one line for each fact, on standard error, in Kubernetes' formats (klog.py).

Modules log with `get_logger` of framework/logger.py. This module says which of their lines are
shown, how they are rendered and where they are written.

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
from functools import partial
from typing import TextIO

import msgspec

from berth.config.options import LoggingOptions

from ..scheduling.framework.logger import Fields, output, use_output
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

    def shows(self, fields: Fields) -> bool:
        """False if a line of this kind, named by its field `repeats`, was shown recently. Adds to
        the line how many were left out.
        """
        kind = fields.pop("repeats", None)
        if kind is None:
            return True
        left_out = self.admit(kind, time.monotonic())
        if left_out:
            fields["left_out"] = left_out
        return left_out is not None

    def admit(self, kind: Hashable, now: float) -> int | None:
        """Returns how many lines of a kind were left out since the last that was shown; None if
        this one is left out too. `now` is monotonic seconds.
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
    """The destinations of a module's lines by level, and its verbosity: that of the process, or
    `raised` if it is higher.
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


class LogOutput:
    """The output of the process: the streams of each module that has logged, and how a line is
    rendered. `raised` gives the verbosity that --vmodule asks for a module.
    """

    def __init__(
        self,
        verbosity: int,
        raised: Callable[[str], int],
        render: Callable[[str, Fields], str],
        writes: tuple[Write, Write, Write],
    ) -> None:
        self._verbosity = verbosity
        self._raised = raised
        self._render = render
        self._writes = writes  # of information, warnings and errors
        self._streams: dict[str, Streams] = {}
        self._repeats = Repeats()

    def level_of(self, module: str) -> Streams:
        streams = self._streams.get(module)
        if streams is None:
            raised = self._raised(module)
            shown = max(self._verbosity, raised)
            streams = self._streams[module] = Streams(module, shown, raised, *self._writes)
        return streams

    def tell(self, module: str, level: str, fields: Fields) -> None:
        if not self._repeats.shows(fields):
            return
        failure = fields.pop("exc_info", None)
        if failure:
            fields["exception"] = _traceback_text(failure)
        latest_problems.add(module, level, fields)
        write: Write = getattr(self.level_of(module), level)
        write(self._render(level, fields))

    def set_verbosity(self, verbosity: int) -> None:
        self._verbosity = verbosity
        for streams in self._streams.values():
            streams.verbosity = max(verbosity, streams.raised)


def _write(stream: TextIO | None, line: str) -> None:
    """Writes a line. It is lost if nobody reads, or the disk is full, because scheduling must go
    on.
    """
    with suppress(OSError):
        if stream is None or stream.closed:
            return
        try:
            stream.write(line + "\n")
        except UnicodeEncodeError:  # standard output, unlike standard error, is strict
            stream.write(line.encode("ascii", "backslashreplace").decode() + "\n")
        stream.flush()


def _traceback_text(failure: BaseException | bool) -> str:
    """Returns the traceback of an exception; for True, of the one that is being handled."""
    exception = failure if isinstance(failure, BaseException) else sys.exception()
    return "".join(traceback.format_exception(exception, limit=-MOST_FRAMES)).rstrip()


def _matches_pattern(pattern: str, module: str) -> bool:
    """True if a pattern of --vmodule matches a module, given by its dotted name."""
    parts = module.split(".")
    length = pattern.count("/") + 1
    return fnmatchcase("/".join(parts[-length:]), pattern.removesuffix(".py"))


_writers: dict[TextIO | None, LineWriter] = {}  # the threads of this process, by stream


def configure_logs(
    options: LoggingOptions = DEFAULTS, *, quiet: bool = False, aside: bool = False
) -> None:
    """Sets up the logs of this process. With `quiet`, only warnings and errors are shown. With
    `aside`, threads write the lines; then call `flush_logs` before the end.
    """
    errors: TextIO | None = sys.stderr  # None if closed at the start
    write_error = _writer(errors, aside=aside)
    write_info = _writer(sys.stdout, aside=aside) if options.split_stream else write_error
    is_json = options.format == "json"
    # Kubernetes' JSON has no warnings: they are no errors.
    write_warning = write_info if is_json else write_error
    verbosity = QUIET if quiet else options.verbosity
    patterns = () if quiet else options.vmodule

    def raised(module: str) -> int:
        return next(
            (level for pattern, level in patterns if _matches_pattern(pattern, module)), QUIET
        )

    colours = errors is not None and errors.isatty()
    render = render_json if is_json else TextLines(os.getpid(), colours=colours)
    use_output(LogOutput(verbosity, raised, render, (write_info, write_warning, write_error)))


def set_verbosity(verbosity: int) -> None:
    """Gives the process another verbosity while it runs."""
    lines = output()
    if isinstance(lines, LogOutput):
        lines.set_verbosity(verbosity)


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
    """Writes a line to standard error unchanged, after the lines of the log."""
    _writer(sys.stderr, aside=False)(line)


def flush_logs(seconds: float) -> None:
    """Waits until the lines so far are written, for at most this time for each stream."""
    for writer in _writers.values():
        writer.flush(seconds)


def dropped_lines() -> int:
    """Returns the number of lines that were lost because nobody read in time, or writing failed."""
    return sum(writer.dropped for writer in _writers.values())
