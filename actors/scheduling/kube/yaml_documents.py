"""Reads YAML as Kubernetes does, as another notation for JSON.

A document consists of mappings with text keys, lists, text, numbers, booleans and null. Words
without quotes have the same meaning as in kubectl. Nothing here is recursive, and aliased values
are never copied: however deep or hostile a text is, it is either read or rejected in proportionate
memory. Values that JSON cannot represent are rejected with their line. A key that occurs twice in a
mapping is rejected too, because one of its values would be lost, unless the caller asks to be told.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

MAX_DEPTH = 100
# The most that the aliases of a text may expand to: the characters, and VALUE for each value.
MAX_ALIASED = 16 << 20
VALUE = 16

_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(
        ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True
    ),
    **dict.fromkeys(
        ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False
    ),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
    **dict.fromkeys(
        (f"{sign}.{inf}" for sign in ("", "+", "-") for inf in ("inf", "Inf", "INF")), math.inf
    ),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], math.nan),
}
_INTEGER = re.compile(
    r"([-+]?)(?:(0|[1-9][0-9]*)|0(?:[xX]([0-9a-fA-F]+)|[oO]?([0-7]+)|[bB]([01]+)))"
)
_BASES = (10, 16, 8, 2)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_MAX_DIGITS = 64  # of an integer; a longer one is a float
_TAG = "tag:yaml.org,2002:"
_KINDS: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "null": (type(None),),
}
_NO_KEY, _MERGE = object(), object()


class YamlError(ValueError):
    """A text that cannot be used; the message begins with the line."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
        self.problem = problem


class RepeatedKey(NamedTuple):
    """A key that occurs twice, and the line of its mapping."""

    key: str
    line: int

    def __str__(self) -> str:
        return f"the key {self.key} occurs twice in the mapping of line {self.line}"


class _Collection:
    """A mapping or list whose end has not been read yet."""

    __slots__ = ("anchor", "key", "line", "merged", "size", "value")

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None, line: int) -> None:
        self.value = value
        self.anchor = anchor
        self.line = line
        self.size = VALUE
        self.key: Any = _NO_KEY  # in a mapping: the key whose value comes next
        self.merged: list[dict[str, Any]] = []

    def add(self, value: Any, size: int, line: int, *, merge: bool) -> RepeatedKey | None:
        """Adds an item, a key or a value. Returns a repeated key. Raises YamlError for an invalid
        key.
        """
        self.size += size
        if isinstance(self.value, list):
            self.value.append(value)
        elif self.key is _NO_KEY:
            self.key = _MERGE if merge else _key(value, line)
            if not merge and self.key in self.value:
                return RepeatedKey(self.key, self.line)
        elif self.key is _MERGE:
            merged = value if isinstance(value, list) else [value]
            if not all(isinstance(mapping, dict) for mapping in merged):
                raise YamlError(line, "<<: expected a mapping or a list of mappings")
            self.merged += merged
            self.key = _NO_KEY
        else:
            self.value[self.key] = value
            self.key = _NO_KEY
        return None

    def close(self) -> dict[str, Any] | list[Any]:
        """Returns the collection; its own keys take precedence over merged ones."""
        for merged in self.merged:
            assert isinstance(self.value, dict)
            for key, value in merged.items():
                self.value.setdefault(key, value)
        return self.value


def _refuse(line: int, repeated: RepeatedKey) -> None:
    raise YamlError(line, str(repeated))


def documents(raw: bytes) -> list[Any]:
    """Returns the documents of a UTF-8 text; an empty document is None. Raises YamlError."""
    return [value for _, value in placed_documents(raw)]


def placed_documents(
    raw: bytes, first: int = 1, repeated: Callable[[int, RepeatedKey], None] = _refuse
) -> list[tuple[int, Any]]:
    """Returns the documents of a UTF-8 text with the lines in which they begin; `first` is the
    number of the text's first line. `repeated` is called with the line of a key that occurs twice,
    and the key; then the later value counts. Raises YamlError.
    """
    import yaml  # its first use, as many programs never read any

    try:
        return list(_documents(raw.decode("utf-8-sig"), first, repeated))
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + first
        raise YamlError(
            line, f"expected text in UTF-8, got the byte {raw[problem.start]:#04x}"
        ) from None
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        raise YamlError(
            _line(mark, first), problem.problem or problem.context or "not YAML"
        ) from None
    except yaml.YAMLError as problem:
        raise YamlError(first, getattr(problem, "reason", "") or "not YAML") from None


