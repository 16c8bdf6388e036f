"""Request bodies that are not stored: DeleteOptions, Binding, Eviction and Scale.

The types have the fields that the server reads; other fields of a body are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from ..rules.fields import invalid, unsupported
from ..types.api_documents import Document, RefusedError
from .json_problems import go_type
from .option_problems import invalid_options, options_of
from .request_content import SCHEME

_T = TypeVar("_T")
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
POLICIES = ("Foreground", "Background", "Orphan")


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
    check_dry_run(options_of(method), in_query)
    in_body = delete_options.get("dryRun") if isinstance(delete_options, dict) else None
    if method == "POST" and in_query and in_body and in_body != in_query:
        message = "Non-matching dry-run options in request and content"
        raise RefusedError(500, "InternalError", f"{message}: {in_query} and {in_body}")
    return bool(in_query or in_body)


def check_dry_run(options: str, values: Sequence[str]) -> None:
    """Raises RefusedError with 422 for a value other than All. `options` is the name of the type of
    the options.
    """
    if any(value != "All" for value in values):
        raise invalid_options(options, [unsupported("dryRun", list(values), ("All",))])


def delete_options(document: Document, query: Mapping[str, str]) -> DeleteOptions:
    """Returns the options in the body, or those in the query if the body has none.

    Raises RefusedError: 400 for options that cannot be read, 422 for invalid ones.
    """
    kind, version = document.get("kind"), document.get("apiVersion")
    if (kind or "DeleteOptions") != "DeleteOptions":
        why = f'no kind "{kind}" is registered for version "{version}" in scheme "{SCHEME}"'
        raise RefusedError(400, "BadRequest", why)
    if not document:
        document = _in_query(query)
    seconds = document.get("gracePeriodSeconds")
    if seconds is not None and type(seconds) is not int:
        into = "Go struct field DeleteOptions.gracePeriodSeconds of type int64"
        message = f"json: cannot unmarshal {go_type(seconds)} into {into}"
        raise RefusedError(400, "BadRequest", message)
    options = converted(document, DeleteOptions, strict=False)
    check_delete_options(options)
    return options


def check_delete_options(options: DeleteOptions) -> None:
    """Raises RefusedError with 422 for invalid options."""
    check_dry_run("DeleteOptions", options.dry_run or ())
    problems = _propagation_problems(options)
    if problems:
        raise invalid_options("DeleteOptions", problems)


def _in_query(query: Mapping[str, str]) -> Document:
    """Returns the delete options of a query. Raises RefusedError with 400 for no number."""
    fields = ("propagationPolicy", "orphanDependents")
    found: Document = {field: query[field] for field in fields if field in query}
    if "gracePeriodSeconds" in query:
        text = query["gracePeriodSeconds"]
        if not _NUMBER.fullmatch(text):
            message = f'strconv.ParseInt: parsing "{text}": invalid syntax'
            raise RefusedError(400, "BadRequest", message)
        found["gracePeriodSeconds"] = int(text)
    return found


def _propagation_problems(options: DeleteOptions) -> list[str]:
    """Returns what is wrong with the options about the dependents."""
    policy = options.propagation_policy
    if policy is not None and options.orphan_dependents is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        return [invalid("propagationPolicy", policy, why)]
    if policy is not None and policy not in POLICIES:
        return [unsupported("propagationPolicy", policy, (*POLICIES, "nil"))]
    return []


def converted(document: Document, shape: type[_T], *, strict: bool = True) -> _T:
    """Returns the document as a value of this type. Raises RefusedError with 400."""
    try:
        return msgspec.convert(document, shape, strict=strict)
    except msgspec.ValidationError as problem:
        raise RefusedError(400, "BadRequest", f"{shape.__name__}: {problem}") from None
