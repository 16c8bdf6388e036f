"""Access to the parts of a value: `a.b`, `a[b]`, `a.?b`, `a[?b]` and `has(a.b)`."""

from __future__ import annotations

from typing import Any

from .errors import CelError
from .values import MAX_INT64, MISSING, NONE, Optional, Uint, find, printed_key, type_name


def part(value: Any, key: Any) -> Any:
    """Returns the part of a value under a key, or MISSING. Raises CelError for an invalid key."""
    if isinstance(value, dict):
        return find(value, key)
    if type(value) is list:
        index = _as_index(key)
        return value[index] if 0 <= index < len(value) else MISSING
    return MISSING


def index(value: Any, key: Any) -> Any:
    """Returns the part of a value under a key. The part of an optional is an optional. Raises
    CelError.
    """
    if type(value) is Optional:
        return optional_part(value, key)
    item = part(value, key)
    if item is MISSING:
        if type(value) is list:
            raise CelError(f"index out of bounds: {printed_key(key)}")
        raise CelError(f"no such key: {printed_key(key)}")
    return item


def optional_part(value: Any, key: Any) -> Optional:
    """Returns the part under a key as an optional, which is empty if there is none. Raises
    CelError.
    """
    if type(value) is Optional:
        if not value.present:
            return NONE
        value = value.value
    item = part(value, key)
    return NONE if item is MISSING else Optional(item)


def _as_index(key: Any) -> int:
    if type(key) is int:
        return key
    if type(key) is float or type(key) is Uint:
        if key == key and abs(key) <= MAX_INT64 and int(key) == key:
            return int(key)
        raise CelError(f"unsupported index value {key} in list")
    raise CelError(f"unsupported index type '{type_name(key)}' in list")
