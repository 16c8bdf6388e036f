"""Splits an expression into tokens."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from .errors import CompileError, Problem
from .values import MAX_INT64, MAX_UINT64, Uint

_ESCAPE = (
    r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}"
    r"|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
)
_STRING = "|".join(
    (
        r'[rR]"""(?:.|\n)*?"""',
        r"[rR]'''(?:.|\n)*?'''",
        rf'"""(?:{_ESCAPE}|[^\\])*?"""',
        rf"'''(?:{_ESCAPE}|[^\\])*?'''",
        r'[rR]"[^"\n\r]*"',
        r"[rR]'[^'\n\r]*'",
        rf'"(?:{_ESCAPE}|[^\\"\n\r])*"',
        rf"'(?:{_ESCAPE}|[^\\'\n\r])*'",
    )
)
_TOKEN = re.compile(
    rf"""(?P<space>(?:[\t \r\n\f]+|//[^\n]*)+)
    |(?P<bytes>[bB](?:{_STRING}))
    |(?P<string>{_STRING})
    |(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
    |(?P<int>0x[0-9a-fA-F]+|[0-9]+)
    |(?P<ident>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<escaped>`[A-Za-z0-9_.\-/\ ]+`)
    |(?P<op>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])
    """,
    re.VERBOSE,
)
_KEYWORDS = {"true": True, "false": False, "null": None}
_SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_ESCAPED = re.compile(_ESCAPE)


class Token(NamedTuple):
    """A token. `kind` is the text of an operator, or `literal`, `ident`, `escaped` or `end`."""

    kind: str
    value: Any
    at: int
    number: str = ""  # "int" or "float" for numbers that may take a minus


def tokens(source: str) -> list[Token]:
    """Returns the tokens; the last marks the end. Raises CompileError."""
    result: list[Token] = []
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            what = source[at : at + 1]
            message = f"Syntax error: token recognition error at: '{what}'"
            raise CompileError([Problem(at, message)])
        kind, text = match.lastgroup or "", match[0]
        if kind != "space":
            result.append(_token(kind, text, at))
        at = match.end()
    result.append(Token("end", "<EOF>", at))
    return result


def _token(kind: str, text: str, at: int) -> Token:
    match kind:
        case "op":
            return Token(text, text, at)
        case "ident":
            if text in _KEYWORDS:
                return Token("literal", _KEYWORDS[text], at)
            return Token("in" if text == "in" else "ident", text, at)
        case "escaped":
            return Token("escaped", text, at)
        case "string" | "bytes":
            try:
                return Token("literal", _unescaped(text, is_bytes=kind == "bytes"), at)
            except ValueError as problem:
                raise CompileError([Problem(at, str(problem))]) from None
        case "uint":
            return Token("literal", Uint(_bounded_literal(text[:-1], MAX_UINT64, "uint", at)), at)
        case "int":
            # The largest int plus one is allowed here: a minus may stand before it.
            return Token("literal", _bounded_literal(text, MAX_INT64 + 1, "int", at), at, "int")
        case _:
            return Token("literal", float(text), at, "float")


def _bounded_literal(text: str, most: int, kind: str, at: int) -> int:
    digits = text.removeprefix("0x")
    base = 10 if digits == text else 16
    value = int(digits, base) if len(digits) < 64 else most + 1
    if value > most:
        raise CompileError([Problem(at, f"invalid {kind} literal")])
    return value


def _unescaped(text: str, *, is_bytes: bool) -> str | bytes:
    """Returns the value of a literal. Raises ValueError."""
    if is_bytes:
        text = text[1:]
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    text = text[quotes:-quotes].replace("\r\n", "\n").replace("\r", "\n")
    if raw:
        return text.encode() if is_bytes else text
    if is_bytes:
        return b"".join(_byte_parts(text))
    return _ESCAPED.sub(lambda match: _character(match[0]), text)


def _byte_parts(text: str) -> list[bytes]:
    parts, at = [], 0
    for match in _ESCAPED.finditer(text):
        parts.append(text[at : match.start()].encode())
        escape = match[0]
        if escape[1] in "uU":
            raise ValueError("unable to unescape string")
        code = _code_point(escape)
        parts.append(bytes((code,)) if code < 256 else chr(code).encode())
        at = match.end()
    parts.append(text[at:].encode())
    return parts


def _character(escape: str) -> str:
    code = _code_point(escape)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError("invalid unicode code point")
    return chr(code)


def _code_point(escape: str) -> int:
    letter = escape[1]
    if letter in "xXuU":
        digits = escape[2:]
        return int(digits, 16)
    if letter in "0123":
        return int(escape[1:], 8)
    return _SIMPLE.get(letter, ord(letter))
