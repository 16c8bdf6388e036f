"""What makes a document unfit for an apply: values of the wrong type, unknown fields, doubles.

The messages have the words of structured-merge-diff.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .comparison import step_to
from .field_sets import FieldSetError, path_text
from .merge_types import DEDUCED, MergeType

_NAMES = {
    "numeric": "numeric (int or float)",
    "string": "string",
    "boolean": "boolean",
    "untyped": "any scalar",
}
_FITS: dict[str, tuple[type, ...]] = {
    "numeric": (int, float),
    "string": (str,),
    "boolean": (bool,),
    "untyped": (int, float, str, bool),
}
_GO: dict[type, str] = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    dict: "map[string]interface {}",
    list: "[]interface {}",
}


def apply_problems(of: MergeType, document: dict[str, Any]) -> list[str]:
    """Returns the problems of a document that is to be applied, each with its path."""
    return [f"{path}: {why}" if path else why for path, why in _problems(of, document, "")]


def _problems(of: MergeType, value: Any, path: str) -> Iterator[tuple[str, str]]:
    kind = type(value)
    if value is None:
        return
    if kind is dict and of.is_map:
        yield from _of_map(of, value, path)
    elif kind is list and of.item is not None:
        yield from _of_list(of, value, path)
    elif of.scalar and kind in _FITS[of.scalar]:
        return
    elif of.is_map:
        yield path, f"expected map, got &{{{_value_text(value)}}}"
    elif of.scalar:
        yield path, f"expected {_NAMES[of.scalar]}, got {_shown(of.scalar, value)}"
    else:
        yield path, f"expected list, got &{{{_value_text(value)}}}"


def _of_map(of: MergeType, value: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    fields = of.fields
    for key, each in value.items():
        below = fields.get(key) or of.values
        if below is None:
            yield f"{path}.{key}", "field not declared in schema"
            return
        yield from _problems(below, each, f"{path}.{key}")


def _of_list(of: MergeType, items: list[Any], path: str) -> Iterator[tuple[str, str]]:
    below, seen = of.item or DEDUCED, set[str]()
    for i, each in enumerate(items):
        place = f"{path}[{i}]"
        if of.keys is not None:
            problem = _item_problem(of, each)
            if problem:
                yield path, f"element {i}: {problem}"
                return
            try:
                step = step_to(of, each)
            except FieldSetError as unfit:
                yield path, f"element {i}: {unfit}"
                return
            place = path + path_text((step,))
            if step in seen:
                yield path, f"duplicate entries for key {path_text((step,))}"
            seen.add(step)
        yield from _problems(below, each, place)


def _item_problem(of: MergeType, item: Any) -> str:
    if of.keys:
        if item is None:
            return "associative list with keys may not have a null element"
        return (
            ""
            if type(item) is dict
            else ("associative list with keys may not have non-map elements")
        )
    if item is None:
        return "associative list without keys has an element that's an explicit null"
    if type(item) is dict:
        return "associative list without keys has an element that's a map type"
    return "not supported: associative list with lists as elements" if type(item) is list else ""


def _shown(scalar: str, value: Any) -> str:
    """Returns a value as Go shows one that is not of this type."""
    if scalar == "numeric":
        return _GO.get(type(value), "interface {}")
    text = _value_text(value)
    return f"&value.valueUnstructured{{Value:{text}}}" if scalar == "string" else f"&{{{text}}}"


def _value_text(value: Any) -> str:
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_value_text(each)}" for key, each in value.items()) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_value_text, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
