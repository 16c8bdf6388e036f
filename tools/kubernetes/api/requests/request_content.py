"""The content of a request: its media type, and the object in its body."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import msgspec

from berth.actors.scheduling.kube.yaml_documents import (
    RepeatedKey,
    YamlError,
    json_number,
    placed_documents,
)

from ..rules.validation import details_of_kind, message_of_kind
from ..types.api_documents import Document, RefusedError
from ..types.resources import BY_KIND, Kind
from ..types.schema import duplicate_fields
from .json_problems import END, go_type, json_problem
from .media_types import APPLY, JSON, JSON_PATCH, MERGE, PROTOBUF, STRATEGIC, YAML
from .request import HttpRequest

MOST_SUMMARY_BYTES = 30  # of a body, in a refusal
UNTOLD_KIND = "couldn't get version/kind; json parse error"
TYPE_META = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; '
    r'Kind string "json:\"kind,omitempty\"" }'
)
TO_JSON = "error converting YAML to JSON"
SCHEME = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"
# Kubernetes still reads them, and serves them no more.
FORMER_VERSIONS = ("extensions/v1beta1", "apps/v1beta1", "apps/v1beta2", "batch/v1beta1")
# Where JSON means something else as YAML: halves of characters, and integers of more than 64 bits.
_UNLIKE_JSON = re.compile(rb"\\u[dD][89a-fA-F]|[0-9]{19}")
_NUMBERS_AS_IN_YAML = msgspec.json.Decoder(float_hook=json_number)


def media_type_of(request: HttpRequest) -> str:
    """Returns the media type of the body: JSON if the header is missing.

    Raises RefusedError with 415 for a type that holds no object. This also keeps web pages out: a
    browser sends forms and plain text to any site, but other types only to a site that agreed to
    it.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method == "PATCH":
        if media_type not in (STRATEGIC, MERGE, JSON_PATCH, APPLY):
            raise RefusedError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        return media_type
    if not media_type or (request.method == "DELETE" and not request.body):
        return JSON
    if media_type not in (JSON, YAML, PROTOBUF):
        why = "the body of the request was in an unknown format"
        accepted = ", ".join((JSON, YAML, PROTOBUF))
        message = f"{why} - accepted media types include: {accepted}"
        raise RefusedError(415, "UnsupportedMediaType", message)
    return media_type


def _later_counts(_line: int, _again: RepeatedKey) -> None:
    """Takes the later value of a key that occurs twice, as Kubernetes does."""


def may_repeat_fields(raw: bytes, document: Any) -> bool:
    """False if no object in a body, which was read as this document, has a field twice: the
    document is as long as its JSON without the spaces between its parts.
    """
    spaces = raw.count(b'": ') + raw.count(b', "') if b'": ' in raw else 0
    return len(raw) - spaces != len(msgspec.json.encode(document))


def repeated_fields(raw: bytes, media_type: str) -> list[str]:
    """Returns a message about the fields that an object of the body has twice, in a list; in YAML
    there is one for all.
    """
    if media_type not in (APPLY, YAML):
        return duplicate_fields(raw) if raw[:1] == b"{" else []
    if raw[:1] == b"{":
        with suppress(ValueError, RecursionError):
            if not duplicate_fields(raw):
                return []
    keys: list[str] = []

    def note(line: int, again: RepeatedKey) -> None:
        keys.append(f'\n  line {line}: key "{again.key}" already set in map')

    placed_documents(raw, repeated=note)
    return [f"yaml: unmarshal errors:{''.join(keys)}"] if keys else []


def read_body(raw: bytes, media_type: str, expected: str = "") -> Any:
    """Returns the document in a body. Raises RefusedError with 400 if it cannot be read.

    `expected` is the kind of object that the body should hold.
    """
    if media_type == PROTOBUF:
        from ..types.protobuf import MAGIC, decoded

        if raw[:4] == MAGIC:
            return decoded(raw)
        prefix = " ".join(str(byte) for byte in MAGIC)
        raise _unrecognized(
            f"provided data does not appear to be a protobuf message, expected prefix [{prefix}]",
            raw,
            expected,
        )
    try:
        is_yaml = media_type in (APPLY, YAML)
        read = _yaml_documents(raw) if is_yaml else [msgspec.json.decode(raw)]
    except YamlError as problem:
        raise _unreadable(raw, media_type, expected, _in_go_yaml(problem)) from None
    except (ValueError, RecursionError) as problem:
        raise _unreadable(raw, media_type, expected, str(problem)) from None
    if len(read) > 1:
        why = f"expected one document, got {len(read)}"
        raise _unreadable(raw, media_type, expected, why)
    return read[0]


def _yaml_documents(raw: bytes) -> list[Any]:
    """Returns the documents of a text, which is mostly JSON: that is far quicker to read."""
    if raw[:1] == b"{" and not _UNLIKE_JSON.search(raw):
        with suppress(ValueError, RecursionError):
            return [_NUMBERS_AS_IN_YAML.decode(raw)]
    return [value for _, value in placed_documents(raw, repeated=_later_counts)] or [None]


def _in_go_yaml(problem: YamlError) -> str:
    """Returns a problem as Go's reader tells it, which counts from 0 the lines that its parser does
    not understand.
    """
    if not problem.problem.startswith("did not find expected"):
        return str(problem)
    return f"line {problem.line - 1}: {problem.problem}" if problem.line > 1 else problem.problem


