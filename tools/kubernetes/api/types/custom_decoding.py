"""What is left of a custom object when it is read: without unknown fields, with its defaults.

Mirrors the packages pruning, defaulting and objectmeta of k8s.io/apiextensions-apiserver. A
document is never changed in place; a part in which nothing changes stays the same object.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from .api_documents import Document
from .schema import TYPES, Findings, pruned, unknown_and_mistyped
from .structural import NOTHING, Structural


class Decoded(NamedTuple):
    """A custom object as it was read. `unknown` has the paths of the fields that were left out,
    `problem` why it cannot be read; "" if it can.
    """

    document: Document
    unknown: list[str]
    problem: str


_META = ("apiVersion", "kind", "metadata")
_EMPTY = Structural({})


def _printed(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def decoded(document: Document, schema: Structural) -> Decoded:
    """Reads a custom object: gives it its defaults and leaves out what its schema does not know."""
    document, unknown = without_unknown(with_defaults(document, schema), schema)
    metadata = Metadata()
    document = metadata.read(document, schema)
    return Decoded(document, sorted((*unknown, *metadata.unknown)), metadata.problem)


def with_defaults(value: Any, schema: Structural | None) -> Any:
    """Returns a value with the defaults of its schema, and without nulls that it does not allow."""
    if schema is None or type(value) not in (dict, list):
        return value
    if type(value) is list:
        items = [_item(each, schema.item) for each in value]
        return items if _differs(items, value) else value
    filled: Document = {}
    for name, each in value.items():
        below = schema.field(name)
        if each is None and below is not None and not below.is_nullable:
            if below.default is not NOTHING:
                filled[name] = with_defaults(below.default, below)
        else:
            filled[name] = with_defaults(each, below)
    for name, below in schema.fields.items():
        if name not in filled and below.default is not NOTHING and below.default is not None:
            filled[name] = with_defaults(below.default, below)
    same = len(filled) == len(value) and all(filled.get(n, filled) is e for n, e in value.items())
    return value if same else filled


def _item(value: Any, schema: Structural | None) -> Any:
    if value is None and schema is not None and not schema.is_nullable:
        value = None if schema.default is NOTHING else schema.default
    return with_defaults(value, schema)


def _differs(left: list[Any], right: list[Any]) -> bool:
    return any(one is not other for one, other in zip(left, right, strict=True))


def without_unknown(document: Document, schema: Structural | None) -> tuple[Document, list[str]]:
    """Returns a custom object without the fields that its schema does not name, and their paths.

    Metadata is left as it is.
    """
    pruning = _Pruning()
    kept: Document = pruning.of(document, schema or _EMPTY, "", is_root=True)
    return kept, sorted(pruning.unknown)


class _Pruning:
    def __init__(self) -> None:
        self.unknown: list[str] = []

    def of(self, value: Any, schema: Structural | None, path: str, *, is_root: bool = False) -> Any:
        """Returns the value without unknown fields; without a schema, without all fields."""
        keeps = schema is not None and schema.keeps_unknown
        if type(value) is list:
            item = schema.item if schema is not None else None
            if keeps and item is None:
                return value
            items = [self.of(each, item, f"{path}[{i}]") for i, each in enumerate(value)]
            return items if _differs(items, value) else value
        if type(value) is not dict:
            return value
        kept: Document = {}
        is_embedded = is_root or (schema is not None and schema.is_embedded)
        for name, each in value.items():
            if is_embedded and name in _META:
                kept[name] = each
                continue
            place = f"{path}.{name}" if path else name
            below = schema.fields.get(name) if schema is not None else None
            if below is not None:
                kept[name] = self.of(each, below, place)
            elif schema is not None and schema.is_map:
                kept[name] = self.of(each, schema.values, place)
            elif keeps:
                kept[name] = each
            else:
                self.unknown.append(place)
        same = len(kept) == len(value) and all(kept.get(n, kept) is e for n, e in value.items())
        return value if same else kept


class Metadata:
    """Reads the metadata of a custom object and of the resources embedded in it.

    `unknown` has the paths of fields that metadata does not have, `problem` the first part of a
    wrong type, as a field error; "" if there is none.
    """

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.problem = ""

    def read(self, document: Document, schema: Structural | None) -> Document:
        """Returns the object with metadata as Kubernetes reads it."""
        read: Document = self._of(document, schema or _EMPTY, "", is_root=True)
        return read

    def _of(
        self, value: Any, schema: Structural | None, path: str, *, is_root: bool = False
    ) -> Any:
        if schema is None or type(value) not in (dict, list):
            return value
        if type(value) is list:
            items = [self._of(each, schema.item, f"{path}[{i}]") for i, each in enumerate(value)]
            return items if _differs(items, value) else value
        read: Document = {}
        for name, each in value.items():
            place = f"{path}.{name}" if path else name
            if (is_root or schema.is_embedded) and name in _META:
                read[name] = self._meta(name, each, place)
            else:
                read[name] = self._of(each, schema.field(name), place)
        return value if all(read[n] is e for n, e in value.items()) else read

    def _meta(self, name: str, value: Any, path: str) -> Any:
        if name != "metadata":
            if not isinstance(value, str):
                self._report(f"{path}: Invalid value: {_printed(value)}: must be a string")
            return value
        if value is None:
            return {}
        if type(value) is not dict:
            json_type = {str: "string", list: "array", bool: "bool"}.get(type(value), "number")
            why = f"json: cannot unmarshal {json_type} into Go value of type v1.ObjectMeta"
            self._report(f"{path}: Invalid value: {_printed(value)}: {why}")
            return value
        findings = unknown_and_mistyped("ObjectMeta", value)
        self.unknown += [f"{path}.{field}" for field in _fields_of(findings)]
        if findings.mistyped:
            why = findings.mistyped.partition(": ")[2]
            is_root = path == "metadata"
            self._report(why if is_root else f"{path}: Invalid value: {_printed(value)}: {why}")
            return value
        if findings.nulls or findings.unknown:
            return pruned(TYPES["ObjectMeta"], value)
        return value

    def _report(self, problem: str) -> None:
        self.problem = self.problem or problem


def _fields_of(findings: Findings) -> list[str]:
    return [
        message.removeprefix('unknown field "').removesuffix('"') for message in findings.unknown
    ]
