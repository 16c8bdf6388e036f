"""Logs: one line for each fact, on standard error, in Kubernetes' formats (klog.py).

A module makes its logger with `get_logger(__name__)`; `info`, `warning` and `error` are shown at
every verbosity, `at(n, ...)` from `-v n` on. `shows(n)` saves the work for a line that is off. The
verbosity of a module is that of the process, or a higher one that `--vmodule` gives it: a pattern
with a slash is compared with the end of the module's path, such as `queue/actor`, any other pattern
with its last part.

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

import enum
import os
import sys
import time
import traceback
from collections.abc import Hashable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, TextIO, cast

import structlog

from berth.config.options import LoggingOptions

from .klog import JsonLines, Severity, TextLines, quoted

DEFAULTS = LoggingOptions()
QUIET = -1
DEBUG = 4  # the verbosity of `debug`
REPEAT_SECONDS = 60.0
MOST_REPEATED = 256  # kinds of lines
MOST_FRAMES = 50  # the innermost ones of a traceback
ENDED = 2  # the verbosity from which the line of an attempt is shown
NO_NODES = "no nodes available to schedule pods"  # kube-scheduler's


class Result(enum.StrEnum):
    """The end of an attempt."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"


_ERROR = Result.ERROR  # looking a member up in its class is slow
_SCHEDULED = Result.SCHEDULED
_INFO = Severity.INFO
_frame = sys._getframe  # noqa: SLF001 - the only way to one frame without the whole stack
_COLOURS = {Severity.WARNING: "\x1b[33m", Severity.ERROR: "\x1b[31m", Severity.FATAL: "\x1b[31m"}


