"""The forms of values that types.txt names: of names, paths, addresses, ports and modes.

A form is a function of a path and a value; it returns problems in Kubernetes' words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

from berth.actors.scheduling.kube import quantity
from berth.actors.scheduling.kube.names import dns_label, dns_subdomain, qualified_name

from .fields import (
    NEGATIVE,
    Document,
    between,
    invalid,
    labels,
    required,
    too_long,
)
from .percentages import int_or_percent
from .role_rules import path_segment

Form = Callable[[str, Any], Iterable[str]]

_ENDS = "must start and end with an alphanumeric character"
_UNDERSCORES = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH = rf"{_UNDERSCORES}(\.{_UNDERSCORES})*"
_SEARCH_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' "
    f"or '.', and {_ENDS} (e.g. 'example.com', regex used for validation is '{_SEARCH}')"
)
_SYSCTL = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL_RULE = f"must have at most 253 characters and match regex ^{_SYSCTL}$"
_ENV_RULE = (
    "a valid environment variable name must consist only of printable ASCII characters "
    "other than '='"
)
_CONFIG_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', "
    "regex used for validation is '[-._a-zA-Z0-9]+')"
)
_ISCSI = {
    "iqn": r"iqn\.\d{4}-\d{2}\.[-.a-zA-Z0-9]+:[^,;*&$|\s]+",
    "eui": "eui.[a-zA-Z0-9]{16}",
    "naa": "naa.[a-zA-Z0-9]{32}",
}
_IP_RULE = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_CIDR_RULE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_LEADING_ZEROS = re.compile(r"\d+(\.\d+){3}")


_WILDCARD = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_WILDCARD_RULE = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which "
    "must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric "
    f"character (e.g. '*.example.com', regex used for validation is '{_WILDCARD}')"
)
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    f"regex used for validation is '{_LABEL_1035}')"
)
_MOST_LABEL = 63


def dns_1035_label(text: str) -> tuple[str, ...]:
    """Returns the reasons why a text is no label that begins with a letter; () if it is one."""
    return (
        *((f"must be no more than {_MOST_LABEL} characters",) if len(text) > _MOST_LABEL else ()),
        *(() if re.fullmatch(_LABEL_1035, text) else (_LABEL_1035_RULE,)),
    )


def host(path: str, value: str) -> list[str]:
    """Checks the name of a host, in which a wildcard may stand for the first label."""
    if "*" not in value:
        return [invalid(path, value, message) for message in dns_subdomain(value)]
    return [] if re.fullmatch(_WILDCARD, value) else [invalid(path, value, _WILDCARD_RULE)]


def named_host(path: str, value: str) -> list[str]:
    """Checks that a host is no address."""
    is_name = bool(ip(path, value))
    detail = "must be a DNS name, not an IP address"
    return [*([] if is_name else [invalid(path, value, detail)]), *host(path, value)]


def _form_of_check(check: Callable[[str], Iterable[str]]) -> Form:
    """Returns a form whose problems are the messages of this check of a text."""
    return lambda path, value: [invalid(path, value, message) for message in check(value)]


def port_name_messages(name: str) -> list[str]:
    messages = []
    if len(name.encode()) > 15:
        messages.append("must be no more than 15 characters")
    if not re.fullmatch("[-a-z0-9]+", name):
        messages.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        messages.append("must contain at least one letter (a-z)")
    if "--" in name:
        messages.append("must not contain consecutive hyphens")
    if name[:1] == "-" or name[-1:] == "-":
        messages.append("must not begin or end with a hyphen")
    return messages


def port(path: str, value: int | str) -> Iterable[str]:
    """Checks a port, which is a number or a name."""
    return between(path, value, 1, 65535) if isinstance(value, int) else _PORT_NAME(path, value)


def no_backsteps(path: str, value: str) -> list[str]:
    return [invalid(path, value, "must not contain '..'")] if ".." in value.split("/") else []


def relative_path(path: str, value: str) -> list[str]:
    absolute = [invalid(path, value, "must be a relative path")] if value[:1] == "/" else []
    return absolute + no_backsteps(path, value)


def local_path(path: str, value: str) -> Iterator[str]:
    """Checks a relative path that does not begin with two dots."""
    yield from relative_path(path, value)
    if value.startswith("..") and not value.startswith("../"):
        yield invalid(path, value, "must not start with '..'")


def absolute_path(path: str, value: str) -> list[str]:
    return [] if value[:1] == "/" else [invalid(path, value, "must be an absolute path")]


def env_name(path: str, value: str) -> list[str]:
    fits = all(" " <= each <= "~" and each != "=" for each in value)
    return [] if fits else [invalid(path, value, _ENV_RULE)]


def config_key_messages(value: str) -> list[str]:
    messages = []
    if len(value.encode()) > 253:
        messages.append("must be no more than 253 characters")
    if not re.fullmatch("[-._a-zA-Z0-9]+", value):
        messages.append(_CONFIG_KEY_RULE)
    if value in (".", ".."):
        messages.append(f"must not be '{value}'")
    elif value.startswith(".."):
        messages.append("must not start with '..'")
    return messages


def driver_name(path: str, name: str) -> list[str]:
    """Checks the name of a CSI driver: a DNS subdomain, in which capitals are allowed."""
    if not name:
        return [required(path)]
    problems = [too_long(path, 63)] if len(name.encode()) > 63 else []
    return problems + [invalid(path, name, message) for message in dns_subdomain(name.lower())]


def ip(path: str, value: str) -> list[str]:
    """Checks an IP address. Leading zeros, and IPv4 written as IPv6, are refused as ambiguous."""
    try:
        address = ip_address(value)
    except ValueError:
        parts = value.split(".")
        if _LEADING_ZEROS.fullmatch(value) and all(int(part) < 256 for part in parts):
            return [invalid(path, value, "must not have leading 0s")]
        return [invalid(path, value, _IP_RULE)]
    if "%" in value:
        return [invalid(path, value, _IP_RULE)]
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return [invalid(path, value, "must not be an IPv4-mapped IPv6 address")]
    return []


def endpoint_ip(path: str, value: str) -> list[str]:
    """Checks that an endpoint may have this address: it must not be, for example, a loopback
    address.
    """
    try:
        address = ip_address(value)
    except ValueError:
        return [invalid(path, value, "must be a valid IP address")]
    kinds = (
        (address.is_unspecified, f"may not be unspecified ({value})"),
        (address.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (
            address.is_link_local,
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        ),
        (
            value.startswith("224.0.0.") or value.lower().startswith("ff02:"),
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        ),
    )
    return [invalid(path, value, detail) for holds, detail in kinds if holds]


def cidr(path: str, value: str) -> list[str]:
    try:
        network = ip_network(value, strict=False)
    except ValueError:
        return [invalid(path, value, _CIDR_RULE)]
    if not re.fullmatch(r"[^%/]+/\d+", value):
        return [invalid(path, value, _CIDR_RULE)]
    if network.network_address != ip_address(value.partition("/")[0]):
        return [invalid(path, value, "must not have bits set beyond the prefix length")]
    return []


def dns_search(path: str, value: str) -> list[str]:
    text = value.removesuffix(".")
    if value == "." or (re.fullmatch(_SEARCH, text) and len(text) <= 253):
        return []
    return [invalid(path, text, _SEARCH_RULE)]


def sysctl(path: str, value: str) -> list[str]:
    fits = len(value) <= 253 and re.fullmatch(_SYSCTL, value)
    return [] if fits else [invalid(path, value, _SYSCTL_RULE)]


def iscsi_name(path: str, value: str) -> list[str]:
    form = _ISCSI.get(value[:3])
    if form is None:
        return [invalid(path, value, "must be valid format starting with iqn, eui, or naa")]
    return [] if re.fullmatch(form, value) else [invalid(path, value, "must be valid format")]


def file_mode(path: str, value: int) -> list[str]:
    rule = "must be a number between 0 and 0777 (octal), both inclusive"
    return [] if 0 <= value <= 0o777 else [invalid(path, value, rule)]


def disk_partition(path: str, value: int) -> list[str]:
    rule = "must be between 1 and 255, inclusive"
    return [] if 0 <= value <= 255 else [invalid(path, value, rule)]


def token_seconds(path: str, value: int) -> list[str]:
    """Checks the lifetime of a service account's token."""
    if value < 600:
        return [invalid(path, value, "may not specify a duration less than 10 minutes")]
    if value > 1 << 32:
        return [invalid(path, value, "may not specify a duration larger than 2^32 seconds")]
    return []


def weight(path: str, value: int) -> list[str]:
    return [] if 1 <= value <= 100 else [invalid(path, value, "must be in the range 1-100")]


def namespace(path: str, value: str) -> Iterable[str]:
    """Checks the namespace of an endpoint's target, which may not be empty."""
    rule = "if the endpointnamespace is set, it must be a valid namespace name"
    return _form_of_check(dns_label)(path, value) if value else [invalid(path, value, rule)]


def class_name(path: str, value: str) -> list[str]:
    """Checks the name of a class; the empty name stands for no class."""
    return [invalid(path, value, message) for message in dns_subdomain(value)] if value else []


def positive_or_zero(path: str, amount: Any) -> list[str]:
    return [invalid(path, str(amount), NEGATIVE)] if quantity.nano_value(amount) < 0 else []


def own_options(path: str, options: Document) -> list[str]:
    """Checks that no option of a flexible volume has a key of Kubernetes' own."""
    rule = "kubernetes.io and k8s.io namespaces are reserved"
    return [
        invalid(f"{path}[{key}]", key, rule)
        for key in options
        if f".{key.partition('/')[0].lower()}".endswith((".kubernetes.io", ".k8s.io"))
    ]


def provisioner(path: str, value: str) -> list[str]:
    lower = value.lower()
    return [invalid(path, lower, message) for message in qualified_name(lower)]


def domain_path(path: str, value: str) -> Iterator[str]:
    """Checks a path that begins with a domain, such as example.com/controller."""
    if not value:
        yield required(path)
        return
    domain, _, rest = value.partition("/")
    if not domain or not rest:
        rule = 'must be a domain-prefixed path (such as "acme.io/foo")'
        yield invalid(path, value, rule)
        return
    yield from (invalid(path, domain, message) for message in dns_subdomain(domain))
    form = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
    if not re.fullmatch(form, rest):
        yield invalid(path, rest, f"Invalid path (regex used for validation is '{form}')")


def non_empty(path: str, value: str) -> list[str]:
    """Checks that a text is not empty. It may be absent."""
    return [] if value else [required(path)]


def positive(path: str, value: int) -> list[str]:
    return [] if value > 0 else [invalid(path, value, "must be greater than 0")]


def _reference_with(*fields: str) -> Form:
    """Returns the form of a reference that must have these fields."""
    return lambda path, value: [
        required(f"{path}.{field}") for field in fields if not value.get(field)
    ]


def secret(path: str, reference: Document) -> Iterator[str]:
    """Checks that a reference to a secret has a name and a namespace."""
    name, namespace = reference.get("name"), reference.get("namespace")
    yield from class_name(f"{path}.name", name) if name else [required(f"{path}.name")]
    place = f"{path}.namespace"
    yield from _form_of_check(dns_label)(place, namespace) if namespace else [required(place)]


_PORT_NAME = _form_of_check(port_name_messages)
FORMS: dict[str, Form] = {
    "absolute-path": absolute_path,
    "class-name": class_name,
    "cidr": cidr,
    "config-key": _form_of_check(config_key_messages),
    "count": partial(int_or_percent, most=None),
    "count-or-share": int_or_percent,
    "dns-label": _form_of_check(dns_label),
    "dns-search": dns_search,
    "dns-subdomain": _form_of_check(dns_subdomain),
    "domain-path": domain_path,
    "driver-name": driver_name,
    "endpoint-ip": endpoint_ip,
    "env-name": env_name,
    "file-mode": file_mode,
    "host": host,
    "ip": ip,
    "iscsi-name": iscsi_name,
    "labels": labels,
    "local-path": local_path,
    "named-host": named_host,
    "path-segment": _form_of_check(path_segment),
    "named": _reference_with("name"),
    "named-in-full": _reference_with("name", "namespace"),
    "namespace": namespace,
    "no-backsteps": no_backsteps,
    "non-empty": non_empty,
    "own-options": own_options,
    "partition": disk_partition,
    "port": port,
    "port-name": _PORT_NAME,
    "positive": positive,
    "provisioner": provisioner,
    "qualified-name": _form_of_check(qualified_name),
    "quantity": positive_or_zero,
    "relative-path": relative_path,
    "secret": secret,
    "sysctl": sysctl,
    "token-seconds": token_seconds,
    "weight": weight,
}
