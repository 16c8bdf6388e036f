"""The endpoint controller: the Endpoints of a service, from the pods that it selects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

from ..objects.properties import condition_of, deleting, is_finished, is_ready
from ..objects.services import Endpoints, Service, ServicePort, is_headless
from ..objects.structs import Document, Pod
from ..objects.writes import Create, Write, delete, patch

MANAGED_BY, MANAGER = "endpoints.kubernetes.io/managed-by", "endpoint-controller"
HEADLESS = "service.kubernetes.io/headless"
TRIGGERED = "endpoints.kubernetes.io/last-change-trigger-time"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
MOST_ADDRESSES = 1000


def has_endpoints(service: Service) -> bool:
    """True if the controllers make the endpoints of a service: it selects pods."""
    return service.spec.type != "ExternalName" and bool(service.spec.selector)


def in_endpoints(pod: Pod) -> bool:
    """True if a pod may be an endpoint. One that terminates may be, but not everywhere."""
    return bool(pod.status.pod_ips) and not is_finished(pod)


def address_types(service: Service) -> tuple[str, ...]:
    """Returns the families of a service's addresses."""
    if service.spec.ip_families:
        return service.spec.ip_families
    return ("IPv6",) if ":" in service.spec.cluster_ip else ("IPv4",)


def addresses_of(pod: Pod, family: str) -> list[str]:
    """Returns the addresses of a pod in a family."""
    version = 6 if family == "IPv6" else 4
    found = (_address(each.ip) for each in pod.status.pod_ips)
    return [str(each) for each in found if each is not None and each.version == version]


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def port_of(pod: Pod, port: ServicePort) -> int | None:
    """Returns the port of a pod that a port of its service leads to; None if the pod has none of
    that name.
    """
    target = port.target_port
    if isinstance(target, int):
        return target
    sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    for container in (*pod.spec.containers, *sidecars):
        for own in container.ports:
            if own.name == target and (own.protocol or "TCP") == port.protocol:
                return own.container_port
    return None


def hostname_of(pod: Pod, service: Service) -> str:
    """Returns the name of a pod under its service, or ""."""
    return pod.spec.hostname if pod.spec.subdomain == service.metadata.name else ""


def reference_to_pod(pod: Pod) -> Document:
    metadata = pod.metadata
    place = {"namespace": metadata.namespace, "name": metadata.name, "uid": metadata.uid}
    return {"kind": "Pod", **place}


def trigger_time(service: Service, pods: Iterable[Pod], last: str | None) -> str:
    """Returns the first time, after the last known one, at which the service or the readiness of a
    pod changed; "" if none did. For a service that has no endpoints yet, that is its creation.
    """
    created = service.metadata.creation_timestamp or ""
    if last is None:
        return created
    times = [created]
    for pod in pods:
        ready = condition_of(pod.status.conditions, "Ready")
        times.append((ready.last_transition_time if ready is not None else "") or "")
    return min((time for time in times if time > last), default="")


def reconcile(service: Service, pods: Sequence[Pod], current: Endpoints | None) -> list[Write]:
    """Writes the Endpoints of a service, if they have changed. `pods` are those that it selects."""
    if not has_endpoints(service):
        return []
    subsets, truncated = _truncated(_repacked(_subsets(service, pods)))
    labels = {**service.metadata.labels, MANAGED_BY: MANAGER}
    if is_headless(service):
        labels[HEADLESS] = ""
    annotations = dict[str, str | None]()
    last = None if current is None else current.metadata.annotations.get(TRIGGERED, "")
    triggered = trigger_time(service, pods, last)
    if current is None:
        annotations |= {TRIGGERED: triggered} if triggered else {}
        annotations |= {OVER_CAPACITY: "truncated"} if truncated else {}
        metadata = {
            "name": service.metadata.name,
            "namespace": service.metadata.namespace,
            "labels": labels,
            **({"annotations": annotations} if annotations else {}),
        }
        return [Create("Endpoints", {"metadata": metadata, "subsets": subsets})]
    if list(current.subsets) == subsets and dict(current.metadata.labels) == labels:
        return []
    body: Document = {
        "subsets": subsets,
        "metadata": {
            "labels": changed_labels(current.metadata.labels, labels),
            "annotations": {
                TRIGGERED: triggered or None,
                OVER_CAPACITY: "truncated" if truncated else None,
            },
        },
    }
    return [patch(current, body)]


