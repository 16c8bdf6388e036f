"""What Kubernetes' own controllers add to objects that somebody writes: conditions of flow schemas
and APIServices, and the rules of aggregated roles.

Mirrors the controllers of priority and fairness, of the availability of APIServices, and of the
aggregation of roles. They act here before a request for objects of these kinds and after a write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..rules.fields import selects
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
from .registry import Api
from .service_addresses import SERVICES

SLICES = BY_KIND["discovery.k8s.io/v1", "EndpointSlice"]
_MOST_ROUNDS = 8  # as roles may be aggregated to each other without end
_AGGREGATOR = "clusterrole-aggregation-controller"
_NO_PROXY = "this API server does not pass requests on to other API servers"


def settle(store: Store, kind: Kind) -> None:
    """Completes the objects of one of the kinds SETTLED."""
    _SETTLED[kind](store)


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


def _aggregate(store: Store) -> None:
    """Gives the aggregated roles their rules. One may be aggregated to another."""
    api = Api(store, manager=_AGGREGATOR)
    for _ in range(_MOST_ROUNDS):
        changed = False
        for stored in list(store.list(ROLES)):
            role = stored.document
            selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
            rules = list(_gathered(store, role, selectors)) if selectors else None
            if rules is None or rules == (role.get("rules") or []):
                continue
            named = {"apiVersion": ROLES.api_version, "kind": ROLES.kind}
            name = role["metadata"]["name"]
            document = {**named, "metadata": {"name": name}, "rules": rules}
            api.apply(ROLES, "", name, document, "", force=True)
            changed = True
        if not changed:
            return


def _gathered(store: Store, role: Document, selectors: list[Document]) -> Iterator[Document]:
    """Yields the rules of the roles that a role gathers, each once."""
    told: list[Document] = []
    for selector in selectors:
        for stored in store.list(ROLES):
            other = stored.document
            labels = other["metadata"].get("labels") or {}
            if other is role or not selects(selector, labels):
                continue
            for rule in other.get("rules") or ():
                if rule not in told:
                    told.append(rule)
                    yield rule


_SETTLED: dict[Kind, Callable[[Store], None]] = {
    FLOW_SCHEMAS: _settle_flows,
    PRIORITY_LEVELS: _settle_flows,
    API_SERVICES: _settle_services,
    ROLES: _aggregate,
}
