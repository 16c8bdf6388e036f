"""Templates in the language of Go's text/template, as the stages of KWOK use it.

Text, `{{ actions }}` with pipelines, variables, `if`, `else if`, `range`, `with`, `break`,
`continue`, comments and trimmed space; no `define` and no methods. A template is compiled once to
closures. The value of an absent field is nil, and so is each field of nil. Nesting, the turns of
ranges, the size of lists and mappings and the length of the text are bounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NoReturn

import msgspec

from . import go_nodes as nodes
from .go_builtins import BUILTINS, Functions
from .go_nodes import BreakError, ContinueError, Node, Scope, TemplateError, Value

_ACTION = re.compile(r"\{\{(?P<trim>-\s)?(?P<body>.*?)(?P<end>\s-)?\}\}", re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<space>\s+) | (?P<string>"(?:[^"\\\n]|\\.)*"|`[^`]*`)
    | (?P<number>[+-]?(?:0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?))
    | (?P<variable>\$\w*) | (?P<field>\.[A-Za-z_]\w*) | (?P<word>[A-Za-z_]\w*)
    | (?P<mark>:=|[=|(),.])""",
    re.VERBOSE,
)
_WORDS = {"true": True, "false": False, "nil": None}
_BLOCKS = ("if", "with", "range")
_TOO_DEEP = "nested too deeply"


class _Token(msgspec.Struct, frozen=True):
    kind: str
    text: str
    line: int
    spaced: bool = False  # space precedes it


class Template:
    """A compiled template. Raises TemplateError if the text is no template.

    `functions` are the names that the template may call; `render` gets the functions themselves.
    """

    def __init__(self, text: str, functions: Iterable[str]) -> None:
        parser = _Parser(text, frozenset(functions) | BUILTINS.keys())
        try:
            self._node = parser.template()
        except RecursionError:
            raise TemplateError(parser.line, _TOO_DEEP) from None

    def render(self, data: Any, functions: Functions) -> str:
        """Returns the text for a value. Raises TemplateError."""
        scope = Scope(data, {**BUILTINS, **functions})
        try:
            self._node(scope, data)
        except RecursionError:
            raise TemplateError(1, _TOO_DEEP) from None
        return "".join(scope.output)


class _Part(msgspec.Struct, frozen=True):
    """A part of a template: its text, or the tokens of an action."""

    text: str
    tokens: tuple[_Token, ...] | None
    line: int


def _parts(text: str) -> list[_Part]:
    """Returns the parts of a template, without space at its ends."""
    parts: list[_Part] = []
    text = text.rstrip()
    place, trim = len(text) - len(text.lstrip()), False
    for match in _ACTION.finditer(text):
        before = text[place : match.start()]
        before = before.lstrip() if trim else before
        before = before.rstrip() if match["trim"] else before
        line = text.count("\n", 0, match.start()) + 1
        parts.append(_Part(before, None, line))
        parts.append(_Part("", tuple(_tokens(match["body"], line)), line))
        place, trim = match.end(), bool(match["end"])
    tail = text[place:]
    if "{{" in tail:
        line = text.count("\n", 0, place + tail.index("{{")) + 1
        raise TemplateError(line, "expected }} after {{")
    parts.append(_Part(tail.lstrip() if trim else tail, None, text.count("\n") + 1))
    return parts


def _tokens(body: str, line: int) -> Iterable[_Token]:
    bare = body.strip()
    if bare.startswith("/*") and bare.endswith("*/"):
        return
    place, spaced = 0, True
    while place < len(body):
        match = _TOKEN.match(body, place)
        if match is None:
            raise TemplateError(line, f"unexpected {body[place:].split(maxsplit=1)[0]!r}")
        kind = match.lastgroup or ""
        if kind != "space":
            yield _Token(kind, match[kind], line, spaced)
        spaced = kind == "space"
        line += match[0].count("\n")
        place = match.end()


