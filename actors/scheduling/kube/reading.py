"""Decodes the objects that the API server sends, even with nulls or invalid parts. Pure.

For nearly every object, one msgspec decode is enough. Only if that fails are the values normalized
by their types, as Go decodes them: a field that is null counts as absent, and a null in a list or a
map becomes the zero value of its type. If decoding fails again, the object cannot be read;
`readable_part` returns what can be read of it.

A type can name the function that parses its values later, as `Annotated[str, ReadBy(function)]`. A
value for which that function raises ValueError is rejected here, so that later users of the value
need not handle the error.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, Union, cast, get_args, get_origin

import msgspec

from .meta import own

T = TypeVar("T")
# The errors of reading: msgspec's own (UnreadableError is one), UnicodeDecodeError for text
# that is not UTF-8, and RecursionError for JSON that is nested too deeply.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_MAPS = (Mapping, dict)  # a dict in the Struct of a plugin's own kind
_INVALID = object()  # stands for a value that cannot be read
_ZEROS: dict[Any, Any] = {str: "", int: 0, float: 0.0, bool: False}


class ReadBy(NamedTuple):
    """An annotation of a type: the function that parses its values, or raises ValueError."""

    function: Callable[[Any], object]


class UnreadableError(msgspec.ValidationError):
    """A value of the right type that cannot be parsed; the message begins with the path."""


class Reader(Generic[T]):
    """A reader of JSON for a type, usually a kind of object; numbers may be written as strings.

    `path` is the place of the values in an object, if they are part of one.
    """

    def __init__(self, kind: type[T], path: str = "") -> None:
        self._kind = kind
        self._path = path
        self._type = cast("Hashable", kind)
        self._decoder: msgspec.json.Decoder[T] = _decoder_of(self._type)
        self._check = _check_of(self._type)

    def read(self, raw: bytes | msgspec.Raw) -> T:
        """Decodes and checks a value. Raises the errors in UNREADABLE."""
        value = self.decode(raw)
        self.check(value)
        return value

    def decode(self, raw: bytes | msgspec.Raw) -> T:
        """Decodes a value without checking it. Raises the errors in UNREADABLE."""
        try:
            return self._decoder.decode(raw)
        except msgspec.ValidationError:
            return self._converted(msgspec.json.decode(raw))

    def convert(self, document: object) -> T:
        """Decodes and checks a decoded JSON value. Raises msgspec.ValidationError."""
        try:
            value = msgspec.convert(document, self._kind, strict=False)
        except msgspec.ValidationError:
            value = self._converted(document)
        self.check(value)
        return value

    def check(self, value: T) -> None:
        """Raises UnreadableError if a part of the value cannot be parsed."""
        if self._check is not None:
            try:
                self._check(value)
            except ValueError as problem:
                raise UnreadableError(f"{self._path}{problem}".removeprefix(".")) from None

    def readable_part(self, raw: bytes | msgspec.Raw) -> T | None:
        """Returns the readable part of a value, or None if nothing can be read."""
        try:
            values = msgspec.json.decode(bytes(raw).decode(errors="replace"))
            return self._converted(values, lenient=True)
        except UNREADABLE:
            return None

    def _converted(self, values: object, *, lenient: bool = False) -> T:
        return msgspec.convert(
            _normalizer(self._type, lenient=lenient)(values), self._kind, strict=False
        )


@cache
def _decoder_of(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, strict=False)


Normalize = Callable[[Any], Any]
Check = Callable[[Any], object]


@cache
def _normalizer(annotated: Any, *, lenient: bool) -> Normalize:
    """Returns a function that turns JSON values into values that msgspec accepts for a type.

    It replaces nulls; if lenient, it also removes the values that cannot be read.
    """
    kind, _ = _without_annotations(annotated)
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = {
            f.encode_name: _normalizer(f.type, lenient=lenient)
            for f in msgspec.structs.fields(kind)
        }

        def of_struct(value: Any) -> Any:
            if not isinstance(value, dict):
                return _INVALID if lenient else value
            members = ((name, normalize, value.get(name)) for name, normalize in fields.items())
            items = {name: normalize(item) for name, normalize, item in members if item is not None}
            return {name: item for name, item in items.items() if item is not _INVALID}

        return of_struct
    if origin in _MAPS:
        normalize, zero = _normalizer(arguments[1], lenient=lenient), _zero_of(arguments[1])

        def of_map(value: Any) -> Any:
            if not isinstance(value, dict):
                return _INVALID if lenient else value
            items = (
                (name, zero if item is None else normalize(item)) for name, item in value.items()
            )
            return {name: item for name, item in items if item is not _INVALID}

        return of_map
    if origin is tuple:
        normalize, zero = _normalizer(arguments[0], lenient=lenient), _zero_of(arguments[0])

        def of_list(value: Any) -> Any:
            if not isinstance(value, list):
                return _INVALID if lenient else value
            items = (zero if item is None else normalize(item) for item in value)
            return [item for item in items if item is not _INVALID]

        return of_list
    if kind is msgspec.Raw:
        return lambda value: msgspec.Raw(msgspec.json.encode(value))
    return _remover_of_invalid(annotated) if lenient else lambda value: value


def _remover_of_invalid(kind: Any) -> Normalize:
    check = _check_of(kind)

    def normalize(value: Any) -> Any:
        try:
            read = msgspec.convert(value, kind, strict=False)
            if check is not None:
                check(read)
        except (msgspec.ValidationError, ValueError):
            return _INVALID
        return value

    return normalize


@cache
def _check_of(annotated: Any) -> Check | None:
    """Returns a function that parses every annotated part of a value of the type.

    The function raises ValueError, beginning with the path, if a part cannot be parsed. Returns
    None if the type has no annotated part.
    """
    kind, parse = _without_annotations(annotated)
    origin, arguments = get_origin(kind), get_args(kind)
    if parse is not None:
        return parse
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        checks = ((f.name, f.encode_name, _check_of(f.type)) for f in msgspec.structs.fields(kind))
        fields = [
            (attribute, name, check) for attribute, name, check in checks if check is not None
        ]
        if not fields:
            return None
        names = [(name, check) for _, name, check in fields]
        # of a second attribute, which is none of them, it makes a tuple in any case
        parts_of = own(kind, *(attribute for attribute, _, _ in fields), "__class__")

        def of_struct(value: Any) -> None:
            for part, (name, check) in zip(parts_of(value), names, strict=False):
                if part or part == "":
                    try:
                        check(part)
                    except ValueError as problem:
                        raise _at(f".{name}", problem) from None

        return of_struct
    of_map = origin in _MAPS
    inner = _check_of(arguments[-1 if of_map else 0]) if of_map or origin is tuple else None
    if inner is None:
        return None
    check_inner = inner

    def of_each(values: Any) -> None:
        for name, value in values.items() if of_map else enumerate(values):
            try:
                check_inner(value)
            except ValueError as problem:
                raise _at(f"[{name}]", problem) from None

    return of_each


class _PartError(ValueError):
    """A part of a value that cannot be parsed; the message begins with its path."""


def _at(step: str, problem: ValueError) -> _PartError:
    return _PartError(
        f"{step}{problem}" if isinstance(problem, _PartError) else f"{step}: {problem}"
    )


def _without_annotations(kind: Any) -> tuple[Any, Check | None]:
    """Returns the type without `| None` and ReadBy, and the function of ReadBy or None."""
    if get_origin(kind) in (Union, UnionType):
        members = [member for member in get_args(kind) if member is not type(None)]
        return _without_annotations(members[0]) if len(members) == 1 else (kind, None)
    if get_origin(kind) is Annotated:
        inner, *metas = get_args(kind)
        parse = next((meta.function for meta in metas if isinstance(meta, ReadBy)), None)
        if parse is not None:
            return inner, parse
    return kind, None


def _zero_of(kind: Any) -> Any:
    """Returns the JSON value that a null in a list or a map means in Go."""
    if get_origin(kind) in (Union, UnionType) and type(None) in get_args(kind):
        return None
    if get_origin(kind) is Annotated:
        return _zero_of(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return 0  # a quantity
    if kind is Any:
        return None
    if get_origin(kind) is tuple:
        return []
    return _ZEROS.get(kind, {})


class UnreadableObject(msgspec.Struct, frozen=True, order=True):
    """An object at the API server that cannot be read, with the `problem`. Its uid is "" if that
    cannot be read either.
    """

    kind: str
    key: str
    uid: str
    problem: str
