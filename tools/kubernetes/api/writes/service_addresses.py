"""The addresses and ports that a Service is given: cluster IPs, families, node ports.

Mirrors the allocators of Kubernetes' Service registry for a cluster with IPv4 only. What another
Service has is not given again. Nothing here routes to any of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, ip_address
from typing import Any
from zlib import crc32

from ..store import Store
from ..types.api_documents import Document, RefusedError
from ..types.resources import BY_KIND
from .refusals import refuse_invalid

SERVICES = BY_KIND["v1", "Service"]
NETWORK = int(IPv4Address("10.96.0.0"))
ADDRESSES = 0xFFFE
NODE_PORTS = range(30000, 32768)
HEADLESS = "None"
_OUTSIDE = ("NodePort", "LoadBalancer")
_IP_FIELDS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


def with_addresses(store: Store, service: Document, before: Document | None) -> Document:
    """Returns a service with its allocated addresses and ports. An update keeps those of the stored
    service.

    Raises RefusedError with 422 if another service has what it asks for.
    """
    spec = dict(service["spec"])
    was: Document = {} if before is None else before["spec"]
    if was:
        _drop_obsolete(spec, was)
        _keep_allocated(spec, was)
    if spec["type"] != "ExternalName":
        _give_families(service, spec, was)
        _give_address(store, service, spec, was)
    elif before is None:
        spec.pop("internalTrafficPolicy", None)
    _give_ports(store, service, spec, was)
    return {**service, "spec": spec}


def _drop_obsolete(spec: Document, was: Document) -> None:
    """Drops addresses and ports that the new type does not have, unless the update changes them."""
    gone: list[str] = []
    if spec["type"] == "ExternalName" != was["type"]:
        gone += (*_IP_FIELDS, "internalTrafficPolicy")
    if spec["type"] != "LoadBalancer" == was["type"]:
        gone += ("allocateLoadBalancerNodePorts", "loadBalancerClass")
    if spec["type"] not in _OUTSIDE and was["type"] in _OUTSIDE and not spec.get("externalIPs"):
        gone.append("externalTrafficPolicy")
        if _node_ports(spec) == _node_ports(was):
            ports = spec.get("ports") or ()
            spec["ports"] = [_without(port, "nodePort") for port in ports]
    if _is_local(was) and not _is_local(spec):
        gone.append("healthCheckNodePort")
    for field in gone:
        if spec.get(field) == was.get(field):
            spec.pop(field, None)


def _keep_allocated(spec: Document, was: Document) -> None:
    """Copies addresses and ports that the update leaves out from the stored service."""
    if "ExternalName" not in (spec["type"], was["type"]):
        for field in _IP_FIELDS:
            if was.get(field):
                spec.setdefault(field, was[field])
    if spec["type"] in _OUTSIDE and was["type"] in _OUTSIDE:
        used = _node_ports(spec)
        kept = {port.get("name"): port.get("nodePort") for port in was.get("ports") or ()}
        spec["ports"] = [
            port
            if port.get("nodePort") or kept.get(port.get("name")) in (None, *used)
            else {**port, "nodePort": kept[port.get("name")]}
            for port in spec.get("ports") or ()
        ]
        if _is_local(spec) and was.get("healthCheckNodePort"):
            spec.setdefault("healthCheckNodePort", was["healthCheckNodePort"])


def _give_families(service: Document, spec: Document, was: Document) -> None:
    headless = spec.get("clusterIP") == HEADLESS and not spec.get("selector")
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if headless and not was else "SingleStack")
    given = spec.get("clusterIPs") or (spec.get("clusterIP"),)
    addresses = [ip for ip in given if ip and ip != HEADLESS]
    versions = list(dict.fromkeys(f"IPv{_version(ip)}" for ip in addresses))
    families = spec.get("ipFamilies") or versions or ["IPv4"]
    if headless and spec["ipFamilyPolicy"] != "SingleStack" and len(families) == 1:
        families = [*families, "IPv6" if families == ["IPv4"] else "IPv4"]
    spec["ipFamilies"] = families
    wanted = versions or families
    known = set(families) <= {"IPv4", "IPv6"} and len(set(families)) == len(families)
    if not headless and known and wanted == families[: len(wanted)]:  # else validation refuses it
        refuse_invalid(SERVICES, service, _family_problems(spec["ipFamilyPolicy"], families))


def _family_problems(policy: str, families: list[str]) -> list[str]:
    place = f'spec.ipFamilyPolicy: Invalid value: "{policy}": '
    if policy == "SingleStack" and len(families) > 1:
        both = "'RequireDualStack' or 'PreferDualStack'"
        return [f"{place}must be {both} when multiple IP families are specified"]
    problems = []
    if policy == "RequireDualStack":
        problems.append(f"{place}this cluster is not configured for dual-stack services")
    return problems + [
        f'spec.ipFamilies[{i}]: Invalid value: "{family}": not configured on this cluster'
        for i, family in enumerate(families)
        if family != "IPv4"
    ]


def _version(address: str) -> int:
    try:
        return ip_address(address).version
    except ValueError:
        return 4


def _give_address(store: Store, service: Document, spec: Document, was: Document) -> None:
    plural = spec.get("clusterIPs") or ()
    if plural and not spec.get("clusterIP"):
        return  # validation refuses it
    wanted = spec.get("clusterIP") or (plural[0] if plural else "")
    if wanted and wanted == was.get("clusterIP"):
        spec["clusterIP"], spec["clusterIPs"] = wanted, list(plural or (wanted,))
        return
    if wanted != HEADLESS:
        taken = {
            ip for other in _other_services(store, service) for ip in other.get("clusterIPs") or ()
        }
        if wanted in taken:
            detail = f"failed to allocate IP {wanted}: provided IP is already allocated"
            shown = f'["{wanted}"]'
            refuse_invalid(
                SERVICES, service, [f"spec.clusterIPs: Invalid value: {shown}: {detail}"]
            )
        first = crc32(service["metadata"]["uid"].encode())
        wanted = wanted or next(ip for ip in _addresses(first) if ip not in taken)
    spec["clusterIP"] = wanted
    if plural == was.get("clusterIPs", ()):
        plural = (wanted, *plural[1:])  # the update changes the first one alone
    spec["clusterIPs"] = list(plural or (wanted,))


def _addresses(first: int) -> Iterator[str]:
    for number in range(ADDRESSES):
        yield str(IPv4Address(NETWORK + (first + number) % ADDRESSES + 1))
    raise RefusedError(500, "InternalError", "failed to allocate a serviceIP: range is full")


def _give_ports(store: Store, service: Document, spec: Document, was: Document) -> None:
    """Allocates a node port for each port that needs one. Ports with the same number and different
    protocols share one.
    """
    new = _node_ports(spec) - _node_ports(was)
    gives = spec["type"] == "NodePort" or (
        spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts")
    )
    local = _is_local(spec)
    missing = gives and any(not port.get("nodePort") for port in spec.get("ports") or ())
    if not new and not missing and (not local or spec.get("healthCheckNodePort")):
        return
    taken = {port for other in _other_services(store, service) for port in _all_ports(other)}
    _check_ports(service, spec, new, taken)
    taken |= _node_ports(spec)
    first = crc32(service["metadata"]["uid"].encode())
    free = (port for port in _ports(first) if port not in taken)
    ports = spec.get("ports") or ()
    # Validation refuses a port without a number later.
    shared = {port.get("port"): port["nodePort"] for port in ports if port.get("nodePort")}
    if gives:
        for port in ports:
            shared[port.get("port")] = shared.get(port.get("port")) or next(free)
        spec["ports"] = [{"nodePort": shared[port.get("port")], **port} for port in ports]
    if local and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = next(free)


def _is_local(spec: Document) -> bool:
    """True if a service needs a node port for health checks."""
    return spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _check_ports(service: Document, spec: Document, new: set[int], taken: set[int]) -> None:
    valid = f"{NODE_PORTS[0]}-{NODE_PORTS[-1]}"
    for i, port in enumerate(spec.get("ports") or ()):
        number, why = port.get("nodePort"), ""
        if number in new and number not in NODE_PORTS:
            why = f"provided port is not in the valid range. The range of valid ports is {valid}"
        elif number in new and number in taken:
            why = "provided port is already allocated"
        if why:
            refuse_invalid(
                SERVICES, service, [f"spec.ports[{i}].nodePort: Invalid value: {number}: {why}"]
            )


def _ports(first: int) -> Iterator[int]:
    for number in range(len(NODE_PORTS)):
        yield NODE_PORTS[(first + number) % len(NODE_PORTS)]
    raise RefusedError(500, "InternalError", "failed to allocate a nodePort: range is full")


def _other_services(store: Store, service: Document) -> Iterator[Document]:
    """Yields the specs of the other services."""
    uid = service["metadata"]["uid"]
    for stored in store.list(SERVICES):
        if stored.document["metadata"]["uid"] != uid:
            yield stored.document["spec"]


def _node_ports(spec: Document) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}


def _all_ports(spec: Document) -> Iterable[Any]:
    return {*_node_ports(spec), spec.get("healthCheckNodePort")} - {None}


def _without(document: Document, field: str) -> Document:
    return {key: value for key, value in document.items() if key != field}
