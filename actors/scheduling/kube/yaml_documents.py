"""YAML as Kubernetes reads it: another way to write JSON.

Owns the way from a text to its documents: mappings with keys of text, lists, text, numbers,
booleans and nothing. Plain words mean what kubectl takes them for. Nothing here is recursive and an
alias is never copied, so no text is too deep to be refused, and none grows out of proportion; what
is no JSON is refused by its line. Keys of text that collide are refused too: one of two values
would be lost.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

MOST_DEPTH = 100
MOST_COPIES = 1_000_000  # values that aliases stand for, in one text

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MEANINGS: dict[str, bool | float | None] = {
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
_MOST_DIGITS = 64  # of an integer; from there on it is a float
_TAG = "tag:yaml.org,2002:"
_KINDS: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "null": (type(None),),
}
_NO_KEY, _MERGE = object(), object()


class YamlError(ValueError):
    """A text cannot be used; the message begins with the line."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")


class _Open:
    """A collection that has begun."""

    __slots__ = ("anchor", "key", "line", "merged", "size", "value")

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None, line: int) -> None:
        self.value = value
        self.anchor = anchor
        self.line = line
        self.size = 1
        self.key: Any = _NO_KEY  # of a mapping, the one whose value comes next
        self.merged: list[dict[str, Any]] = []

    def add(self, value: Any, size: int, line: int, *, merge: bool) -> None:
        """Raises YamlError for a key that is no text, or stands there already."""
        self.size += size
        if isinstance(self.value, list):
            self.value.append(value)
        elif self.key is _NO_KEY:
            self.key = _MERGE if merge else _key(value, line)
            if not merge and self.key in self.value:
                raise YamlError(line, f"{self.key} stands twice in the mapping of line {self.line}")
        elif self.key is _MERGE:
            merged = value if isinstance(value, list) else [value]
            if not all(isinstance(one, dict) for one in merged):
                raise YamlError(line, "<<: expected a mapping or a list of mappings")
            self.merged += merged
            self.key = _NO_KEY
        else:
            self.value[self.key] = value
            self.key = _NO_KEY

    def close(self) -> dict[str, Any] | list[Any]:
        """The collection; what is merged into it gives way to what it says itself."""
        for merged in self.merged:
            assert isinstance(self.value, dict)
            for key, value in merged.items():
                self.value.setdefault(key, value)
        return self.value


def documents(raw: bytes) -> list[Any]:
    """The documents of a text in UTF-8; an empty one is None. Raises YamlError."""
    try:
        return list(_documents(raw.decode("utf-8-sig")))
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + 1
        raise YamlError(
            line, f"expected text in UTF-8, got the byte {raw[problem.start]:#04x}"
        ) from None
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        raise YamlError(_line(mark), problem.problem or problem.context or "no YAML") from None
    except yaml.YAMLError as problem:
        raise YamlError(1, getattr(problem, "reason", "") or "no YAML") from None


def _documents(text: str) -> Iterator[Any]:
    stack: list[_Open] = []
    anchors: dict[str, tuple[Any, int]] = {}
    copies = 0
    for event in yaml.parse(text, _LOADER):
        line = _line(event.start_mark)
        value, size, merge, anchor = None, 1, False, None
        match event:
            case yaml.DocumentStartEvent():
                anchors.clear()
                continue
            case yaml.CollectionStartEvent():
                is_mapping = isinstance(event, yaml.MappingStartEvent)
                if event.tag not in (None, "!", f"{_TAG}{'map' if is_mapping else 'seq'}"):
                    raise YamlError(
                        line, f"expected a value that JSON has, got one with the tag {event.tag}"
                    )
                if len(stack) == MOST_DEPTH:
                    raise YamlError(
                        line, f"expected at most {MOST_DEPTH} collections in one another"
                    )
                stack.append(_Open({} if is_mapping else [], event.anchor, line))
                continue
            case yaml.CollectionEndEvent():
                ended = stack.pop()
                value, size, line, anchor = ended.close(), ended.size, ended.line, ended.anchor
            case yaml.ScalarEvent():
                merge = event.value == "<<" and event.implicit[0] and not event.style
                value, anchor = _scalar(event, line), event.anchor
            case yaml.AliasEvent():
                if event.anchor not in anchors:
                    raise YamlError(
                        line,
                        f"the alias *{event.anchor} stands for nothing that is complete before it",
                    )
                value, size = anchors[event.anchor]
                copies += size
                if copies > MOST_COPIES:
                    raise YamlError(
                        line, f"expected aliases to stand for at most {MOST_COPIES} values"
                    )
            case _:
                continue
        if anchor is not None:
            anchors[anchor] = (value, size)
        if stack:
            stack[-1].add(value, size, line, merge=merge)
        else:
            yield value


def _line(mark: Any) -> int:
    return 1 if mark is None else int(mark.line) + 1


def _scalar(event: yaml.ScalarEvent, line: int) -> Any:
    tag: str | None = event.tag
    if tag is None and event.implicit[0]:
        return _plain(event.value, line)
    if tag in (None, "!", f"{_TAG}str"):
        return event.value
    kind = _KINDS.get(tag.removeprefix(_TAG)) if tag.startswith(_TAG) else None
    if kind is None:
        raise YamlError(line, f"expected a value that JSON has, got one with the tag {tag}")
    value = _plain(event.value, line)
    if not isinstance(value, kind):
        raise YamlError(line, f"expected {tag.removeprefix(_TAG)}, got {event.value!r}")
    return value


def _plain(text: str, line: int) -> Any:
    """What a word without quotes stands for."""
    if text in _MEANINGS:
        meaning = _MEANINGS[text]
        if isinstance(meaning, float):
            raise YamlError(line, f"expected a number that JSON has, got {text}")
        return meaning
    if text[0] not in "+-.0123456789":
        return text
    bare = text.replace("_", "")
    if (found := _INTEGER.fullmatch(bare)) and len(bare) <= _MOST_DIGITS:
        sign, *written = found.groups()
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
    return (
        int(real) if real.is_integer() and abs(real) < 1e15 else real
    )  # without a fraction, as Go writes it


def _key(value: Any, line: int) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise YamlError(
        line, "expected text as a key, got " + ("nothing" if value is None else "a collection")
    )
