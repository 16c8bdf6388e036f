"""The functions that convert between types, and `size`, `type` and `dyn`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

from .. import times
from ..declarations import cost_of_first, overload
from ..errors import CelError
from ..types import DURATION, TIMESTAMP
from ..values import MAX_INT64, MAX_UINT64, MIN_INT64, TypeValue, Uint, type_name
from .operators import as_uint

T = TypeVar("T")
_DIGITS = re.compile(r"[0-9]+")
_FLOAT = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE
)
_BOOLS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def _conversion_error(value: Any, target: str) -> CelError:
    return CelError(f"type conversion error from '{type_name(value)}' to '{target}'")


def _unchanged_value(value: Any) -> Any:
    return value


def _int_of_double(value: float) -> int:
    if not -9223372036854775808.0 < value < 9223372036854775808.0:
        raise CelError("integer overflow")
    return int(value)


def _int_of_uint(value: Uint) -> int:
    if value > MAX_INT64:
        raise CelError("integer overflow")
    return int(value)


def _int_of_string(value: str) -> int:
    digits = value[1:] if value[:1] in ("+", "-") else value
    if _DIGITS.fullmatch(digits) and len(digits) < 4000:
        number = int(value)
        if MIN_INT64 <= number <= MAX_INT64:
            return number
    raise _conversion_error(value, "int")


def _uint_of_double(value: float) -> Uint:
    if not 0 <= value < 18446744073709551616.0:
        raise CelError("unsigned integer overflow")
    return Uint(value)


def _uint_of_string(value: str) -> Uint:
    if _DIGITS.fullmatch(value) and len(value) < 4000 and int(value) <= MAX_UINT64:
        return Uint(value)
    raise _conversion_error(value, "uint")


def _double_of_string(value: str) -> float:
    if not _FLOAT.fullmatch(value):
        raise _conversion_error(value, "double")
    number = float(value)
    if math.isinf(number) and "inf" not in value.lower():
        raise _conversion_error(value, "double")
    return number


def _bool_of_string(value: str) -> bool:
    if value not in _BOOLS:
        raise _conversion_error(value, "bool")
    return _BOOLS[value]


def _string_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def string_of_double(value: float) -> str:
    """Returns a double in the shortest form, as Go's %g writes it."""
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign = "-" if math.copysign(1, value) < 0 else ""
    shortest = repr(abs(value))
    mantissa, _, power = shortest.partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    exponent = int(power or 0) + len(whole) - 1
    if not digits:
        return f"{sign}0"
    if whole == "0":
        exponent = int(power or 0) - (len(fraction) - len(fraction.lstrip("0")) + 1)
    digits = digits.rstrip("0") or "0"
    if exponent < -4 or exponent >= 6:
        point = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{point}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    digits = digits.ljust(exponent + 1, "0")
    decimals = digits[exponent + 1 :]
    return f"{sign}{digits[: exponent + 1]}{'.' + decimals if decimals else ''}"


def _conversion_by(parse: Callable[[str], T | None], target: str) -> Callable[[str], T]:
    """Returns a conversion of text by `parse`, which returns None for invalid text."""

    def read(value: str) -> T:
        parsed = parse(value)
        if parsed is None:
            raise _conversion_error(value, target)
        return parsed

    return read


_SPECIAL: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("double", "int"): _int_of_double,
    ("duration", "int"): lambda span: span.nanos,
    ("string", "int"): _int_of_string,
    ("timestamp", "int"): lambda time: time.nanos // times.GIGA,
    ("uint", "int"): _int_of_uint,
    ("double", "uint"): _uint_of_double,
    ("int", "uint"): as_uint,
    ("string", "uint"): _uint_of_string,
    ("int", "double"): float,
    ("string", "double"): _double_of_string,
    ("uint", "double"): float,
    ("string", "bool"): _bool_of_string,
    ("string", "bytes"): lambda text: text.encode(errors="surrogatepass"),
    ("bytes", "string"): _string_of_bytes,
    ("bool", "string"): lambda value: "true" if value else "false",
    ("double", "string"): string_of_double,
    ("duration", "string"): str,
    ("int", "string"): str,
    ("timestamp", "string"): str,
    ("uint", "string"): str,
    ("int", "duration"): times.duration,
    ("string", "duration"): _conversion_by(times.parse_duration, DURATION.name),
    ("int", "timestamp"): lambda seconds: times.timestamp(seconds * times.GIGA),
    ("string", "timestamp"): _conversion_by(times.parse_timestamp, TIMESTAMP.name),
}
SCALARS = ("int", "uint", "double", "bool", "bytes", "string", "duration", "timestamp")
# Calls of these functions with a literal are evaluated at compilation.
CONVERSIONS = frozenset((*SCALARS, "dyn", "type"))
_READING = (("string", "bytes"), ("bytes", "string"))

OVERLOADS = [
    *(overload(f"{t}_to_{t}", f"{t}({t}) -> {t}", _unchanged_value) for t in SCALARS),
    *(
        overload(f"{a}_to_{b}", f"{b}({a}) -> {b}", run, cost_of_first if (a, b) in _READING else 1)
        for (a, b), run in _SPECIAL.items()
    ),
    overload("to_dyn", "dyn(A) -> dyn", _unchanged_value),
    overload("type", "type(A) -> type(A)", lambda value: TypeValue(type_name(value))),
    *(
        declared
        for t in ("bytes", "list(A)", "map(A, B)", "string")
        for declared in (
            overload(f"size_{t}", f"size({t}) -> int", len),
            overload(f"{t}_size", f"{t}::size() -> int", len),
        )
    ),
]
