"""Templates in the language of Go's text/template, as the stages of KWOK use it.

Text, `{{ actions }}` with pipelines, variables, `if`, `else if`, `range`, `with`, `break`,
`continue`, comments and trimmed space; no `define` and no methods. A template is compiled once to
closures. The value of an absent field is nil, and so is each field of nil. Nesting, the turns of
ranges and the length of the text are bounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import msgspec

from .go_builtins import BUILTINS, Functions, is_true, printed

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
_MAX_TURNS = 100_000  # of all ranges of an execution
_MAX_LENGTH = 4 * 2**20  # of the text, and of each text on the way
_TOO_DEEP = "nested too deeply"


class TemplateError(ValueError):
    """A template cannot be read or executed; the message begins with the line."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")


class _BreakError(Exception):
    """`break` inside of `range`."""


class _ContinueError(Exception):
    """`continue` inside of `range`."""


class _Token(msgspec.Struct, frozen=True):
    kind: str
    text: str
    line: int
    spaced: bool = False  # space precedes it


class _Scope:
    """What an execution knows: the functions and variables, and the text so far."""

    __slots__ = ("_length", "_turns", "functions", "names", "output", "values")

    def __init__(self, data: Any, functions: Functions) -> None:
        self.functions = functions
        self.names = ["$"]
        self.values = [data]
        self.output: list[str] = []
        self._length = 0
        self._turns = 0

    def declare(self, name: str, value: Any) -> None:
        self.names.append(name)
        self.values.append(value)

    def place(self, name: str) -> int:
        """Returns the index of the innermost variable of this name."""
        return len(self.names) - 1 - self.names[::-1].index(name)

    def write(self, text: str, line: int) -> None:
        self._length += len(text)
        if self._length > _MAX_LENGTH:
            raise TemplateError(line, f"the text is longer than {_MAX_LENGTH:,} characters")
        self.output.append(text)

    def turn(self, turns: int, line: int) -> None:
        """Counts the turns of a range before it takes them."""
        self._turns += turns
        if self._turns > _MAX_TURNS:
            raise TemplateError(line, f"range: expected at most {_MAX_TURNS:,} turns altogether")

    def leave(self, size: int) -> None:
        del self.names[size:], self.values[size:]


Value = Callable[[_Scope, Any], Any]  # (scope, dot) -> value
Node = Callable[[_Scope, Any], None]


