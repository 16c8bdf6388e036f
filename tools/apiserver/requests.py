"""Request bodies that are not stored: DeleteOptions, Binding, Eviction and Scale.

The types have the fields that the server reads; other fields of a body are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from .store import Document, RefusedError

_T = TypeVar("_T")


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    preconditions: Preconditions | None = None


class NamedObject(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata of an object, or a reference to it."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""


class Binding(msgspec.Struct, frozen=True):
    """An order to bind the pod to the node that the target names.

    If metadata has a uid, only the pod with that uid is bound.
    """

    metadata: NamedObject | None = None
    target: NamedObject | None = None


class Eviction(msgspec.Struct, frozen=True, rename="camel"):
    delete_options: DeleteOptions | None = None


class Replicas(msgspec.Struct, frozen=True):
    replicas: int = 0


class Scale(msgspec.Struct, frozen=True):
    metadata: NamedObject | None = None
    spec: Replicas | None = None


def delete_options(document: Document, query: Mapping[str, str]) -> DeleteOptions:
    """Returns the options in the body, completed by the query. Raises RefusedError with 400."""
    from_query = {
        field: query[field]
        for field in ("gracePeriodSeconds", "propagationPolicy")
        if field in query
    }
    return converted({**from_query, **document}, DeleteOptions, strict=False)


def converted(document: Document, shape: type[_T], *, strict: bool = True) -> _T:
    """Returns the document as a value of this type. Raises RefusedError with 400."""
    try:
        return msgspec.convert(document, shape, strict=strict)
    except msgspec.ValidationError as problem:
        raise RefusedError(400, "BadRequest", f"{shape.__name__}: {problem}") from None
