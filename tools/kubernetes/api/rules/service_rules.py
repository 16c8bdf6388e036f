"""Rules across the fields of Services and Endpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from berth.actors.scheduling.kube.names import dns_subdomain, qualified_name

from .fields import Document, duplicate, forbidden, go_struct, invalid, required, unsupported
from .value_forms import cidr, endpoint_ip, ip

_LONGEST_AFFINITY = 86_400
_PORT_IN_GO = ("Name", "Protocol", "AppProtocol", "Port", "TargetPort", "NodePort")
_POLICIES = ("Cluster", "Local")


def service(path: str, spec: Document) -> Iterator[str]:
    """Checks the combination of type, addresses, ports, affinity, load balancer and traffic
    policies.
    """
    type_, headless = spec.get("type") or "ClusterIP", _is_headless(spec)
    if not spec.get("ports") and not headless and type_ != "ExternalName":
        yield required(f"{path}.ports")
    if headless and type_ in ("LoadBalancer", "NodePort"):
        detail = f"may not be set to 'None' for {type_} services"
        yield invalid(f"{path}.clusterIPs[0]", "None", detail)
    yield from _external_name(path, spec) if type_ == "ExternalName" else _addresses(path, spec)
    yield from _ports(f"{path}.ports", spec.get("ports") or (), type_)
    yield from _affinity(f"{path}.sessionAffinityConfig", spec)
    for i, address in enumerate(spec.get("externalIPs") or ()):
        place = f"{path}.externalIPs[{i}]"
        yield from ip(place, address) or endpoint_ip(place, address)
    yield from _load_balancer(path, spec, type_)
    yield from _traffic_policies(path, spec, type_)


def _is_headless(spec: Document) -> bool:
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP")]
    return addresses == ["None"]


def _external_name(path: str, spec: Document) -> Iterator[str]:
    """Yields the problems of an ExternalName, a service that stands for a host elsewhere."""
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        given = spec.get(field) or (spec.get("clusterIP") if field == "clusterIPs" else None)
        if given:
            yield forbidden(f"{path}.{field}", "may not be set for ExternalName services")
    name, place = (spec.get("externalName") or "").removesuffix("."), f"{path}.externalName"
    if not name:
        yield required(place)
        return
    for message in dns_subdomain(name):
        yield invalid(place, name, message)


def _addresses(path: str, spec: Document) -> Iterator[str]:
    """Returns the problems of addresses in the cluster: at most one of each family."""
    first, place = spec.get("clusterIP") or "", f"{path}.clusterIPs"
    addresses = spec.get("clusterIPs") or ([first] if first else [])
    families = spec.get("ipFamilies") or ()
    if first and addresses[0] != first:
        yield invalid(place, addresses, "first value must match `clusterIP`")
    if addresses and not first:
        yield invalid(place, addresses, "must be empty when `clusterIP` is not specified")
    bad: list[str] = []
    for i, address in enumerate(addresses):
        if i == 0 and address == "None":
            if len(addresses) > 1:
                bad.append(invalid(place, addresses, "'None' must be the first and only value"))
        else:
            bad += ip(f"{place}[{i}]", address)
    if len(addresses) > 2:
        yield invalid(place, addresses, "may only hold up to 2 values")
    if bad or addresses == ["None"]:
        yield from bad
        return
    versions = ["IPv6" if ":" in address else "IPv4" for address in addresses]
    if len(addresses) > 1 and len(set(versions)) == 1:
        yield invalid(place, addresses, "may specify no more than one IP for each IP family")
    for i, (version, family) in enumerate(zip(versions, families, strict=False)):
        if version != family and family in ("IPv4", "IPv6"):
            detail = f"expected an {family} value as indicated by `ipFamilies[{i}]`"
            yield invalid(f"{place}[{i}]", addresses[i], detail)


def _ports(path: str, ports: Sequence[Document], type_: str) -> Iterator[str]:
    used: set[tuple[str, int]] = set()
    used_of_nodes: set[tuple[str, int]] = set()
    for i, port in enumerate(ports):
        place, protocol = f"{path}[{i}]", port.get("protocol") or "TCP"
        number, of_nodes = port.get("port") or 0, port.get("nodePort") or 0
        if len(ports) > 1 and not port.get("name"):
            yield required(f"{place}.name")
        if of_nodes and type_ == "ClusterIP":
            yield forbidden(f"{place}.nodePort", "may not be used when `type` is 'ClusterIP'")
        if of_nodes and (protocol, of_nodes) in used_of_nodes:
            yield duplicate(f"{place}.nodePort", of_nodes)
        used_of_nodes.add((protocol, of_nodes))
        if (protocol, number) in used:
            zero = {"name": "", "targetPort": 0, "nodePort": 0}
            shown = go_struct({**zero, "protocol": protocol, "port": number}, _PORT_IN_GO)
            yield duplicate(place, shown)
        used.add((protocol, number))


def _affinity(path: str, spec: Document) -> list[str]:
    # Kubernetes drops a configuration that there is no affinity for
    config = spec.get("sessionAffinityConfig")
    if spec.get("sessionAffinity") != "ClientIP" or config is None:
        return []
    detail, place = "when session affinity type is ClientIP", f"{path}.clientIP.timeoutSeconds"
    if config.get("clientIP") is None:
        return [required(f"{path}.clientIP", detail)]
    seconds = config["clientIP"].get("timeoutSeconds")
    if seconds is None:
        return []
    rule = f"must be greater than 0 and less than {_LONGEST_AFFINITY}"
    return [] if 0 < seconds <= _LONGEST_AFFINITY else [invalid(place, seconds, rule)]


def _load_balancer(path: str, spec: Document, type_: str) -> Iterator[str]:
    """Returns the problems of fields that only a LoadBalancer may have."""
    detail, balanced = "may only be used when `type` is 'LoadBalancer'", type_ == "LoadBalancer"
    ranges, place = spec.get("loadBalancerSourceRanges") or (), f"{path}.LoadBalancerSourceRanges"
    if ranges and not balanced:
        yield forbidden(place, detail)
    for i, value in enumerate(ranges):
        yield from cidr(f"{place}[{i}]", value.strip())
    for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if spec.get(field) is not None and not balanced:
            yield forbidden(f"{path}.{field}", detail)
    name = spec.get("loadBalancerClass")
    if balanced and name is not None:
        at = f"{path}.loadBalancerClass"
        yield from (invalid(at, name, message) for message in qualified_name(name))


def _traffic_policies(path: str, spec: Document, type_: str) -> Iterator[str]:
    """Yields the problems of the policies for traffic from outside."""
    policy, check = spec.get("externalTrafficPolicy"), spec.get("healthCheckNodePort") or 0
    place, at = f"{path}.externalTrafficPolicy", f"{path}.healthCheckNodePort"
    outside = type_ in ("LoadBalancer", "NodePort") or (
        type_ == "ClusterIP" and spec.get("externalIPs")
    )
    if policy and not outside:
        yield invalid(place, policy, "may only be set for externally-accessible services")
    if policy and outside and policy not in _POLICIES:
        yield unsupported(place, policy, _POLICIES)
    if check and (type_ != "LoadBalancer" or policy != "Local"):
        detail = (
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        )
        yield invalid(at, check, detail)
    elif check and not 1 <= check <= 65535:
        yield invalid(at, check, "must be between 1 and 65535, inclusive")


def without_lost_addresses(spec: Document, before: Document) -> Document:
    """Returns a service's spec without the addresses that it loses by becoming an ExternalName."""
    if spec.get("type") != "ExternalName" or before.get("type") == "ExternalName":
        return spec
    lost = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
    return {
        field: value
        for field, value in spec.items()
        if field not in lost or value != before.get(field)
    }


