"""The function `string.format`, with the clauses %s %d %f %e %b %o %x %X, and a precision for %f
and %e.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..declarations import MOST_TEXT, Budget
from ..errors import CelError, LimitError
from ..times import Duration, Timestamp
from ..values import TypeValue, Uint, type_name, value_of_key
from .conversions import SCALARS, string_of_double

MOST_PRECISION = 1000
WRITE_WORK = 2  # units, for a part of the text
_SUPERSCRIPTS = str.maketrans(
    "-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
)
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_ONLY = {
    "string": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, "
    "lists, types, durations, and timestamps",
    "decimal": "decimal clause can only be used on integers",
    "fixed": "fixed-point clause can only be used on doubles",
    "scientific": "scientific clause can only be used on doubles",
    "binary": "only integers and bools can be formatted as binary",
    "octal": "octal clause can only be used on integers",
    "hex": "only integers, byte buffers, and strings can be formatted as hex",
}


def wrong_type_message(clause: str, kind: str) -> str:
    """Returns the message for a value of the wrong type."""
    return f"{_ONLY[clause]}, was given {kind}"


def _clause_error(clause: str, value: Any) -> CelError:
    return CelError(f"error during formatting: {wrong_type_message(clause, type_name(value))}")


def clauses(text: str) -> list[tuple[str, str, int]]:
    """Splits a format into literal texts, each with the letter and the precision of the clause
    after it.

    The letter of the last part is empty. Raises CelError.
    """
    parts: list[tuple[str, str, int]] = []
    literal, at = "", 0
    while True:
        start = text.find("%", at)
        if start < 0:
            return [*parts, (literal + text[at:], "", 0)]
        literal += text[at:start]
        if text.startswith("%", start + 1):
            literal, at = literal + "%", start + 2
            continue
        letter, precision, at = _clause(text, start + 1)
        parts.append((literal, letter, precision))
        literal = ""


def _clause(text: str, at: int) -> tuple[str, int, int]:
    """Returns the letter and the precision of a clause, and where it ends."""
    if at >= len(text):
        raise CelError("unexpected end of string")
    precision = 6
    if text[at] == ".":
        start = at = at + 1
        while at < len(text) and text[at] in "0123456789":
            at += 1
        problem = "could not parse formatting clause: error while parsing precision: "
        if at >= len(text):
            raise CelError(problem + "could not find end of precision specifier")
        digits = text[start:at]
        if not digits or len(digits) > 4 or int(digits) > MOST_PRECISION:
            raise CelError(
                f"{problem}error while converting precision to integer: strconv.Atoi: parsing "
                f'"{digits[:20]}": invalid syntax'
            )
        precision = int(digits)
    if text[at] not in _CLAUSES:
        message = f'unrecognized formatting clause "{text[at]}"'
        raise CelError(f"could not parse formatting clause: {message}")
    return text[at], precision, at + 1


def format_text(budget: Budget, text: str, values: list[Any]) -> str:
    parts: list[str] = []
    writer = _Writer(budget)
    for i, (literal, letter, precision) in enumerate(clauses(text)):
        writer.write(parts, literal)
        if letter:
            if i >= len(values):
                raise CelError(f"index {i} out of range")
            writer.write(parts, _CLAUSES[letter](writer, values[i], precision))
    return "".join(parts)


class _Writer:
    """A writer of values as text. It raises LimitError when the text gets too long."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._size = 0

    def write(self, parts: list[str], text: str) -> None:
        self._size += len(text) + 1
        if self._size > MOST_TEXT:
            raise LimitError
        self._budget.makes_text(len(text) + 1)
        self._budget.strain(WRITE_WORK)
        parts.append(text)

    def string(self, value: Any, _: int = 0) -> str:
        kind = type(value)
        if kind is list:
            return self._list(value)
        if isinstance(value, dict):
            return self._map(value)
        if value is None:
            return "null"
        if kind is bool:
            return "true" if value else "false"
        if kind is float:
            return string_of_double(value)
        if kind is bytes:
            try:
                text: str = value.decode()
            except UnicodeDecodeError:
                raise CelError(
                    "error during formatting: could not convert argument to string"
                ) from None
            return text
        if kind is TypeValue:
            return str(value.name)
        if kind in (int, Uint):
            return str(int(value))
        if kind in (str, Duration, Timestamp):
            return str(value)
        raise _clause_error("string", value)

    def _quoted(self, value: Any) -> str:
        """Writes a value as a part of a list or a map."""
        kind = type(value)
        if kind is float:
            if math.isfinite(value):
                return f"{value:.6f}"
            return f'"{string_of_double(value)}"'
        text = self.string(value)
        if kind is Timestamp:
            return f'timestamp("{text}")'
        if kind is Duration:
            return f'duration("{text}")'
        if kind in (str, bytes):
            text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            return f'{"b" if kind is bytes else ""}"{text}"'
        return text

    def _list(self, values: list[Any]) -> str:
        parts: list[str] = []
        for value in values:
            self.write(parts, self._quoted(value))
        return f"[{', '.join(parts)}]"

    def _map(self, values: dict[Any, Any]) -> str:
        entries: list[str] = []
        pairs = [(self._quoted(value_of_key(key)), value) for key, value in values.items()]
        for key, value in sorted(pairs, key=lambda pair: pair[0]):
            self.write(entries, f"{key}:{self._quoted(value)}")
        return f"{{{', '.join(entries)}}}"


