"""The logger of every module: `log = get_logger(__name__)`.

`warning` and `error` are always shown, `info` unless the process is quiet, `at(n, ...)` from `-v n`
on; telemetry/logs.py says what belongs to which verbosity, and writes the lines. Until
`configure_logs` the verbosity is 0, and lines go to standard error as they are.
"""

from __future__ import annotations

import sys
import traceback
from typing import Any, Protocol

DEBUG = 4  # the verbosity of `debug`
Fields = dict[str, Any]  # of a line; `event` is its message


class Level(Protocol):
    """The verbosity of a module, which may change at any time."""

    verbosity: int


class Output(Protocol):
    """The destination of log lines of all modules. `level` is info, warning, error or critical."""

    def level_of(self, module: str) -> Level: ...

    def tell(self, module: str, level: str, fields: Fields) -> None: ...


_UNSHOWN = ("event", "exc_info", "repeats")  # fields that are shown in another way, or not


class _Plain:
    """The output before the logs are configured, as in tests of plugins."""

    verbosity = 0

    def level_of(self, _module: str) -> Level:
        return self

    def tell(self, _module: str, level: str, fields: Fields) -> None:
        shown = {name: value for name, value in fields.items() if name not in _UNSHOWN}
        pairs = " ".join(f"{name}={value!r}" for name, value in shown.items())
        print(level, fields["event"], *([pairs] if pairs else []), sep=": ", file=sys.stderr)
        exception = fields.get("exc_info")
        if exception:
            raised = exception if isinstance(exception, BaseException) else sys.exception()
            traceback.print_exception(raised, file=sys.stderr)


class _Process:
    output: Output = _Plain()


_process = _Process()


def output() -> Output:
    """Returns the present destination of log lines."""
    return _process.output


def use_output(output: Output | None) -> None:
    """Sends the lines of all modules to this output; None for the plain one."""
    _process.output = output or _Plain()


class Logger:
    """The logger of a module, with fields that each of its lines has."""

    __slots__ = ("_fields", "_module")

    def __init__(self, module: str, fields: Fields) -> None:
        self._module = module
        self._fields = fields

    def bind(self, **fields: object) -> Logger:
        """Returns a logger of the same module with more fields."""
        return Logger(self._module, {**self._fields, **fields})

    def level(self) -> Level:
        """Returns the present level, of which callers that ask for every pod read the verbosity
        without a call.
        """
        return _process.output.level_of(self._module)

    def shows(self, verbosity: int) -> bool:
        """True if lines of this verbosity are shown. Otherwise a caller need not make the line."""
        return verbosity <= self.level().verbosity

    def at(self, verbosity: int, event: str, **fields: object) -> None:
        """Logs a fact from `-v verbosity` on."""
        if self.shows(verbosity):
            self._tell("info", event, {"v": verbosity, **fields})

    def debug(self, event: str, **fields: object) -> None:
        self.at(DEBUG, event, **fields)

    def info(self, event: str, **fields: object) -> None:
        if self.shows(0):
            self._tell("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._tell("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._tell("error", event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """Logs an error with the traceback of the exception that is being handled."""
        self._tell("error", event, {"exc_info": True, **fields})

    def critical(self, event: str, **fields: object) -> None:
        self._tell("critical", event, fields)

    def _tell(self, level: str, event: str, fields: Fields) -> None:
        _process.output.tell(self._module, level, {**self._fields, **fields, "event": event})


def get_logger(name: str) -> Logger:
    """Returns the logger of the module of this name."""
    return Logger(name, {})
