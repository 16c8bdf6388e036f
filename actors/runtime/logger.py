"""The logger of every module: `log = get_logger(__name__)`.

`warning` and `error` are always shown, `info` unless the process is quiet, `at(n, ...)` from `-v n`
on; telemetry/logs.py says what belongs to which verbosity. Without `configure_logs` the verbosity
is 0.
"""

from __future__ import annotations

from typing import Protocol, cast

import structlog

DEBUG = 4  # the verbosity of `debug`


class Level(Protocol):
    """The verbosity of a logger, which may change at any time."""

    verbosity: int


class _Silent:
    verbosity = 0


_SILENT = _Silent()


class Logger(structlog.BoundLoggerBase):
    """A logger of structlog with the verbosities of klog."""

    def level(self) -> Level:
        """Returns the present verbosity, for those who ask for every pod: it is read without a
        call.
        """
        return self._logger if hasattr(self._logger, "verbosity") else _SILENT

    def shows(self, verbosity: int) -> bool:
        """True if lines of this verbosity are shown. Otherwise a caller need not make the line."""
        return verbosity <= getattr(self._logger, "verbosity", 0)

    def at(self, verbosity: int, event: str, **fields: object) -> None:
        """Logs a fact from `-v verbosity` on."""
        if verbosity <= getattr(self._logger, "verbosity", 0):
            self._proxy_to_logger("info", event, v=verbosity, **fields)

    def debug(self, event: str, **fields: object) -> None:
        self.at(DEBUG, event, **fields)

    def info(self, event: str, **fields: object) -> None:
        if self.shows(0):
            self._proxy_to_logger("info", event, **fields)

    def warning(self, event: str, **fields: object) -> None:
        self._proxy_to_logger("warning", event, **fields)

    def error(self, event: str, **fields: object) -> None:
        self._proxy_to_logger("error", event, **fields)

    def exception(self, event: str, **fields: object) -> None:
        """Logs an error with the traceback of the exception that is being handled."""
        self.error(event, **{"exc_info": True, **fields})

    def critical(self, event: str, **fields: object) -> None:
        self._proxy_to_logger("critical", event, **fields)


def get_logger(name: str) -> Logger:
    """Returns the logger of the module of this name. `bind` it once where every pod calls it."""
    logger = structlog.wrap_logger(None, wrapper_class=Logger, logger_factory_args=(name,))
    return cast("Logger", logger)