def without_service(current: Endpoints | None) -> list[Write]:
    """Deletes the Endpoints of a service that is gone."""
    return [] if current is None else [delete(current)]


def changed_labels(before: Iterable[str], labels: Document) -> Document:
    """Returns the merge patch that replaces labels."""
    return {**dict.fromkeys(key for key in before if key not in labels), **labels}


def _subsets(service: Service, pods: Sequence[Pod]) -> Iterator[tuple[Document, bool, Document]]:
    """Yields the address of each pod, whether it is ready, and a port; {} if there is none."""
    family, spec = address_types(service)[0], service.spec
    for pod in pods:
        if not in_endpoints(pod) or (deleting(pod) and not spec.publish_not_ready_addresses):
            continue
        for ip in addresses_of(pod, family)[:1]:
            address: Document = {"ip": ip}
            if host := hostname_of(pod, service):
                address["hostname"] = host
            address["nodeName"] = pod.spec.node_name
            address["targetRef"] = reference_to_pod(pod)
            ready = spec.publish_not_ready_addresses or is_ready(pod)
            if not spec.ports and is_headless(service):
                yield address, ready, {}
            for port in spec.ports:
                number = port_of(pod, port)
                if number is not None:
                    yield address, ready, _port(port, number)


def _port(port: ServicePort, number: int) -> Document:
    named = {"name": port.name} if port.name else {}
    app = {"appProtocol": port.app_protocol} if port.app_protocol else {}
    return {**named, "port": number, "protocol": port.protocol, **app}


def _repacked(found: Iterable[tuple[Document, bool, Document]]) -> list[Document]:
    """Returns subsets of addresses that have the same ports."""
    by_port: dict[str, tuple[Document, dict[str, tuple[Document, bool]]]] = {}
    for address, ready, port in found:
        _, addresses = by_port.setdefault(repr(sorted(port.items())), (port, {}))
        addresses[f"{address['ip']}/{address['targetRef']['uid']}"] = address, ready
    together: dict[str, tuple[list[Document], dict[str, tuple[Document, bool]]]] = {}
    for port, addresses in by_port.values():
        key = repr(sorted((name, ready) for name, (_, ready) in addresses.items()))
        ports, _ = together.setdefault(key, ([], addresses))
        if port:
            ports.append(port)
    subsets = [_subset(ports, addresses) for ports, addresses in together.values()]
    return sorted(subsets, key=repr)


def _subset(ports: list[Document], addresses: dict[str, tuple[Document, bool]]) -> Document:
    subset: Document = {}
    for field, wanted in (("addresses", True), ("notReadyAddresses", False)):
        some = [address for _, (address, ready) in sorted(addresses.items()) if ready is wanted]
        if some:
            subset[field] = some
    if ports:
        subset["ports"] = sorted(ports, key=lambda port: (port.get("name", ""), port["port"]))
    return subset


def _truncated(subsets: list[Document]) -> tuple[list[Document], bool]:
    """Returns subsets of at most MOST_ADDRESSES, the ready ones first, and whether some were left
    out.
    """
    left, cut = MOST_ADDRESSES, False
    for field in ("addresses", "notReadyAddresses"):
        for subset in subsets:
            have = subset.get(field, [])
            if len(have) > left:
                cut = True
                subset[field] = have[:left]
                if not left:
                    del subset[field]
            left -= min(left, len(have))
    return subsets, cut
