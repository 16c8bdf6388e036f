"""Sets of fields in the notation of FieldsV1: objects whose keys are steps of paths.

A step is `f:NAME` for a field or a key of a map, `k:{...}` for an item of a list by its key fields,
`v:VALUE` for an item by its value, `i:INDEX` for one by its index. A step leads to the steps below
it. Its own field is in the set if nothing is below it, or if "." is. A set never changes, and its
parts may be shared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

FieldSet = dict[str, Any]
SELF = "."
_LEAF: FieldSet = {}
# json.Marshal of Go writes these characters so that a page can hold them
_UNSAFE = "<>&\u2028\u2029"
_ESCAPED = str.maketrans({each: f"\\u{ord(each):04x}" for each in _UNSAFE})
_KINDS = "fkvi"


class FieldSetError(ValueError):
    """A set of fields that cannot be read."""


def leaf() -> FieldSet:
    """Returns the set below a field that is in a set, and has nothing below it."""
    return _LEAF


def has(node: FieldSet) -> bool:
    """True if the field of a step is in the set."""
    return not node or SELF in node


def united(left: FieldSet, right: FieldSet) -> FieldSet:
    """Returns the fields that are in one of two sets."""
    result = dict(left)
    for step, node in right.items():
        have = result.get(step)
        if have is None or step == SELF:
            result[step] = node
        elif have != node:
            result[step] = _united(have, node)
    return result


def _united(left: FieldSet, right: FieldSet) -> FieldSet:
    below = united(left, right)
    if (not left or not right) and below:
        below[SELF] = _LEAF
    return below


def common(left: FieldSet, right: FieldSet) -> FieldSet:
    """Returns the fields that are in both of two sets."""
    result: FieldSet = {}
    for step, node in left.items():
        other = right.get(step)
        if other is None or step == SELF:
            continue
        below = common(node, other)
        if has(node) and has(other):
            result[step] = {SELF: _LEAF, **below} if below else _LEAF
        elif below:
            result[step] = below
    return result


def without(left: FieldSet, right: FieldSet) -> FieldSet:
    """Returns the fields of a set that are not in another. What is below them does not count."""
    result: FieldSet = {}
    for step, node in left.items():
        if step == SELF:
            continue
        other = right.get(step)
        if other is None:
            result[step] = node
            continue
        below = without(node, other)
        if has(node) and not has(other):
            result[step] = {SELF: _LEAF, **below} if below else _LEAF
        elif below:
            result[step] = below
    return result


def without_all(left: FieldSet, right: FieldSet) -> FieldSet:
    """Returns the fields of a set that are neither in another nor below a field of it."""
    result: FieldSet = {}
    for step, node in left.items():
        if step == SELF:
            continue
        other = right.get(step)
        if other is None:
            result[step] = node
        elif not has(other):
            below = without_all(node, other)
            if has(node):
                result[step] = {SELF: _LEAF, **below} if below else _LEAF
            elif below:
                result[step] = below
    return result


def paths(node: FieldSet, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the paths of all fields of a set, those of a level before those below them."""
    steps = sorted((step for step in node if step != SELF), key=_rank)
    for step in steps:
        if has(node[step]):
            yield (*before, step)
    for step in steps:
        yield from paths(node[step], (*before, step))


def contains(node: FieldSet, path: tuple[str, ...]) -> bool:
    """True if the field at a path is in the set."""
    for step in path:
        below = node.get(step)
        if below is None:
            return False
        node = below
    return has(node)


def path_text(path: tuple[str, ...]) -> str:
    """Returns a path as messages show it, such as .spec.containers[name="web"].image."""
    return "".join(map(_step_text, path))


def ordered(node: FieldSet) -> FieldSet:
    """Returns a set with its steps in the order in which Kubernetes writes them."""
    if not node:
        return _LEAF
    steps = sorted((step for step in node if step != SELF), key=_rank)
    first = {SELF: _LEAF} if SELF in node else {}
    return {**first, **{step: ordered(node[step]) for step in steps}}


def read(value: Any) -> FieldSet:
    """Returns the set that a client wrote. Raises FieldSetError.

    Steps of an unknown kind are left out, as in Kubernetes.
    """
    if not isinstance(value, dict):
        raise FieldSetError(f"expected an object, got {type(value).__name__}")
    result: FieldSet = {}
    for step, below in value.items():
        if step == SELF:
            result[SELF] = _LEAF
            continue
        if len(step) < 2:
            raise FieldSetError("key must be 2 characters long:")
        if step[1] != ":":
            raise FieldSetError(f"missing colon: {step}")
        if step[0] in _KINDS:
            result[_read_step(step)] = read(below)
    return _LEAF if result == {SELF: _LEAF} else result


def item_step(keys: tuple[str, ...], item: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """Returns the step to an item of a list by its keys. Raises FieldSetError for an item that has
    none of them.
    """
    if len(keys) == 1 and type(only := item.get(keys[0])) is str:
        return _text_step(keys[0], only)
    named = {
        key: item[key] if key in item else defaults[key]
        for key in sorted(keys)
        if key in item or key in defaults
    }
    if not named:
        quoted = " ".join(f'"{key}"' for key in keys)
        raise FieldSetError(
            f"associative list with keys has an element that omits all key fields [{quoted}] "
            "(and doesn't have default values for any key fields)"
        )
    return f"k:{_encoded(named)}"


def value_step(item: Any) -> str:
    """Returns the step to an item of a list by its value."""
    return f"v:{_encoded(item)}"


@lru_cache(maxsize=4096)
def _text_step(key: str, value: str) -> str:
    return f"k:{_encoded({key: value})}"


def _encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode().translate(_ESCAPED)


def _read_step(step: str) -> str:
    """Returns a step in the form that item_step and value_step give it. Raises FieldSetError."""
    if step[0] == "f":
        return step
    try:
        value = json.loads(step[2:])
    except ValueError as problem:
        raise FieldSetError(f"parsing key as path element: {problem}") from None
    if step[0] == "k":
        if not isinstance(value, dict):
            raise FieldSetError("parsing key as path element: expected an object")
        return f"k:{_encoded(dict(sorted(value.items())))}"
    return f"{step[0]}:{_encoded(value)}"


@lru_cache(maxsize=4096)
def _rank(step: str) -> tuple[Any, ...]:
    """Returns the place of a step among its neighbours: fields, items by keys, by values."""
    if step[0] == "#":  # a mark in a template of entries
        return 1, (("", 0, int(step[1:])),)
    kind = _KINDS.index(step[0])
    if kind == 0:
        return kind, step
    value = json.loads(step[2:])
    if kind == 1:
        return kind, tuple((name, *_value_rank(each)) for name, each in value.items())
    return kind, *_value_rank(value)


def _value_rank(value: Any) -> tuple[int, Any]:
    """Returns the place of a value: numbers, texts, truth values, then all others."""
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    return (1, value) if isinstance(value, str) else (3, json.dumps(value))


def _step_text(step: str) -> str:
    kind, rest = step[0], step[2:]
    if kind == "f":
        return f".{rest}"
    if kind == "i":
        return f"[{rest}]"
    value = json.loads(rest)
    if kind == "k":
        named = ",".join(f"{name}={_value_text(each)}" for name, each in value.items())
        return f"[{named}]"
    return f"[={_value_text(value)}]"


def _value_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
