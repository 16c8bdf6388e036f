"""A write that is subject to admission policies and webhooks, and those that match it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from ..access.users import Requester
from ..rules.fields import selects
from ..types.api_documents import OTHER_NAMESPACE, Document, RefusedError
from ..types.catalog import CURRENT_CATALOG, Catalog
from ..types.conversion import served_form
from ..types.resources import BY_KIND, Kind

_GROUP = "admissionregistration.k8s.io/v1"
POLICIES = BY_KIND[_GROUP, "ValidatingAdmissionPolicy"]
BINDINGS = BY_KIND[_GROUP, "ValidatingAdmissionPolicyBinding"]
MUTATING_POLICIES = BY_KIND[_GROUP, "MutatingAdmissionPolicy"]
MUTATING_BINDINGS = BY_KIND[_GROUP, "MutatingAdmissionPolicyBinding"]
MUTATING = BY_KIND[_GROUP, "MutatingWebhookConfiguration"]
VALIDATING = BY_KIND[_GROUP, "ValidatingWebhookConfiguration"]
# What decides about writes is not decided about.
POLICY_KINDS = frozenset((POLICIES, BINDINGS, MUTATING_POLICIES, MUTATING_BINDINGS))
SYSTEM_FIELDS = ("uid", "creationTimestamp", "generation", "selfLink")
_NO_LABELS: Mapping[str, str] = {}
# The kinds of what is sent to a subresource.
_SENT = {
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}


class Write(msgspec.Struct, frozen=True):
    """A write by a user: the object `before` it, and the object `after` it.

    `namespace` is the Namespace of a namespaced object.
    """

    user: Requester
    operation: str
    kind: Kind
    name: str
    after: Document | None
    before: Document | None
    subresource: str = ""
    namespace: Document | None = None
    dry_run: bool = False
    catalog: Catalog = CURRENT_CATALOG

    @property
    def place(self) -> str:
        """The name of the namespace. For a Namespace, it is the name of the Namespace itself."""
        if self.kind.kind == "Namespace":
            return self.name
        return "" if self.namespace is None else str(self.namespace["metadata"]["name"])


def matched_kind(resources: Document, write: Write) -> Kind | None:
    """Returns the kind by which matchConstraints or matchResources match a write; None if they do
    not match it.
    """
    if not _in_namespace(resources.get("namespaceSelector") or {}, write):
        return None
    if not _is_object(resources.get("objectSelector") or {}, write):
        return None
    is_exact = resources.get("matchPolicy") == "Exact"
    if _by_rules(resources.get("excludeResourceRules") or (), write, is_exact=is_exact):
        return None
    rules = resources.get("resourceRules")
    return _by_rules(rules, write, is_exact=is_exact) if rules else write.kind


def _by_rules(rules: Collection[Document], write: Write, *, is_exact: bool) -> Kind | None:
    if any(_by_rule(rule, write, write.kind) for rule in rules):
        return write.kind
    if is_exact:
        return None
    stored = write.kind.stored_as or write.kind
    for kind in write.catalog.kinds:
        is_other = kind is not write.kind and (kind.stored_as or kind) is stored
        if is_other and any(_by_rule(rule, write, kind) for rule in rules):
            return kind
    return None


def _by_rule(rule: Document, write: Write, kind: Kind) -> bool:
    names = rule.get("resourceNames")
    return (
        _lists(rule, "apiGroups", kind.group)
        and _lists(rule, "apiVersions", kind.version)
        and _lists(rule, "operations", write.operation)
        and _in_scope(rule.get("scope") or "*", kind)
        and any(
            _names_resource(text, kind, write.subresource) for text in rule.get("resources") or ()
        )
        and (not names or write.name in names)
    )


def _lists(rule: Document, field: str, value: str) -> bool:
    values = rule.get(field) or ()
    return "*" in values or value in values


def _in_scope(scope: str, kind: Kind) -> bool:
    return scope == "*" or (scope == "Namespaced") is kind.namespaced


def _names_resource(text: str, kind: Kind, subresource: str) -> bool:
    """True if a text such as `pods`, `pods/status` or `*/*` names the resource."""
    resource, _, sub = text.partition("/")
    return resource in ("*", kind.plural) and sub in ("*", subresource)


def _in_namespace(selector: Document, write: Write) -> bool:
    if write.kind.kind == "Namespace":
        return selects(selector, _labels(write.after or write.before))
    return write.namespace is None or selects(selector, _labels(write.namespace))


def _is_object(selector: Document, write: Write) -> bool:
    return not any(selector.values()) or any(
        document is not None and selects(selector, _labels(document))
        for document in (write.after, write.before)
    )


def _labels(document: Document | None) -> Mapping[str, str]:
    return ((document or {}).get("metadata") or {}).get("labels") or _NO_LABELS


def values_of(write: Write, kind: Kind) -> dict[str, Any]:
    """Returns the values of the variables of expressions. The objects have the form of the matched
    kind.
    """
    values: dict[str, Any] = {"namespaceObject": write.namespace}
    for name, document in (("object", write.after), ("oldObject", write.before)):
        is_whole = document is not None and write.subresource not in _SENT
        values[name] = served_form(kind, document) if document and is_whole else document
    values["request"] = request_of(write, kind)
    return values


def request_of(write: Write, kind: Kind) -> Document:
    """Returns the AdmissionRequest."""
    options = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions"}.get(
        write.operation, "DeleteOptions"
    )
    request: Document = {
        "uid": "",
        "operation": write.operation,
        "userInfo": write.user.info(),
        "dryRun": write.dry_run,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": options},
    }
    for kind_field, resource_field, of in (
        ("kind", "resource", kind),
        ("requestKind", "requestResource", write.kind),
    ):
        group, version, name = _SENT.get(write.subresource, (of.group, of.version, of.kind))
        request[kind_field] = {"group": group, "version": version, "kind": name}
        request[resource_field] = {
            "group": of.group,
            "version": of.version,
            "resource": of.plural,
        }
    optional = {"name": write.name, "namespace": write.place}
    for field in ("subResource", "requestSubResource"):
        optional[field] = write.subresource
    return request | {field: value for field, value in optional.items() if value}


def with_system_fields(kind: Kind, after: Document, before: Document) -> Document:
    """Returns an object that admission changed with what the server alone says of it. Raises
    RefusedError: 500 if it is of another kind, 400 if it is in another namespace.
    """
    told = after.get("apiVersion"), after.get("kind")
    if told != (kind.api_version, kind.kind):
        why = f"admission made {told[1]} in {told[0]} of {kind.kind} in {kind.api_version}"
        raise RefusedError(500, "InternalError", f"Internal error occurred: {why}")
    had: Document = before.get("metadata") or {}
    metadata = after.get("metadata") or {}
    if not isinstance(metadata, dict):
        why = f"admission made metadata that is no object: {metadata!r:.80}"
        raise RefusedError(500, "InternalError", f"Internal error occurred: {why}")
    namespace = had.get("namespace")
    if (metadata.get("namespace") or namespace) != namespace:
        raise RefusedError(400, "BadRequest", OTHER_NAMESPACE)
    own = {key: had[key] for key in (*SYSTEM_FIELDS, "namespace") if key in had}
    return {**after, "metadata": {**metadata, **own}}
