"""Label selectors in the notation of kubectl's -l, read and refused as Kubernetes does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from berth.actors.scheduling.kube.labels import Requirement, Selector, SelectorError
from berth.actors.scheduling.kube.names import label_value, qualified_name

from ..rules.fields import invalid

_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)")
_SYMBOLS = frozenset(("==", "!=", *"=!(),<>", ""))
_OPERATORS = ("in", "notin", "=", "==", "!=", ">", "<")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_EXPECTED = "in, notin, =, ==, !=, gt, lt"
END = ""  # the token after the last one


class Comparison(msgspec.Struct, frozen=True):
    """A requirement that a label is a number above or below another."""

    key: str
    bound: int
    above: bool

    def holds(self, labels: Mapping[str, str]) -> bool:
        text = labels.get(self.key, "")
        if not _INTEGER.fullmatch(text):
            return False
        return int(text) > self.bound if self.above else int(text) < self.bound


def label_selector(text: str) -> Selector:
    """Returns the selector of a text without comparisons. Raises SelectorError."""
    plain, comparisons = _parsed(text)
    if comparisons:
        raise SelectorError(f"expected no comparison, got {text!r}")
    return Selector(tuple(plain))


def label_predicate(text: str) -> Callable[[Mapping[str, str]], bool]:
    """Returns the predicate of a text for labels. Raises SelectorError."""
    plain, comparisons = _parsed(text)
    selector = Selector(tuple(plain))
    if not comparisons:
        return selector.matches
    return lambda labels: selector.matches(labels) and all(c.holds(labels) for c in comparisons)


def _parsed(text: str) -> tuple[list[Requirement], list[Comparison]]:
    tokens = _Tokens(text)
    plain, comparisons = list[Requirement](), list[Comparison]()
    while (here := tokens.next) != END:
        if here in _SYMBOLS and here != "!":
            raise SelectorError(f"found '{here}', expected: !, identifier, or 'end of string'")
        try:
            found = _requirement(tokens)
        except SelectorError as problem:
            raise SelectorError(f"unable to parse requirement: {problem}") from None
        if isinstance(found, Comparison):
            comparisons.append(found)
        else:
            plain.append(found)
        after = tokens.take()
        if after == "," and (tokens.next in _SYMBOLS and tokens.next != "!"):
            raise SelectorError(f"found '{tokens.next}', expected: identifier after ','")
        if after not in (",", END):
            raise SelectorError(f"found '{after}', expected: ',' or 'end of string'")
    return plain, comparisons


class _Tokens:
    """The tokens of a text, from the first to the last."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [*_TOKEN.findall(text), END]
        self._at = 0

    @property
    def next(self) -> str:
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    def take(self) -> str:
        token = self.next
        self._at += 1
        return token


def _requirement(tokens: _Tokens) -> Requirement | Comparison:
    key = tokens.take()
    absent = key == "!"
    if absent:
        key = tokens.take()
    if key in _SYMBOLS:
        raise SelectorError(f"found '{key}', expected: identifier")
    _refuse([invalid("<nil>", key, message) for message in qualified_name(key)])
    if absent or tokens.next in (",", END):
        return Requirement(key, "DoesNotExist" if absent else "Exists")
    operator = tokens.take()
    if operator not in _OPERATORS:
        raise SelectorError(f"found '{operator}', expected: {_EXPECTED}")
    values = sorted(_set(tokens) if operator in ("in", "notin") else _value(tokens))
    if operator in (">", "<"):
        why = "for 'Gt', 'Lt' operators, the value must be an integer"
        _refuse([invalid("values[0]", v, why) for v in values if not _INTEGER.fullmatch(v)])
        return Comparison(key, int(values[0]), operator == ">")
    _refuse(
        [
            invalid(f"values[{i}][{key}]", value, message)
            for i, value in enumerate(values)
            for message in label_value(value)
        ]
    )
    return Requirement(key, "NotIn" if operator in ("notin", "!=") else "In", tuple(values))


def _refuse(problems: list[str]) -> None:
    if problems:
        raise SelectorError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")


def _value(tokens: _Tokens) -> set[str]:
    if tokens.next in (",", END):
        return {""}
    value = tokens.take()
    if value in _SYMBOLS:
        raise SelectorError(f"found '{value}', expected: identifier")
    return {value}


def _set(tokens: _Tokens) -> set[str]:
    """Returns the values in parentheses."""
    opening = tokens.take()
    if opening != "(":
        raise SelectorError(f"found '{opening}' expected: '('")
    first, values = tokens.next, set[str]()
    if first in _SYMBOLS and first not in (",", ")"):
        raise SelectorError(f"found '{first}', expected: ',', ')' or identifier")
    before = ","
    while True:
        here = tokens.take()
        if here == ")":
            return values | {""} if before == "," else values
        if here == ",":
            if before == ",":
                values.add("")
        elif here in _SYMBOLS:
            expected = "',', or identifier" if before == "," else "',' or ')'"
            raise SelectorError(f"found '{here}', expected: {expected}")
        elif before != ",":
            raise SelectorError(f"found '{here}', expected: ',' or ')'")
        else:
            values.add(here)
        before = here
