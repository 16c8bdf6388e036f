"""The types of the checker, and their unification.

`any` is the type of a device's attributes: like `dyn`, it agrees with every other type. A parameter
(`A`, `_var3`) stands for a type that is inferred while an expression is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from .errors import CompileError, Problem


class Type(NamedTuple):
    """A type. `kind` is the type without its parameters, such as `int` or `list`."""

    kind: str
    name: str
    of: tuple[Type, ...] = ()

    def __str__(self) -> str:
        """Returns the type as the errors of the checker show it."""
        if self.kind == "type" and not self.of:
            return "type"
        if self.of:
            return f"{self.name}({', '.join(map(str, self.of))})"
        return _SHOWN.get(self.kind, self.name)

    @property
    def declared(self) -> str:
        """The type in the form of its declaration."""
        return f"{self.name}({', '.join(t.declared for t in self.of)})" if self.of else self.name


class ObjectType(Type):
    """The type of an object with these fields; its name tells it from others."""

    fields: Mapping[str, Type]

    def __new__(cls, name: str, fields: Mapping[str, Type]) -> ObjectType:
        made = super().__new__(cls, "struct", name)
        made.fields = fields
        return made

    def field(self, name: str) -> Type | None:
        """Returns the type of a field; None if there is no such field."""
        return self.fields.get(name)


_SHOWN = {
    "timestamp": "timestamp",
    "duration": "duration",
    "null": "null",
    "error": "!error!",
    "any": "any",
}
BOOL = Type("bool", "bool")
INT = Type("int", "int")
UINT = Type("uint", "uint")
DOUBLE = Type("double", "double")
STRING = Type("string", "string")
BYTES = Type("bytes", "bytes")
NULL = Type("null", "null_type")
DYN = Type("dyn", "dyn")
ANY = Type("any", "google.protobuf.Any")
ERROR = Type("error", "error")
TIMESTAMP = Type("timestamp", "google.protobuf.Timestamp")
DURATION = Type("duration", "google.protobuf.Duration")
QUANTITY = Type("struct", "kubernetes.Quantity")
SEMVER = Type("struct", "kubernetes.Semver")
URL = Type("struct", "kubernetes.URL")
FORMAT = Type("struct", "kubernetes.NamedFormat")
DEVICE = Type("struct", "kubernetes.DRADevice")
IP = Type("opaque", "net.IP")
CIDR = Type("opaque", "net.CIDR")

NAMED = {
    **{
        t.kind: t
        for t in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, DYN, ANY, TIMESTAMP, DURATION)
    },
    "quantity": QUANTITY,
    "semver": SEMVER,
    "url": URL,
    "format": FORMAT,
    "ip": IP,
    "cidr": CIDR,
}


def list_of(element: Type) -> Type:
    return Type("list", "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("opaque", "optional_type", (value,))


def type_of(value: Type) -> Type:
    return Type("type", "type", (value,))


def param(name: str) -> Type:
    return Type("param", name)


_MAKERS: dict[str, Callable[..., Type]] = {
    "list": list_of,
    "map": map_of,
    "optional": optional_of,
    "type": type_of,
}


@lru_cache(maxsize=512)
def parse_type(text: str) -> Type:
    """Reads a type as the declarations of functions write it, e.g. `map(K, list(int))`."""
    text = text.strip()
    if "(" not in text:
        return NAMED[text] if text in NAMED else param(text)
    name, _, parameters = text.partition("(")
    return _MAKERS[name](*map(parse_type, split_types(parameters[:-1])))


def split_types(text: str) -> list[str]:
    """Splits a list of types at its outer commas."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]] if text.strip() else []


def is_dyn(t: Type) -> bool:
    return t.kind in ("dyn", "any")


def is_wild(t: Type) -> bool:
    return t.kind in ("dyn", "any", "error")


def without_optional(t: Type) -> tuple[Type, bool]:
    """Returns the type without `optional`, and True if it had it."""
    return (t.of[0], True) if t.name == "optional_type" else (t, False)


