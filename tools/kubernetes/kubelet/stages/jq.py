"""The expressions of stages: the part of jq that selects and compares values of an object.

Paths (`.a.b`, `.["a"]`, `.[0]`, `.[]`, `?`), `|`, `,`, `//`, `and`, `or`, comparisons, `+` and `-`,
lists, `if`, and the functions in FUNCTIONS. A query is compiled once to closures; each maps a value
to the list of its results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ParamSpec

from .jq_functions import (
    COMPARISONS,
    FUNCTIONS,
    FailedError,
    Filter,
    add,
    at,
    holds,
    items,
    itself,
    subtract,
)

MOST_TOKENS = 300
MOST_RESULTS = 10_000  # of each part of a query, so that none takes all the memory

P = ParamSpec("P")
Query = Callable[[Any], list[Any] | None]
# A step of a path: from where the path is, and the value that the query is about, to its results.
Suffix = Callable[[Any, Any], Sequence[Any]]

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>"(?:[^"\\]|\\.)*") | (?P<number>\d+(?:\.\d+)?) | (?P<field>\.[A-Za-z_]\w*)
    | (?P<word>[A-Za-z_]\w*) | (?P<mark>//|==|!=|<=|>=|[][()|,.?<>+\-;])
    )""",
    re.VERBOSE,
)


class JqError(ValueError):
    """A text is not a query; the message has the position and what was expected."""


@cache
def query(text: str) -> Query:
    """Returns the function that evaluates a query. Its result is the list of all results but nulls.

    The function returns None if the query fails, as `.a[]` does where there is no `a`, or has more
    than MOST_RESULTS results. Raises JqError.
    """
    try:
        compiled = _Parser(text).query()
    except RecursionError:
        raise JqError(f"{text!r}: expected less deeply nested parts") from None

    def evaluate(value: Any) -> list[Any] | None:
        try:
            return [result for result in compiled(value) if result is not None]
        except (FailedError, RecursionError):
            return None

    return evaluate


