"""Lists that are maps or sets (x-kubernetes-list-type): the keys of their items.

Mirrors k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ...types.structural import Structural
from ..fields import duplicate, invalid

_SORTED = msgspec.json.Encoder(order="deterministic")


def key_of(item: Any, keys: Sequence[str]) -> Any:
    """Returns what tells an item of a map from the others."""
    if type(item) is not dict:
        return None
    return _SORTED.encode([item.get(key) for key in keys])


def list_problems(value: Any, schema: Structural, path: str = "") -> Iterator[str]:
    """Yields a problem for each item whose key or value an earlier item of its list has."""
    if type(value) is dict:
        for name, each in value.items():
            below = schema.field(name)
            if below is not None and type(each) in (dict, list):
                place = (
                    f"{path}[{name}]"
                    if name not in schema.fields
                    else f"{path}.{name}"
                    if path
                    else name
                )
                yield from list_problems(each, below, place)
    elif type(value) is list:
        if schema.list_type == "map":
            yield from _map(value, schema.list_keys, path)
        elif schema.list_type == "set":
            yield from _twice(value, path)
        if schema.item is not None:
            for i, each in enumerate(value):
                yield from list_problems(each, schema.item, f"{path}[{i}]")


def _map(value: list[Any], keys: Sequence[str], path: str) -> Iterator[str]:
    for i, each in enumerate(value):
        if each is not None and type(each) is not dict:
            yield invalid(f"{path}[{i}]", each, "must be an object for an array of list-type map")
            return
    yield from _twice(
        [{k: each[k] for k in keys if k in each} if each else {} for each in value], path
    )


def _twice(keys: list[Any], path: str) -> Iterator[str]:
    """Yields a problem for the second item with a key."""
    times: dict[bytes, int] = {}
    for i, key in enumerate(keys):
        text = _SORTED.encode(key)
        times[text] = times.get(text, 0) + 1
        if times[text] == 2:
            yield duplicate(f"{path}[{i}]", key)
