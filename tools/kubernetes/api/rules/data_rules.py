"""Rules for ConfigMaps and Secrets: their keys, their size, and the fields that a type of Secret
requires.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Iterator

from .fields import Document, forbidden, invalid, required, too_long, unchanged
from .value_forms import config_key_messages

_PEM = b"-----BEGIN "

MOST_BYTES = 1 << 20
_ACCOUNT = "kubernetes.io/service-account.name"
_HIDDEN = "<secret contents redacted>"
_JSON = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}


def config_map(document: Document, before: Document | None) -> Iterator[str]:
    data, binary = document.get("data") or {}, document.get("binaryData") or {}
    yield from _keys("data", data)
    yield from _keys("binaryData", binary)
    yield from (
        invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        for key in data
        if key in binary
    )
    size = sum(len((value or "").encode()) for value in data.values())
    if size + _size_in_bytes(binary) > MOST_BYTES:
        yield too_long("[]", MOST_BYTES)
    yield from _immutable_data(document, before, ("data", "binaryData"))


def secret(document: Document, before: Document | None) -> Iterator[str]:
    text = document.get("stringData") or {}
    encoded = {key: _base64(value or "") for key, value in text.items()}
    data = {**(document.get("data") or {}), **encoded}
    if before is not None:
        yield from unchanged("type", _type(document), _type(before))
    yield from _keys("data", data)
    if _size_in_bytes(data) > MOST_BYTES:
        yield too_long("data", MOST_BYTES)
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    yield from _type_problems(_type(document), data, annotations)
    yield from _immutable_data(document, before, ("data",))


def _type(document: Document) -> str:
    return str(document.get("type") or "Opaque")


def _type_problems(type_: str, data: Document, annotations: Document) -> list[str]:
    """Returns the problems of the fields that the type of a Secret requires."""
    match type_:
        case "kubernetes.io/service-account-token":
            missing = not annotations.get(_ACCOUNT)
            return [required(f"metadata.annotations[{_ACCOUNT}]")] if missing else []
        case "kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson":
            return _json(_JSON[type_], data)
        case "kubernetes.io/basic-auth":
            needed = ("username", "password")
            return [] if data.keys() & {*needed} else [required(f"data[{key}]") for key in needed]
        case "kubernetes.io/ssh-auth":
            key = "ssh-privatekey"
            return [] if data.get(key) else [required(f"data[{key}]")]
        case "kubernetes.io/tls":
            needed = ("tls.crt", "tls.key")
            return [required(f"data[{key}]") for key in needed if key not in data]
        case _:
            return []


def _json(key: str, data: Document) -> list[str]:
    """Checks that a value is a JSON object."""
    if key not in data:
        return [required(f"data[{key}]")]
    place = f"data[{key}]"
    try:
        text = binascii.a2b_base64(data[key] or "").decode(errors="replace")
        value = json.loads(text)
    except (ValueError, RecursionError):
        return [invalid(place, _HIDDEN, _syntax_problem(text))]
    if isinstance(value, dict) or value is None:
        return []
    kinds = {str: "string", bool: "bool", list: "array"}
    kind = kinds.get(type(value), "number")
    detail = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
    return [invalid(place, _HIDDEN, detail)]


def _syntax_problem(text: str) -> str:
    """Returns the message of Go's decoder about the beginning of a text that is not JSON."""
    begun = text.lstrip(" \t\r\n")
    if not begun:
        return "unexpected end of JSON input"
    if begun[0] not in '{["tfn-0123456789':
        return f"invalid character {_quoted(begun[0])} looking for beginning of value"
    return "unexpected end of JSON input"


def _quoted(character: str) -> str:
    escaped = {"'": r"'\''", '"': "'\"'"}
    return escaped.get(character, f"'{character}'")


def _keys(field: str, pairs: Document) -> list[str]:
    return [
        invalid(f"{field}[{key}]", key, message)
        for key in pairs
        for message in config_key_messages(key)
    ]


def _base64(text: str) -> str:
    return binascii.b2a_base64(text.encode(), newline=False).decode()


def _size_in_bytes(pairs: Document) -> int:
    """Returns the number of bytes that the base64 values stand for."""
    values = [value for value in pairs.values() if value]
    return sum(len(value) * 3 // 4 - value[-2:].count("=") for value in values)


def _immutable_data(
    document: Document, before: Document | None, fields: tuple[str, ...]
) -> Iterator[str]:
    """Checks that an immutable object keeps its data, and stays immutable."""
    if before is None or not before.get("immutable"):
        return
    detail = "field is immutable when `immutable` is set"
    if not document.get("immutable"):
        yield forbidden("immutable", detail)
    yield from (
        forbidden(field, detail)
        for field in fields
        if (document.get(field) or {}) != (before.get(field) or {})
    )


def secret_warnings(secret: Document) -> Iterator[str]:
    """Warns of a TLS secret without a certificate or without a key."""
    if secret.get("type") != "kubernetes.io/tls":
        return
    data = secret.get("data") or {}
    for key, what in (("tls.crt", "certificate"), ("tls.key", "key")):
        if _PEM not in b64decode(data.get(key) or ""):
            yield f"tls: failed to find any PEM data in {what} input"
            return