class Template:
    """A compiled template. Raises TemplateError if the text is not one.

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
        scope = _Scope(data, {**BUILTINS, **functions})
        try:
            self._node(scope, data)
        except RecursionError:
            raise TemplateError(1, _TOO_DEEP) from None
        return "".join(scope.output)


# --------------------------------------------------------------------------------------- reading


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
    rest = text[place:]
    if "{{" in rest:
        line = text.count("\n", 0, place + rest.index("{{")) + 1
        raise TemplateError(line, "expected }} after {{")
    parts.append(_Part(rest.lstrip() if trim else rest, None, text.count("\n") + 1))
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
        nodes: list[Node] = []
        while self._part < len(self._parts):
            part = self._parts[self._part]
            self._part += 1
            self.line = part.line
            if part.tokens is None:
                if part.text:
                    nodes.append(_text(part.text, part.line))
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
                return _sequence(nodes), word
            nodes.append(self._action(word))
        if enders:
            raise TemplateError(self.line, "expected {{end}} before the end of the template")
        return _sequence(nodes), ""

    def _action(self, word: str) -> Node:
        if word in _BLOCKS:
            self._next = 1
            return self._control(word)
        if word in ("break", "continue") and len(self._tokens) == 1:
            if not self._loops:
                self._fail(f"{word} inside of range")
            error = _BreakError if word == "break" else _ContinueError
            return _raise(error)
        names, assigns = self._declaration()
        value = self._pipeline()
        self._end_of_action()
        if not names:
            return _print(value, self.line)
        if len(names) > 1:
            self._fail("one variable")
        if assigns:
            return _assign(names[0], value)
        self._declared.append(names[0])
        return _declare(names[0], value)

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
            return _range(value, tuple(names), body, other, line)
        return (_if if word == "if" else _with)(value, tuple(names), body, other)

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
            return _shortcut(arguments, until=name == "or")
        if not arguments:
            return lambda scope, _: _called(name, line, scope.functions[name], ())
        return lambda scope, dot: _called(
            name, line, scope.functions[name], [argument(scope, dot) for argument in arguments]
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
                value = _variable(token.text)
            case "field":
                self._next -= 1
                value = _dot
            case "word" if token.text in _WORDS:
                constant = _WORDS[token.text]
                return lambda _, __: constant
            case "word":
                value = self._call(token, [])
            case "mark" if token.text == ".":
                return _dot
            case "mark" if token.text == "(":
                value = self._pipeline()
                if not self._take(")"):
                    self._fail(")")
            case _:
                self._next -= 1
                self._fail("a value")
        first = True
        while self._peek().kind == "field" and (
            not self._peek().spaced or (first and value is _dot)
        ):
            value = _field(value, self._peek().text[1:], self._peek().line)
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


# ----------------------------------------------------------------------------------------- nodes


def _dot(_: _Scope, dot: Any) -> Any:
    return dot


def _variable(name: str) -> Value:
    return lambda scope, _: scope.values[scope.place(name)]


def _text(text: str, line: int) -> Node:
    return lambda scope, _: scope.write(text, line)


def _sequence(nodes: list[Node]) -> Node:
    def run(scope: _Scope, dot: Any) -> None:
        for node in nodes:
            node(scope, dot)

    return run


def _raise(error: type[Exception]) -> Node:
    def leave(_: _Scope, __: Any) -> None:
        raise error

    return leave


def _print(value: Value, line: int) -> Node:
    return lambda scope, dot: scope.write(printed(value(scope, dot)), line)


def _declare(name: str, value: Value) -> Node:
    return lambda scope, dot: scope.declare(name, value(scope, dot))


def _assign(name: str, value: Value) -> Node:
    def assign(scope: _Scope, dot: Any) -> None:
        scope.values[scope.place(name)] = value(scope, dot)

    return assign


def _field(value: Value, name: str, line: int) -> Value:
    def field(scope: _Scope, dot: Any) -> Any:
        owner = value(scope, dot)
        if owner is None:
            return None
        if not isinstance(owner, dict):
            raise TemplateError(line, f".{name}: expected a mapping, got {printed(owner)}")
        return owner.get(name)

    return field


def _if(test: Value, names: tuple[str, ...], body: Node, other: Node | None) -> Node:
    def run(scope: _Scope, dot: Any) -> None:
        size = len(scope.names)
        value = test(scope, dot)
        for name in names:
            scope.declare(name, value)
        if is_true(value):
            body(scope, dot)
        elif other is not None:
            other(scope, dot)
        scope.leave(size)

    return run


def _with(test: Value, names: tuple[str, ...], body: Node, other: Node | None) -> Node:
    def run(scope: _Scope, dot: Any) -> None:
        size = len(scope.names)
        value = test(scope, dot)
        for name in names:
            scope.declare(name, value)
        if is_true(value):
            body(scope, value)
        elif other is not None:
            other(scope, dot)
        scope.leave(size)

    return run


def _range(items: Value, names: tuple[str, ...], body: Node, other: Node | None, line: int) -> Node:
    def run(scope: _Scope, dot: Any) -> None:
        size = len(scope.names)
        pairs = _pairs(items(scope, dot), line)
        scope.turn(len(pairs), line)
        for key, item in pairs:
            declared = (item,) if len(names) == 1 else (key, item)
            for name, value in zip(names, declared, strict=False):
                scope.declare(name, value)
            try:
                body(scope, item)
            except _BreakError:
                scope.leave(size)
                break
            except _ContinueError:
                pass
            scope.leave(size)
        if not pairs and other is not None:
            other(scope, dot)

    return run


def _pairs(items: Any, line: int) -> Sequence[tuple[Any, Any]]:
    match items:
        case dict():
            return sorted(items.items(), key=lambda pair: printed(pair[0]))
        case None | list():
            return list(enumerate(items or ()))
        case int() if not isinstance(items, bool):
            numbers = range(min(items, _MAX_TURNS + 1))
            return list(zip(numbers, numbers, strict=True))
    raise TemplateError(
        line, f"range: expected a list, a mapping or a number, got {printed(items)}"
    )


def _shortcut(arguments: list[Value], *, until: bool) -> Value:
    def run(scope: _Scope, dot: Any) -> Any:
        value = None
        for argument in arguments:
            value = argument(scope, dot)
            if is_true(value) == until:
                break
        return value

    return run


def _called(name: str, line: int, function: Callable[..., Any], arguments: Iterable[Any]) -> Any:
    try:
        value = function(*arguments)
    except (AttributeError, TypeError, ValueError, LookupError, ArithmeticError) as problem:
        raise TemplateError(line, f"{name}: {problem}") from None
    if isinstance(value, str) and len(value) > _MAX_LENGTH:
        raise TemplateError(line, f"{name}: the text is longer than {_MAX_LENGTH:,} characters")
    return value
