"""Go's values and the built-in functions of its templates."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

Functions = Mapping[str, Callable[..., Any]]
MAX_LENGTH = 4 * 2**20  # of the text, and of each text on the way
_MAX_WIDTH = 1000


def check_width(width: int) -> None:
    """Raises ValueError for a padding wider than a line may be."""
    if width > _MAX_WIDTH:
        raise ValueError(f"expected at most {_MAX_WIDTH} places, got {width}")


def check_length(length: int) -> None:
    """Raises ValueError if a text would become too long."""
    if length > MAX_LENGTH:
        raise ValueError(f"the text is longer than {MAX_LENGTH:,} characters")


def is_true(value: Any) -> bool:
    """True unless a value is empty: nil, false, 0, or text, a list or a map without contents."""
    return bool(value)


def printed(value: Any) -> str:
    """Returns a value as Go prints it."""
    match value:
        case None:
            return "<no value>"
        case bool():
            return "true" if value else "false"
        case list():
            return "[" + " ".join(map(printed, value)) + "]"
        case dict():
            pairs = (f"{key}:{printed(item)}" for key, item in sorted(value.items()))
            return "map[" + " ".join(pairs) + "]"
        case float() if value.is_integer() and abs(value) < 1e21:
            return str(int(value))
    return str(value)


def _index(value: Any, *places: Any) -> Any:
    for place in places:
        if isinstance(value, dict):
            value = value.get(place)
        elif isinstance(value, list | str):
            if place not in range(len(value)):
                raise LookupError(f"index {printed(place)} is out of range of {len(value)} items")
            value = value[place]
        else:
            raise TypeError(f"expected a list or a mapping, got {printed(value)}")
    return value


def _printf(template: str, *arguments: Any) -> str:
    unprinted = list(arguments)

    def formatted(match: re.Match[str]) -> str:
        verb = match[0][-1]
        if verb == "%":
            return "%"
        if not unprinted:
            raise ValueError(f"expected a value for {match[0]}")
        for width in re.findall(r"\d+", match[0]):
            check_width(int(width))
        value = unprinted.pop(0)
        if verb == "q":
            return json.dumps(printed(value))
        if verb == "v":
            return (match[0][:-1] + "s") % printed(value)
        if verb == "t":
            return printed(bool(value))
        return match[0] % (printed(value) if verb == "s" else value)

    return re.sub(r"%[-+ 0]*\d*(?:\.\d+)?[a-zA-Z%]", formatted, template)


def _same(left: Any, right: Any) -> bool:
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _less(left: Any, right: Any) -> bool:
    return cast("bool", left < right)


BUILTINS: Functions = {
    "and": lambda *values: values[-1],  # the parser calls neither of these two
    "or": lambda *values: values[-1],
    "not": lambda value: not is_true(value),
    "eq": lambda first, *others: any(_same(first, other) for other in others),
    "ne": lambda left, right: not _same(left, right),
    "lt": _less,
    "le": lambda left, right: not _less(right, left),
    "gt": lambda left, right: _less(right, left),
    "ge": lambda left, right: not _less(left, right),
    "index": _index,
    "len": lambda value: len(value or ()),
    "print": lambda *values: "".join(map(printed, values)),
    "println": lambda *values: " ".join(map(printed, values)) + "\n",
    "printf": _printf,
}