def _documents(
    text: str, first: int, repeated: Callable[[int, RepeatedKey], None]
) -> Iterator[tuple[int, Any]]:
    import yaml

    stack: list[_Collection] = []
    anchors: dict[str, tuple[Any, int]] = {}
    copies = 0
    for event in _events(text):
        line = _line(event.start_mark, first)
        value, size, merge, anchor = None, VALUE, False, None
        kind = type(event)
        if kind is yaml.ScalarEvent:
            merge = event.value == "<<" and event.implicit[0] and not event.style
            value, anchor = _scalar(event, line), event.anchor
            size += len(event.value)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            is_mapping = kind is yaml.MappingStartEvent
            if event.tag not in (None, "!", f"{_TAG}{'map' if is_mapping else 'seq'}"):
                raise _not_json(event.tag, line)
            if len(stack) == MAX_DEPTH:
                raise YamlError(line, f"expected at most {MAX_DEPTH} nested collections")
            stack.append(_Collection({} if is_mapping else [], event.anchor, line))
            continue
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            ended = stack.pop()
            value, size, line, anchor = ended.close(), ended.size, ended.line, ended.anchor
        elif kind is yaml.AliasEvent:
            if event.anchor not in anchors:
                raise YamlError(
                    line, f"expected the anchor of the alias *{event.anchor} to end before it"
                )
            value, size = anchors[event.anchor]
            copies += size
            if copies > MAX_ALIASED:
                raise YamlError(line, "expected aliases to expand to at most 16 MiB")
        else:
            if kind is yaml.DocumentStartEvent:
                anchors.clear()
            continue
        if anchor is not None:
            anchors[anchor] = (value, size)
        if not stack:
            yield line, value
        elif again := stack[-1].add(value, size, line, merge=merge):
            repeated(line, again)


def _events(text: str) -> Iterator[Any]:
    """Yields the events of a text, by the parser in C if it is there."""
    import yaml

    parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        while (event := parser.get_event()) is not None:
            yield event
    finally:
        parser.dispose()


def _line(mark: Any, first: int) -> int:
    return first if mark is None else int(mark.line) + first


def _not_json(tag: str, line: int) -> YamlError:
    return YamlError(line, f"expected a value that JSON can represent, got one with the tag {tag}")


def _scalar(event: Any, line: int) -> Any:
    tag: str | None = event.tag
    if tag is None and event.implicit[0]:
        return _unquoted_value(event.value, line)
    if tag in (None, "!", f"{_TAG}str"):
        return event.value
    kind = _KINDS.get(tag.removeprefix(_TAG)) if tag.startswith(_TAG) else None
    if kind is None:
        raise _not_json(tag, line)
    value = _unquoted_value(event.value, line)
    if not isinstance(value, kind):
        raise YamlError(line, f"expected {tag.removeprefix(_TAG)}, got {event.value!r}")
    return value


def json_number(text: str) -> Any:
    """Returns the value of a number of a JSON text. Raises YamlError."""
    return _unquoted_value(text, 1)


def _unquoted_value(text: str, line: int) -> Any:
    """Returns the value of a word without quotes."""
    if text in _WORDS:
        meaning = _WORDS[text]
        if isinstance(meaning, float):
            raise YamlError(line, f"expected a number that JSON can represent, got {text}")
        return meaning
    if text[0] not in "+-.0123456789":
        return text
    bare = text.replace("_", "")
    if (match := _INTEGER.fullmatch(bare)) and len(bare) <= _MAX_DIGITS:
        sign, *written = match.groups()
        digits, base = next(
            (digits, base) for digits, base in zip(written, _BASES, strict=True) if digits
        )
        number = int(sign + digits, base)
        return number if -(1 << 63) <= number < 1 << 64 else float(number)
    if not _FLOAT.fullmatch(bare):
        return text
    real = float(bare)
    if not math.isfinite(real):
        return text
    # Go writes a whole number without a fraction.
    return int(real) if real.is_integer() and abs(real) < 1e15 else real


def _key(value: Any, line: int) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise YamlError(
        line, "expected text as a key, got " + ("null" if value is None else "a collection")
    )
