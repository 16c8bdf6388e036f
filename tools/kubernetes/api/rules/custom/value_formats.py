"""The formats of strings that a schema may name. A format that is not here refuses nothing.

Mirrors k8s.io/kube-openapi/pkg/validation/strfmt, with the formats that
k8s.io/apiextensions-apiserver recognizes.
"""

from __future__ import annotations

import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime
from urllib.parse import urlsplit

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DAY = r"\d{4}-\d\d-\d\d"
_CARD = (
    r"(?:4\d{12}(?:\d{3})?|5[1-5]\d{14}|6(?:011|5\d\d)\d{12}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}"
    r"|(?:2131|1800|35\d{3})\d{11})"
)


def _matching(pattern: str, most: int = 4096) -> Callable[[str], bool]:
    matcher = re.compile(pattern)
    return lambda text: len(text) <= most and matcher.fullmatch(text) is not None


def _reading(read: Callable[[str], object]) -> Callable[[str], bool]:
    """Returns a check that a function reads the text without a ValueError."""

    def check(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return check


def _is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def _is_hostname(text: str) -> bool:
    parts = text.split(".")
    return len(text) <= 255 and all(
        re.fullmatch(r"[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?", part) for part in parts
    )


def _is_duration(text: str) -> bool:
    unit = (
        r"(ns|us|µs|μs|ms|s|m|h|d|w|nanos?|micros?|millis?|seconds?|minutes?|hours?|days?|weeks?)"
    )
    return (
        re.fullmatch(
            rf"[-+]?(0|(\d+(\.\d*)?|\.\d+)\s*{unit}(\s*(\d+(\.\d*)?|\.\d+)\s*{unit})*)", text
        )
        is not None
    )


def _isbn(text: str, length: int) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if length == 10:
        if not re.fullmatch(r"\d{9}[\dX]", digits):
            return False
        numbers = [10 if digit == "X" else int(digit) for digit in digits]
        return sum((i + 1) * number for i, number in enumerate(numbers)) % 11 == 0
    if not re.fullmatch(r"\d{13}", digits):
        return False
    return sum(int(digit) * (3 if i % 2 else 1) for i, digit in enumerate(digits)) % 10 == 0


def _uuid(version: str = "[0-9a-f]", variant: str = "[0-9a-f]") -> Callable[[str], bool]:
    return _matching(
        rf"(?i)[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}[0-9a-f]{{3}}-?{variant}[0-9a-f]{{3}}-?[0-9a-f]{{12}}"
    )


_FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _matching(r"(?i)[0-9a-f]{24}"),
    "uri": _is_uri,
    "email": _matching(r"(?:[^<>]*<)?[^@\s<>]+@[^@\s<>]+>?"),
    "hostname": _is_hostname,
    "ipv4": _reading(ipaddress.IPv4Address),
    "ipv6": _reading(ipaddress.IPv6Address),
    "cidr": lambda text: (
        "/" in text and _reading(lambda t: ipaddress.ip_network(t, strict=False))(text)
    ),
    "mac": _matching(
        r"(?i)([0-9a-f]{2}[:-]){5}[0-9a-f]{2}|([0-9a-f]{2}[:-]){7}[0-9a-f]{2}|([0-9a-f]{4}\.){2}[0-9a-f]{4}"
    ),
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89ab]"),
    "uuid5": _uuid("5", "[89ab]"),
    "isbn": lambda text: _isbn(text, 10) or _isbn(text, 13),
    "isbn10": lambda text: _isbn(text, 10),
    "isbn13": lambda text: _isbn(text, 13),
    "creditcard": lambda text: re.fullmatch(_CARD, re.sub(r"\D", "", text)) is not None,
    "ssn": _matching(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _matching(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matching(r"rgb\(\s*\d{1,3}\s*,\s*\d{1,3}\s*,\s*\d{1,3}\s*\)"),
    "byte": _reading(lambda text: binascii.a2b_base64(text, strict_mode=True)),
    "date": lambda text: (
        re.fullmatch(_DAY, text) is not None and _reading(date.fromisoformat)(text)
    ),
    "duration": _is_duration,
    "datetime": lambda text: (
        re.fullmatch(_DAY + r"[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)", text) is not None
        and _reading(datetime.fromisoformat)(text[:19].upper())
    ),
    "k8sshortname": _matching(_LABEL, 63),
    "k8slongname": _matching(rf"{_LABEL}(\.{_LABEL})*", 253),
}
KNOWN = {*_FORMATS, "password"}


def is_known(form: str, type_: str) -> bool:
    """True if Kubernetes recognizes a format for a type."""
    if type_ in ("", "string"):
        return form.replace("-", "") in KNOWN
    return (type_, form) in (
        ("integer", "int32"),
        ("integer", "int64"),
        ("number", "float"),
        ("number", "double"),
    )


def has(form: str, text: str) -> bool:
    """True if the text has this format, or if the format is not known."""
    check = _FORMATS.get(form.replace("-", ""))
    return check is None or check(text)
