"""Kubernetes' own functions: quantities, versions, URLs, IP addresses and networks."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

from .. import network, quantities, semver
from ..declarations import (
    Budget,
    Overload,
    budgeted,
    cost_of_first,
    cost_of_first_twice,
    cost_of_reading,
    overload,
)
from ..errors import CelError
from ..network import CIDR, IP, Url
from ..quantities import Quantity, of_int
from ..values import size_of


def _is_parsable(parse: Callable[..., object]) -> Callable[..., bool]:
    """Returns a function that is true if `parse` accepts its arguments."""

    def accepted(*arguments: Any) -> bool:
        try:
            parse(*arguments)
        except CelError:
            return False
        return True

    return accepted


def _sign(value: Quantity) -> int:
    return (value.nano > 0) - (value.nano < 0)


def _float(value: Quantity) -> float:
    try:
        return value.nano / quantities.GIGA
    except OverflowError:
        return float("inf") if value.nano > 0 else float("-inf")


def _int64(value: int) -> int:
    """Converts the uint64 of a version to int64 as Go does, without a check."""
    return value - (1 << 64) if value >= 1 << 63 else value


def _compared(kind: str) -> list[Overload]:
    return [
        overload(f"{kind}_{name}", f"{kind}::{function}({kind}) -> {result}", run)
        for name, function, result, run in (
            ("is_greater_than", "isGreaterThan", "bool", lambda a, b: a.compare(b) > 0),
            ("is_less_than", "isLessThan", "bool", lambda a, b: a.compare(b) < 0),
            ("compare_to", "compareTo", "int", lambda a, b: a.compare(b)),
        )
    ]


# ------------------------------------------------------------------------------------------ network


def _is_canonical(text: str) -> bool:
    return str(network.parse_ip(text)) == text


def _is_link_local_multicast(ip: IP) -> bool:
    address = ip.address
    if isinstance(address, ipaddress.IPv4Address):
        return address.packed[:3] == bytes((224, 0, 0))
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 2


def _is_global_unicast(ip: IP) -> bool:
    address = ip.address
    special = address.is_unspecified or address.is_loopback or address.is_multicast
    broadcast = address.version == 4 and int(address) == 0xFFFFFFFF
    return not (special or broadcast or address.is_link_local)


def _contains_ip(cidr: CIDR, ip: IP) -> bool:
    return cidr.contains(ip.address, ip.address.max_prefixlen)


def _contains_cidr(cidr: CIDR, other: CIDR) -> bool:
    return cidr.contains(other.address, other.length)


def _contains_ip_cost(cidr: Any, other: Any) -> int:
    text = cost_of_reading(len(other)) if type(other) is str else 0
    return cost_of_reading(2 * size_of(cidr)) + text


def _contains_cidr_cost(cidr: Any, other: Any) -> int:
    return _contains_ip_cost(cidr, other) + cost_of_reading(size_of(cidr)) + 1


def _queries(budget: Budget, url: Url) -> dict[str, list[str]]:
    budget.strain(len(url.query))
    budget.makes_elements(3 * (url.query.count("&") + 1))
    return url.queries()


OVERLOADS = [
    overload("string_to_quantity", "quantity(string) -> quantity", quantities.parse, cost_of_first),
    overload(
        "is_quantity_string",
        "isQuantity(string) -> bool",
        _is_parsable(quantities.parse),
        cost_of_first,
    ),
    overload("quantity_sign", "sign(quantity) -> int", _sign),
    *_compared("quantity"),
    overload("quantity_get_float", "quantity::asApproximateFloat() -> double", _float),
    overload("quantity_get_int", "quantity::asInteger() -> int", Quantity.as_int),
    overload("quantity_is_integer", "quantity::isInteger() -> bool", lambda q: q.whole),
    overload("quantity_add", "quantity::add(quantity) -> quantity", Quantity.add),
    overload("quantity_add_int", "quantity::add(int) -> quantity", lambda q, n: q.add(of_int(n))),
    overload("quantity_sub", "quantity::sub(quantity) -> quantity", Quantity.sub),
    overload("quantity_sub_int", "quantity::sub(int) -> quantity", lambda q, n: q.sub(of_int(n))),
    overload("string_to_semver", "semver(string) -> semver", semver.parse, cost_of_first),
    overload(
        "string_bool_to_semver",
        "semver(string, bool) -> semver",
        semver.parse_normalized,
        cost_of_first,
    ),
    overload(
        "is_semver_string", "isSemver(string) -> bool", _is_parsable(semver.parse), cost_of_first
    ),
    overload(
        "is_semver_string_bool",
        "isSemver(string, bool) -> bool",
        _is_parsable(semver.parse_normalized),
        cost_of_first,
    ),
    *_compared("semver"),
    overload("semver_major", "semver::major() -> int", lambda v: _int64(v.major)),
    overload("semver_minor", "semver::minor() -> int", lambda v: _int64(v.minor)),
    overload("semver_patch", "semver::patch() -> int", lambda v: _int64(v.patch)),
    overload("string_to_url", "url(string) -> url", network.parse_url, cost_of_first),
    overload("is_url_string", "isURL(string) -> bool", _is_parsable(network.parse_url)),
    overload("url_get_scheme", "url::getScheme() -> string", lambda u: u.scheme),
    overload("url_get_host", "url::getHost() -> string", lambda u: u.host),
    overload("url_get_hostname", "url::getHostname() -> string", lambda u: u.hostname),
    overload("url_get_port", "url::getPort() -> string", lambda u: u.port),
    overload("url_get_escaped_path", "url::getEscapedPath() -> string", lambda u: u.path),
    budgeted("url_get_query", "url::getQuery() -> map(string, list(string))", _queries),
    overload("string_to_ip", "ip(string) -> ip", network.parse_ip, cost_of_first),
    overload("is_ip", "isIP(string) -> bool", _is_parsable(network.parse_ip), cost_of_first),
    overload("ip_to_string", "string(ip) -> string", str),
    overload("ip_family", "ip::family() -> int", lambda ip: ip.address.version),
    overload(
        "ip_is_canonical", "ip.isCanonical(string) -> bool", _is_canonical, cost_of_first_twice
    ),
    overload(
        "ip_is_unspecified", "ip::isUnspecified() -> bool", lambda ip: ip.address.is_unspecified
    ),
    overload("ip_is_loopback", "ip::isLoopback() -> bool", lambda ip: ip.address.is_loopback),
    overload(
        "ip_link_local_multicast", "ip::isLinkLocalMulticast() -> bool", _is_link_local_multicast
    ),
    overload(
        "ip_link_local_unicast",
        "ip::isLinkLocalUnicast() -> bool",
        lambda ip: ip.address.is_link_local,
    ),
    overload("ip_is_global_unicast", "ip::isGlobalUnicast() -> bool", _is_global_unicast),
    overload("string_to_cidr", "cidr(string) -> cidr", network.parse_cidr, cost_of_first),
    overload("is_cidr", "isCIDR(string) -> bool", _is_parsable(network.parse_cidr), cost_of_first),
    overload("cidr_to_string", "string(cidr) -> string", str),
    overload("cidr_ip", "cidr::ip() -> ip", lambda cidr: IP(cidr.address)),
    overload("cidr_prefix_length", "cidr::prefixLength() -> int", lambda cidr: cidr.length),
    overload("cidr_masked", "cidr::masked() -> cidr", CIDR.masked),
    overload(
        "cidr_contains_ip_string",
        "cidr::containsIP(string) -> bool",
        lambda cidr, text: _contains_ip(cidr, network.parse_ip(text)),
        _contains_ip_cost,
    ),
    overload(
        "cidr_contains_ip_ip", "cidr::containsIP(ip) -> bool", _contains_ip, _contains_ip_cost
    ),
    overload(
        "cidr_contains_cidr_string",
        "cidr::containsCIDR(string) -> bool",
        lambda cidr, text: _contains_cidr(cidr, network.parse_cidr(text)),
        _contains_cidr_cost,
    ),
    overload(
        "cidr_contains_cidr",
        "cidr::containsCIDR(cidr) -> bool",
        _contains_cidr,
        _contains_cidr_cost,
    ),
]