def service_update(spec: Document, before: Document) -> Iterator[str]:
    """Checks that a service keeps its cluster IP, its load balancer class and its health check
    port.
    """
    types = (spec.get("type"), before.get("type"))
    if "ExternalName" not in types and not (_is_headless(spec) and _is_headless(before)):
        new, old = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
        first, was = spec.get("clusterIP"), before.get("clusterIP")
        matches = not new or new[0] == first
        changed = matches and (new[:1] != old[:1] if old else was and first != was)
        if changed:
            shown = new or ([first] if first else None)
            yield invalid("spec.clusterIPs[0]", shown, "may not change once set")
    classes = (spec.get("loadBalancerClass"), before.get("loadBalancerClass"))
    if types == ("LoadBalancer", "LoadBalancer") and classes[0] != classes[1]:
        yield invalid("spec.loadBalancerClass", classes[0], "may not change once set")
    ports = [
        each.get("healthCheckNodePort") for each in (spec, before) if _needs_health_check_port(each)
    ]
    if len(ports) > 1 and ports[0] != ports[1]:
        yield forbidden("spec.healthCheckNodePort", "field is immutable")


def _needs_health_check_port(spec: Document) -> bool:
    """True if a service needs a node port for health checks."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def subset(path: str, value: Document) -> Iterator[str]:
    """Checks the addresses of a subset of Endpoints, and that its ports have names if there are
    several.
    """
    if not value.get("addresses") and not value.get("notReadyAddresses"):
        yield required(path, "must specify `addresses` or `notReadyAddresses`")
    ports = value.get("ports") or ()
    for i, port in enumerate(ports):
        if len(ports) > 1 and not port.get("name"):
            yield required(f"{path}.ports[{i}].name")


def service_warnings(service: Document) -> Iterator[str]:
    spec = service.get("spec") or {}
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'
