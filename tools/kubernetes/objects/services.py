"""Services, and the endpoints behind them."""

from __future__ import annotations

from typing import Any

import msgspec

from berth.actors.scheduling.kube import core
from berth.actors.scheduling.kube.meta import HasMetadata, Int32, Object, ObjectMeta

Document = dict[str, Any]
SERVICE_NAME = "kubernetes.io/service-name"  # a label of slices


class ServicePort(Object, frozen=True, kw_only=True):
    name: str = ""
    protocol: str = ""
    port: Int32 = 0
    target_port: Int32 | str = 0
    app_protocol: str | None = None


class ServiceSpec(core.ServiceSpec, frozen=True, kw_only=True):
    type: str = ""
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    ip_families: tuple[str, ...] = ()
    ports: tuple[ServicePort, ...] = ()
    publish_not_ready_addresses: bool = False
    traffic_distribution: str | None = None


class Service(core.Service, frozen=True, kw_only=True):
    spec: ServiceSpec = ServiceSpec()


class Endpoints(Object, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    subsets: tuple[Document, ...] = ()


class EndpointSlice(Object, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    address_type: str = ""
    endpoints: tuple[Document, ...] | None = None
    ports: tuple[Document, ...] | None = None


def service_labels(service: Service) -> tuple[str, ...]:
    """Returns the index key under which the pods of a service find it: one of the labels that it
    selects; none without a selector.
    """
    pairs = service.spec.selector.items()
    if not pairs:
        return ()
    key, value = max(pairs, key=lambda pair: len(pair[1]))
    return (f"{service.metadata.namespace}/{key}={value}",)


def service_of(slice_: HasMetadata) -> tuple[str, ...]:
    """Returns the namespace and the name of the service that a slice belongs to, as an index
    key.
    """
    name = slice_.metadata.labels.get(SERVICE_NAME)
    return (f"{slice_.metadata.namespace}/{name}",) if name else ()


def is_headless(service: Service) -> bool:
    return service.spec.cluster_ip in ("", "None")


def selects_pod(service: Service, pod: HasMetadata) -> bool:
    """True if the pod is behind the service."""
    labels, selector = pod.metadata.labels, service.spec.selector
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())
