"""The types of the flags' values: how Go's pflag parses them from text, and prints them.

Every occurrence of a flag is read alone. `parse` raises ValueError with the expected form.
"""

from __future__ import annotations

import csv
import io
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from berth.config.options import NamedCertificate
from berth.config.types import Duration

from ...scheduling.kube import quantity

_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
_INTEGER = re.compile(r"[+-]?(0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|0[0-7_]*|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NATURAL = re.compile("[0-9]+")
_MOST_INT32 = 2**31 - 1


class Kind(msgspec.Struct, frozen=True):
    """The type of a flag's value. `empty` is the default of most flags of the type. With `several`,
    each occurrence adds to a tuple or mapping. `bare` is the value of a flag without one, or None
    if it needs one.
    """

    name: str
    parse: Callable[[str], Any]
    show: Callable[[Any], str] = str
    empty: Any = ""
    several: bool = False
    bare: str | None = None


# ---------------------------------------------------------------------------------------- one value


def parse_bool(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"expected true or false, got {text!r}")


def _show_bool(value: bool) -> str:
    return "true" if value else "false"


def _integer(bits: int) -> Callable[[str], int]:
    """Returns a function that reads integers with Go's prefixes, such as 0x1f."""

    def parse(text: str) -> int:
        if not _INTEGER.fullmatch(text) or text.endswith("_"):
            raise ValueError(f"expected an integer, got {text!r}")
        digits = text.replace("_", "")
        octal = re.fullmatch(r"([+-]?)0([0-7]+)", digits)
        value = int(f"{octal[1]}0o{octal[2]}" if octal else digits, 0)
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise ValueError(f"expected an integer of {bits} bits, got {text!r}")
        return value

    return parse


def _parse_float(text: str) -> float:
    if not _FLOAT.fullmatch(text):
        raise ValueError(f"expected a number, got {text!r}")
    return float(text)


def _show_float(value: float) -> str:
    """Returns a float32 as Go prints it in the format g."""
    return f"{value:.7g}"


def _parse_natural(text: str) -> int:
    if not _NATURAL.fullmatch(text) or int(text) > _MOST_INT32:
        raise ValueError(f"expected 0 or a positive integer, got {text!r}")
    return int(text)


def _parse_ip(text: str) -> str:
    """Parses an address. An empty text means all addresses."""
    stripped = text.strip()
    if not stripped:
        return "0.0.0.0"  # noqa: S104 - as kube-scheduler has it
    try:
        address = ipaddress.ip_address(stripped.replace("%", " "))  # no zones
    except ValueError:
        raise ValueError(f"expected an IP address, got {text!r}") from None
    return str(getattr(address, "ipv4_mapped", None) or address)


def _parse_quantity(text: str) -> str:
    quantity.value(text)
    return text


def _parse_version(text: str) -> str:
    if text == "raw" or text.startswith("v"):
        return text
    try:
        return _show_bool(parse_bool(text))
    except ValueError:
        raise ValueError(f"expected true, false, raw or a version, got {text!r}") from None


# ----------------------------------------------------------------------------------- several values


def _parse_strings(text: str) -> tuple[str, ...]:
    """Returns the fields of one line of comma-separated values; a field may be quoted."""
    if not text:
        return ()
    try:
        return tuple(next(csv.reader(io.StringIO(text), strict=True)))
    except (csv.Error, StopIteration):
        raise ValueError(f"expected a list with commas, got {text!r}") from None


def _show_strings(values: Iterable[str]) -> str:
    line = io.StringIO()
    fields = tuple(values)
    if fields:
        csv.writer(line, lineterminator="").writerow(fields)
    return f"[{line.getvalue()}]"


def _parse_integers(text: str) -> tuple[int, ...]:
    parse = _integer(32)
    return tuple(parse(part) for part in text.split(","))


def _show_integers(values: Iterable[int]) -> str:
    return f"[{','.join(map(str, values))}]"


def _parse_pairs(text: str) -> dict[str, str]:
    """Parses pairs such as `a=1,b=2`. A text with a single equals sign is one pair, whatever commas
    it has.
    """
    parts = (text.strip('"'),) if text.count("=") == 1 else _parse_strings(text)
    pairs = {}
    for part in parts or ("",):
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"expected NAME=VALUE, got {part!r}")
        pairs[name] = value
    return pairs


def _show_pairs(pairs: Mapping[str, str]) -> str:
    return _show_strings(f"{name}={value}" for name, value in pairs.items())


def _parse_components(text: str) -> tuple[tuple[str, str], ...]:
    """Returns the texts by the component before the colon; "" if there is none."""
    values = []
    for part in text.split(","):
        if part:
            component, colon, value = part.partition(":")
            values.append((component.strip(), value.strip()) if colon else ("", part.strip()))
    return tuple(values)


def _show_components(values: Iterable[tuple[str, str]]) -> str:
    ordered = sorted(values, key=lambda pair: pair[0])
    return ",".join(f"{component}:{value}" for component, value in ordered)


def _parse_vmodule(text: str) -> tuple[tuple[str, int], ...]:
    values = []
    for part in filter(None, text.split(",")):
        pattern, equals, level = part.partition("=")
        if not pattern or not equals or not _NATURAL.fullmatch(level):
            raise ValueError(f"expected PATTERN=N, got {part!r}")
        values.append((pattern, _parse_natural(level)))
    return tuple(values)


def _show_vmodule(values: Iterable[tuple[str, int]]) -> str:
    return ",".join(f"{pattern}={level}" for pattern, level in values)


def _parse_certificate(text: str) -> tuple[NamedCertificate, ...]:
    files, colon, names = text.partition(":")
    if colon and not names.strip():
        raise ValueError(f"expected domain patterns after the colon, got {text!r}")
    certificate, comma, key = (part.strip() for part in files.partition(","))
    if not comma or "," in key:
        raise ValueError(f"expected CERTIFICATE,KEY, got {files!r}")
    patterns = tuple(name.strip() for name in names.split(",")) if colon else ()
    return (NamedCertificate(certificate, key, patterns),)


def _show_certificates(values: Iterable[NamedCertificate]) -> str:
    shown = (
        f"{value.cert_file},{value.key_file}" + (f":{','.join(value.names)}" if value.names else "")
        for value in values
    )
    return f"[{';'.join(shown)}]"


STRING = Kind("string", str)
FILE = Kind("file", str)
BOOL = Kind("bool", parse_bool, _show_bool, False, bare="true")
INT = Kind("int", _integer(64), empty=0)
INT32 = Kind("int32", _integer(32))
FLOAT = Kind("float", _parse_float, _show_float)
DURATION = Kind("duration", Duration.parse, Duration.in_go)
IP = Kind("ip", _parse_ip)
LEVEL = Kind("level", _parse_natural, empty=0)
QUANTITY = Kind("quantity", _parse_quantity, empty="0")
VERSION = Kind("version", _parse_version, empty="false", bare="true")
STRINGS = Kind("list", _parse_strings, _show_strings, (), several=True)
INTEGERS = Kind("integers", _parse_integers, _show_integers, (), several=True)
PAIRS = Kind("pairs", _parse_pairs, _show_pairs, {}, several=True)
GATES = Kind("name=bool,...", _parse_components, _show_components, (), several=True)
VMODULE = Kind("pattern=n,...", _parse_vmodule, _show_vmodule, (), several=True)
CERTIFICATES = Kind("cert,key[:names]", _parse_certificate, _show_certificates, (), several=True)
