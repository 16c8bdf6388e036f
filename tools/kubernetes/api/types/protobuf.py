"""Decodes bodies of application/vnd.kubernetes.protobuf, which kubectl's typed clients send.

Turns such a body into the JSON form of its object; nothing here writes protobuf. Mirrors
runtime.Unknown, the envelope after four magic bytes that names a kind, and Kubernetes' generated
messages, whose field numbers are in types.txt. Go writes every field that is not a pointer, so a
zero means absence unless types.txt says otherwise. Unknown fields are skipped, as in Kubernetes.
For any bytes, the result is a document, or it raises RefusedError.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from struct import unpack
from typing import Any, NamedTuple

import msgspec

from berth.actors.scheduling.kube.times import micro_time, rfc3339

from .api_documents import PROTOBUF, Document, RefusedError
from .resources import BY_KIND, ON_REQUEST
from .schema import TYPES, Field, Shape

MAGIC = b"k8s\x00"

_VARINT, _FIXED64, _BYTES, _GROUP, _GROUP_END, _FIXED32 = range(6)  # the wire types
# All other fields are _BYTES.
_WIRES = {"bool": _VARINT, "int32": _VARINT, "int64": _VARINT, "float64": _FIXED64}
# The fields of a schema that are a schema or a bool; in a message, both.
SCHEMA_OR_BOOL = ("additionalItems", "additionalProperties")
_ZEROS = frozenset(("string", "bool", "int32", "int64", "intstr"))  # their zero may mean absence
_VARINT_BYTES = 10
_NUMBERS = 1 << 29
_OLDER = {(kind.api_version, kind.kind): kind for kind in ON_REQUEST}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# The fields of a message by number. Numbers stands for a nested message that JSON does not have:
# its fields belong to the outer object.
Numbers = dict[int, "tuple[str, Field] | Numbers"]


class _MalformedError(ValueError):
    """The bytes are not a valid message; the text says why."""


class _Record(NamedTuple):
    """A field on the wire: an integer if it is a _VARINT, else octets."""

    number: int
    wire: int
    integer: int = 0
    octets: bytes = b""


def decoded(body: bytes) -> Document:
    """Returns the JSON form of the object in a body. Raises RefusedError with 400."""
    try:
        return _document(body)
    except (_MalformedError, UnicodeDecodeError, msgspec.DecodeError, RecursionError) as problem:
        raise RefusedError(
            400, "BadRequest", f"the body cannot be read as protobuf: {problem}"
        ) from None


def _document(body: bytes) -> Document:
    if not body.startswith(MAGIC):
        raise _MalformedError(f"expected it to begin with {MAGIC!r}, got {body[: len(MAGIC)]!r}")
    type_meta, raw, encoding, form = _flat(body[len(MAGIC) :], _BYTES, _BYTES, _BYTES, _BYTES)
    if encoding.octets or form.octets not in (b"", PROTOBUF.encode()):
        raise _MalformedError(
            f"expected plain protobuf inside, got {form.octets!r} encoded as {encoding.octets!r}"
        )
    api_version, kind = (
        record.octets.decode() for record in _flat(type_meta.octets, _BYTES, _BYTES)
    )
    document: Document = {"apiVersion": api_version, "kind": kind}
    _fill(document, numbers_of(_shape_of(api_version, kind)), raw.octets)
    return document


def _shape_of(api_version: str, kind: str) -> Shape:
    """Returns the type of a kind. Types of the group meta belong to every group."""
    served = BY_KIND.get((api_version, kind)) or _OLDER.get((api_version, kind))
    shape = TYPES.get(kind if served is None else served.type_name)
    if shape is not None and shape.api_version.removeprefix("core/") in (api_version, "meta/v1"):
        own = (shape.fields or {}).get("apiVersion")
        if own is not None and not own.numbers:  # only a kind has its apiVersion in the envelope
            return shape
    raise _MalformedError(f'no kind "{kind}" is registered for version "{api_version}"')


@cache
def numbers_of(shape: Shape) -> Numbers:
    numbers: Numbers = {}
    for name, field in (shape.fields or {}).items():
        if field.numbers:
            *around, number = field.numbers
            place = numbers
            for outer in around:
                below = place.setdefault(outer, {})
                assert isinstance(below, dict), f"{shape.name}: {outer} is the number of two things"
                place = below
            place[number] = (name, field)
    return numbers


def _fill(document: Document, numbers: Numbers, data: bytes) -> None:
    """Adds the fields of a message to a document.

    A field that occurs again is merged, or replaced if it is a scalar.
    """
    for record in _records(data):
        target = numbers.get(record.number)
        if isinstance(target, dict):
            _fill(document, target, _expected(record, _BYTES).octets)
        elif target is not None:
            _put(document, *target, record)


def _put(document: Document, name: str, field: Field, record: _Record) -> None:
    shape = field.shape
    if shape.item is not None:
        document.setdefault(name, []).extend(_items(shape.item, record))
    elif shape.values is not None:
        entry = _expected(record, _BYTES).octets
        key, value = _flat(entry, _BYTES, _WIRES.get(shape.values.name, _BYTES))
        document.setdefault(name, {})[key.octets.decode()] = _value(shape.values, value)
    elif shape.fields is not None:
        _fill(document.setdefault(name, {}), numbers_of(shape), _expected(record, _BYTES).octets)
    elif name in SCHEMA_OR_BOOL:
        document[name] = _schema_or_bool(_expected(record, _BYTES).octets)
    else:
        value = _value(shape, record)
        if value is None or (not value and shape.name in _ZEROS and not field.keeps_zero):
            document.pop(name, None)
        else:
            document[name] = value


def _schema_or_bool(octets: bytes) -> Document | bool:
    is_allowed = False
    for record in _records(octets):
        if record.number == 2:
            schema: Document = _value(TYPES["JSONSchemaProps"], record)
            return schema
        if record.number == 1:
            is_allowed = _expected(record, _VARINT).integer != 0
    return is_allowed


def _items(shape: Shape, record: _Record) -> list[Any]:
    """Returns the items that a field adds to a list: one item, or several packed numbers."""
    if record.wire != _BYTES or _WIRES.get(shape.name) != _VARINT:
        return [_value(shape, record)]
    items: list[Any] = []
    at = 0
    while at < len(record.octets):
        integer, at = _varint(record.octets, at)
        items.append(_value(shape, _Record(record.number, _VARINT, integer)))
    return items


def _value(shape: Shape, record: _Record) -> Any:
    """Returns a value in its JSON form; None for the zero time and for raw JSON of no bytes."""
    octets = _expected(record, _WIRES.get(shape.name, _BYTES)).octets
    if shape.item is not None:  # a list in a map: a message with the items in its field 1
        return [
            item
            for below in _records(octets)
            if below.number == 1
            for item in _items(shape.item, below)
        ]
    if shape.fields is not None:
        document: Document = {}
        _fill(document, numbers_of(shape), octets)
        return document
    match shape.name:
        case "string":
            return octets.decode()
        case "bool":
            return record.integer != 0
        case "int32":
            return _signed(record.integer, 32)
        case "int64":
            return _signed(record.integer, 64)
        case "float64":
            value: float = unpack("<d", octets)[0]
            return int(value) if value.is_integer() else value
        case "bytes":
            return base64.b64encode(octets).decode()
        case "quantity":
            (text,) = _flat(octets, _BYTES)
            return text.octets.decode() or "0"
        case "intstr":
            is_text, number, text = _flat(octets, _VARINT, _VARINT, _BYTES)
            return text.octets.decode() if is_text.integer else _signed(number.integer, 32)
        case "time" | "microtime":
            return _time(octets, micro=shape.name == "microtime") if octets else None
        case "any":
            (raw,) = _flat(octets, _BYTES)
            return msgspec.json.decode(raw.octets) if raw.octets else None
        case other:
            raise _MalformedError(
                f"field {record.number} is of type {other}, which no message here has"
            )


def _time(octets: bytes, *, micro: bool) -> str:
    """Returns a time with whole seconds, as in JSON; only a MicroTime has fractions."""
    seconds, nanos = _flat(octets, _VARINT, _VARINT)
    more = _signed(nanos.integer, 32) // 1000 if micro else 0
    try:
        moment = _EPOCH + timedelta(seconds=_signed(seconds.integer, 64), microseconds=more)
    except OverflowError:
        raise _MalformedError("a time is outside of the years 1 to 9999") from None
    return (micro_time if micro else rfc3339)(moment)


def _flat(data: bytes, *wires: int) -> list[_Record]:
    """Returns the fields 1, 2, ... of a message, given their wire types.

    A field that occurs several times has its last value; an absent field is zero.
    """
    fields = [_Record(number, wire) for number, wire in enumerate(wires, 1)]
    for record in _records(data):
        if record.number <= len(wires):
            fields[record.number - 1] = _expected(record, wires[record.number - 1])
    return fields


def _expected(record: _Record, wire: int) -> _Record:
    if record.wire != wire:
        raise _MalformedError(
            f"expected wire type {wire} for field {record.number}, got {record.wire}"
        )
    return record


def _records(data: bytes) -> Iterator[_Record]:
    """Yields the fields of a message. Groups are skipped: no message of Kubernetes has any."""
    at = 0
    groups: list[int] = []
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if not 0 < number < _NUMBERS:
            raise _MalformedError(f"{number} is not a field number")
        integer, size = 0, 0
        if wire == _VARINT:
            integer, at = _varint(data, at)
        elif wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        elif wire == _GROUP:
            groups.append(number)
            continue
        elif wire == _GROUP_END and groups and groups[-1] == number:
            groups.pop()
            continue
        else:
            raise _MalformedError(f"unexpected wire type {wire} of field {number}")
        if size > len(data) - at:
            raise _MalformedError(
                f"field {number} ends {size - len(data) + at} bytes after its message"
            )
        if not groups:
            yield _Record(number, wire, integer, data[at : at + size])
        at += size
    if groups:
        raise _MalformedError(f"the group {groups[-1]} has no end")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns an unsigned integer of 64 bits and the index at which it ends."""
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1
    value = 0
    for i, byte in enumerate(data[at : at + _VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return value & (1 << 64) - 1, at + i + 1
    raise _MalformedError("a number has no end")


def _signed(value: int, bits: int) -> int:
    """Returns the lowest bits as two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
