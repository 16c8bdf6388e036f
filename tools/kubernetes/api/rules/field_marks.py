"""The rules for single fields, which types.txt marks, and the walk that applies them to a document.

The head of types.txt lists the marks. A type may also have a rule across its fields: a function of
a path and a value. A walk visits a document as its types prescribe, and returns the problems of
all marks and rules, wherever a type occurs. It enters only types below which there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from ..types.document_cache import cached_by_document
from ..types.schema import TYPES, Field, Shape, canonical
from .fields import (
    Document,
    between,
    duplicate,
    invalid,
    least,
    required,
    too_long,
    too_many,
    unsupported,
)
from .value_forms import FORMS

Check = Callable[[str, Any], Iterable[str]]
Rule = Callable[[str, Document], Iterable[str]]

_WORDS = frozenset(
    (
        "required",
        "always",
        "immutable",
        "mutable",
        "unchecked",
        "unindexed",
        "inline",
        "whole",
    )
)
_OF_LISTS = frozenset(("unique", "max-items"))
# Objects that are no pointers in Go: one that is absent is empty.
_EMBEDDED = frozenset(("spec", "template", "jobTemplate"))
_RECALLED = frozenset(("PodTemplateSpec",))
_ROOT = "@"
_ZEROS: dict[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0, "intstr": 0}


class _Marked(NamedTuple):
    """A field that has rules, or whose parts have rules.

    `zero` is the value that Kubernetes does not tell from none, None if there is no such value.
    `missing` is the value that is checked if there is none; None if nothing is checked then.
    """

    path: str  # the field's name in messages
    shape: Shape
    words: frozenset[str]
    zero: Any
    missing: Any
    has_empty: bool  # a list or a map, or an optional port: if it is empty, it has no value
    is_optional: bool  # nothing is checked if there is no value
    even_if_empty: tuple[Check, ...]  # marks before `required`: an empty value is checked too
    checks: tuple[Check, ...]
    of_items: tuple[Check, ...]
    below: _Type | None


class _Type(NamedTuple):
    """The fields of a type that have rules, and the rule across its fields.

    `recalled` returns the problems of a document of a type that is met again and again, with the
    path _ROOT; None for other types.
    """

    fields: dict[str, _Marked]
    across: Rule | None
    recalled: Callable[[Document], list[str]] | None = None


class Marks:
    """The rules of all types: those that types.txt marks on fields, and by type those across
    several fields.
    """

    def __init__(self, across: Mapping[str, Rule]) -> None:
        unknown = across.keys() - TYPES.keys()
        if unknown:
            raise ValueError(f"expected rules of types that are defined, got {sorted(unknown)}")
        self._across = across
        self._names = {id(shape): name for name, shape in TYPES.items()}
        self._types: dict[int, _Type | None] = {}

    def problems(
        self, name: str, path: str, document: Document, before: Document | None = None
    ) -> list[str]:
        """Returns the problems of a document of this type; `before` is its earlier state."""
        type_ = self._type(TYPES[name])
        problems: list[str] = []
        if type_ is not None:
            _visit(type_, path, document, before, problems)
        return problems

    def _type(self, shape: Shape) -> _Type | None:
        if id(shape) not in self._types:
            self._types[id(shape)] = None  # a type that has itself below it has no rules there
            self._types[id(shape)] = self._compiled(shape)
        return self._types[id(shape)]

    def _compiled(self, shape: Shape) -> _Type | None:
        fields = {
            name: marked
            for name, field in (shape.fields or {}).items()
            if (marked := self._marked(name, field)) is not None
        }
        name = self._names.get(id(shape), "")
        type_ = _Type(fields, self._across.get(name))
        if name in _RECALLED:
            return type_._replace(recalled=cached_by_document(partial(_problems, type_)))
        return type_ if fields or type_.across else None

    def _marked(self, name: str, field: Field) -> _Marked | None:
        words = frozenset(mark for mark in field.marks if mark in _WORDS)
        shape = field.shape
        inner = shape.item or shape.values or shape
        # a status is checked where it is written; see status_problems
        skips = "unchecked" in words or name == "status" or inner.fields is None
        below = None if skips else self._type(inner)
        if not field.marks and below is None:
            return None
        renamed = [mark.partition("=")[2] for mark in field.marks if mark.startswith("as=")]
        checks: list[Check] = []
        even_if_empty: list[Check] = []
        of_items: list[Check] = []
        for mark in field.marks:
            word = mark.partition("=")[0]
            if word == "required":
                even_if_empty, checks = checks, []
            elif word not in _WORDS and word != "as":
                of_list = shape.item is None or word in _OF_LISTS
                (checks if of_list else of_items).append(_check(mark))
        zero = _ZEROS.get(shape.name)
        is_embedded = name in _EMBEDDED and below is not None and "required" not in words
        return _Marked(
            renamed[0] if renamed else name,
            shape,
            words,
            None if field.keeps_zero and not field.required else zero,
            {} if is_embedded else zero if field.required or "always" in words else None,
            inner is not shape or (shape.name == "intstr" and not field.keeps_zero),
            not is_embedded and not field.required and not words & {"always", "required"},
            tuple(even_if_empty),
            tuple(checks),
            tuple(of_items),
            below,
        )


def _check(mark: str) -> Check:
    word, _, argument = mark.partition("=")
    match word:
        case "enum":
            choices = tuple(argument.split("|"))
            return partial(_one_of, choices)
        case "range":
            low, high = argument.split("..")
            return partial(between, low=int(low), high=int(high))
        case "min":
            return partial(least, low=int(argument))
        case "form":
            return FORMS[argument]
        case "max-bytes":
            return partial(_too_long_value, int(argument))
        case "max-items":
            return partial(_too_many_items, int(argument))
        case "unique":
            return partial(_unique, argument)
        case _:
            raise ValueError(f"expected a mark that is defined, got {mark!r}")


def _one_of(choices: tuple[str, ...], path: str, value: Any) -> list[str]:
    return [] if value in choices else [unsupported(path, value, choices)]


def _too_long_value(most: int, path: str, value: Any) -> list[str]:
    return [too_long(path, most)] if len(value.encode()) > most else []


def _too_many_items(most: int, path: str, value: Any) -> list[str]:
    return [too_many(path, len(value), most)] if len(value) > most else []


def _unique(key: str, path: str, items: list[Any]) -> list[str]:
    """Checks that no item occurs twice, or no value of the items' field `key`."""
    if len(items) < 2:
        return []
    problems: list[str] = []
    seen: set[Any] = set()
    suffix = f".{key}" if key else ""
    for i, item in enumerate(items):
        value = item.get(key) if key else item
        if value in seen:
            problems.append(duplicate(f"{path}[{i}]{suffix}", value))
        elif value:
            seen.add(value)
    return problems


def _problems(type_: _Type, value: Document) -> list[str]:
    problems: list[str] = []
    _visit(type_, _ROOT, value, None, problems)
    return problems


def _visit(
    type_: _Type, path: str, value: Document, before: Document | None, problems: list[str]
) -> None:
    if type_.recalled is not None:
        problems += [f"{path}{problem.removeprefix(_ROOT)}" for problem in type_.recalled(value)]
        return
    for name, marked in type_.fields.items():
        item = value.get(name)
        if item is None and marked.is_optional and before is None:
            continue
        was = None if before is None else before.get(name)
        _field(marked, path, item, was, problems, changes=before is not None)
    if type_.across is not None:
        problems += type_.across(path, value)


def _field(
    marked: _Marked, path: str, item: Any, was: Any, problems: list[str], *, changes: bool
) -> None:
    words = marked.words
    if "unindexed" in words:
        path = path.rpartition("[")[0]
    place = f"{path}.{marked.path}" if path else marked.path
    if changes and "immutable" in words and not _same(marked.shape, item, was):
        problems.append(invalid(place, item, "field is immutable"))
    if item is None or item == marked.zero or (item in ("", [], {}) and marked.has_empty):
        if "required" in words:
            problems.append(required(place))
            if marked.missing is not None:
                for check in marked.even_if_empty:
                    problems += check(place, marked.missing)
            return
        item = marked.missing
        if item is None:
            return
    for check in marked.even_if_empty:
        problems += check(place, item)
    for check in marked.checks:
        problems += check(place, item)
    if type(item) is list:
        if marked.of_items or marked.below is not None:
            _items(marked, path, place, item, problems)
    elif marked.below is not None:
        if marked.shape.values is None:
            earlier = None if "mutable" in words or not changes else was
            _visit(marked.below, place, item, earlier, problems)
        else:
            for key, below in item.items():
                _visit(marked.below, f"{place}[{key}]", below, None, problems)


def _items(marked: _Marked, path: str, place: str, items: list[Any], problems: list[str]) -> None:
    below = marked.below
    for i, item in enumerate(items):
        at = path if "inline" in marked.words else f"{place}[{i}]"
        for check in marked.of_items:
            problems += check(place if "whole" in marked.words else at, item)
        if below is not None and item is not None:
            _visit(below, at, item, None, problems)


def _same(shape: Shape, left: Any, right: Any) -> bool:
    return bool(left == right or canonical(shape, left) == canonical(shape, right))
