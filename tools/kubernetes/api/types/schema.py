"""The types of the served kinds: the names and types of fields, and how lists are merged.

types.txt defines them; it is compiled once into shapes, and a walk compares a document with its
shape. A field that its kind does not have is an unknown field. A value of the wrong type is
refused, as by Kubernetes' decoder. Every message has the words of that decoder.
"""

from __future__ import annotations

import binascii
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from berth.actors.scheduling.kube import quantity

from .document_cache import cached_by_document

SCALARS = frozenset(
    (
        "string",
        "bool",
        "int32",
        "int64",
        "float64",
        "quantity",
        "intstr",
        "time",
        "microtime",
        "bytes",
        "any",
    )
)
_EXACT: dict[str, type] = {"string": str, "bool": bool}
_ZEROS = {"string": "", "bytes": "", "quantity": "0", "bool": False, "int32": 0, "int64": 0}
_JSON = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
_GO = {"time": "string", "microtime": "string", "intstr": "int32", "bytes": "[]uint8"}
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_NO_LINE_ENDS = str.maketrans("", "", "\r\n")
_NESTED = (dict, list)  # the types of JSON values that have parts
# Objects that are a part of others in Go, and not pointers: empty ones are absent.
_EMBEDDED = ("ObjectMeta", "ResourceRequirements", "VolumeResourceRequirements")
_SIX_DIGITS = re.compile(r"\.\d{6}(?!\d)")
_LAYOUTS = {"time": "2006-01-02T15:04:05Z07:00", "microtime": "2006-01-02T15:04:05.000000Z07:00"}
_QUANTITY_RULE = (
    r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)

_VERSIONS = ("since=", "until=")  # the marks that say which versions have a field
_MERGED = "merged="  # the mark that says how server-side apply merges a field
_TEXT = Path(__file__).with_name("types.txt").read_text(encoding="utf-8")

# The most levels of a value of any type. This bounds the depth of a whole object, so that every
# client can read it.
MOST_DEPTH = 100
MOST_ITEMS = 250_000  # of all lists of an object, each of which is validated

# (parent, step), or () at the root; a step is a field, an index or a 1-tuple with a map's key
Path_ = tuple[Any, ...]


class Shape:
    """A type: an object with `fields`, a list of `item`, a map of `values`, or else a scalar.

    The fields are those that `read` returns once somebody asks for them: most programs meet a tenth
    of the types. `recall` returns the findings for a document that many objects have in common,
    cached for equal ones; None for other types.
    """

    __slots__ = ("_read", "api_version", "exact", "fields", "item", "name", "recall", "values")
    fields: dict[str, Field] | None

    def __init__(
        self, name: str, api_version: str = "", read: Callable[[], dict[str, Field]] | None = None
    ) -> None:
        self.name = name
        self.api_version = api_version
        self.exact = _EXACT.get(name)  # a value of this Python type needs no further check
        if read is None:
            self.fields = None
        else:
            self._read = read
        self.item: Shape | None = None
        self.values: Shape | None = None
        self.recall: Callable[[dict[str, Any]], Findings] | None = None

    def __getattr__(self, name: str) -> Any:
        """Reads the fields. Raises ValueError for a type that is not defined."""
        if name != "fields":
            raise AttributeError(name)
        self.fields = self._read()
        return self.fields

    @property
    def go(self) -> str:
        """The name of the type in Go."""
        if self.item is not None:
            return f"[]{self.item.go}"
        if self.values is not None:
            return (
                "v1.ResourceList"
                if self.values.name == "quantity"
                else f"map[string]{self.values.go}"
            )
        return _GO.get(self.name, self.name) if self.fields is None else f"v1.{self.name}"


class Field(NamedTuple):
    """A field of an object. Its merge key is "*" for a list merged by value, None without merging.

    `keeps_zero` is True if an empty string, false or 0 is a value rather than absence. `numbers`
    are the field numbers in protobuf: those of the enclosing messages that JSON does not have, then
    the field's own; () if the message does not have the field. `marks` are the words of its rules,
    which rules/marks.py reads. `merged` says how server-side apply merges the field, if that is not
    by the merge key.
    """

    shape: Shape
    required: bool
    merge_key: str | None
    keeps_zero: bool
    numbers: tuple[int, ...]
    marks: tuple[str, ...] = ()
    merged: str = ""


class Findings(NamedTuple):
    """The result of a walk over a document.

    `unknown` has a message for each unknown field. `mistyped` is the message for the first value of
    a wrong type, or ""; its place is `where`, because the message does not always name it. `nulls`
    is True if there are nulls, not counting nulls inside values of any type.
    """

    unknown: list[str]
    mistyped: str
    where: str = ""
    nulls: bool = False


