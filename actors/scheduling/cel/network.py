"""IP addresses, networks and URLs."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from .errors import CelError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NO_PREFIX = "network address parse error during conversion from string: "
_PERCENT = re.compile(r"%(?![0-9a-fA-F]{2})")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(.*)", re.DOTALL)
_PORT = re.compile(r":[0-9]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HOST = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:\[\]<>\"%\x80-\U0010ffff]*")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@/\[\]%]*")


class IP(NamedTuple):
    address: Address

    def __str__(self) -> str:
        return str(self.address)

    @property
    def size(self) -> int:
        """The bytes of the address."""
        return self.address.max_prefixlen // 8


class CIDR(NamedTuple):
    address: Address
    length: int

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"

    @property
    def size(self) -> int:
        """The bytes of the prefix."""
        return -(-self.length // 8)

    def masked(self) -> CIDR:
        shift = self.address.max_prefixlen - self.length
        base = int(self.address) >> shift << shift
        return CIDR(type(self.address)(base), self.length)

    def contains(self, address: Address, length: int) -> bool:
        """True if this network contains the network of the address with this prefix length."""
        if address.version != self.address.version or length < self.length:
            return False
        shift = address.max_prefixlen - self.length
        return int(address) >> shift == int(self.address) >> shift


def parse_ip(text: str) -> IP:
    """Parses an IP address. Raises CelError."""
    if "%" in text:
        raise CelError(f'IP address "{text}" with zone value is not allowed')
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise CelError(
            f'IP Address "{text}" parse error during conversion from string: '
            f'ParseAddr("{text}"): unable to parse IP'
        ) from None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise CelError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return IP(address)


def parse_cidr(text: str) -> CIDR:
    """Parses a network. Raises CelError."""
    base, slash, length = text.rpartition("/")
    digits = length.isascii() and length.isdigit() and (length == "0" or length[0] != "0")
    if not slash or "%" in text or not digits or len(length) > 3 or not _is_parsable(base):
        raise CelError(f'{_NO_PREFIX * 2}netip.ParsePrefix("{text}"): invalid prefix')
    address = ipaddress.ip_address(base)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise CelError(f'{_NO_PREFIX}IPv4-mapped IPv6 address "{text}" is not allowed')
    if int(length) > address.max_prefixlen:
        problem = f'netip.ParsePrefix("{text}"): prefix length out of range'
        raise CelError(_NO_PREFIX * 2 + problem)
    return CIDR(address, int(length))


def _is_parsable(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True


class Url(NamedTuple):
    text: str
    scheme: str
    host: str
    path: str
    query: str

    @property
    def hostname(self) -> str:
        if self.host.startswith("["):
            return self.host[1:].partition("]")[0]
        return self.host.partition(":")[0]

    @property
    def port(self) -> str:
        after_name = self.host.rpartition("]")[2] if self.host.startswith("[") else self.host
        return after_name.rpartition(":")[2] if ":" in after_name else ""

    def queries(self) -> dict[str, list[str]]:
        values: dict[str, list[str]] = {}
        for pair in self.query.split("&"):
            name, _, value = pair.partition("=")
            if not pair or ";" in pair or _PERCENT.search(pair):
                continue
            values.setdefault(_unescaped(name), []).append(_unescaped(value))
        return dict(sorted(values.items()))


def _unescaped(text: str) -> str:
    return unquote_to_bytes(text.replace("+", " ")).decode(errors="replace")


def parse_url(text: str) -> Url:
    """Parses a URL that begins with a scheme or a slash. Raises CelError."""
    problem = _url_problem(text)
    if problem:
        raise CelError(f'URL parse error during conversion from string: parse "{text}": {problem}')
    scheme, _, rest = _split_scheme(text)
    rest = rest.partition("#")[0]
    rest, _, query = rest.partition("?")
    host, path = "", rest
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        host, path = host.rpartition("@")[2], slash + path
    elif not rest.startswith("/"):
        path = ""  # the URL is opaque, e.g. mailto:x
    if not _PLAIN_PATH.fullmatch(path):
        path = _escaped_path(path)
    return Url(text, scheme.lower(), host, path, query)


def _split_scheme(text: str) -> tuple[str, str, str]:
    match = _SCHEME.fullmatch(text)
    return (match[1], ":", match[2]) if match else ("", "", text)


def _url_problem(text: str) -> str:
    """Returns Go's error for a request URI, or an empty text."""
    if not text:
        return "empty url"
    if _CONTROL.search(text):
        return "net/url: invalid control character in URL"
    scheme, colon, rest = _split_scheme(text)
    if not colon and text.startswith(":"):
        return "missing protocol scheme"
    if not scheme and not text.startswith("/"):
        return "invalid URI for request"
    rest = rest.partition("?")[0]
    if rest.startswith("//") and scheme:
        host, _, rest = rest[2:].partition("/")
        return _host_problem(host.rpartition("@")[2]) or _percent_problem(rest)
    return _percent_problem(rest) if rest.startswith("/") else ""


def _host_problem(host: str) -> str:
    if host.startswith("["):
        inner, bracket, port = host[1:].partition("]")
        if not bracket:
            return "missing ']' in host"
        if not _is_parsable(inner.partition("%25")[0]):
            return "invalid host"
    else:
        if "]" in host or "[" in host:
            return 'invalid character "[" in host name'
        _, colon, port = host.rpartition(":")
        port = colon + port if colon else ""
    if port and not _PORT.fullmatch(port):
        return f'invalid port "{port}" after host'
    bad = _HOST.sub("", host, count=1)
    if bad:
        return f'invalid character "{bad[0]}" in host name'
    return _percent_problem(host)


def _percent_problem(text: str) -> str:
    bad = _PERCENT.search(text)
    return f'invalid URL escape "{text[bad.start() : bad.start() + 3]}"' if bad else ""


def _escaped_path(path: str) -> str:
    """Escapes the characters of a path that Go escapes."""
    encoded = unquote_to_bytes(path)
    safe = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~$&+,/:;=@"
    return "".join(chr(b) if b in safe else f"%{b:02X}" for b in encoded)
