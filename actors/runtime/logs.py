"""Logs: one line for each fact, on standard error, as text for people or as JSON for machines.

The story of a pod is the lines with its key. From verbosity 0 on, every attempt to schedule a pod
ends in a line:

    attempted  pod=default/web result=scheduled node=node-3 attempt=2 seconds=0.004
    attempted  pod=default/web result=unschedulable attempt=1 seconds=0.001 reason='0/3 nodes ...'
    attempted  pod=default/web result=error node=node-3 attempt=1 seconds=0.2 reason='running ...'

The results are those of kube-scheduler's metric `schedule_attempts_total`. `seconds` counts from
the moment in which the queue handed the pod out. There is a `node` if one was chosen, and a
`reason` if the pod is not bound. An error is logged as a warning, because the attempt is repeated.
From verbosity 4 on, debug lines show the moves of a pod between two attempts:

    queued     pod=default/web queue=active because=NodeAdd

An exception of a plugin is logged as an error with its traceback: in JSON as the field `exception`,
in text as the lines that follow. If a plugin fails for every pod, such a line appears once a
minute; the next one counts those that were `left_out`.

plugin failed      point=Filter plugin=Price pod=default/web node=odd error='KeyError: ...'
left_out=840

Lines that are not about a pod have the keys `node`, `path` or `child`; an `error` says why
something failed. An outage is logged once for each kind that is watched ("watch interrupted",
"watch resumed"), and not for each retry.
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
# The levels of the methods that have another name than their level.
_LEVELS = {"warn": "warning", "exception": "error"}
_QUOTED = re.compile("[ \\t=\\r\\n\"']")


class Result(enum.StrEnum):
    """The end of an attempt."""

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
    """Log the line that ends an attempt; see above. The caller binds `log` once, because every pod
    has such a line.

    Plain text is made here, without the dictionary of fields that the other formats need.
    """
    seconds = round(seconds * 1e6) / 1e6
    method, level = ("warning", logging.WARNING) if result is _ERROR else ("info", logging.INFO)
    if isinstance(log, _PlainLogger) and log.is_plain():
        if log.is_enabled_for(level):  # pod and node are names, which need no quotes
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

    def __call__(
        self, _logger: object, _method: str, fields: structlog.types.EventDict
    ) -> structlog.types.EventDict:
        """Limit lines with a field `repeats`, which gives their kind. A processor of structlog."""
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
    """Renders a line as ConsoleRenderer does without colours, at a tenth of its cost, because every
    pod that is placed has one.

    It takes the place of all other processors. The time is in UTC; its text down to the second is
    made once a second.
    """

    def __init__(self) -> None:
        self._second, self._text = "", ""
        # Padded names by method and event; events are constants, so there are few.
        self._names: dict[tuple[str, str], str] = {}

    def __call__(self, _logger: object, method: str, fields: structlog.types.EventDict) -> str:
        line = self.head(method, fields.pop("event"))
        blocks = [fields.pop(name) for name in ("stack", "exception") if name in fields]
        for name, value in fields.items():
            line += f" {name}={_word(value)}"
        return "\n".join((line, *blocks)) if blocks else line

    def head(self, method: str, event: str) -> str:
        """The time, the level, and the event."""
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
    """A structlog logger for plain text, which also takes a line that is ready."""

    def is_plain(self) -> bool:
        """False if another processor, such as one that captures lines, has replaced _PLAIN."""
        return cast("Sequence[object]", self._processors)[-1] is _PLAIN

    def write(self, line: str) -> None:
        self._logger.msg(line)


def configure_logs(verbosity: int, form: LogFormat, *, quiet: bool = False) -> None:
    """Set up the logs of this process. `verbosity` is kube-scheduler's -v: from 4 on, debug lines
    are shown. If `quiet`, only warnings and errors are.
    """
    level = (
        logging.WARNING
        if quiet
        else logging.DEBUG
        if verbosity >= DEBUG_VERBOSITY
        else logging.INFO
    )
    first: list[structlog.types.Processor] = [
        Repeats(),
        structlog.processors.ExceptionRenderer(_trace),
    ]
    processors: list[structlog.types.Processor] = [
        *first,
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
        processors = [*first, _PLAIN]
        logger = type("PlainLogger", (_PlainLogger, logger), {})
    structlog.configure(
        processors=processors,
        wrapper_class=logger,
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )
