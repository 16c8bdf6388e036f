"""Why a text is no JSON, and what a value is called, in the words of Go's encoding/json.

Clients show these words, and some look for them.
"""

from __future__ import annotations

import re
from typing import Any

END = "unexpected end of JSON input"
_SPACE = re.compile(r"[ \t\r\n]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_LITERALS = {"t": "true", "f": "false", "n": "null"}
_ESCAPES = '"\\/bfnrt'


class _UnreadableError(Exception):
    pass


def json_problem(raw: bytes) -> str:
    """Returns what is wrong with a text; "" if it is JSON.

    >>> json_problem(b'{"a": tru}')
    "invalid character '}' in literal true (expecting 'e')"
    """
    text = raw.decode(errors="replace")
    try:
        at = _value(text, _spaces(text, 0))
        at = _spaces(text, at)
        if at < len(text):
            raise _unexpected(text, at, "after top-level value")
    except _UnreadableError as problem:
        return str(problem)
    except RecursionError:
        return "exceeded max depth"
    return ""


def go_type(value: Any) -> str:
    """Returns what Go calls a JSON value.

    >>> go_type([1])
    'array'
    """
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    for type_, name in ((str, "string"), (list, "array"), (dict, "object")):
        if isinstance(value, type_):
            return name
    return "null"


def go_text(value: Any) -> str:
    """Returns how Go prints a JSON value with %v.

    >>> go_text({"b": [1, None], "a": True})
    'map[a:true b:[1 <nil>]]'
    """
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_text, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)


def _unexpected(text: str, at: int, where: str) -> _UnreadableError:
    if at >= len(text):
        return _UnreadableError(END)
    return _UnreadableError(f"invalid character {_quoted(text[at])} {where}")


def _quoted(character: str) -> str:
    if character == "'":
        return r"'\''"
    if character == '"':
        return "'\"'"
    escaped = {"\n": r"\n", "\t": r"\t", "\r": r"\r", "\\": r"\\"}.get(character)
    if escaped is None:
        escaped = character if character.isprintable() else f"\\x{ord(character):02x}"
    return f"'{escaped}'"


def _spaces(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _value(text: str, at: int) -> int:
    """Returns where the value that begins at `at` ends."""
    first = text[at : at + 1]
    if first in ("{", "["):
        return _composed(text, at)
    if first == '"':
        return _string(text, at + 1)
    if first and first in "-0123456789":
        return _number(text, at)
    if first in _LITERALS:
        word = _LITERALS[first]
        for offset, expected in enumerate(word):
            if text[at + offset : at + offset + 1] != expected:
                where = f"in literal {word} (expecting {_quoted(expected)})"
                raise _unexpected(text, at + offset, where)
        return at + len(word)
    raise _unexpected(text, at, "looking for beginning of value")


def _composed(text: str, at: int) -> int:
    """Returns where an object or an array ends."""
    is_object = text[at] == "{"
    closing = "}" if is_object else "]"
    after = "after object key:value pair" if is_object else "after array element"
    at = _spaces(text, at + 1)
    if text[at : at + 1] == closing:
        return at + 1
    while True:
        if is_object:
            if text[at : at + 1] != '"':
                raise _unexpected(text, at, "looking for beginning of object key string")
            at = _spaces(text, _string(text, at + 1))
            if text[at : at + 1] != ":":
                raise _unexpected(text, at, "after object key")
            at = _spaces(text, at + 1)
        at = _spaces(text, _value(text, at))
        mark = text[at : at + 1]
        if mark == closing:
            return at + 1
        if mark != ",":
            raise _unexpected(text, at, after)
        at = _spaces(text, at + 1)


def _string(text: str, at: int) -> int:
    """Returns where the string ends whose first character is at `at`."""
    while True:
        plain = _PLAIN.match(text, at)
        at = at if plain is None else plain.end()
        mark = text[at : at + 1]
        if mark == '"':
            return at + 1
        if mark != "\\":
            raise _unexpected(text, at, "in string literal")
        escape = text[at + 1 : at + 2]
        if escape == "u":
            for place in range(at + 2, at + 6):
                if text[place : place + 1] not in tuple("0123456789abcdefABCDEF"):
                    raise _unexpected(text, place, "in \\u hexadecimal character escape")
            at += 6
        elif escape and escape in _ESCAPES:
            at += 2
        else:
            raise _unexpected(text, at + 1, "in string escape code")


def _number(text: str, at: int) -> int:
    """Returns where a number ends."""
    if text[at] == "-":
        at += 1
        if not text[at : at + 1].isdecimal():
            raise _unexpected(text, at, "in numeric literal")
    at = at + 1 if text[at] == "0" else _digits(text, at)
    if text[at : at + 1] == ".":
        at += 1
        if not text[at : at + 1].isdecimal():
            raise _unexpected(text, at, "after decimal point in numeric literal")
        at = _digits(text, at)
    if text[at : at + 1] in ("e", "E"):
        at += 1
        if text[at : at + 1] in ("+", "-"):
            at += 1
        if not text[at : at + 1].isdecimal():
            raise _unexpected(text, at, "in exponent of numeric literal")
        at = _digits(text, at)
    return at


def _digits(text: str, at: int) -> int:
    while text[at : at + 1].isdecimal():
        at += 1
    return at