def _unreadable(raw: bytes, media_type: str, expected: str, problem: str) -> RefusedError:
    """Returns the refusal of a body that cannot be read, as Kubernetes' decoders write it."""
    why = problem if media_type in (APPLY, YAML) else json_problem(raw) or problem
    match media_type:
        case "application/merge-patch+json" | "application/json-patch+json":
            return RefusedError(400, "BadRequest", f"error decoding patch: {why}")
        case "application/strategic-merge-patch+json":
            return RefusedError(400, "BadRequest", why)
        case "application/apply-patch+yaml":
            return RefusedError(400, "BadRequest", f"error decoding YAML: {TO_JSON}: yaml: {why}")
        case "application/yaml":
            return _unrecognized(f"yaml: {why}", raw, expected)
        case _:
            return _unrecognized(f"{UNTOLD_KIND}: {why}", raw, expected)


def _unrecognized(why: str, raw: bytes, expected: str) -> RefusedError:
    if not expected:
        return RefusedError(400, "BadRequest", why)
    message = f"the object provided is unrecognized (must be of type {expected}): {why} "
    return RefusedError(400, "BadRequest", f"{message}({_summary(raw)})")


def _summary(raw: bytes) -> str:
    """Returns the beginning of a body: as text if it could be JSON, else in hexadecimal digits."""
    if not raw:
        return "<empty>"
    more = " ..." if len(raw) > MOST_SUMMARY_BYTES else ""
    head = raw[:MOST_SUMMARY_BYTES]
    return (head.decode(errors="replace") if raw[:1] == b"{" else head.hex()) + more


def applied_object(document: Any) -> Document:
    """Returns the document that a request applies. Raises RefusedError with 400 for no object."""
    if isinstance(document, dict | None):
        return document or {}
    into = "Go value of type map[string]interface {}"
    why = f"while decoding JSON: json: cannot unmarshal {go_type(document)} into {into}"
    message = f"error decoding YAML: error unmarshaling JSON: {why}"
    raise RefusedError(400, "BadRequest", message)


def as_object(document: Any, expected: str = "", raw: bytes = b"") -> Document:
    """Returns the document, an empty one for null.

    Raises RefusedError with 400 if it is not an object.
    """
    if isinstance(document, dict):
        return document
    if document is None and raw:
        return {}
    problem = f"json: cannot unmarshal {go_type(document)} into Go value of type {TYPE_META}"
    raise _unrecognized(f"{UNTOLD_KIND}: {problem if raw else END}", raw, expected)


def _other_version(kind: Kind, version: str) -> RefusedError:
    message = (
        f"the API version in the data ({version}) does not match "
        f"the expected API version ({kind.api_version})"
    )
    return RefusedError(400, "BadRequest", message)


def _check_custom(kind: Kind, read: Document, raw: bytes) -> None:
    """Raises RefusedError if a custom object does not name its kind and version: 400, or 422 for
    another kind.
    """
    named, version = read.get("kind"), read.get("apiVersion") or ""
    if not named or not isinstance(named, str):
        text = raw.decode(errors="replace")
        why = f"Object 'Kind' is missing in '{text}' ({_summary(raw)})"
        message = f"the object provided is unrecognized (must be of type {kind.kind}): {why}"
        raise RefusedError(400, "BadRequest", message)
    if version != kind.api_version:
        raise _other_version(kind, str(version))
    if named != kind.kind:
        metadata = read.get("metadata")
        name = str(metadata.get("name") or "") if isinstance(metadata, dict) else ""
        problem = f'kind: Invalid value: "{named}": must be {kind.kind}'
        message = message_of_kind(kind.group, named, name, [problem])
        details = details_of_kind(kind.group, named, name, [problem])
        raise RefusedError(422, "Invalid", message, details)


def of_kind(kind: Kind, document: Any, raw: bytes = b"") -> Document:
    """Returns the document. Raises RefusedError with 400 if it is not an object of this kind.

    `raw` is the body that holds it.
    """
    read = as_object(document, kind.kind, raw)
    if kind.custom is not None:
        _check_custom(kind, read, raw)
        return read
    named, version = read.get("kind") or kind.kind, read.get("apiVersion") or kind.api_version
    if named == kind.kind and version == kind.api_version:
        return read
    for field, value in (("apiVersion", version), ("kind", named)):
        if not isinstance(value, str):
            into = f"Go struct field .{field} of type string"
            why = f"{UNTOLD_KIND}: json: cannot unmarshal {go_type(value)} into {into}"
            raise _unrecognized(why, raw, kind.kind)
    if version.count("/") > 1:
        why = f"unexpected GroupVersion string: {version}"
        raise _unrecognized(why, raw, kind.kind)
    if named == kind.kind and ((version, named) in BY_KIND or version in FORMER_VERSIONS):
        raise _other_version(kind, version)
    short = version.rpartition("/")[2]
    if (version, named) in BY_KIND:
        group = (kind.group or "core").partition(".")[0]
        why = f"converting ({short}.{named}) to ({group}.{kind.kind}): unknown conversion"
    else:
        why = f'no kind "{named}" is registered for version "{version}" in scheme "{SCHEME}"'
    message = f'{named} in version "{short}" cannot be handled as a {kind.kind}: {why}'
    raise RefusedError(400, "BadRequest", message)
