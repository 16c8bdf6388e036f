"""The controllers of services: their endpoints, and the slices of these."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from berth.actors.scheduling.kube.meta import HasMetadata

from ...kubernetes.disruption.budget_index import pod_labels
from ...kubernetes.object_index import ObjectIndex
from ...kubernetes.objects.properties import condition_of, deleting, is_finished
from ...kubernetes.objects.services import (
    Endpoints,
    EndpointSlice,
    Service,
    selects_pod,
    service_of,
)
from ...kubernetes.objects.structs import Node, Pod
from ...kubernetes.objects.writes import Write
from ...kubernetes.work_items import Item
from ...kubernetes.workloads import endpoint_slices, service_endpoints
from .controller import (
    Affected,
    Controller,
    all_of,
    if_changed,
    itself,
    objects_before_and_after,
    state_changes,
)

ZONE = "topology.kubernetes.io/zone"


def _seen(pod: Pod | None) -> object:
    """Returns what services see of a pod."""
    if pod is None:
        return None
    ready = condition_of(pod.status.conditions, "Ready")
    state = None if ready is None else (ready.status, ready.last_transition_time)
    spec = pod.spec
    return (
        pod.metadata.labels,
        pod.status.pod_ips,
        state,
        deleting(pod),
        is_finished(pod),
        (spec.node_name, spec.hostname, spec.subdomain),
    )


def _services_of(cluster: ObjectIndex, pod: Pod) -> Iterator[Affected]:
    for label in pod_labels(pod):
        for service in cluster.by(Service, "label", label):
            if selects_pod(service, pod):
                yield service


def _services_before_and_after(
    cluster: ObjectIndex, before: Pod | None, after: Pod | None
) -> Iterator[Affected]:
    if cluster.has_indexed(Service, "label") and _seen(before) != _seen(after):
        for pod in (before, after):
            if pod is not None:
                yield from _services_of(cluster, pod)


def _service_of_slice(_cluster: ObjectIndex, slice_: HasMetadata) -> Iterator[Affected]:
    for key in service_of(slice_):
        namespace, _, name = key.partition("/")
        yield namespace, name


def _service_of_endpoints(cluster: ObjectIndex, endpoints: Endpoints) -> Iterator[Affected]:
    """Yields the service that Endpoints belong to. Those of no service are left alone, unless the
    controller made them.
    """
    metadata = endpoints.metadata
    place = metadata.namespace, metadata.name
    managed = metadata.labels.get(service_endpoints.MANAGED_BY) == service_endpoints.MANAGER
    if managed or cluster.has(Service, *place):
        yield place


def _same_name(_cluster: ObjectIndex, obj: HasMetadata) -> Iterator[Affected]:
    yield obj.metadata.namespace, obj.metadata.name


def _pods(cluster: ObjectIndex, service: Service) -> list[Pod]:
    """Returns the pods that a service selects, by name."""
    spec, namespace = service.spec, service.metadata.namespace
    if not spec.selector:
        return []
    key, value = max(spec.selector.items(), key=lambda pair: len(pair[1]))
    found = cluster.by(Pod, "label", f"{namespace}/{key}={value}")
    return sorted(
        (pod for pod in found if selects_pod(service, pod)), key=lambda pod: pod.metadata.name
    )


def _slices(cluster: ObjectIndex, item: Item) -> list[EndpointSlice]:
    found = cluster.by(EndpointSlice, "service", f"{item.namespace}/{item.name}")
    return sorted(found, key=lambda slice_: slice_.metadata.name)


def _write_endpoints(cluster: ObjectIndex, item: Item, _now: datetime) -> list[Write]:
    service = cluster.find(Service, item.namespace, item.name)
    current = cluster.find(Endpoints, item.namespace, item.name)
    if service is None:
        return service_endpoints.without_service(current)
    return service_endpoints.reconcile(service, _pods(cluster, service), current)


def _write_slices(cluster: ObjectIndex, item: Item, _now: datetime) -> list[Write]:
    service = cluster.find(Service, item.namespace, item.name)
    if service is None:
        return []  # the garbage collector deletes them

    def zone_of(name: str) -> str | None:
        node = cluster.find(Node, "", name)
        return None if node is None else node.metadata.labels.get(ZONE, "")

    return endpoint_slices.reconcile(
        service, _pods(cluster, service), zone_of, _slices(cluster, item)
    )


def _write_mirrored(cluster: ObjectIndex, item: Item, _now: datetime) -> list[Write]:
    service = cluster.find(Service, item.namespace, item.name)
    endpoints = cluster.find(Endpoints, item.namespace, item.name)
    return endpoint_slices.mirrored(endpoints, service, _slices(cluster, item))


def _zone(node: Node | None) -> str | None:
    return None if node is None else node.metadata.labels.get(ZONE, "")


def service_controllers() -> tuple[Controller, ...]:
    itself_watch = objects_before_and_after(itself)
    by_pods = _services_before_and_after
    return (
        Controller(
            "endpoints",
            Service,
            {
                Service: itself_watch,
                Pod: by_pods,
                Endpoints: objects_before_and_after(_service_of_endpoints),
            },
            _write_endpoints,
        ),
        Controller(
            "endpoint-slices",
            Service,
            {
                Service: itself_watch,
                Pod: by_pods,
                Node: if_changed(state_changes(_zone), all_of(Service)),
                EndpointSlice: objects_before_and_after(_service_of_slice),
            },
            _write_slices,
        ),
        Controller(
            "endpoint-slice-mirroring",
            Service,
            {
                Service: itself_watch,
                Endpoints: objects_before_and_after(_same_name),
                EndpointSlice: objects_before_and_after(_service_of_slice),
            },
            _write_mirrored,
        ),
    )
