"""Label and field selectors of list and watch requests.

A field selector may name an object's name and namespace and, for some kinds, a few more fields, as
in Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from berth.actors.scheduling.kube.labels import SelectorError

from ..rules.fields import printed_value
from ..types.api_documents import Document, RefusedError
from ..types.resources import Kind
from .label_selectors import label_predicate

Matches = Callable[[Document], bool]
_TERM = re.compile(r"(?:[^,\\]|\\.?)+", re.DOTALL)  # up to a comma without a backslash
_FIELD = re.compile(r"(.*?)(!=|==|=)", re.DOTALL)
_SPECIAL = "\\,="
_OF_ALL = ("metadata.name", "metadata.namespace")
_ABOUT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_OF_KIND = {
    "Pod": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "Node": ("spec.unschedulable",),
    "Namespace": ("status.phase",),
    "Service": ("spec.clusterIP", "spec.type"),
    "Secret": ("type",),
    "Event": (
        *(f"involvedObject.{field}" for field in _ABOUT),
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "events.Event": (
        *(f"regarding.{field}" for field in _ABOUT),
        "reason",
        "reportingController",
        "type",
    ),
    "CertificateSigningRequest": ("spec.signerName",),
    "ReplicationController": ("status.replicas",),
    "Job": ("status.successful",),
    **dict.fromkeys(
        ("ResourceSlice", "v1beta1.ResourceSlice", "v1beta2.ResourceSlice"),
        ("spec.driver", "spec.nodeName"),
    ),
}
# The paths of the stored fields, for field labels that are no path themselves. Of several paths,
# the first that has a value counts.
_PATHS = {
    "source": ("source.component", "reportingComponent"),
    "status.successful": ("status.succeeded",),
    "reportingController": ("reportingComponent",),
    **{f"regarding.{field}": (f"involvedObject.{field}",) for field in _ABOUT},
}
# The value of a field that an object omits; "" for all other fields.
_ABSENT = {
    "spec.hostNetwork": "false",
    "spec.unschedulable": "false",
    "status.replicas": "0",
    "status.successful": "0",
}


def matches_of(kind: Kind, labels: str, fields: str) -> Matches | None:
    """Returns a predicate for the objects that a request selects; None if it selects all.

    Raises RefusedError with 400.
    """
    chosen = [
        match for match in (_label_predicate(labels), _fields(kind, fields)) if match is not None
    ]
    match chosen:
        case []:
            return None
        case [only]:
            return only
        case _:
            return lambda document: all(match(document) for match in chosen)


def _label_predicate(text: str) -> Matches | None:
    if not text.strip():
        return None
    try:
        selects = label_predicate(text)
    except SelectorError as problem:
        raise RefusedError(400, "BadRequest", str(problem)) from None
    return lambda document: selects(document["metadata"].get("labels") or {})


def _fields(kind: Kind, text: str) -> Matches | None:
    requirements = []
    for part in filter(None, sorted(_TERM.findall(text))):
        match = _FIELD.match(part)
        if match is None:
            why = f"invalid selector: '{text}'; can't understand '{part}'"
            raise RefusedError(400, "BadRequest", why)
        label, operator = match.groups()
        value = _unescaped(part[match.end() :])
        if label not in _OF_ALL and label not in _labels_of(kind):
            why = f"field label not supported: {label}"
            if kind.custom is None and kind.type_name not in _OF_KIND:
                names = ", ".join(f'"{each}"' for each in _OF_ALL)
                why = f"{printed_value(label)} is not a known field selector: only {names}"
            raise RefusedError(400, "BadRequest", why)
        paths = [tuple(path.split(".")) for path in _PATHS.get(label, (label,))]
        requirements.append((paths, _ABSENT.get(label, ""), value, operator != "!="))
    if not requirements:
        return None

    def holds(document: Document) -> bool:
        return all(
            (_field_value(document, paths, absent) == value) == equal
            for paths, absent, value, equal in requirements
        )

    return holds


def _unescaped(value: str) -> str:
    """Returns the value of a field without the backslashes before special characters.

    Raises RefusedError with 400 for a special character without one.
    """
    why, escaped, found = "", False, list[str]()
    for character in value:
        if escaped and character not in _SPECIAL:
            why = f"invalid escape sequence: \\{character}"
            break
        if character in "=," and not escaped:
            why = f"unescaped character in value: {ord(character)}"
            break
        escaped = character == "\\" and not escaped
        if not escaped:
            found.append(character)
    if escaped and not why:
        why = "invalid escape sequence: \\"
    if why:
        raise RefusedError(400, "BadRequest", f"invalid field selector: {why}")
    return "".join(found)


def _labels_of(kind: Kind) -> Collection[str]:
    """Returns the fields that selectors of a kind may name, beside those of all kinds."""
    return _OF_KIND.get(kind.type_name, ()) if kind.custom is None else kind.custom.selectable


def _field_value(document: Document, paths: Sequence[tuple[str, ...]], absent: str) -> str:
    value: Any = None
    for path in paths:
        value = document
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        if value:
            break
    if isinstance(value, bool):
        return str(value).lower()
    return absent if value is None else str(value)