def _decimal(_: _Writer, value: Any, __: int) -> str:
    if type(value) not in (int, Uint):
        raise _clause_error("decimal", value)
    return str(int(value))


def _number(clause: str, value: Any) -> float:
    if type(value) is str and value in _SPECIAL:
        return _SPECIAL[value]
    if type(value) is not float:
        raise _clause_error(clause, value)
    return value


def _fixed(_: _Writer, value: Any, precision: int) -> str:
    number = _number("fixed", value)
    return f"{number:,.{precision}f}" if math.isfinite(number) else _infinite(number)


def _scientific(_: _Writer, value: Any, precision: int) -> str:
    number = _number("scientific", value)
    if not math.isfinite(number):
        return _infinite(number)
    mantissa, exponent = f"{number:.{precision}e}".split("e")
    power = exponent.removeprefix("+").translate(_SUPERSCRIPTS)
    return f"{mantissa}\u202f\u00d7\u202f10{power}"


def _infinite(number: float) -> str:
    if number != number:
        return "NaN"
    return "\u221e" if number > 0 else "-\u221e"


def _integer(clause: str, code: str) -> Callable[[_Writer, Any, int], str]:
    def formatted(_: _Writer, value: Any, __: int) -> str:
        kind = type(value)
        if kind is bool and clause == "binary":
            return "1" if value else "0"
        if clause == "hex" and kind in (str, bytes):
            data = value.encode(errors="replace") if kind is str else value
            text: str = data.hex()
            return text.upper() if code == "X" else text
        if kind not in (int, Uint):
            raise _clause_error(clause, value)
        return format(int(value), code)

    return formatted


_CLAUSES: dict[str, Callable[[_Writer, Any, int], str]] = {
    "s": _Writer.string,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _integer("binary", "b"),
    "o": _integer("octal", "o"),
    "x": _integer("hex", "x"),
    "X": _integer("hex", "X"),
}
# The kinds of types that each clause accepts.
ACCEPTED: dict[str, tuple[str, frozenset[str]]] = {
    "s": ("string", frozenset((*SCALARS, "list", "map", "type", "null"))),
    "d": ("decimal", frozenset(("int", "uint"))),
    "f": ("fixed", frozenset(("double", "string"))),
    "e": ("scientific", frozenset(("double", "string"))),
    "b": ("binary", frozenset(("int", "uint", "bool"))),
    "o": ("octal", frozenset(("int", "uint"))),
    "x": ("hex", frozenset(("int", "uint", "string", "bytes"))),
    "X": ("hex", frozenset(("int", "uint", "string", "bytes"))),
}