def compiled(text: str, minor: int | None = None) -> dict[str, Shape]:
    """Returns the object types of this text, by name, with the fields that a minor version has;
    with all fields without one.

    Raises ValueError for a type that is defined twice. A type raises it, once its fields are asked
    for, if one of their types is not defined.
    """
    shapes: dict[str, Shape] = {}
    seen: dict[str, Shape] = {}
    words: list[str] = []
    api_version, has_group = "", True
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if line.startswith("["):
            api_version, *bounds = line.strip("[]").split(",")
            has_group = minor is None or _has(minor, bounds)
        elif not has_group:
            continue
        elif line.startswith(" "):
            words.append(line)
        else:
            name, _, first = line.partition(" ")
            if name in shapes:
                raise ValueError(f"expected each type once, got {name} again")
            words = [first]
            read = partial(_fields_of, words, minor, shapes, seen)
            shapes[name] = Shape(name.rpartition(".")[2], api_version, read)
    return shapes


def _fields_of(
    lines: list[str], minor: int | None, shapes: dict[str, Shape], seen: dict[str, Shape]
) -> dict[str, Field]:
    """Returns the fields of a type, from its lines."""
    fields: dict[str, Field] = {}
    for word, *marks in (word.split(",") for line in lines for word in line.split()):
        if minor is not None and not _has(minor, marks):
            continue
        field, _, notation = word.partition(":")
        notation, _, numbers = notation.partition("=")
        required = notation.endswith("!")
        listed, _, key = notation.strip("*!").partition("|")
        shape = _shape(listed + "]" if key else listed, shapes, seen)
        fields[field] = Field(
            shape,
            required,
            merge_key=key.rstrip("]") or None,
            keeps_zero=required or notation.startswith("*"),
            numbers=tuple(int(number) for number in numbers.split(".")) if numbers else (),
            marks=tuple(mark for mark in marks if not mark.startswith((*_VERSIONS, _MERGED))),
            merged=next((m[len(_MERGED) :] for m in marks if m.startswith(_MERGED)), ""),
        )
    return fields


def _has(minor: int, marks: list[str]) -> bool:
    """True if a minor version has the field with these marks."""
    bounds = dict(mark.split("=1.") for mark in marks if mark.startswith(_VERSIONS))
    return int(bounds.get("since", 0)) <= minor <= int(bounds.get("until", minor))


def _shape(notation: str, shapes: dict[str, Shape], seen: dict[str, Shape]) -> Shape:
    if notation in shapes:
        return shapes[notation]
    if notation not in seen:
        seen[notation] = shape = Shape(notation)
        if notation[0] == "[":
            shape.item = _shape(notation[1:-1], shapes, seen)
        elif notation[0] == "{":
            shape.values = _shape(notation[1:-1], shapes, seen)
        elif notation not in SCALARS:
            raise ValueError(f"expected a type that is defined, got {notation!r}")
    return seen[notation]


def types_of(minor: int | None) -> dict[str, Shape]:
    """Returns the types with the fields that a minor version has; with all fields without one."""
    types = compiled(_TEXT, minor)
    pod_spec = types["PodSpec"]

    @cached_by_document
    def recall(spec: dict[str, Any]) -> Findings:
        walk = _Walk()
        walk.visit(pod_spec, spec, ((), "spec"), "Pod")
        return Findings(walk.unknown, walk.mistyped, walk.where, walk.nulls)

    pod_spec.recall = recall
    return types


TYPES = types_of(None)


def unknown_and_mistyped(
    kind: str, document: dict[str, Any], types: Mapping[str, Shape] | None = None
) -> Findings:
    """Returns the findings of strict decoding. A kind without a known type has none. Without
    `types`, no field of any version is unknown.
    """
    shape = (TYPES if types is None else types).get(kind)
    if shape is None:
        return Findings([], "")
    walk = _Walk()
    walk.visit(shape, document, (), "")
    return Findings(
        walk.unknown,
        walk.mistyped and f"{_cannot_be_handled(shape)}: {walk.mistyped}",
        walk.where,
        walk.nulls,
    )


