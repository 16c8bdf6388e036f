"""Rules for slices of endpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_address

from berth.actors.scheduling.kube.names import dns_label, dns_subdomain, label_value, qualified_name

from .fields import Document, duplicate, invalid, labels, one_of, required, too_many
from .value_forms import endpoint_ip, ip

_MOST_ENDPOINTS, _MOST_ADDRESSES = 1000, 100
_MOST_LABELS, _MOST_HINTS = 16, 8
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_FAMILIES = {"IPv4": 4, "IPv6": 6}


def endpoint_slice(document: Document, before: Document | None) -> Iterator[str]:
    """Checks the ports, and the endpoints unless an update keeps them."""
    names = set[str]()
    for i, port in enumerate(document.get("ports") or ()):
        name, app = port.get("name") or "", port.get("appProtocol")
        if name:
            yield from (invalid(f"ports[{i}].name", name, why) for why in dns_label(name))
        if name in names:
            yield duplicate(f"ports[{i}].name", name)
        names.add(name)
        yield from one_of(f"ports[{i}].protocol", port.get("protocol"), _PROTOCOLS)
        if app is not None:
            place = f"ports[{i}].appProtocol"
            yield from (invalid(place, app, why) for why in qualified_name(app))
    endpoints = document.get("endpoints") or []
    if before is None or (before.get("endpoints") or []) != endpoints:
        yield from _endpoints("endpoints", endpoints, document.get("addressType") or "")


def _endpoints(path: str, endpoints: Sequence[Document], type_: str) -> Iterator[str]:
    if len(endpoints) > _MOST_ENDPOINTS:
        yield too_many(path, len(endpoints), _MOST_ENDPOINTS)
        return
    for i, endpoint in enumerate(endpoints):
        yield from _endpoint(f"{path}[{i}]", endpoint, type_)


def _endpoint(path: str, endpoint: Document, type_: str) -> Iterator[str]:
    addresses = endpoint.get("addresses") or ()
    if not addresses:
        yield required(f"{path}.addresses", "must contain at least 1 address")
    elif len(addresses) > _MOST_ADDRESSES:
        yield too_many(f"{path}.addresses", len(addresses), _MOST_ADDRESSES)
    for i, address in enumerate(addresses):
        yield from _address(f"{path}.addresses", i, address, type_)
    node, place = endpoint.get("nodeName"), f"{path}.nodeName"
    if node is not None:
        yield from (invalid(place, node, why) for why in dns_subdomain(node))
    topology = endpoint.get("deprecatedTopology") or {}
    if len(topology) > _MOST_LABELS:
        yield too_many(f"{path}.deprecatedTopology", len(topology), _MOST_LABELS)
    yield from labels(f"{path}.deprecatedTopology", topology)
    host = endpoint.get("hostname")
    if host is not None:
        yield from (invalid(f"{path}.hostname", host, why) for why in dns_label(host))
    yield from _hints(f"{path}.hints", endpoint.get("hints") or {})


def _address(path: str, index: int, address: str, type_: str) -> Iterator[str]:
    place = f"{path}[{index}]"
    if type_ == "FQDN":
        yield from _domain(place, address)
    elif type_ in _FAMILIES:
        wrong = ip(place, address)
        yield from wrong
        if not wrong:
            if ip_address(address).version != _FAMILIES[type_]:
                yield invalid(path, address, f"must be an {type_} address")
            yield from endpoint_ip(place, address)


def _domain(path: str, text: str) -> Iterator[str]:
    """Checks a name of a host with its domain."""
    name = text.removesuffix(".")
    if not text:
        yield required(path)
    elif messages := dns_subdomain(name):
        yield invalid(path, name, ",".join(messages))
    elif "." not in name:
        detail = "should be a domain with at least two segments separated by dots"
        yield invalid(path, name, detail)


def _hints(path: str, hints: Document) -> Iterator[str]:
    for field, form in (("forZones", label_value), ("forNodes", dns_subdomain)):
        named = [each.get("name") or "" for each in hints.get(field) or ()]
        if len(named) > _MOST_HINTS:
            yield too_many(f"{path}.{field}", len(named), _MOST_HINTS)
            return
        for i, name in enumerate(named):
            place = f"{path}.{field}[{i}].name"
            if name in named[:i]:
                yield duplicate(place, name)
            yield from (invalid(place, name, why) for why in form(name))
