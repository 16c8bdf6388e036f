"""Messages about fields that do not fit: the path first, then what was expected. Also drops nulls,
which count as not given.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import inspect

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


def path_first(invalid: msgspec.ValidationError, into: type) -> str:
    """Turns msgspec's `text - at `$.a.b`` into `a.b: text`; an unknown or missing field becomes
    part of the path.

    `into` is the type that the document was read as.
    """
    text, _, path = str(invalid).replace(" | null`", "`").partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    if found := _AT_FIELD.fullmatch(text):
        text, path = _PHRASES[found[1]], f"{path}.{found[2]}".lstrip(".")
    elif text.startswith("Invalid enum value") and (choices := _choices(into, path)):
        text = f"expected {', '.join(choices)}, got {text.removeprefix('Invalid enum value ')}"
    return f"{path}: {text}" if path else text


def _choices(into: type, path: str) -> list[str]:
    """The values that the type allows at a path, if they can be listed."""
    at: Any = inspect.type_info(into)
    for step in _STEP.finditer(path):
        among = at.types if isinstance(at, inspect.UnionType) else (at,)
        at = next((one for one in among if not isinstance(one, inspect.NoneType)), None)
        if step[1] is None:
            at = getattr(at, "item_type", None) or getattr(at, "value_type", None)
        else:
            at = next(
                (field.type for field in getattr(at, "fields", ()) if field.encode_name == step[1]),
                None,
            )
    among = at.types if isinstance(at, inspect.UnionType) else (at,)
    return [
        str(value) for one in among if isinstance(one, inspect.LiteralType) for value in one.values
    ]


def sort_of(value: object) -> str:
    """A value's kind in plain words, for messages."""
    return _WORDS.get(type(value), "a mapping")


def without_nulls(value: Any) -> Any:
    """The document without fields that are null: Kubernetes takes them as not given."""
    if isinstance(value, dict):
        return {name: without_nulls(below) for name, below in value.items() if below is not None}
    return [without_nulls(below) for below in value] if isinstance(value, list) else value