class _Parser:
    """Compiles the parts of a template; `_tokens` are those of the current action."""

    def __init__(self, text: str, functions: frozenset[str]) -> None:
        self._parts = _parts(text)
        self._part = 0
        self._functions = functions
        self._tokens: tuple[_Token, ...] = ()
        self._next = 0
        self.line = 1
        self._declared = ["$"]
        self._loops = 0

    def template(self) -> Node:
        node, ended_by = self._block(())
        assert ended_by == ""
        return node

    def _block(self, enders: tuple[str, ...]) -> tuple[Node, str]:
        """Compiles the parts up to an action that ends the block; returns its first word too."""
        block: list[Node] = []
        while self._part < len(self._parts):
            part = self._parts[self._part]
            self._part += 1
            self.line = part.line
            if part.tokens is None:
                if part.text:
                    block.append(nodes.text(part.text, part.line))
                continue
            if not part.tokens:
                continue
            self._tokens, self._next = part.tokens, 0
            token = part.tokens[0]
            word = token.text if token.kind == "word" else ""
            if word in ("end", "else"):
                if word not in enders:
                    raise TemplateError(self.line, f"unexpected {{{{{word}}}}}")
                self._next = 1
                return nodes.sequence(block), word
            block.append(self._action(word))
        if enders:
            raise TemplateError(self.line, "expected {{end}} before the end of the template")
        return nodes.sequence(block), ""

    def _action(self, word: str) -> Node:
        if word in _BLOCKS:
            self._next = 1
            return self._control(word)
        if word in ("break", "continue") and len(self._tokens) == 1:
            if not self._loops:
                self._fail(f"{word} inside of range")
            error = BreakError if word == "break" else ContinueError
            return nodes.leave(error)
        names, assigns = self._declaration()
        value = self._pipeline()
        self._end_of_action()
        if not names:
            return nodes.print_value(value, self.line)
        if len(names) > 1:
            self._fail("one variable")
        if assigns:
            return nodes.assign(names[0], value)
        self._declared.append(names[0])
        return nodes.declare(names[0], value)

    def _control(self, word: str) -> Node:
        """Compiles if, with or range, up to its end."""
        size, line = len(self._declared), self.line
        names, assigns = self._declaration(ranges=word == "range")
        value = self._pipeline()
        self._end_of_action()
        if assigns:
            names = []
        self._declared += names
        self._loops += word == "range"
        body, ended_by = self._block(("else", "end"))
        self._loops -= word == "range"
        other: Node | None = None
        if ended_by == "else":
            if self._next < len(self._tokens):
                chained = self._tokens[self._next].text
                if chained != word or word == "range":
                    self._fail(f"{{{{else}}}} or {{{{else {word} …}}}}")
                self._next += 1
                other = self._control(word)
            else:
                other, _ = self._block(("end",))
        else:
            self._end_of_action()
        del self._declared[size:]
        if word == "range":
            return nodes.range_over(value, tuple(names), body, other, line)
        return nodes.branch(value, tuple(names), body, other, rebinds=word == "with")

    def _declaration(self, *, ranges: bool = False) -> tuple[list[str], bool]:
        """Reads `$x :=`, `$x =` or, for range, `$i, $x :=`, if the action begins so."""
        tokens = self._tokens[self._next : self._next + 4]
        if len(tokens) < 2 or tokens[0].kind != "variable":
            return [], False
        if tokens[1].text in (":=", "="):
            self._next += 2
            assigns = tokens[1].text == "="
            if assigns:
                self._check_declared(tokens[0].text)
            return [tokens[0].text], assigns
        if ranges and len(tokens) == 4 and tokens[1].text == "," and tokens[3].text == ":=":
            self._next += 4
            return [tokens[0].text, tokens[2].text], False
        return [], False

    def _pipeline(self) -> Value:
        value = self._command(None)
        while self._take("|"):
            value = self._command(value)
        return value

    def _command(self, piped: Value | None) -> Value:
        token = self._peek()
        if token.kind == "word" and token.text not in _WORDS:
            self._next += 1
            arguments: list[Value] = []
            while self._starts_operand():
                arguments.append(self._operand())
            if piped is not None:
                arguments.append(piped)
            return self._call(token, arguments)
        value = self._operand()
        if piped is not None:
            self._fail("a function after |")
        if self._starts_operand():
            self._fail("| or }}")
        return value

    def _call(self, token: _Token, arguments: list[Value]) -> Value:
        name, line = token.text, token.line
        if name not in self._functions:
            raise TemplateError(line, f"function {name!r} is not known")
        if name in ("and", "or"):
            return nodes.shortcut(arguments, until=name == "or")
        if not arguments:
            return lambda scope, _: nodes.called(name, line, scope, ())
        return lambda scope, dot: nodes.called(
            name, line, scope, [argument(scope, dot) for argument in arguments]
        )

    def _starts_operand(self) -> bool:
        token = self._peek()
        return token.kind not in ("end", "mark") or token.text in (".", "(")

    def _operand(self) -> Value:
        token = self._peek()
        self._next += 1
        value: Value
        match token.kind:
            case "string":
                literal = token.text[1:-1] if token.text[0] == "`" else self._unquoted(token.text)
                return lambda _, __: literal
            case "number":
                number = _number(token.text)
                return lambda _, __: number
            case "variable":
                self._check_declared(token.text)
                value = nodes.variable(token.text)
            case "field":
                self._next -= 1
                value = nodes.dot
            case "word" if token.text in _WORDS:
                constant = _WORDS[token.text]
                return lambda _, __: constant
            case "word":
                value = self._call(token, [])
            case "mark" if token.text == ".":
                return nodes.dot
            case "mark" if token.text == "(":
                value = self._pipeline()
                if not self._take(")"):
                    self._fail(")")
            case _:
                self._next -= 1
                self._fail("a value")
        first = True
        while self._peek().kind == "field" and (
            not self._peek().spaced or (first and value is nodes.dot)
        ):
            value = nodes.field(value, self._peek().text[1:], self._peek().line)
            self._next += 1
            first = False
        return value

    def _unquoted(self, text: str) -> str:
        try:
            return str(json.loads(text))
        except ValueError:
            self._fail("a string with JSON's escapes")

    def _check_declared(self, name: str) -> None:
        if name not in self._declared:
            raise TemplateError(self._peek().line, f"variable {name} is not declared")

    def _end_of_action(self) -> None:
        if self._next < len(self._tokens):
            self._fail("}}")

    def _peek(self) -> _Token:
        if self._next < len(self._tokens):
            return self._tokens[self._next]
        return _Token("end", "}}", self.line)

    def _take(self, text: str) -> bool:
        token = self._peek()
        if token.kind != "mark" or token.text != text:
            return False
        self._next += 1
        return True

    def _fail(self, expected: str) -> NoReturn:
        token = self._peek()
        raise TemplateError(token.line, f"expected {expected}, got {token.text}")


def _number(text: str) -> int | float:
    try:
        return int(text, 0)
    except ValueError:
        return float(text)
