"""A change of the pending pod: a sentence, and the same as a JSON patch."""

from __future__ import annotations

from typing import Any

import msgspec


class Change(msgspec.Struct, frozen=True):
    """A change in words without its result, and the JSON patch of the pod that makes it."""

    kind: str
    sentence: str
    patch: list[dict[str, Any]]


class Suggestion(msgspec.Struct, frozen=True):
    """A change after which the pod fits, and the nodes that it may then go to."""

    kind: str
    sentence: str
    patch: list[dict[str, Any]]
    nodes: tuple[str, ...]