class _Parser:
    """A recursive descent through the tokens; each method compiles one level of precedence."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        place = 0
        end = len(text.rstrip())
        while place < end:
            if len(self._tokens) == MOST_TOKENS:
                raise JqError(f"{text[:60]!r}...: expected at most {MOST_TOKENS} tokens")
            match = _TOKEN.match(text, place)
            if match is None:
                place += len(text[place:]) - len(text[place:].lstrip())
                raise JqError(f"{text!r}: unexpected {text[place]!r} at {place + 1}")
            kind = match.lastgroup or ""
            self._tokens.append((kind, match[kind], match.start(kind) + 1))
            place = match.end()
        self._next = 0

    def query(self) -> Filter:
        compiled = self._pipe()
        if self._next < len(self._tokens):
            raise self._failure("an operator or the end")
        return compiled

    def _pipe(self) -> Filter:
        first = self._comma()
        if not self._take("|"):
            return first
        second = self._pipe()

        def pipe(value: Any) -> list[Any]:
            results: list[Any] = []
            for middle in first(value):
                results += second(middle)
                if len(results) > MOST_RESULTS:
                    raise FailedError
            return results

        return pipe

    def _comma(self) -> Filter:
        filters = [self._alternative()]
        while self._take(","):
            filters.append(self._alternative())
        if len(filters) == 1:
            return filters[0]
        return lambda value: [out for each in filters for out in each(value)]

    def _alternative(self) -> Filter:
        first = self._or()
        if not self._take("//"):
            return first
        second = self._alternative()

        def alternative(value: Any) -> list[Any]:
            try:
                results = [out for out in first(value) if holds(out)]
            except FailedError:
                results = []
            return results or second(value)

        return alternative

    def _or(self) -> Filter:
        left = self._and()
        while self._take("or"):
            left = _logical(left, self._and(), decisive=True)
        return left

    def _and(self) -> Filter:
        left = self._comparison()
        while self._take("and"):
            left = _logical(left, self._comparison(), decisive=False)
        return left

    def _comparison(self) -> Filter:
        left = self._sum()
        for mark, compare in COMPARISONS.items():
            if self._take(mark):
                return _binary(left, self._sum(), compare)
        return left

    def _sum(self) -> Filter:
        left = self._postfix()
        while True:
            if self._take("+"):
                left = _binary(left, self._postfix(), add)
            elif self._take("-"):
                left = _binary(left, self._postfix(), subtract)
            else:
                return left

    def _postfix(self) -> Filter:
        term = self._term()
        while True:
            if self._take("?"):
                term = _optional(term)
            elif (suffix := self._suffix()) is None:
                return term
            elif self._take("?"):  # guards the last suffix alone
                term = _then(term, _optional(suffix))
            else:
                term = _then(term, suffix)

    def _suffix(self) -> Suffix | None:
        """Reads one step of a path, if there is one."""
        kind, text, _ = self._peek()
        if kind == "field":
            self._next += 1
            return _Key(text[1:])
        if self._take("."):
            if self._peek()[0] == "string":
                return _Key(self._string())
            if self._peek()[1] != "[":
                raise self._failure('a field, "[" or a string')
        return self._brackets() if self._take("[") else None

    def _term(self) -> Filter:
        kind, text, _ = self._peek()
        if kind == "field":
            return itself  # the field is read as a suffix
        self._next += 1
        match kind, text:
            case "string", _:
                self._next -= 1
                return _constant(self._string())
            case "number", _:
                return _constant(float(text) if "." in text or len(text) > 18 else int(text))
            case "word", ("true" | "false" | "null"):
                return _constant(json.loads(text))
            case "word", "if":
                return self._condition()
            case "word", _:
                return self._call(text)
            case "mark", ".":
                if self._peek()[0] == "field" or self._peek()[1] == ".":
                    raise self._failure("one dot")
                if self._peek()[0] == "string":
                    return _Path((self._string(),))
                return itself
            case "mark", "(":
                inner = self._pipe()
                self._expect(")")
                return inner
            case "mark", "[":
                if self._take("]"):
                    return _constant([])
                inner = self._pipe()
                self._expect("]")
                return lambda value: [inner(value)]
            case "mark", "-":
                return _binary(_constant(0), self._postfix(), subtract)
            case _:
                self._next -= 1
                raise self._failure("a path, a literal or a function")

    def _brackets(self) -> Suffix:
        if self._take("]"):
            return lambda middle, _: items(middle)
        index = self._pipe()
        self._expect("]")
        return lambda middle, value: [at(middle, place) for place in index(value)]

    def _condition(self) -> Filter:
        test = self._pipe()
        self._expect("then")
        first = self._pipe()
        second: Filter = itself
        if self._take("else"):
            second = self._pipe()
        self._expect("end")
        return lambda value: [
            out for held in test(value) for out in (first if holds(held) else second)(value)
        ]

    def _call(self, name: str) -> Filter:
        arguments: list[Filter] = []
        if self._take("("):
            arguments.append(self._pipe())
            while self._take(";"):
                arguments.append(self._pipe())
            self._expect(")")
        function = FUNCTIONS.get((name, len(arguments)))
        if function is None:
            self._next -= 1
            names = ", ".join(sorted({each for each, _ in FUNCTIONS}))
            raise JqError(f"{self._text!r}: {name}/{len(arguments)}: expected one of {names}")
        return function(*arguments)

    def _string(self) -> str:
        _, text, position = self._peek()
        self._next += 1
        try:
            return str(json.loads(text))
        except ValueError:
            raise JqError(f"{self._text!r}: invalid string at {position}") from None

    def _peek(self) -> tuple[str, str, int]:
        if self._next < len(self._tokens):
            return self._tokens[self._next]
        return "end", "", len(self._text) + 1

    def _take(self, text: str) -> bool:
        kind, have, _ = self._peek()
        if have != text or kind not in ("mark", "word"):
            return False
        self._next += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._failure(repr(text))

    def _failure(self, expected: str) -> JqError:
        kind, text, position = self._peek()
        have = "the end" if kind == "end" else f"{text!r} at {position}"
        return JqError(f"{self._text!r}: expected {expected}, got {have}")


# --------------------------------------------------------------------------------------- filters


def _constant(constant: Any) -> Filter:
    return lambda _: [constant]


class _Path:
    """A path of fields such as `.a.b`, the most frequent part of queries."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def __call__(self, value: Any) -> list[Any]:
        for name in self.names:
            if isinstance(value, dict):
                value = value.get(name)
            elif value is None:
                break
            else:
                raise FailedError
        return [value]


class _Key:
    """A step to a field."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, middle: Any, value: Any) -> list[Any]:
        return [at(middle, self.name)]


def _then(term: Filter, suffix: Suffix) -> Filter:
    """Returns the filter that takes one more step from each result of `term`."""
    if isinstance(suffix, _Key):
        if term is itself:
            return _Path((suffix.name,))
        if isinstance(term, _Path):
            return _Path((*term.names, suffix.name))
    return lambda value: [out for middle in term(value) for out in suffix(middle, value)]


def _optional(step: Callable[P, Sequence[Any]]) -> Callable[P, list[Any]]:
    """Returns a filter or a step of a path that has no results where `step` fails."""

    def attempt(*values: P.args, **_: P.kwargs) -> list[Any]:
        try:
            return [*step(*values, **_)]
        except FailedError:
            return []

    return attempt


def _logical(left: Filter, right: Filter, *, decisive: bool) -> Filter:
    def logical(value: Any) -> list[Any]:
        return [
            result
            for first in left(value)
            for result in (
                [decisive]
                if holds(first) == decisive
                else [holds(second) for second in right(value)]
            )
        ]

    return logical


def _binary(left: Filter, right: Filter, function: Callable[[Any, Any], Any]) -> Filter:
    return lambda value: [
        function(first, second) for second in right(value) for first in left(value)
    ]
