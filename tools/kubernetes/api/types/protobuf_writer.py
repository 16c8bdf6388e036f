"""Encodes objects as application/vnd.kubernetes.protobuf, for clients that accept nothing else.

The counterpart of protobuf.py: the same envelope and messages. A field that an object omits is not
written; Go reads it as zero, as if it had been.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from datetime import datetime
from struct import pack
from typing import Any

import msgspec

from .api_documents import Document
from .protobuf import MAGIC, SCHEMA_OR_BOOL, Numbers, numbers_of
from .schema import TYPES, Field, Shape

_VARINT, _FIXED64, _BYTES = 0, 1, 2
# Names by number, from 1; "" for what is another message, or is never written.
_LIST_META = ("", "resourceVersion", "continue", "remainingItemCount")
_STATUS = ("", "status", "message", "reason", "", "code")
_DETAILS = ("name", "group", "kind", "", "retryAfterSeconds", "uid")
_CAUSE = ("reason", "message", "field")


def encoded_object(shape: Shape, document: Document) -> bytes:
    """Returns the body of an object of a type."""
    message = _message(numbers_of(shape), document)
    return _envelope(document["apiVersion"], document["kind"], message)


def encoded_list(
    shape: Shape, api_version: str, kind: str, metadata: Document, items: Iterable[Document]
) -> bytes:
    """Returns the body of a list of objects of a type; `kind` is that of the list."""
    numbers = numbers_of(shape)
    message = _block(1, _plain(_LIST_META, metadata))
    message += b"".join([_block(2, _message(numbers, item)) for item in items])
    return _envelope(api_version, kind, message)


def encoded_event(kind: str, encoded: bytes) -> bytes:
    """Returns the frame of an event in a watch: a WatchEvent after its length in four bytes. It
    has the body of the object, with its envelope, but none itself.
    """
    message = _block(1, kind.encode()) + _block(2, _block(1, encoded))
    return pack(">I", len(message)) + message


def encoded_status(status: Document) -> bytes:
    """Returns the body of a metav1.Status, as an event of a watch has it."""
    details = status.get("details") or {}
    causes = [_block(4, _plain(_CAUSE, cause)) for cause in details.get("causes") or ()]
    message = _block(1, _plain(_LIST_META, status.get("metadata") or {})) + _plain(_STATUS, status)
    return _envelope(
        "v1", "Status", message + _block(5, _plain(_DETAILS, details) + b"".join(causes))
    )


def _plain(names: tuple[str, ...], document: Document) -> bytes:
    """Returns the fields of a message that are texts or integers; they are numbered from 1."""
    octets = b""
    for number, name in enumerate(names, 1):
        value = document.get(name)
        if isinstance(value, int):
            octets += _tag(number, _VARINT) + _varint(value)
        elif value and isinstance(value, str):
            octets += _block(number, value.encode())
    return octets


def _envelope(api_version: str, kind: str, message: bytes) -> bytes:
    names = _block(1, api_version.encode()) + _block(2, kind.encode())
    return MAGIC + _block(1, names) + _block(2, message) + _block(3, b"") + _block(4, b"")


def _message(numbers: Numbers, document: Document) -> bytes:
    parts = []
    for number in sorted(numbers):
        target = numbers[number]
        if isinstance(target, dict):  # a message that JSON does not have
            below = _message(target, document)
            if below:
                parts.append(_block(number, below))
            continue
        name, field = target
        value = document.get(name)
        if value is not None:
            parts.append(_field(number, name, field, value))
    return b"".join(parts)


def _field(number: int, name: str, field: Field, value: Any) -> bytes:
    shape = field.shape
    if shape.item is not None:
        return b"".join([_value(number, shape.item, each) for each in value])
    if shape.values is not None:
        entries = sorted(value.items())
        return b"".join(
            [
                _block(number, _block(1, key.encode()) + _value(2, shape.values, each))
                for key, each in entries
            ]
        )
    if name in SCHEMA_OR_BOOL:
        return _block(number, _schema_or_bool(value))
    return _value(number, shape, value)


def _schema_or_bool(value: Document | bool) -> bytes:
    allows = _tag(1, _VARINT) + _varint(value is not False)
    if isinstance(value, bool):
        return allows
    return allows + _block(2, _octets(TYPES["JSONSchemaProps"], value))


def _value(number: int, shape: Shape, value: Any) -> bytes:
    """Returns a field with one value."""
    if shape.name == "float64":
        return _tag(number, _FIXED64) + pack("<d", value)
    if shape.name in ("bool", "int32", "int64"):
        return _tag(number, _VARINT) + _varint(int(value))
    return _block(number, _octets(shape, value))


def _octets(shape: Shape, value: Any) -> bytes:
    if shape.item is not None:  # a list in a map: a message with the items in its field 1
        return b"".join([_value(1, shape.item, each) for each in value])
    if shape.fields is not None:
        return _message(numbers_of(shape), value)
    match shape.name:
        case "bytes":
            return base64.b64decode(value)
        case "quantity":
            return _block(1, str(value).encode())
        case "intstr" if isinstance(value, int):
            return _tag(1, _VARINT) + _varint(0) + _tag(2, _VARINT) + _varint(value)
        case "intstr":
            return _tag(1, _VARINT) + _varint(1) + _block(3, value.encode())
        case "time" | "microtime":
            return _time(value)
        case "any":
            return _block(1, msgspec.json.encode(value))
        case _:
            return str(value).encode()


def _time(text: str) -> bytes:
    moment = datetime.fromisoformat(text)
    whole = moment.replace(microsecond=0)
    octets = _tag(1, _VARINT) + _varint(int(whole.timestamp()))
    return octets + _tag(2, _VARINT) + _varint(moment.microsecond * 1000)


def _block(number: int, octets: bytes) -> bytes:
    return _tag(number, _BYTES) + _varint(len(octets)) + octets


def _tag(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _varint(value: int) -> bytes:
    """Returns an integer of 64 bits, a negative one as two's complement."""
    value &= (1 << 64) - 1
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)