def more_general(a: Type, b: Type) -> Type:
    return a if _is_at_least_as_general(a, b) else b


def _is_at_least_as_general(a: Type, b: Type) -> bool:
    """True if `a` is `b` or more general."""
    if is_dyn(a) or a.kind == "param":
        return True
    if is_dyn(b) or b.kind == "param" or a.kind != b.kind:
        return False
    if a.kind == "type":
        return True
    if a.kind in ("opaque", "list", "map"):
        same = a.name == b.name and len(a.of) == len(b.of)
        return same and all(map(_is_at_least_as_general, a.of, b.of))
    return a == b


_NULLABLE = ("opaque", "struct", "any", "duration", "timestamp", "null")


MOST_STEPS = 100_000  # a nested type takes one step for each part


class Inference:
    """The types that type parameters stand for. A failed attempt to unify changes nothing."""

    def __init__(self) -> None:
        self._left = MOST_STEPS
        self._types: dict[str, Type] = {}
        self._journal: list[tuple[str, Type | None]] = []
        self._count = 0

    def fresh(self) -> Type:
        """Returns a new parameter, which may stand for any type."""
        self._count += 1
        return param(f"_var{self._count - 1}")

    def assignable(self, types: list[Type], others: list[Type]) -> bool:
        """True if each type agrees with its counterpart; learns parameters from them."""
        self._journal.clear()
        if len(types) == len(others) and all(map(self._agrees_with, types, others)):
            return True
        for name, before in reversed(self._journal):
            if before is None:
                del self._types[name]
            else:
                self._types[name] = before
        return False

    def resolved(self, t: Type, *, to_dyn: bool = False) -> Type:
        """Returns the type with its resolved parameters replaced. With `to_dyn`, the others become
        `dyn`.
        """
        self._step()
        while t.kind == "param" and t.name in self._types:
            t = self._types[t.name]
        if t.kind == "param":
            return DYN if to_dyn else t
        if not t.of:
            return t
        return Type(t.kind, t.name, tuple(self.resolved(p, to_dyn=to_dyn) for p in t.of))

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise CompileError([Problem(0, "the types of the expression are too complex")])

    def _agrees_with(self, a: Type, b: Type) -> bool:
        self._step()
        if b.kind == "param":
            valid, resolved = self._substitute(a, b)
            if valid or resolved:
                return valid
        if a.kind == "param":
            return self._substitute(b, a)[0]
        if is_wild(a) or is_wild(b):
            return True
        if "null" in (a.kind, b.kind):
            return (b if a.kind == "null" else a).kind in _NULLABLE
        if a.kind == "type":
            return b.kind == "type"
        if a.kind in ("opaque", "list", "map"):
            same = a.kind == b.kind and a.name == b.name and len(a.of) == len(b.of)
            return same and all(map(self._agrees_with, a.of, b.of))
        return a == b

    def _substitute(self, t: Type, parameter: Type) -> tuple[bool, bool]:
        """Returns whether a type can stand for the parameter, and whether the parameter already had
        one.
        """
        if t == parameter:
            return True, True
        resolved = self._types.get(parameter.name)
        if resolved is not None:
            if t == resolved:
                return True, True
            if self._agrees_with(t, resolved):
                general = more_general(t, resolved)
                if not self._occurs_in(parameter, general):
                    self._set_parameter(parameter, general)
                return True, True
            return False, True
        if self._occurs_in(parameter, t):
            return False, False
        self._set_parameter(parameter, t)
        return True, False

    def _set_parameter(self, parameter: Type, t: Type) -> None:
        self._journal.append((parameter.name, self._types.get(parameter.name)))
        self._types[parameter.name] = t

    def _occurs_in(self, parameter: Type, within: Type) -> bool:
        self._step()
        if within == parameter:
            return True
        if within.kind == "param":
            resolved = self._types.get(within.name)
            return resolved is not None and self._occurs_in(parameter, resolved)
        return any(self._occurs_in(parameter, t) for t in within.of)