class Repeats:
    """Limits lines that repeat: one of each kind is shown in REPEAT_SECONDS."""

    def __init__(self) -> None:
        self._shown_at: dict[Hashable, float] = {}
        self._left_out: dict[Hashable, int] = {}

    def admit(self, kind: Hashable, now: float) -> int | None:
        """Return how many lines of a kind were left out since the last one that was shown; None to
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


class _Lines(Protocol):
    def line(
        self,
        severity: Severity,
        verbosity: int,
        caller: str,
        message: str,
        fields: dict[str, object],
    ) -> str: ...


class _Output:
    """Where the lines of this process go."""

    def __init__(self, options: LoggingOptions) -> None:
        self._lines: _Lines = JsonLines() if options.format == "json" else TextLines(os.getpid())
        self.text = self._lines if isinstance(self._lines, TextLines) else None
        self._repeats = Repeats()
        self._errors: TextIO | None = sys.stderr  # None if closed at the start
        self._infos: TextIO | None = sys.stdout if options.split_stream else sys.stderr
        # Kubernetes' JSON has no warnings: they are no errors.
        self._warnings = self._errors if self.text else self._infos
        self._colours = self.text is not None and sys.stderr is not None and sys.stderr.isatty()

    def show(
        self,
        severity: Severity,
        verbosity: int,
        caller: str,
        message: str,
        fields: dict[str, Any],
    ) -> None:
        kind = fields.pop("repeats", None)
        if kind is not None:
            left_out = self._repeats.admit(kind, time.monotonic())
            if left_out is None:
                return
            if left_out:
                fields["left_out"] = left_out
        failure = fields.pop("exc_info", None)
        if failure:
            fields["exception"] = _trace(failure)
        line = self._lines.line(severity, verbosity, caller, message, fields)
        if severity is _INFO:
            self.write(line)
            return
        if self._colours:
            line = f"{_COLOURS[severity]}{line}\x1b[0m"
        stream = self._warnings if severity is Severity.WARNING else self._errors
        _write(stream, line)

    def write(self, line: str) -> None:
        """Write a line of severity Info that is ready."""
        _write(self._infos, line)


def _write(stream: TextIO | None, line: str) -> None:
    """Write a line. It is lost if nobody reads, or the disk is full: scheduling goes on."""
    with suppress(OSError):
        if stream is None or stream.closed:
            return
        try:
            stream.write(line + "\n")
        except UnicodeEncodeError:  # standard output, unlike standard error, is strict
            stream.write(line.encode("ascii", "backslashreplace").decode() + "\n")
        stream.flush()


def _trace(failure: object) -> str:
    match failure:
        case BaseException():
            given: Any = (type(failure), failure, failure.__traceback__)
        case tuple():
            given = failure
        case _:
            given = sys.exc_info()
    return "".join(traceback.format_exception(*given, limit=-MOST_FRAMES)).rstrip()


class _Sink:
    """The output of the lines of one module, up to its verbosity."""

    def __init__(self, verbosity: int, output: _Output) -> None:
        self.verbosity = verbosity
        self.output = output


class _Sinks:
    """Makes the sinks of modules, by name. A factory of loggers for structlog."""

    def __init__(self, options: LoggingOptions, *, quiet: bool) -> None:
        self._output = _Output(options)
        self._verbosity = QUIET if quiet else options.verbosity
        self._patterns = () if quiet else options.vmodule
        self._sinks: dict[str, _Sink] = {}

    def __call__(self, name: str = "") -> _Sink:
        sink = self._sinks.get(name)
        if sink is None:
            raised = (level for pattern, level in self._patterns if _fits(pattern, name))
            sink = _Sink(max(self._verbosity, next(raised, self._verbosity)), self._output)
            self._sinks[name] = sink
        return sink


def _fits(pattern: str, module: str) -> bool:
    """True if a pattern of --vmodule fits a module, which has a name with dots."""
    parts = module.split(".")
    length = pattern.count("/") + 1
    return fnmatchcase("/".join(parts[-length:]), pattern.removesuffix(".py"))


def _rendered(_logger: object, _method: str, _fields: structlog.types.EventDict) -> str:
    """Takes the place of structlog's processors: Logger writes its lines itself, unless others,
    such as one that captures lines, have replaced this one.
    """
    raise AssertionError("Logger writes the line")


class Logger(structlog.BoundLoggerBase):
    """A logger of structlog with the verbosities of klog."""

    def shows(self, verbosity: int) -> bool:
        """True if lines of this verbosity are shown."""
        return verbosity <= getattr(self._logger, "verbosity", 0)

    def at(self, verbosity: int, event: str, **fields: object) -> None:
        """Log a fact from `-v verbosity` on."""
        if verbosity <= getattr(self._logger, "verbosity", 0):
            self._show(_INFO, "info", verbosity, event, fields)

    def debug(self, event: str, **fields: object) -> None:
        if self.shows(DEBUG):
            self._show(_INFO, "debug", DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        if getattr(self._logger, "verbosity", 0) > QUIET:
            self._show(_INFO, "info", 0, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._show(Severity.WARNING, "warning", 0, event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._show(Severity.ERROR, "error", 0, event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """Log an error with the traceback of the exception that is being handled."""
        self._show(Severity.ERROR, "error", 0, event, {"exc_info": True, **fields})

    def critical(self, event: str, **fields: object) -> None:
        self._show(Severity.FATAL, "critical", 0, event, fields)

    def write_text(self, rest: str) -> bool:
        """Write a line of severity Info in klog's text whose message and fields are ready, for the
        caller's caller. Returns False if this process logs in another format.
        """
        if not self._writes():
            return False
        output = cast("_Sink", self._logger).output
        if output.text is None:
            return False
        output.write(output.text.head(_INFO, _caller(_frame(2))[0]) + rest)
        return True

    def _writes(self) -> bool:
        return cast("Sequence[object]", self._processors)[-1] is _rendered

    def _show(
        self, severity: Severity, method: str, verbosity: int, event: str, fields: dict[str, object]
    ) -> None:
        if not self._writes():
            self._proxy_to_logger(method, event, **fields)
            return
        fields = {**self._context, **fields}
        sink: _Sink = self._logger
        sink.output.show(severity, verbosity, _caller(_frame(2))[1], event, fields)


_own = globals()
_places: dict[tuple[str, int], tuple[str, str]] = {}


def _caller(frame: FrameType | None) -> tuple[str, str]:
    """`file:line` of the code that logs, and the same with the folder of the file."""
    while frame is not None and frame.f_globals is _own:
        frame = frame.f_back
    assert frame is not None
    key = frame.f_code.co_filename, frame.f_lineno
    place = _places.get(key)
    if place is None:
        *_, folder, file = ("", *Path(key[0]).parts)
        place = _places[key] = f"{file}:{key[1]}", f"{folder}/{file}:{key[1]}"
    return place


def get_logger(name: str) -> Logger:
    """The logger of the module of this name. Bind it once where it is called for every pod."""
    return cast(
        "Logger",
        structlog.wrap_logger(None, wrapper_class=Logger, logger_factory_args=(name,)),
    )


def log_attempt(
    log: Logger,
    pod: str,
    result: Result,
    attempt: int,
    seconds: float,
    *,
    node: str = "",
    reason: str = "",
    evaluated: int = 0,
    feasible: int = 0,
) -> None:
    """Log the line that ends an attempt, with kube-scheduler's messages and the results of its
    metric `schedule_attempts_total`. `seconds` counts from the moment in which the queue handed the
    pod out.

    The text of a success is made here, because every pod has one.
    """
    if result is not _ERROR and not log.shows(ENDED):
        return
    fields: dict[str, object]
    if result is _SCHEDULED:
        if log.write_text(
            f'"Successfully bound pod to node" pod={quoted(pod)} node={quoted(node)} '
            f"evaluatedNodes={evaluated} feasibleNodes={feasible} "
            f'result="scheduled" attempt={attempt} seconds={seconds:.6f}'
        ):
            return
        event = "Successfully bound pod to node"
        fields = {"node": node, "evaluatedNodes": evaluated, "feasibleNodes": feasible}
    elif result is _ERROR:
        event = "Error scheduling pod; retrying"
        fields = {"node": node, "error": reason} if node else {"error": reason}
    elif reason == NO_NODES:
        event = "Unable to schedule pod; no nodes are registered to the cluster; waiting"
        fields = {}
    else:
        event = "Unable to schedule pod; no fit; waiting"
        fields = {"node": node, "error": reason} if node else {"error": reason}
    end = {"result": str(result), "attempt": attempt, "seconds": round(seconds, 6)}
    if result is _ERROR:
        log.error(event, pod=pod, **fields, **end)
    else:
        log.at(ENDED, event, pod=pod, **fields, **end)


def configure_logs(options: LoggingOptions = DEFAULTS, *, quiet: bool = False) -> None:
    """Set up the logs of this process. If `quiet`, only warnings and errors are shown."""
    structlog.configure(
        processors=[_rendered],
        wrapper_class=Logger,
        logger_factory=_Sinks(options, quiet=quiet),
    )
