"""What Kubernetes' own controllers add to objects that somebody writes: conditions of flow schemas
and APIServices, and the rules of aggregated roles.

Mirrors the controllers of priority and fairness, of the availability of APIServices, and of the
aggregation of roles. They act here when somebody asks for objects of these kinds, or for rights,
after a write of what they depend on.
"""

from __future__ import annotations

from collections.abc import Callable

from ..access.aggregated_roles import aggregate_roles
from ..store import Store
from ..types.api_documents import Document
from ..types.resources import BY_KIND, Kind
from .first_configuration import (
    API_SERVICES,
    FLOW_SCHEMAS,
    LOCAL,
    PRIORITY_LEVELS,
    ROLES,
    condition,
    flow_condition,
)
from .service_addresses import SERVICES

SLICES = BY_KIND["discovery.k8s.io/v1", "EndpointSlice"]
_NO_PROXY = "this API server does not pass requests on to other API servers"


def settle(store: Store, kind: Kind) -> None:
    """Completes the objects of one of the kinds SETTLED."""
    store.after_writes(*_SETTLED[kind])


def _settle_flows(store: Store) -> None:
    now = store.outside.now()
    for stored in list(store.list(FLOW_SCHEMAS)):
        schema = stored.document
        level = (schema["spec"].get("priorityLevelConfiguration") or {}).get("name") or ""
        exists = store.find(PRIORITY_LEVELS, "", level) is not None
        _set_condition(store, FLOW_SCHEMAS, schema, flow_condition(level, now, exists=exists))


def _settle_services(store: Store) -> None:
    now = store.outside.now()
    for stored in list(store.list(API_SERVICES)):
        told = ("True", *LOCAL)
        if (service := stored.document["spec"].get("service")) is not None:
            told = ("False", *_unavailable(store, service))
        _set_condition(store, API_SERVICES, stored.document, condition("Available", *told, now))


def _unavailable(store: Store, reference: Document) -> tuple[str, str]:
    """Returns the reason and the message of an APIService of another server."""
    namespace, name = reference.get("namespace") or "", reference.get("name") or ""
    port, named = reference.get("port") or 443, f'service/{name} in "{namespace}"'
    service = store.find(SERVICES, namespace, name)
    if service is None:
        return "ServiceNotFound", f"{named} is not present"
    if service["spec"].get("type") != "ExternalName":
        ports = [each.get("port") for each in service["spec"].get("ports") or ()]
        if port not in ports:
            return "ServicePortError", f"{named} is not listening on port {port}"
        slices = store.list(SLICES, namespace)
        label = "kubernetes.io/service-name"
        if not any((s.document["metadata"].get("labels") or {}).get(label) == name for s in slices):
            return "EndpointsNotFound", f"cannot find endpointslices for {named}"
    return "FailedDiscoveryCheck", _NO_PROXY


def _set_condition(store: Store, kind: Kind, document: Document, told: Document) -> None:
    """Gives an object a condition in place of the one of this type, if it says anything new."""
    status = document.get("status") or {}
    conditions: list[Document] = list(status.get("conditions") or ())
    others = [each for each in conditions if each.get("type") != told["type"]]
    had = next((each for each in conditions if each.get("type") == told["type"]), {})
    if all(had.get(field) == told[field] for field in ("status", "reason", "message")):
        return
    if had.get("status") == told["status"] and "lastTransitionTime" in had:
        told = {**told, "lastTransitionTime": had["lastTransitionTime"]}
    store.update(kind, {**document, "status": {**status, "conditions": [*others, told]}})


_SETTLED: dict[Kind, tuple[Callable[[Store], None], tuple[Kind, ...]]] = {
    FLOW_SCHEMAS: (_settle_flows, (FLOW_SCHEMAS, PRIORITY_LEVELS)),
    PRIORITY_LEVELS: (_settle_flows, (FLOW_SCHEMAS, PRIORITY_LEVELS)),
    API_SERVICES: (_settle_services, (API_SERVICES, SERVICES, SLICES)),
    ROLES: (aggregate_roles, (ROLES,)),
}
