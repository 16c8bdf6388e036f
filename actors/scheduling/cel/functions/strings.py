"""Functions of strings: the standard ones, those of cel-go's extension, and regular expressions."""

from __future__ import annotations

from typing import Any

from ..declarations import (
    Budget,
    budgeted,
    cost_of_first,
    cost_of_first_twice,
    cost_of_match,
    cost_of_reading,
    overload,
)
from ..errors import CelError, LimitError
from ..regex import checked_pattern, compile_pattern
from ..values import size_of
from .formatting import format_text

_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
_SPACE += "\u200a\u2028\u2029\u202f\u205f\u3000"
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_QUOTED = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)


def _out_of_range(index: int) -> CelError:
    return CelError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return text.find(part, offset)


def _last_index_of(text: str, part: str, offset: int | None = None) -> int:
    if not part:
        return len(text) if offset is None else offset
    if offset is None:
        return text.rfind(part)
    if offset < 0:
        raise _out_of_range(offset)
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


def _replace(budget: Budget, text: str, old: str, new: str, count: int = -1) -> str:
    matches = text.count(old) if old else len(text) + 1
    if 0 <= count < matches:
        matches = count
    budget.makes_text(len(text) + matches * (len(new) - len(old)))
    return text.replace(old, new, matches)


def _split(budget: Budget, text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    budget.makes_elements(text.count(separator) + 1)
    if separator:
        return text.split(separator, -1 if count < 0 else count - 1)
    if count < 0 or count >= len(text):
        return list(text)
    return [*text[: count - 1], text[count - 1 :]]


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if end is not None and end > len(text):
        raise _out_of_range(end)
    return text[start:end]


def _join(budget: Budget, parts: list[Any], separator: str = "") -> str:
    for part in parts:
        if type(part) is not str:
            raise CelError(f"join: invalid input: {str(part)[:100]}")
    size = sum(map(len, parts)) + len(separator) * max(0, len(parts) - 1)
    budget.makes_text(size)
    budget.charge(cost_of_reading(2 * size))
    return separator.join(parts)


def _traversal_cost(text: Any, *_: Any) -> int:
    return size_of(text) // 10


def _cost_of_product(text: Any, part: Any) -> int:
    return cost_of_reading(size_of(text)) * cost_of_reading(size_of(part))


# ----------------------------------------------------------------------------- regular expressions


def _pattern(budget: Budget, pattern: str, text: str) -> Any:
    """Returns the compiled pattern. Counts its compilation and one search. Raises CelError."""
    matcher = budget.patterns.get(pattern)
    if matcher is None:
        matcher = compile_pattern(pattern)
        budget.strain(matcher.work)
    budget.strain(checked_pattern(matcher).search_work(len(text)))
    return matcher


def _matches(budget: Budget, text: str, pattern: str) -> bool:
    return _pattern(budget, pattern, text).matcher.search(_encoded(text)) is not None


def _encoded(text: str) -> bytes:
    return text.encode(errors="replace")


def _legal_pattern(budget: Budget, pattern: str, text: str) -> Any:
    try:
        return _pattern(budget, pattern, text)
    except LimitError:
        raise
    except CelError as problem:
        raise CelError(f"Illegal regex: {problem}") from None


def _find(budget: Budget, text: str, pattern: str) -> str:
    match = _legal_pattern(budget, pattern, text).matcher.search(_encoded(text))
    return match.group().decode(errors="replace") if match else ""


def _find_all(budget: Budget, text: str, pattern: str, count: int = -1) -> list[str]:
    """Finds up to `count` matches, or all. As in Go, no empty match follows another match."""
    matches_: list[str] = []
    end = -1
    legal, data = _legal_pattern(budget, pattern, text), _encoded(text)
    for match in legal.matcher.finditer(data) if count else ():
        budget.makes_elements(1)
        budget.strain(legal.search_work(len(data) - match.end()))
        if match.start() == match.end() == end:
            continue
        matches_.append(match.group().decode(errors="replace"))
        end = match.end()
        if len(matches_) == count:
            break
    return matches_


OVERLOADS = [
    overload(
        "contains_string", "string::contains(string) -> bool", str.__contains__, _cost_of_product
    ),
    overload("ends_with_string", "string::endsWith(string) -> bool", str.endswith, cost_of_first),
    overload(
        "starts_with_string", "string::startsWith(string) -> bool", str.startswith, cost_of_first
    ),
    budgeted("matches", "matches(string, string) -> bool", _matches, cost_of_match),
    budgeted("matches_string", "string::matches(string) -> bool", _matches, cost_of_match),
    budgeted("string_find_string", "string::find(string) -> string", _find, cost_of_match),
    budgeted("find_all", "string::findAll(string) -> list(string)", _find_all, cost_of_match),
    budgeted(
        "find_all_int", "string::findAll(string, int) -> list(string)", _find_all, cost_of_match
    ),
    overload("string_char_at_int", "string::charAt(int) -> string", _char_at),
    overload("string_index_of", "string::indexOf(string) -> int", _index_of, _traversal_cost),
    overload(
        "string_index_of_int", "string::indexOf(string, int) -> int", _index_of, _traversal_cost
    ),
    overload(
        "string_last_index", "string::lastIndexOf(string) -> int", _last_index_of, _traversal_cost
    ),
    overload(
        "string_last_index_int",
        "string::lastIndexOf(string, int) -> int",
        _last_index_of,
        _traversal_cost,
    ),
    overload(
        "string_lower_ascii",
        "string::lowerAscii() -> string",
        lambda s: s.translate(_LOWER),
        cost_of_first,
    ),
    overload(
        "string_upper_ascii",
        "string::upperAscii() -> string",
        lambda s: s.translate(_UPPER),
        cost_of_first,
    ),
    overload("string_trim", "string::trim() -> string", lambda s: s.strip(_SPACE), cost_of_first),
    overload("string_substring_int", "string::substring(int) -> string", _substring, cost_of_first),
    overload(
        "string_substring_int_int",
        "string::substring(int, int) -> string",
        _substring,
        cost_of_first,
    ),
    budgeted(
        "string_replace", "string::replace(string, string) -> string", _replace, cost_of_first_twice
    ),
    budgeted(
        "string_replace_int",
        "string::replace(string, string, int) -> string",
        _replace,
        cost_of_first_twice,
    ),
    budgeted("string_split", "string::split(string) -> list(string)", _split, cost_of_first_twice),
    budgeted(
        "string_split_int",
        "string::split(string, int) -> list(string)",
        _split,
        cost_of_first_twice,
    ),
    budgeted("list_join", "list(string)::join() -> string", _join, 0),
    budgeted("list_join_string", "list(string)::join(string) -> string", _join, 0),
    overload(
        "strings_quote",
        "strings.quote(string) -> string",
        lambda s: f'"{s.translate(_QUOTED)}"',
        cost_of_first,
    ),
    budgeted("string_format", "string::format(list(dyn)) -> string", format_text, cost_of_first),
]

# For keys in the paths of JSON patches.
ESCAPE_KEY = (
    overload(
        "string_jsonpatch_escapeKey_string",
        "jsonpatch.escapeKey(string) -> string",
        lambda key: key.replace("~", "~0").replace("/", "~1"),
        cost_of_first,
    ),
)
