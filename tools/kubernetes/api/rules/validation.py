"""Validation of an object: its metadata, and the rules of its kind.

Documents must have their defaults and values of the right types (see schema). A problem is a
field's path and a description, in the words of Kubernetes' field errors. The refusal lists each
problem once.
"""

from __future__ import annotations

import re
from typing import Any

from berth.actors.scheduling.kube.names import dns_label, dns_subdomain, qualified_name

from ..types.document_cache import cached_by_document
from ..types.schema import TYPES
from .field_marks import Marks
from .fields import STANDARD_FINALIZERS, Document, annotation_rules, invalid, labels, required
from .kind_rules import ACROSS, rule_of
from .role_rules import path_segment

_LABEL_NAMES = ("Namespace", "Service")
_PATH_NAMES = (
    *("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"),
    *("APIService", "CertificateSigningRequest", "IPAddress"),
)
_REASONS = {
    "Required value": "FieldValueRequired",
    "Invalid value": "FieldValueInvalid",
    "Unsupported value": "FieldValueNotSupported",
    "Duplicate value": "FieldValueDuplicate",
    "Not found": "FieldValueNotFound",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
    "Forbidden": "FieldValueForbidden",
    "Internal error": "InternalError",
}
_PROBLEM = re.compile(rf"(.*?): ((?:{'|'.join(_REASONS)})(?::.*|$))", re.DOTALL)
_MARKS = Marks(ACROSS)


def problems(kind: str, document: Document, before: Document | None = None) -> list[str]:
    """Returns the problems of an object of this kind; `before` is the stored object, if any."""
    is_label = kind in _LABEL_NAMES or (kind == "StatefulSet" and before is None)
    own = _metadata(kind, document.get("metadata") or {}, is_label=is_label)
    if kind == "Pod":
        own += _pod_spec(document.get("spec") or {})
    else:
        if kind == "IPAddress":
            from .network_rules import address

            own += address(document)
        own += _MARKS.problems(kind, "", _as_validated(kind, document, before), before)
    if (rule := rule_of(kind)) is not None:
        own += rule(document, before)
    return own


def _as_validated(kind: str, document: Document, before: Document | None) -> Document:
    """Returns an object in the form that Kubernetes validates: some fields that it sets by itself
    are added or left out.
    """
    spec, was = document.get("spec"), (before or {}).get("spec")
    if kind == "StatefulSet" and spec:
        from .workload_rules import with_claims_as_volumes

        return {**document, "spec": with_claims_as_volumes(spec)}
    if kind == "Service" and spec and was:
        from .service_rules import without_lost_addresses

        return {**document, "spec": without_lost_addresses(spec, was)}
    return document


def metadata_problems(metadata: Document) -> list[str]:
    """Returns the problems of the metadata of a custom object, whose finalizers are free."""
    return _metadata("Lease", metadata)


def embedded_metadata_problems(metadata: Document, path: str) -> list[str]:
    """Returns the problems of metadata in a custom object, whose name may be any part of a path."""
    problems = _metadata("ClusterRole", metadata)
    return [path + problem.removeprefix("metadata") for problem in problems]


def resize_problems(document: Document, before: Document, qos: str) -> list[str]:
    """Returns the problems of the resize of a pod. `qos` is the QoS class that the resized pod
    would have.
    """
    from .pod_resize import pod_resize

    spec, metadata = document.get("spec") or {}, document.get("metadata") or {}
    own = _metadata("Pod", metadata) + _pod_spec(spec)
    return [*own, *pod_resize(document, before, qos)]


def ephemeral_problems(document: Document, before: Document) -> list[str]:
    """Returns the problems of an update of a pod's ephemeral containers."""
    from .ephemeral_containers import ephemeral_update

    spec, metadata = document.get("spec") or {}, document.get("metadata") or {}
    own = _metadata("Pod", metadata) + _pod_spec(spec)
    return [*own, *ephemeral_update(document, before)]


