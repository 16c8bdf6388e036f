"""JSONPath, as far as printer columns use it: fields, items, wildcards, filters and descent.

Mirrors k8s.io/client-go/util/jsonpath. A path that cannot be read finds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

Step = Callable[[Any], Iterator[Any]]
_TOKEN = re.compile(
    r"""\.\.(?P<below>[^.\[\]\s'"]+)
    |\.?\[\?\((?P<filter>.*?)\)\]
    |\.?\[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]
    |\.?\[(?P<slice>[-\d:*]*)\]
    |\.(?P<field>(?:\\.|[^.\[\]\\])*)""",
    re.VERBOSE,
)
_FILTER = re.compile(
    r"""\s*(?P<left>@[^=!<>]*?)\s*(?:(?P<sign>==|!=|<=|>=|<|>)\s*(?P<right>.+?))?\s*"""
)


def found(path: str, document: Any) -> list[Any]:
    """Returns the values at a path such as `.status.conditions[?(@.type=="Ready")].status`."""
    values = [document]
    for step in _steps(path):
        values = [below for value in values for below in step(value)]
    return values


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[Step, ...]:
    steps, at = list[Step](), 0
    while at < len(path):
        token = _TOKEN.match(path, at)
        if token is None or token.end() == at:
            return (lambda _: iter(()),)
        at = token.end()
        if token["below"] is not None:
            steps.append(_descend(token["below"]))
        elif token["filter"] is not None:
            steps.append(_filtered(token["filter"]))
        elif token["quoted"] is not None:
            steps.append(_field(token["quoted"]))
        elif token["slice"] is not None:
            steps.append(_items(token["slice"]))
        elif token["field"]:
            name = re.sub(r"\\(.)", r"\1", token["field"])
            steps.append(_items("*") if name == "*" else _field(name))
    return tuple(steps)


def _field(name: str) -> Step:
    return lambda value: iter((value[name],) if isinstance(value, dict) and name in value else ())


def _descend(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        below = (
            value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        )
        if isinstance(value, dict) and name in value:
            yield value[name]
        for each in below:
            yield from step(each)

    return step


def _items(bounds: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and bounds == "*":
            yield from value.values()
        if not isinstance(value, list):
            return
        if bounds == "*":
            yield from value
        elif ":" in bounds:
            numbers = [int(each) if each else None for each in bounds.split(":")]
            yield from value[slice(*numbers)]
        elif bounds and -len(value) <= int(bounds) < len(value):
            yield value[int(bounds)]

    return step


def _filtered(text: str) -> Step:
    match = _FILTER.fullmatch(text)
    if match is None:
        return lambda _: iter(())
    left, sign, right = match["left"].removeprefix("@"), match["sign"], match["right"]

    def holds(value: Any) -> bool:
        values = found(left, value)
        if sign is None:
            return bool(values)
        others = found(right[1:], value) if right.startswith("@") else [_literal(right)]
        return bool(values and others) and _compares(values[0], sign, others[0])

    return lambda value: (
        each for each in (value if isinstance(value, list) else ()) if holds(each)
    )


def _literal(text: str) -> Any:
    if text[:1] in "'\"":
        return text[1:-1]
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _compares(left: Any, sign: str, right: Any) -> bool:
    match sign:
        case "==":
            return bool(left == right)
        case "!=":
            return bool(left != right)
    try:
        return bool(
            left < right
            if sign == "<"
            else left > right
            if sign == ">"
            else left <= right
            if sign == "<="
            else left >= right
        )
    except TypeError:
        return False
