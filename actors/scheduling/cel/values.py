"""The values of CEL, and their order.

An int is Python's int, a uint is `Uint`, a list is a Python list, and a map is a dict with keys
from `key_of`. An operation that fails in cel-go raises CelError with its message.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from .errors import CelError, no_such_overload
from .network import CIDR, IP, Url
from .quantities import Quantity
from .semver import Semver
from .times import Duration, Timestamp

MAX_INT64, MIN_INT64, MAX_UINT64 = (1 << 63) - 1, -(1 << 63), (1 << 64) - 1
MISSING: Any = object()


class Uint(int):
    """An unsigned int."""

    __slots__ = ()


class TypeValue(NamedTuple):
    """A value of CEL that is a type, such as the result of `type(1)`."""

    name: str


class Optional(NamedTuple):
    """An optional value; `value` is MISSING in an empty one."""

    value: Any

    @property
    def present(self) -> bool:
        return self.value is not MISSING


NONE = Optional(MISSING)


class Format(NamedTuple):
    """A named format of text. `cost` is the length of the regular expression that checks it."""

    name: str
    cost: int


class Domains(dict[Any, Any]):
    """A map by domain, in which a missing domain has an empty map."""

    __slots__ = ()


class Built(dict[str, Any]):
    """An object that an expression has built; `type_name` is that of its type, `Object.spec`."""

    __slots__ = ("type_name",)

    def __init__(self, type_name: str, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.type_name = type_name


NO_IDS: dict[Any, Any] = {}

# The names of the types in CEL, and those of cel-go's own types, which a few errors show.
_NAMES: dict[type, tuple[str, str]] = {
    bool: ("bool", "types.Bool"),
    int: ("int", "types.Int"),
    Uint: ("uint", "types.Uint"),
    float: ("double", "types.Double"),
    str: ("string", "types.String"),
    bytes: ("bytes", "types.Bytes"),
    type(None): ("null_type", "types.Null"),
    list: ("list", ""),
    dict: ("map", ""),
    Domains: ("map", ""),
    Built: ("Object", "*dynamic.ObjectVal"),
    Duration: ("google.protobuf.Duration", "types.Duration"),
    Timestamp: ("google.protobuf.Timestamp", "types.Timestamp"),
    TypeValue: ("type", "*types.Type"),
    Optional: ("optional_type", "*types.Optional"),
    Quantity: ("kubernetes.Quantity", "cel.Quantity"),
    Semver: ("kubernetes.Semver", "cel.Semver"),
    IP: ("net.IP", "cel.IP"),
    CIDR: ("net.CIDR", "cel.CIDR"),
    Url: ("kubernetes.URL", "cel.URL"),
    Format: ("kubernetes.NamedFormat", "*cel.Format"),
}
TYPE_NAMES = {kind: name for kind, (name, _) in _NAMES.items()}
GO_NAMES = {kind: name for kind, (_, name) in _NAMES.items()}


def type_name(value: Any) -> str:
    return TYPE_NAMES[type(value)]


# -------------------------------------------------------------------------------------------- maps


class _BoolKey(NamedTuple):
    """The key of a bool in a map, which differs from those of 1 and 0, its equals in Python."""

    value: bool


_BOOL_KEYS = {False: _BoolKey(value=False), True: _BoolKey(value=True)}


def key_of(value: Any) -> Any:
    """Returns the key in a map for a value. Raises CelError."""
    kind = type(value)
    if kind is str or kind is int or kind is Uint:
        return value
    if kind is bool:
        return _BOOL_KEYS[value]
    if kind is float:
        return int(value) if value.is_integer() else value
    raise CelError(f"unsupported key type: {type_name(value)}")


def value_of_key(key: Any) -> Any:
    return key.value if type(key) is _BoolKey else key


def keys(entries: dict[Any, Any]) -> Iterator[Any]:
    return map(value_of_key, entries)


def find(entries: dict[Any, Any], value: Any) -> Any:
    """Returns the value under a key, or MISSING."""
    try:
        key = key_of(value)
    except CelError:
        return MISSING
    return entries.get(key, NO_IDS if type(entries) is Domains else MISSING)


def printed_key(value: Any) -> str:
    """Returns a key or an index in the form that errors show."""
    text = str(value).lower() if type(value) is bool else str(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


# --------------------------------------------------------------------------------------- comparison

NUMBERS = frozenset((int, Uint, float))


def compare(a: Any, b: Any) -> int:
    """Returns -1, 0 or 1. Raises CelError for values that have no order."""
    kind, other = type(a), type(b)
    if kind in NUMBERS and other in NUMBERS:
        if a != a or b != b:
            raise CelError("NaN values cannot be ordered")
        return order_numbers(a, b)
    if kind is not other or kind not in (str, bytes, bool, Duration, Timestamp):
        raise no_such_overload()
    if kind is Timestamp:
        a, b = a.nanos, b.nanos
    elif kind is str:
        a, b = a.encode(errors="surrogatepass"), b.encode(errors="surrogatepass")
    return bool(a > b) - bool(a < b)


def order_numbers(a: Any, b: Any) -> int:
    """Compares numbers of any types; an int and a double as doubles within the range of ints."""
    if type(a) is float and type(b) is not float:
        return -order_numbers(b, a)
    if type(b) is float and type(a) is not float:
        if math.isnan(b):
            return 2
        low, high = (0, MAX_UINT64) if type(a) is Uint else (MIN_INT64, MAX_INT64)
        if b < low or b > high:
            return 1 if b < low else -1
        a = float(a)
    return bool(a > b) - bool(a < b)


def size_of(value: Any) -> int:
    """Returns the size of a value, for the cost of operations on it."""
    kind = type(value)
    if kind is str or kind is list or kind is bytes or kind is dict or kind is Domains:
        return len(value)
    if kind is IP or kind is CIDR:
        size: int = value.size
        return size
    if kind is Optional and value.present:
        return size_of(value.value)
    return 1


_ZEROABLE = frozenset((bool, int, Uint, float, str, bytes, type(None), list, dict, Domains, Built))


def is_zero(value: Any) -> bool:
    """True if `optional.ofNonZeroValue` makes an empty optional of the value."""
    kind = type(value)
    if kind in (Duration, Timestamp):
        return value == (0,) or (kind is Timestamp and value.nanos == -62135596800 * 10**9)
    if kind in _ZEROABLE:
        return not value
    return False
