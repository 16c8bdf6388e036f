"""Rules for values that are either a number or a percentage, such as `2` and `25%`."""

from __future__ import annotations

import re
from typing import Any

from .fields import NEGATIVE, invalid

_PERCENT = re.compile("[0-9]+%")
_PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
_MOST_DIGITS = 18  # of a number that is read


def int_or_percent(path: str, value: Any, most: int | None = 100) -> list[str]:
    """Checks a number or a percentage, which must not exceed `most`."""
    if value is None:
        return []
    if isinstance(value, int):
        return [] if value >= 0 else [invalid(path, value, NEGATIVE)]
    if _PERCENT.fullmatch(value) is None or len(value) > _MOST_DIGITS:
        return [invalid(path, value, _PERCENT_RULE)]
    if most is not None and number_of(value) > most:
        return [invalid(path, value, f"must not be greater than {most}%")]
    return []


def number_of(value: int | str) -> int:
    """Returns the number, or the number in a valid percentage."""
    return int(value.removesuffix("%")) if isinstance(value, str) else value
