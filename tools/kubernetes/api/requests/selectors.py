"""Label and field selectors of list and watch requests.

A field selector may name an object's name and namespace and, for some kinds, a few more fields, as
in Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from berth.actors.scheduling.kube.labels import Requirement, Selector, SelectorError

from ..types.api_documents import Document, RefusedError
from ..types.resources import Kind

Matches = Callable[[Document], bool]
# The text between two commas; commas in parentheses do not count.
_PART = re.compile(r"(?:[^,(]+|\([^)]*(?:\)|$))+")
_LABEL = re.compile(r"(!?)\s*([\w./-]+)\s*(?:(=|==|!=)\s*([\w.-]*)|\s(in|notin)\s*\(([^)]*)\))?")
_FIELD = re.compile(r"([\w.]+)(!=|==|=)(.*)")
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
    "ReplicaSet": ("status.replicas",),
    "ReplicationController": ("status.replicas",),
    "Job": ("status.successful",),
    "ResourceSlice": ("spec.driver", "spec.nodeName"),
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
        selector = label_selector(text)
    except SelectorError as problem:
        raise RefusedError(400, "BadRequest", f"unable to parse requirement: {problem}") from None
    return lambda document: selector.matches(document["metadata"].get("labels") or {})


def _fields(kind: Kind, text: str) -> Matches | None:
    requirements = []
    for part in filter(None, text.split(",")):
        match = _FIELD.fullmatch(part)
        if match is None:
            raise RefusedError(
                400,
                "BadRequest",
                f"invalid selector: {part!r}; can't understand it as key=value or key!=value",
            )
        label, operator, value = match.groups()
        if label not in _OF_ALL and label not in _labels_of(kind):
            raise RefusedError(400, "BadRequest", f"field label not supported: {label}")
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


def label_selector(text: str) -> Selector:
    """Returns the selector of a text in the notation of kubectl's -l. Raises SelectorError."""
    return Selector(
        tuple(_requirement(part.strip()) for part in _PART.findall(text) if part.strip())
    )


def _requirement(text: str) -> Requirement:
    match = _LABEL.fullmatch(text)
    if match is None:
        raise SelectorError(
            "label selector: expected key, !key, key=value, key!=value or key in (a,b), got "
            f"{text!r}"
        )
    absent, key, operator, value, in_set, values = match.groups()
    if in_set:
        parts = tuple(sorted({part.strip() for part in values.split(",")}))
        return Requirement(key, "In" if in_set == "in" else "NotIn", parts)
    if operator:
        return Requirement(key, "NotIn" if operator == "!=" else "In", (value,))
    return Requirement(key, "DoesNotExist" if absent else "Exists")
