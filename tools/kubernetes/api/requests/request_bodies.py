"""Request bodies that are not stored: DeleteOptions, Binding, Eviction and Scale.

The types have the fields that the server reads; other fields of a body are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from ..types.api_documents import Document, RefusedError

_T = TypeVar("_T")
_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: Preconditions | None = None
    dry_run: tuple[str, ...] | None = None


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
    api_version: str = "policy/v1"
    kind: str = "Eviction"
    metadata: NamedObject | None = None
    delete_options: DeleteOptions | None = None


class Replicas(msgspec.Struct, frozen=True):
    replicas: int = 0


class Scale(msgspec.Struct, frozen=True):
    metadata: NamedObject | None = None
    spec: Replicas | None = None


def is_dry_run(method: str, query: Mapping[str, str], delete_options: object) -> bool:
    """True if the query, or the delete options in the body, say that nothing is to be stored.

    Raises RefusedError: 422 for a value other than All in the query, 500 if the delete options of
    an eviction contradict the query.
    """
    in_query = [query["dryRun"]] if "dryRun" in query else []
    check_dry_run(_OPTIONS.get(method, "DeleteOptions"), in_query)
    in_body = delete_options.get("dryRun") if isinstance(delete_options, dict) else None
    if method == "POST" and in_query and in_body and in_body != in_query:
        message = "Non-matching dry-run options in request and content"
        raise RefusedError(500, "InternalError", f"{message}: {in_query} and {in_body}")
    return bool(in_query or in_body)


def check_dry_run(options: str, values: Iterable[str]) -> None:
    """Raises RefusedError with 422 for a value other than All. `options` is the name of the type of
    the options.
    """
    if any(value != "All" for value in values):
        quoted = ", ".join(f'"{value}"' for value in values)
        problem = f'dryRun: Unsupported value: []string{{{quoted}}}: supported values: "All"'
        message = f'{options}.meta.k8s.io "" is invalid: {problem}'
        raise RefusedError(422, "Invalid", message)


def delete_options(document: Document, query: Mapping[str, str]) -> DeleteOptions:
    """Returns the options in the body, completed by the query. Raises RefusedError with 400."""
    from_query = {
        field: query[field]
        for field in ("gracePeriodSeconds", "propagationPolicy", "orphanDependents")
        if field in query
    }
    return converted({**from_query, **document}, DeleteOptions, strict=False)


def converted(document: Document, shape: type[_T], *, strict: bool = True) -> _T:
    """Returns the document as a value of this type. Raises RefusedError with 400."""
    try:
        return msgspec.convert(document, shape, strict=strict)
    except msgspec.ValidationError as problem:
        raise RefusedError(400, "BadRequest", f"{shape.__name__}: {problem}") from None
