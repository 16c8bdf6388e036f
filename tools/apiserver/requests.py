"""The bodies of requests that are no objects to store: options of a deletion, bindings, evictions
and scales.

They hold what is heeded of DeleteOptions, Binding, Eviction and Scale; what else a body has is left
alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from berth.tools.apiserver.store import Document, Refused

_T = TypeVar("_T")


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    preconditions: Preconditions | None = None


class Named(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata, or a reference."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""


class Binding(msgspec.Struct, frozen=True):
    """The pod of this uid, if one is given, goes to the node that the target names."""

    metadata: Named | None = None
    target: Named | None = None


class Eviction(msgspec.Struct, frozen=True, rename="camel"):
    delete_options: DeleteOptions | None = None


class Replicas(msgspec.Struct, frozen=True):
    replicas: int = 0


class Scale(msgspec.Struct, frozen=True):
    metadata: Named | None = None
    spec: Replicas | None = None


def delete_options(document: Document, query: Mapping[str, str]) -> DeleteOptions:
    """What the body says, and where it is silent the query. Raises Refused with 400."""
    asked = {
        field: query[field]
        for field in ("gracePeriodSeconds", "propagationPolicy")
        if field in query
    }
    return converted({**asked, **document}, DeleteOptions, strict=False)


def converted(document: Document, shape: type[_T], *, strict: bool = True) -> _T:
    """Raises Refused with 400."""
    try:
        return msgspec.convert(document, shape, strict=strict)
    except msgspec.ValidationError as problem:
        raise Refused(400, "BadRequest", f"{shape.__name__}: {problem}") from None