def status_problems(kind: str, document: Document, before: Document) -> list[str]:
    """Returns the problems of an update of an object's status. Both documents are whole objects."""
    rule = rule_of(kind, status=True)
    metadata, had = document.get("metadata") or {}, before.get("metadata") or {}
    sent = any(
        metadata.get(field) is not had.get(field)
        for field in ("labels", "annotations", "finalizers")
    )
    own = _metadata(kind, metadata) if sent else []
    return [*own, *rule(document, before)] if rule is not None else own


@cached_by_document
def _pod_spec(spec: Document) -> list[str]:
    from .pod_rules import pod_only_rules

    return [*_MARKS.problems("PodSpec", "spec", spec), *pod_only_rules(spec)]


def _metadata(kind: str, metadata: Document, *, is_label: bool = False) -> list[str]:
    name, prefix = metadata.get("name") or "", metadata.get("generateName") or ""
    form = dns_label if is_label else path_segment if kind in _PATH_NAMES else dns_subdomain
    problems: list[str] = []
    if prefix:
        # a prefix may end in a dash, since the suffix ends the name with a letter or a digit
        problems += [
            invalid("metadata.generateName", prefix, message)
            for message in form(prefix.rstrip("-") or "-")
        ]
    if name:
        problems += [invalid("metadata.name", name, message) for message in form(name)]
    elif not prefix:
        problems.append(required("metadata.name", "name or generateName is required"))
    if namespace := metadata.get("namespace"):
        problems += [
            invalid("metadata.namespace", namespace, message) for message in dns_label(namespace)
        ]
    if metadata.get("labels"):
        problems += labels("metadata.labels", metadata["labels"])
    if metadata.get("annotations"):
        problems += annotation_rules("metadata.annotations", metadata["annotations"])
    for i, finalizer in enumerate(metadata.get("finalizers") or ()):
        problems += [
            invalid("metadata.finalizers", finalizer, message)
            for message in qualified_name(finalizer)
        ]
        is_standard = finalizer in STANDARD_FINALIZERS
        if "/" not in finalizer and not is_standard and kind != "Lease":
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            problems.append(invalid(f"metadata.finalizers[{i}]", finalizer, detail))
    for owner in metadata.get("ownerReferences") or ():
        problems += _owner("metadata.ownerReferences", owner)
    return problems


def _owner(path: str, owner: Document) -> list[str]:
    return [
        invalid(f"{path}.{field}", "", f"{word}must not be empty")
        for field, word in (("apiVersion", "version "), ("kind", ""), ("name", ""), ("uid", ""))
        if not owner.get(field)
    ]


def invalid_message(type_: str, name: str, problems: list[str]) -> str:
    """Returns the message that refuses an object of this type with these problems."""
    return message_of_kind(*_named(type_), name, problems)


def _named(type_: str) -> tuple[str, str]:
    """Returns the group and the kind of a type in types.txt."""
    group = TYPES[type_].api_version.partition("/")[0]
    return "" if group in ("core", "") else group, TYPES[type_].name


def message_of_kind(group: str, kind: str, name: str, problems: list[str]) -> str:
    """Returns the message that refuses an object of this kind."""
    full = f"{kind}.{group}" if group else kind
    unique = list(dict.fromkeys(problems))
    listed = unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
    return f'{full} "{name}" is invalid: {listed}'


def details_of_kind(group: str, kind: str, name: str, problems: list[str]) -> dict[str, Any]:
    """Returns the details of the metav1.Status that refuses an object of this kind."""
    causes = []
    for problem in problems:
        told = _PROBLEM.match(problem)  # a key in the path of the field may have any characters
        field, message = told.groups() if told else problem.split(": ", 1)
        is_type = " in body must be of type " in message
        reason = "FieldValueTypeInvalid"
        if not is_type:
            reason = _REASONS.get(message.partition(":")[0], "FieldValueInvalid")
        causes.append({"reason": reason, "message": message, "field": field})
    named = {"name": name, "group": group, "kind": kind}
    return {**{field: value for field, value in named.items() if value}, "causes": causes}
