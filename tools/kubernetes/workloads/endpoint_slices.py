"""The endpoint slice controllers: the slices of a service, from the pods that it selects or, if it
selects none, from the Endpoints that somebody wrote for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import ip_address

from ..objects.documents import reference_to
from ..objects.properties import controls, deleting, is_ready
from ..objects.services import SERVICE_NAME, Endpoints, EndpointSlice, Service, is_headless
from ..objects.structs import Document, Pod
from ..objects.writes import Create, Write, delete, patch
from .service_endpoints import (
    HEADLESS,
    TRIGGERED,
    address_types,
    addresses_of,
    changed_labels,
    has_endpoints,
    hostname_of,
    in_endpoints,
    port_of,
    reference_to_pod,
    trigger_time,
)

MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
MIRROR = "endpointslicemirroring-controller.k8s.io"
SKIPS_MIRROR = "endpointslice.kubernetes.io/skip-mirror"
LEADER = "control-plane.alpha.kubernetes.io/leader"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
MOST_ENDPOINTS = 100  # of a slice
LONGEST_PREFIX = 252
_RESERVED = (MANAGED_BY, SERVICE_NAME, HEADLESS)
_CLOSE = ("PreferClose", "PreferSameZone", "PreferSameNode")
Ports = list[Document]


class _Plan:
    """The slices of one family: those that exist, and what becomes of them."""

    def __init__(self, labels: Document, template: Document) -> None:
        self._labels = labels
        self._template = template
        self.writes: list[Write] = []
        self.kept = 0

    def place(
        self, existing: Sequence[EndpointSlice], wanted: dict[str, Document], ports: Ports
    ) -> None:
        """Puts the endpoints with these ports into slices, where they are already if possible."""
        contents: list[tuple[EndpointSlice, list[Document], bool]] = []
        for slice_ in existing:
            have = slice_.endpoints or ()
            stay = [found for each in have if (found := wanted.pop(_key(each), None)) is not None]
            contents.append((slice_, stay, stay != list(have)))
        waiting = [*wanted.values()]
        # Fill the fullest of the slices that change anyway, and then one that has room for all.
        for _, stay, _ in sorted(
            (each for each in contents if each[2] and each[1]), key=lambda each: -len(each[1])
        ):
            room = MOST_ENDPOINTS - len(stay)
            stay.extend(waiting[:room])
            waiting = waiting[room:]
        fitting = [
            each
            for each in contents
            if not each[2] and len(each[1]) + len(waiting) <= MOST_ENDPOINTS
        ]
        if waiting and fitting:
            fullest = max(fitting, key=lambda each: len(each[1]))
            fullest[1].extend(waiting)
            waiting = []
        for slice_, stay, _ in contents:
            self._update(slice_, stay)
        for start in range(0, len(waiting), MOST_ENDPOINTS):
            self.create(ports, waiting[start : start + MOST_ENDPOINTS])

    def _update(self, slice_: EndpointSlice, endpoints: list[Document]) -> None:
        if not endpoints:
            self.writes.append(delete(slice_))
            return
        self.kept += 1
        same_labels = dict(slice_.metadata.labels) == self._labels
        if same_labels and list(slice_.endpoints or ()) == endpoints:
            return
        metadata = {
            "labels": changed_labels(slice_.metadata.labels, self._labels),
            "annotations": {TRIGGERED: self._template["annotations"].get(TRIGGERED)},
        }
        self.writes.append(patch(slice_, {"endpoints": endpoints, "metadata": metadata}))

    def create(self, ports: Ports, endpoints: list[Document]) -> None:
        annotations = self._template["annotations"]
        metadata = {
            **{key: value for key, value in self._template.items() if key != "annotations"},
            **({"annotations": annotations} if annotations else {}),
            "labels": self._labels,
        }
        family = metadata.pop("family")
        document = {"addressType": family, "endpoints": endpoints, "ports": ports}
        self.writes.append(Create("EndpointSlice", {"metadata": metadata, **document}))
        self.kept += 1


def reconcile(
    service: Service,
    pods: Sequence[Pod],
    zone_of: Callable[[str], str | None],
    existing: Sequence[EndpointSlice],
) -> list[Write]:
    """Writes the slices of a service. `pods` are those that it selects; `zone_of` returns the zone
    of a node, "" if it has none, and None if there is no such node. `existing` may include slices
    that others manage.
    """
    mine = [each for each in existing if each.metadata.labels.get(MANAGED_BY) == MANAGER]
    if not has_endpoints(service):
        return [] if service.spec.type != "ExternalName" else [delete(each) for each in mine]
    families = address_types(service)
    writes: list[Write] = [delete(each) for each in mine if each.address_type not in families]
    for family in families:
        own = [each for each in mine if each.address_type == family]
        writes += _family_writes(service, pods, zone_of, own, family)
    return writes


def _family_writes(
    service: Service,
    pods: Sequence[Pod],
    zone_of: Callable[[str], str | None],
    existing: Sequence[EndpointSlice],
    family: str,
) -> list[Write]:
    last = max((each.metadata.annotations.get(TRIGGERED, "") for each in existing), default=None)
    triggered = trigger_time(service, pods, last)
    template = _template(service, family, {TRIGGERED: triggered} if triggered else {})
    plan = _Plan(_labels_of(service), template)
    wanted: dict[str, tuple[Ports, dict[str, Document]]] = {}
    for pod in pods:
        zone = zone_of(pod.spec.node_name)
        known = zone is not None or service.spec.publish_not_ready_addresses
        addresses = addresses_of(pod, family)
        if not in_endpoints(pod) or not addresses or not known:
            continue
        ports = _ports(service, pod)
        endpoint = _endpoint(service, pod, addresses, zone or "")
        _, endpoints = wanted.setdefault(_ports_key(ports), (ports, {}))
        endpoints[_key(endpoint)] = endpoint
    by_ports: dict[str, list[EndpointSlice]] = {key: [] for key in wanted}
    empty: list[EndpointSlice] = []
    for slice_ in existing:
        same = by_ports.get(_ports_key(slice_.ports or ())) if controls(service, slice_) else None
        (empty if same is None else same).append(slice_)
    for key, (ports, endpoints) in wanted.items():
        _add_hints(service, endpoints.values())
        plan.place(by_ports[key], endpoints, ports)
    return plan.writes + _placeholder(plan, empty)


def _placeholder(plan: _Plan, empty: list[EndpointSlice]) -> list[Write]:
    """Returns the writes that leave one empty slice if there would be none, and no other one."""
    before = len(plan.writes)
    if plan.kept:
        return [delete(each) for each in empty]
    stays = [each for each in empty if not each.endpoints and not each.ports][:1]
    if not stays:
        plan.create([], [])
    created, plan.writes[before:] = plan.writes[before:], []
    return [*(delete(each) for each in empty if each not in stays), *created]


def _template(owner: Service | Endpoints, family: str, annotations: Document) -> Document:
    metadata = owner.metadata
    prefix = f"{metadata.name}-" if len(metadata.name) <= LONGEST_PREFIX else metadata.name
    return {
        "generateName": prefix,
        "namespace": metadata.namespace,
        "ownerReferences": [reference_to(owner)],
        "annotations": annotations,
        "family": family,
    }


def _labels_of(service: Service) -> Document:
    own = {k: v for k, v in service.metadata.labels.items() if k not in _RESERVED}
    headless = {HEADLESS: ""} if is_headless(service) else {}
    return {**own, **headless, SERVICE_NAME: service.metadata.name, MANAGED_BY: MANAGER}


def _ports(service: Service, pod: Pod) -> Ports:
    ports = []
    for port in service.spec.ports:
        number = port_of(pod, port)
        if number is not None:
            app = {"appProtocol": port.app_protocol} if port.app_protocol else {}
            ports.append({"name": port.name, "port": number, "protocol": port.protocol, **app})
    return ports


def _ports_key(ports: Iterable[Mapping[str, object]]) -> str:
    return repr(sorted(sorted(port.items()) for port in ports))


def _endpoint(service: Service, pod: Pod, addresses: list[str], zone: str) -> Document:
    serving, terminating = is_ready(pod), deleting(pod)
    ready = service.spec.publish_not_ready_addresses or (serving and not terminating)
    endpoint: Document = {
        "addresses": addresses,
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": reference_to_pod(pod),
    }
    if host := hostname_of(pod, service):
        endpoint["hostname"] = host
    if pod.spec.node_name:
        endpoint["nodeName"] = pod.spec.node_name
    if zone:
        endpoint["zone"] = zone
    return endpoint


def _key(endpoint: Document) -> str:
    reference = endpoint.get("targetRef") or {}
    return f"{','.join(endpoint.get('addresses') or ())}/{reference.get('uid', '')}"


def _add_hints(service: Service, endpoints: Iterable[Document]) -> None:
    """Says for each endpoint who should use it, if the service keeps its traffic close."""
    if service.spec.traffic_distribution not in _CLOSE:
        return
    for endpoint in endpoints:
        hints: Document = {}
        if not endpoint["conditions"]["ready"]:
            continue
        if endpoint.get("zone"):
            hints["forZones"] = [{"name": endpoint["zone"]}]
        if service.spec.traffic_distribution == "PreferSameNode" and endpoint.get("nodeName"):
            hints["forNodes"] = [{"name": endpoint["nodeName"]}]
        if hints:
            endpoint["hints"] = hints


def mirrored(
    endpoints: Endpoints | None, service: Service | None, existing: Sequence[EndpointSlice]
) -> list[Write]:
    """Writes slices that have what somebody wrote into the Endpoints of a service without a
    selector.
    """
    mine = [each for each in existing if each.metadata.labels.get(MANAGED_BY) == MIRROR]
    if endpoints is None or service is None or service.spec.selector or _is_skipped(endpoints):
        return [delete(each) for each in mine]
    labels = {
        **endpoints.metadata.labels,
        SERVICE_NAME: endpoints.metadata.name,
        MANAGED_BY: MIRROR,
    }
    hidden = (TRIGGERED, LAST_APPLIED)
    annotations = {k: v for k, v in endpoints.metadata.annotations.items() if k not in hidden}
    writes: list[Write] = []
    left = list(mine)
    for family in ("IPv4", "IPv6"):
        plan = _Plan(labels, _template(endpoints, family, annotations))
        for subset in endpoints.subsets:
            ports = [{"name": "", **port} for port in subset.get("ports") or ()]
            wanted = _mirrored_endpoints(subset, family)
            same = [
                each
                for each in left
                if each.address_type == family and _ports_key(each.ports or ()) == _ports_key(ports)
            ]
            if wanted:
                left = [each for each in left if each not in same]
                plan.place(same, wanted, ports)
        writes += plan.writes
    return [*writes, *(delete(each) for each in left)]


def _is_skipped(endpoints: Endpoints) -> bool:
    metadata = endpoints.metadata
    return metadata.labels.get(SKIPS_MIRROR) == "true" or LEADER in metadata.annotations


def _mirrored_endpoints(subset: Document, family: str) -> dict[str, Document]:
    found = {}
    for field, ready in (("addresses", True), ("notReadyAddresses", False)):
        for address in subset.get(field) or ():
            try:
                ip = ip_address(address.get("ip", ""))
            except ValueError:
                continue
            if f"IPv{ip.version}" == family:
                named = ("hostname", "nodeName", "targetRef")
                own = {name: address[name] for name in named if address.get(name)}
                endpoint = {"addresses": [str(ip)], "conditions": {"ready": ready}, **own}
                found[_key(endpoint)] = endpoint
    return found
