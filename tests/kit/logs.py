"""The lines that the code under test logs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from berth.actors.scheduling.framework.logger import Fields, Level, Output, output, use_output


class _Captured(msgspec.Struct):
    before: Output
    lines: list[dict[str, Any]]

    def level_of(self, module: str) -> Level:
        return self.before.level_of(module)

    def tell(self, _module: str, level: str, fields: Fields) -> None:
        self.lines.append({**fields, "log_level": level})


@contextmanager
def capture_logs() -> Iterator[list[dict[str, Any]]]:
    """Yields the lines that are shown, as they come, with their `log_level`; they go nowhere
    else.
    """
    before, lines = output(), list[dict[str, Any]]()
    use_output(_Captured(before, lines))
    try:
        yield lines
    finally:
        use_output(before)
