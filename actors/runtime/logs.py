"""Logs: one line a fact, on standard error, as text for people or as JSON for machines.

A pod's story is the lines with its key. Every attempt to schedule it ends in one, from verbosity 0
on:

    attempted  pod=default/web result=scheduled node=node-3 attempt=2 seconds=0.004
    attempted  pod=default/web result=unschedulable attempt=1 seconds=0.001 reason='0/3 nodes are available: ...'
    attempted  pod=default/web result=error node=node-3 attempt=1 seconds=0.2 reason='running Bind plugin ...'

The results are those of kube-scheduler's metric `schedule_attempts_total`. `seconds` is from the
moment the queue gave the pod out; `node` is there if one was chosen, `reason` if the pod is not
bound. An error is a warning, as the attempt is repeated. From verbosity 4 on, debug lines say what
comes between two attempts:

    queued     pod=default/web queue=active because=NodeAdd

What a plugin raises is an error with its traceback: in JSON the field `exception`, in text the
lines that follow. A plugin that fails for every pod shows it once a minute; the next such line says
how many were `left_out` since.

plugin failed      point=Filter plugin=Price pod=default/web node=odd error='KeyError: ...'
left_out=840

Lines about others have the keys `node`, `path`, `child`; what went wrong is `error`. An outage is
told once for each kind that is followed ("watch interrupted", "watch resumed"), not once a retry.
"""

from __future__ import annotations

import enum
import logging
import re
import sys
import time
import traceback
from collections.abc import Hashable, Sequence
from datetime import UTC, datetime
from typing import Literal, cast

import structlog
from structlog.typing import FilteringBoundLogger

LogFormat = Literal["text", "json"]
DEBUG_VERBOSITY = 4
PAD_EVENT_TO = 18
REPEAT_SECONDS = 60.0
MOST_REPEATED = 256  # kinds of lines
MOST_FRAMES = 50  # the innermost ones of a traceback
_LEVELS = {
    "warn": "warning",
    "exception": "error",
}  # of the methods that are not named after theirs
_QUOTED = re.compile("[ \\t=\\r\\n\"']")


class Result(enum.StrEnum):
    """How an attempt ended."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"


_ERROR = Result.ERROR  # looking a member up in its class is slow


def log_attempt(
    log: FilteringBoundLogger,
    pod: str,
    result: Result,
    attempt: int,
    seconds: float,
    *,
    node: str = "",
    reason: str = "",
) -> None:
    """The line that ends an attempt; see above. `log` is bound once by who logs, because each pod
    has such a line.

    Plain text is made of it here, without the dictionary of fields that the other formats are
    given.
    """
    seconds = round(seconds * 1e6) / 1e6
    method, level = ("warning", logging.WARNING) if result is _ERROR else ("info", logging.INFO)
    if isinstance(log, _PlainLogger) and log.is_plain():
        if log.is_enabled_for(level):  # pod and node are names: nothing in them is to be quoted
            at = f" node={node}" if node else ""
            why = f" reason={_word(reason)}" if reason else ""
            fields = f" pod={pod} result={result!s}{at} attempt={attempt} seconds={seconds}{why}"
            log.write(_PLAIN.head(method, "attempted") + fields)
        return
    known: dict[str, str | int | float] = {
        "pod": pod,
        "result": str(result),
        "node": node,
        "attempt": attempt,
        "seconds": seconds,
        "reason": reason,
    }
    getattr(log, method)(
        "attempted", **{name: value for name, value in known.items() if value != ""}
    )


class Repeats:
    """Lines that say the same again: of a kind, one is shown in REPEAT_SECONDS."""

    def __init__(self) -> None:
        self._shown_at: dict[Hashable, float] = {}
        self._left_out: dict[Hashable, int] = {}

    def admit(self, kind: Hashable, now: float) -> int | None:
        """How many were left out since the last one was shown; None to leave this one out too. In
        monotonic seconds.
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

    def __call__(
        self, _logger: object, _method: str, fields: structlog.types.EventDict
    ) -> structlog.types.EventDict:
        """The lines that say by `repeats` of which kind they are."""
        kind = fields.pop("repeats", None)
        if kind is not None:
            left_out = self.admit(kind, time.monotonic())
            if left_out is None:
                raise structlog.DropEvent
            if left_out:
                fields["left_out"] = left_out
        return fields


def _trace(exc_info: structlog.types.ExcInfo) -> str:
    return "".join(traceback.format_exception(*exc_info, limit=-MOST_FRAMES)).rstrip()


class _Plain:
    """What ConsoleRenderer shows without colours, at a tenth of its cost: each pod that is placed
    has a line.

    It stands for all processors. The time is in UTC, and its text down to the second is made once a
    second.
    """

    def __init__(self) -> None:
        self._second, self._text = "", ""
        self._names: dict[
            tuple[str, str], str
        ] = {}  # padded, by method and event: an event's text is never made up

    def __call__(self, _logger: object, method: str, fields: structlog.types.EventDict) -> str:
        line = self.head(method, fields.pop("event"))
        blocks = [fields.pop(name) for name in ("stack", "exception") if name in fields]
        for name, value in fields.items():
            line += f" {name}={_word(value)}"
        return "\n".join((line, *blocks)) if blocks else line

    def head(self, method: str, event: str) -> str:
        """The time, the level, and what has happened."""
        seconds, _, micros = f"{time.time():.6f}".partition(".")
        if seconds != self._second:
            self._second, self._text = (
                seconds,
                f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%dT%H:%M:%S}",
            )
        names = self._names.get((method, event))
        if names is None:
            names = f"[{_LEVELS.get(method, method):<9}] {event:<{PAD_EVENT_TO}}"
            self._names[method, event] = names
        return f"{self._text}.{micros}Z {names}"


_PLAIN = _Plain()


def _word(value: object) -> str:
    return value if isinstance(value, str) and _QUOTED.search(value) is None else repr(value)


class _PlainLogger(structlog.BoundLoggerBase):
    """What a structlog logger that shows plain text can do besides: take a line that is made
    already.
    """

    def is_plain(self) -> bool:
        """False where tests have put something else in the place of _PLAIN, to capture what is
        logged.
        """
        return cast("Sequence[object]", self._processors)[-1] is _PLAIN

    def write(self, line: str) -> None:
        self._logger.msg(line)


def configure_logs(verbosity: int, form: LogFormat, *, quiet: bool = False) -> None:
    """`verbosity` is kube-scheduler's -v: from 4 on, debug lines are shown. `quiet` shows warnings
    and worse only.
    """
    level = (
        logging.WARNING
        if quiet
        else logging.DEBUG
        if verbosity >= DEBUG_VERBOSITY
        else logging.INFO
    )
    told: list[structlog.types.Processor] = [
        Repeats(),
        structlog.processors.ExceptionRenderer(_trace),
    ]
    processors: list[structlog.types.Processor] = [
        *told,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    logger: type[structlog.typing.BindableLogger] = structlog.make_filtering_bound_logger(level)
    if form == "json":
        processors.append(structlog.processors.JSONRenderer())
    elif sys.stderr.isatty():
        console = structlog.dev.ConsoleRenderer(
            colors=True,
            pad_event_to=PAD_EVENT_TO,
            sort_keys=False,
            exception_formatter=structlog.dev.plain_traceback,
        )
        processors.append(console)
    else:
        processors = [*told, _PLAIN]
        logger = type("PlainLogger", (_PlainLogger, logger), {})
    structlog.configure(
        processors=processors,
        wrapper_class=logger,
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )
