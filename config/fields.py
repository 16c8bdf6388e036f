"""Reads a document by the types of msgspec Structs, as strictly as kube-scheduler reads Go's.

An unknown field, a value of another type and a number out of range are problems. All of them are
reported; each begins with its path and says what was expected. As in Go, a null counts as an absent
field, and a null in a list as an item without fields.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from .foreign import of_older_versions
from .types import MAX_INT32, MAX_INT64, Duration

NEAR = 0.75  # of two names, one of which is taken for a misspelling of the other
_STEP = re.compile(r"([^.\[]+)|\[[^]]*\]")
_AT_FIELD = re.compile(r"Object (contains unknown|missing required) field `(.*)`")
_PHRASES = {
    "contains unknown": "unknown field",
    "missing required": "expected a value, got nothing",
}
_WORDS = {
    type(None): "nothing",
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
}


class Problems(list[str]):
    """The problems of a document, a line for each."""

    def add(self, path: str, problem: str) -> None:
        self.append(f"{path}: {problem}" if path else problem)

    def expect(self, holds: bool, path: str, expected: str, got: object) -> None:
        if not holds:
            self.add(path, f"expected {expected}, got {got}")


def read_document(document: object, into: type, problems: Problems, path: str = "") -> object:
    """Returns the document as `msgspec.convert` takes it. Adds a problem for each unfit part."""
    return _read(document, _type_info(into), path, problems)


def converted(document: object, into: type[Any]) -> Any:
    """Returns the value of a document in which `read_document` found no problem."""
    return msgspec.convert(document, into, dec_hook=_decode)


def suggestion(name: str, names: Iterable[str]) -> str:
    """Returns ", did you mean X?" if one of the names is near, otherwise nothing."""
    by_lower = {candidate.lower(): candidate for candidate in names}
    near = get_close_matches(name.lower(), by_lower, 1, NEAR)
    return f", did you mean {by_lower[near[0]]}?" if near else ""


@cache
def _type_info(into: type) -> inspect.Type:
    return inspect.type_info(into)


def _decode(kind: type, value: object) -> object:
    """Reads a duration for msgspec; NotImplementedError tells it that it reads no other type."""
    if kind is Duration and isinstance(value, str):
        return Duration.parse(value)
    raise NotImplementedError(kind)


# --------------------------------------------------------------------------------------- the reader


def _read(value: Any, at: inspect.Type, path: str, problems: Problems) -> Any:
    while isinstance(at, inspect.Metadata):
        at = at.type
    if isinstance(at, inspect.UnionType):
        if value is None:
            return None
        return _read(value, _non_null(at), path, problems)
    match at:
        case inspect.StructType():
            return _read_struct(value, at, path, problems)
        case inspect.VarTupleType() | inspect.ListType():
            if not isinstance(value, list | tuple):
                problems.expect(False, path, "a list", shown(value))
                return value
            return [
                _read(_item(item, at.item_type), at.item_type, f"{path}[{i}]", problems)
                for i, item in enumerate(value)
            ]
        case inspect.DictType():
            return _read_mapping(value, at, path, problems)
        case inspect.IntType() | inspect.FloatType():
            _check_number(value, at, path, problems)
        case inspect.BoolType():
            problems.expect(isinstance(value, bool), path, "true or false", shown(value))
        case inspect.StrType():
            problems.expect(isinstance(value, str), path, "text", shown(value))
        case inspect.LiteralType():
            expected = " or ".join(str(choice) for choice in at.values)
            problems.expect(value in at.values, path, expected, shown(value))
        case inspect.BytesType():
            return _read_bytes(value, path, problems)
        case inspect.CustomType(cls) if cls is Duration:
            _check_duration(value, path, problems)
        case _:
            pass
    return value


def _non_null(at: inspect.UnionType) -> inspect.Type:
    """Returns the type of a value that is not null."""
    return next(choice for choice in at.types if not isinstance(choice, inspect.NoneType))


def _item(value: Any, at: inspect.Type) -> Any:
    """Returns an item of a list; a null is the zero value of Go's type."""
    if value is not None:
        return value
    return "" if isinstance(at, inspect.StrType) else {}


def _read_struct(value: Any, at: inspect.StructType, path: str, problems: Problems) -> Any:
    if not isinstance(value, Mapping):
        problems.expect(False, path, "a mapping", shown(value))
        return value
    fields = {field.encode_name: field for field in at.fields}
    read = {}
    for name, below in value.items():
        where = f"{path}.{name}" if path else str(name)
        if name not in fields:
            known = of_older_versions(at.cls.__name__, str(name))
            hint = f", {known}" if known else suggestion(str(name), fields)
            problems.add(where, f"unknown field{hint}")
        elif not _is_absent(below, fields[name].type):
            read[name] = _read(below, fields[name].type, where, problems)
    return read


def _read_mapping(value: Any, at: inspect.DictType, path: str, problems: Problems) -> Any:
    if not isinstance(value, Mapping):
        problems.expect(False, path, "a mapping", shown(value))
        return value
    read = {}
    for key, below in value.items():
        item = "" if below is None and isinstance(at.value_type, inspect.StrType) else below
        read[key] = _read(item, at.value_type, f"{path}[{key}]", problems)
    return read


def _is_absent(value: Any, at: inspect.Type) -> bool:
    """True if Go cannot tell the value of a field from an absent one."""
    while isinstance(at, inspect.Metadata):
        at = at.type
    if isinstance(at, inspect.UnionType):
        return value is None or (value == "" and isinstance(_non_null(at), inspect.LiteralType))
    if isinstance(at, inspect.LiteralType):
        return value is None or value == ""
    # Go reads the null of a duration as text, and refuses it.
    return value is None and not isinstance(at, inspect.CustomType)


def _check_number(
    value: Any, at: inspect.IntType | inspect.FloatType, path: str, problems: Problems
) -> None:
    whole = isinstance(at, inspect.IntType)
    kinds = int if whole else int | float
    least, most = at.ge, at.le
    fits = isinstance(value, kinds) and not isinstance(value, bool)
    if fits and least is not None:
        fits = value >= least
    if fits and most is not None:
        fits = value <= most
    if not fits:
        problems.expect(False, path, _expected_number(whole, least, most), shown(value))


def _expected_number(whole: bool, least: float | None, most: float | None) -> str:
    kind = "an integer" if whole else "a number"
    if not whole or least is None or most is None:
        return kind
    if most in (MAX_INT32, MAX_INT64) and least in (0, 1):
        return f"{kind} of at least {least}"
    if least == -MAX_INT32 - 1:
        return f"{kind} of 32 bits"
    if least == -MAX_INT64 - 1:
        return kind
    return f"{kind} from {least} to {most}"


def _read_bytes(value: Any, path: str, problems: Problems) -> Any:
    if isinstance(value, bytes):
        return value
    try:
        return binascii.a2b_base64(re.sub(r"[\r\n]", "", value), strict_mode=True)
    except (TypeError, ValueError):  # binascii.Error is a ValueError
        problems.expect(False, path, "base64", shown(value))
        return value


def _check_duration(value: Any, path: str, problems: Problems) -> None:
    if isinstance(value, Duration):
        return
    if not isinstance(value, str):
        problems.expect(False, path, "a duration such as 15s", shown(value))
        return
    try:
        Duration.parse(value)
    except ValueError as problem:
        problems.add(path, str(problem))


def shown(value: object) -> str:
    """Shows a value in a message: text in quotes, numbers in digits, the kind of anything else."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return repr(value if len(value) <= 100 else value[:100] + "...")
    return str(value) if isinstance(value, int | float) else sort_of(value)


def sort_of(value: object) -> str:
    """Returns the kind of a value in plain words, for messages."""
    return _WORDS.get(type(value), "a mapping")


# ------------------------------------------------------------------------------- msgspec's messages


def path_first(invalid: msgspec.ValidationError, into: type) -> str:
    """Turns msgspec's `text - at `$.a.b`` into `a.b: text`; an unknown or missing field becomes
    part of the path.

    `into` is the type that the document was read as.
    """
    text, _, path = str(invalid).replace(" | null`", "`").partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    if at_field := _AT_FIELD.fullmatch(text):
        text, path = _PHRASES[at_field[1]], f"{path}.{at_field[2]}".lstrip(".")
    elif text.startswith("Invalid enum value") and (choices := _choices(into, path)):
        text = f"expected {', '.join(choices)}, got {text.removeprefix('Invalid enum value ')}"
    return f"{path}: {text}" if path else text


def _choices(into: type, path: str) -> list[str]:
    """Returns the values that the type allows at a path; [] if they cannot be listed."""
    at: Any = inspect.type_info(into)
    for step in _STEP.finditer(path):
        among = at.types if isinstance(at, inspect.UnionType) else (at,)
        at = next((choice for choice in among if not isinstance(choice, inspect.NoneType)), None)
        if step[1] is None:
            at = getattr(at, "item_type", None) or getattr(at, "value_type", None)
        else:
            at = next(
                (field.type for field in getattr(at, "fields", ()) if field.encode_name == step[1]),
                None,
            )
    among = at.types if isinstance(at, inspect.UnionType) else (at,)
    return [
        str(value)
        for choice in among
        if isinstance(choice, inspect.LiteralType)
        for value in choice.values
    ]
