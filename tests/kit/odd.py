"""Odd objects: of the right types with any values, then broken in some places."""

from __future__ import annotations

from random import Random
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

TEXTS = ("", "a", "1", "2Gi", "9E", "-3", "Exists", "In", "NotIn", "Always", "True")
QUANTITIES = ("9E", "5E", "0", "1", "100m", "1Gi", "1P", "-1", "1e3", 2, 0.5)
HOSTILE: tuple[Any, ...] = (
    *(
        None,
        None,
        None,
        True,
        0,
        -1,
        1 << 31,
        -(1 << 63),
        (1 << 63) - 1,
        1 << 63,
        1 << 80,
        1.5,
        1e300,
    ),
    *(
        "",
        "x",
        "9" * 5000,
        "\x00",
        "yesterday",
        "1e999",
        "1e9999",
        [],
        {},
        [None],
        [[]],
        {"a": None},
        {"a": 1},
    ),
)


def document(kind: Any, rng: Random) -> Any:
    """Returns JSON values from which the type can be read; some fields are null."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        there = [member for member in arguments if member is not type(None)]
        return rng.choice(QUANTITIES) if len(there) > 1 else document(there[0], rng)
    if origin is Annotated:
        if arguments[0] is str:
            return "2026-01-01T00:00:00Z"
        return document(arguments[0], rng)
    if origin is tuple:
        return [document(arguments[0], rng) for _ in range(rng.randrange(3))]
    if origin is dict:
        return {
            rng.choice(("a", "b", "cpu", "memory")): document(arguments[1], rng)
            for _ in range(rng.randrange(3))
        }
    if issubclass(kind, msgspec.Struct):
        fields = [field for field in msgspec.structs.fields(kind) if rng.random() < 0.5]
        return {
            f.encode_name: None if rng.random() < 0.1 else document(f.type, rng) for f in fields
        }
    if kind is bool:
        return rng.random() < 0.5
    return (
        rng.choice(TEXTS) if kind is str else rng.choice((0, 1, 7, 80, (1 << 31) - 1, -(1 << 31)))
    )


def broken(value: Any, rng: Random) -> Any:
    """Returns a copy of the document with a hostile value in one place."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(sorted(value))
        return {**value, name: broken(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        return [*value[:at], broken(value[at], rng), *value[at + 1 :]]
    return rng.choice(HOSTILE)
