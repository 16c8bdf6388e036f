"""Reading what the API server sends: null is absent, and what cannot be read is told from what can.
Pure.

One msgspec decode is the whole way of nearly every object. Only where it fails are the values gone
through by their types, as Go decodes them: a field that is null is absent, a null in a list or a
map is the zero value of its type. What fails then cannot be read; `salvage` gives the part of it
that can.

A type may name the function that reads its values later, as `Annotated[str, ReadBy(function)]`: a
value of which that function raises ValueError cannot be read either, so that nobody who uses it
later has to expect that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache
from types import UnionType
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, Union, cast, get_args, get_origin

import msgspec

T = TypeVar("T")
# What reading raises: msgspec's own errors, UnreadableError among them, text that is no UTF-8, and
# nesting without end.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_NOTHING = object()  # in place of what cannot be read
_ZEROS: dict[Any, Any] = {str: "", int: 0, float: 0.0, bool: False}


class ReadBy(NamedTuple):
    """Who reads the values of an annotated type; it raises ValueError for those that have the wrong
    form.
    """

    function: Callable[[Any], object]


class UnreadableError(msgspec.ValidationError):
    """A value has the right type and the wrong form; the message begins with its path."""


class Reader(Generic[T]):
    """Reads JSON as one type, mostly a kind of object; a number may be written as a text.

    `path` is where in an object the values stand, if they are a part of one.
    """

    def __init__(self, kind: type[T], path: str = "") -> None:
        self._kind = kind
        self._path = path
        self._decoder = msgspec.json.Decoder(kind, strict=False)
        self._type = cast("Hashable", kind)
        self._check = _check_of(self._type)

    def read(self, raw: bytes | msgspec.Raw) -> T:
        """Raises what UNREADABLE names."""
        found = self.decode(raw)
        self.check(found)
        return found

    def decode(self, raw: bytes | msgspec.Raw) -> T:
        """`read` without the check. Raises what UNREADABLE names."""
        try:
            return self._decoder.decode(raw)
        except msgspec.ValidationError:
            return self._converted(msgspec.json.decode(raw))

    def convert(self, document: object) -> T:
        """The same from JSON's values. Raises msgspec.ValidationError."""
        try:
            found = msgspec.convert(document, self._kind, strict=False)
        except msgspec.ValidationError:
            found = self._converted(document)
        self.check(found)
        return found

    def check(self, found: T) -> None:
        """Raises UnreadableError for a value of the type of which a part is of the wrong form."""
        if self._check is not None:
            try:
                self._check(found)
            except ValueError as problem:
                raise UnreadableError(f"{self._path}{problem}".removeprefix(".")) from None

    def salvage(self, raw: bytes | msgspec.Raw) -> T | None:
        """What can be read of something that cannot: the rest is absent. None if there is
        nothing.
        """
        try:
            values = msgspec.json.decode(bytes(raw).decode(errors="replace"))
            return self._converted(values, lenient=True)
        except UNREADABLE:
            return None

    def _converted(self, values: object, *, lenient: bool = False) -> T:
        return msgspec.convert(
            _walk_of(self._type, lenient=lenient)(values), self._kind, strict=False
        )


Walk = Callable[[Any], Any]
Check = Callable[[Any], object]


@cache
def _walk_of(whole: Any, *, lenient: bool) -> Walk:
    """From JSON's values to those that msgspec takes for the type: without nulls; lenient, without
    the unreadable.
    """
    kind, _ = _bare(whole)
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = {
            f.encode_name: _walk_of(f.type, lenient=lenient) for f in msgspec.structs.fields(kind)
        }

        def of_struct(value: Any) -> Any:
            if not isinstance(value, dict):
                return _NOTHING if lenient else value
            given = ((name, walk, value.get(name)) for name, walk in fields.items())
            walked = {name: walk(there) for name, walk, there in given if there is not None}
            return {name: there for name, there in walked.items() if there is not _NOTHING}

        return of_struct
    if origin is dict:
        walk, zero = _walk_of(arguments[1], lenient=lenient), _zero_of(arguments[1])

        def of_map(value: Any) -> Any:
            if not isinstance(value, dict):
                return _NOTHING if lenient else value
            walked = (
                (name, zero if there is None else walk(there)) for name, there in value.items()
            )
            return {name: there for name, there in walked if there is not _NOTHING}

        return of_map
    if origin is tuple:
        walk, zero = _walk_of(arguments[0], lenient=lenient), _zero_of(arguments[0])

        def of_list(value: Any) -> Any:
            if not isinstance(value, list):
                return _NOTHING if lenient else value
            walked = (zero if there is None else walk(there) for there in value)
            return [there for there in walked if there is not _NOTHING]

        return of_list
    if kind is msgspec.Raw:
        return lambda value: msgspec.Raw(msgspec.json.encode(value))
    return _only_readable(whole) if lenient else lambda value: value


def _only_readable(kind: Any) -> Walk:
    check = _check_of(kind)

    def walk(value: Any) -> Any:
        try:
            read = msgspec.convert(value, kind, strict=False)
            if check is not None:
                check(read)
        except (msgspec.ValidationError, ValueError):
            return _NOTHING
        return value

    return walk


@cache
def _check_of(whole: Any) -> Check | None:
    """Raises ValueError, beginning with the path, where a value of the type has the wrong form.

    None if there is no type within that has a form.
    """
    kind, reads = _bare(whole)
    origin, arguments = get_origin(kind), get_args(kind)
    if reads is not None:
        return reads
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        every = ((f.name, f.encode_name, _check_of(f.type)) for f in msgspec.structs.fields(kind))
        fields = [(attribute, name, check) for attribute, name, check in every if check is not None]

        def of_struct(value: Any) -> None:
            for attribute, name, check in fields:
                there = getattr(value, attribute)
                if there or there == "":
                    try:
                        check(there)
                    except ValueError as problem:
                        raise _at(f".{name}", problem) from None

        return of_struct if fields else None
    inner = _check_of(arguments[-1 if origin is dict else 0]) if origin in (dict, tuple) else None
    if inner is None:
        return None
    check_inner = inner

    def of_each(values: Any) -> None:
        for name, value in values.items() if origin is dict else enumerate(values):
            try:
                check_inner(value)
            except ValueError as problem:
                raise _at(f"[{name}]", problem) from None

    return of_each


class _FormError(ValueError):
    """Its message begins with the path."""


def _at(step: str, problem: ValueError) -> _FormError:
    return _FormError(
        f"{step}{problem}" if isinstance(problem, _FormError) else f"{step}: {problem}"
    )


def _bare(kind: Any) -> tuple[Any, Callable[[Any], object] | None]:
    """What a type is where it is not absent, and who reads it."""
    if get_origin(kind) in (Union, UnionType):
        there = [member for member in get_args(kind) if member is not type(None)]
        return _bare(there[0]) if len(there) == 1 else (kind, None)
    if get_origin(kind) is Annotated:
        inner, *metas = get_args(kind)
        reads = next((meta.function for meta in metas if isinstance(meta, ReadBy)), None)
        if reads is not None:
            return inner, reads
    return kind, None


def _zero_of(kind: Any) -> Any:
    """What Go makes of a null in a list or a map, in JSON's values."""
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