def replaced(document: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Returns a document without the fields whose values are the same objects as in an earlier
    document.

    After a patch, these are the fields that it does not touch. Items of lists stay in their places.
    """
    news: dict[str, Any] = {}
    for key, value in document.items():
        old = before.get(key)
        if value is old and value is not None:
            continue
        kind = type(value)
        if kind is dict and type(old) is dict:
            news[key] = replaced(value, old)
        elif kind is list and type(old) is list and len(value) == len(old):
            news[key] = [
                replaced(item, was) if type(item) is dict and type(was) is dict else item
                for item, was in zip(value, old, strict=True)
            ]
        else:
            news[key] = value
    return news


def pruned(shape: Shape, value: Any) -> Any:
    """Returns a well-typed value as Kubernetes reads it: without fields that are null or unknown.

    A null in a list or a map is the zero value of its type, or is left out if that is nothing.
    """
    kind = type(value)
    if kind is dict and shape.fields is not None:
        fields = shape.fields
        return {
            key: pruned(fields[key].shape, below) if type(below) in _NESTED else below
            for key, below in value.items()
            if below is not None and key in fields
        }
    if kind is dict and shape.values is not None:
        parts = {key: pruned(shape.values, below) for key, below in value.items()}
        return {key: below for key, below in parts.items() if below is not None}
    if kind is list and shape.item is not None:
        items = (pruned(shape.item, below) for below in value)
        return [below for below in items if below is not None]
    if value is None:
        return {} if shape.fields is not None else _ZEROS.get(shape.name)
    return value


def strict_message(kind: str, unknown: list[str]) -> str:
    """Returns the refusal of a request with fieldValidation=Strict.

    `unknown` has the messages for unknown and duplicate fields.
    """
    return f"{_cannot_be_handled(TYPES[kind])}: strict decoding error: {', '.join(unknown)}"


def _cannot_be_handled(shape: Shape) -> str:
    version = shape.api_version.rpartition("/")[2]
    return f'{shape.name} in version "{version}" cannot be handled as a {shape.name}'


class _Walk:
    """One pass over a document."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.mistyped = ""
        self.where = ""
        self.nulls = False
        self._items = 0

    def visit(self, shape: Shape, value: Any, path: Path_, owner: str) -> None:
        """Compares a value with its shape. Skips nulls, which Kubernetes reads as absent."""
        kind = type(value)
        if shape.fields is not None and kind is dict:
            self._object(shape, shape.fields, value, path)
        elif shape.item is not None and kind is list:
            self._items += len(value)
            if self._items > MOST_ITEMS:
                self._report(f"exceeded max items of {MOST_ITEMS} in lists", path)
                return
            for i, below in enumerate(value):
                self._below(shape.item, below, (path, i), owner)
        elif shape.values is not None and kind is dict:
            for key, below in value.items():
                self._below(shape.values, below, (path, (key,)), owner)
        elif shape.name not in SCALARS:
            self._mistyped(shape, value, path, owner)
        elif shape.name == "any":
            self._report("exceeded max depth" if _is_deep(value) else "", path)
        else:
            self._scalar(shape, value, path, owner)

    def _object(
        self, shape: Shape, fields: dict[str, Field], value: dict[str, Any], path: Path_
    ) -> None:
        for key, below in value.items():
            field = fields.get(key)
            if field is None:
                self.unknown.append(f'unknown field "{_with_indices((path, key))}"')
            elif below is None:
                self.nulls = True
            elif field.shape.exact is type(below):
                pass
            elif field.shape.recall is not None and not path and type(below) is dict:
                self._include(field.shape.recall(below))
            else:
                self.visit(field.shape, below, (path, key), shape.name)

    def _below(self, shape: Shape, value: Any, path: Path_, owner: str) -> None:
        if value is None:
            self.nulls = True
        elif shape.exact is not type(value):
            self.visit(shape, value, path, owner)

    def _include(self, findings: Findings) -> None:
        self.unknown += findings.unknown
        self.nulls = self.nulls or findings.nulls
        if findings.mistyped and not self.mistyped:
            self.mistyped, self.where = findings.mistyped, findings.where

    def _scalar(self, shape: Shape, value: Any, path: Path_, owner: str) -> None:
        kind = type(value)
        match shape.name:
            case "time" | "microtime" if kind is str:
                if _TIME.fullmatch(value) is None:
                    layout = _LAYOUTS[shape.name]
                    self._report(
                        f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"',
                        path,
                    )
                elif shape.name == "microtime" and not _SIX_DIGITS.match(value, 19):
                    layout = _LAYOUTS[shape.name]
                    why = f'cannot parse "{value[19:]}" as ".000000"'
                    self._report(f'parsing time "{value}" as "{layout}": {why}', path)
            case "int32" | "int64" | "intstr":
                bits = 63 if shape.name == "int64" else 31
                fits = kind is int and -(1 << bits) <= value < 1 << bits
                if not fits and not (shape.name == "intstr" and kind is str):
                    self._mistyped(shape, value, path, owner)
            case "float64" if kind in (int, float):
                pass
            case "quantity":
                self._report(_quantity_problem(value), path)
            case "bytes" if kind is str:
                try:
                    # Go's decoder passes over line ends
                    binascii.a2b_base64(value.translate(_NO_LINE_ENDS), strict_mode=True)
                except ValueError:
                    self._report("illegal base64 data at input byte 0", path)
            case _:
                self._mistyped(shape, value, path, owner)

    def _mistyped(self, shape: Shape, value: Any, path: Path_, owner: str) -> None:
        json_type = _JSON.get(type(value), type(value).__name__)
        if json_type == "number" and shape.name in ("int32", "int64", "intstr"):
            json_type = f"number {json.dumps(value)}"
        place = f"struct field {owner}.{'.'.join(_fields(path))}" if owner else "value"
        self._report(f"json: cannot unmarshal {json_type} into Go {place} of type {shape.go}", path)

    def _report(self, problem: str, path: Path_) -> None:
        if problem and not self.mistyped:
            self.mistyped, self.where = problem, _with_indices(path)


def _is_deep(value: Any) -> bool:
    """True if a value of any type is nested more deeply than MOST_DEPTH."""
    level = [value]
    for _ in range(MOST_DEPTH):
        level = [
            b
            for v in level
            if type(v) in (dict, list)
            for b in (v.values() if type(v) is dict else v)
        ]
        if not level:
            return False
    return True


def _quantity_problem(value: Any) -> str:
    if type(value) not in (str, int, float):
        return _QUANTITY_RULE
    try:
        quantity.value(value)
    except ValueError:  # QuantityError, or int() on thousands of digits
        return _QUANTITY_RULE
    return ""


def _fields(path: Path_) -> list[str]:
    """Returns the fields on a path, without indices and map keys, as Go's decoder names a place."""
    names: list[str] = []
    while path:
        path, step = path
        if isinstance(step, str):
            names.append(step)
    return names[::-1]


def _with_indices(path: Path_) -> str:
    text = ""
    while path:
        path, step = path
        if isinstance(step, int):
            text = f"[{step}]{text}"
        else:
            name = step[0] if isinstance(step, tuple) else step
            text = f".{name}{text}"
    return text.removeprefix(".")


def duplicate_fields(body: bytes) -> list[str]:
    """Returns a message for each field that an object in the JSON text has twice; none if the text
    is not JSON, but YAML in braces.
    """
    repeated: list[tuple[dict[str, Any], list[str]]] = []

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        document = dict(pairs)
        if len(document) != len(pairs):
            times = Counter(name for name, _ in pairs)
            repeated.append((document, [name for name in document if times[name] > 1]))
        return document

    try:
        root = json.loads(body, object_pairs_hook=object_of)
    except ValueError:
        return []
    messages: list[str] = []
    if repeated:
        names_of = {id(document): names for document, names in repeated}
        _duplicates(root, (), names_of, messages)
    return messages


def _duplicates(
    value: Any, path: Path_, names_of: dict[int, list[str]], messages: list[str]
) -> None:
    if isinstance(value, dict):
        messages.extend(
            f'duplicate field "{_with_indices((path, name))}"'
            for name in names_of.get(id(value), ())
        )
        for key, below in value.items():
            _duplicates(below, (path, key), names_of, messages)
    elif isinstance(value, list):
        for i, below in enumerate(value):
            _duplicates(below, (path, i), names_of, messages)


def canonical(shape: Shape, value: Any) -> Any:
    """Returns a value without absent and empty parts, and with quantities as numbers.

    Two values are equal in this form if Kubernetes treats them as equal.
    """
    if shape.fields is not None and isinstance(value, dict):
        fields = shape.fields
        pairs = ((key, fields.get(key), below) for key, below in value.items())
        return {
            key: below if field is None else canonical(field.shape, below)
            for key, field, below in pairs
            if below is not None and (field is None or not _is_absent(field, below))
        }
    if shape.item is not None and isinstance(value, list):
        return [canonical(shape.item, below) for below in value]
    if shape.values is not None and isinstance(value, dict):
        return {key: canonical(shape.values, below) for key, below in value.items()}
    return quantity.nano_value(value) if shape.name == "quantity" and value is not None else value


def _is_absent(field: Field, value: Any) -> bool:
    """True if Kubernetes treats this value of a field as absent."""
    if value in ({}, []):
        return field.shape.fields is None or field.shape.name in _EMBEDDED
    return not field.keeps_zero and value in ("", 0)  # also False


def same(name: str, left: Any, right: Any, field: str = "") -> bool:
    """True if Kubernetes treats two values of a type, or of a field of it, as equal."""
    if left == right:
        return True
    shape = TYPES[name]
    if field:
        shape = (shape.fields or {})[field].shape
    return bool(canonical(shape, left) == canonical(shape, right))
