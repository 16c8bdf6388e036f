"""Object templates: YAML with the Go template actions (`{{ }}`) that scheduler_perf's files use.

An action is a pipeline of calls such as `{{.Index}}`, `{{ DivideInt 30000 .Count }}` or `{{ .Index
| Mod 12 }}`; arguments are numbers, quoted text and parentheses. Control structures (if, range,
with) are refused by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]
Value = int | float | str | bool
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_ACTION = re.compile(r"\{\{(-\s)?(.*?)(\s-)?\}\}", re.DOTALL)
_TOKEN = re.compile(r'\s*(?:(\()|(\))|(\|)|("(?:[^"\\]|\\.)*")|(-?\d+\.\d+|-?\d+)|(\.\w+)|(\w+))')


class TemplateError(ValueError):
    """A template cannot be read or filled in; the message names its file."""


def read_yaml(text: str) -> Any:
    """Reads a single YAML document. Raises yaml.YAMLError."""
    loader = _LOADER(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def _number(value: Value) -> float:
    if isinstance(value, bool):
        raise TemplateError(f"expected a number, got {value}")
    try:
        return float(value)
    except ValueError:
        raise TemplateError(f"expected a number, got {value!r}") from None


def _divide(dividend: Value, divisor: Value) -> float:
    if not _number(divisor):
        raise TemplateError("division by zero")
    return _number(dividend) / _number(divisor)


def _mod(dividend: Value, divisor: Value) -> int:
    """Returns the remainder with the sign of the first number, as in Go."""
    if not int(_number(divisor)):
        raise TemplateError("division by zero")
    return int(math.fmod(int(_number(dividend)), int(_number(divisor))))


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "AddFloat": lambda *numbers: sum(map(_number, numbers)),
    "AddInt": lambda *numbers: int(sum(map(_number, numbers))),
    "DivideFloat": _divide,
    "DivideInt": lambda dividend, divisor: int(_divide(dividend, divisor)),
    "Mod": _mod,
    "MultiplyFloat": lambda *numbers: math.prod(map(_number, numbers)),
    "MultiplyInt": lambda *numbers: int(math.prod(map(_number, numbers))),
    "SubtractFloat": lambda number, other: _number(number) - _number(other),
    "SubtractInt": lambda number, other: int(_number(number) - _number(other)),
}


def fill(text: str, values: Mapping[str, Value]) -> str:
    """Returns the text with its actions replaced by their values. Raises TemplateError."""
    parts: list[str] = []
    end = 0
    for action in _ACTION.finditer(text):
        before = text[end : action.start()]
        if parts and parts[-1] == "\0trim":
            parts.pop()
            before = before.lstrip()
        parts.append(before.rstrip() if action[1] else before)
        inner = action[2].strip()
        if not inner.startswith("/*"):
            parts.append(_shown(_Expression(inner, values).value()))
        if action[3]:
            parts.append("\0trim")
        end = action.end()
    rest = text[end:]
    if parts and parts[-1] == "\0trim":
        parts.pop()
        rest = rest.lstrip()
    return "".join(parts) + rest


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


class _Expression:
    """The text between the braces of an action."""

    def __init__(self, text: str, values: Mapping[str, Value]) -> None:
        self._text = text
        self._values = values
        self._tokens = self._split(text)
        self._at = 0

    def value(self) -> Value:
        value = self._pipeline()
        if self._at < len(self._tokens):
            raise self._refused(f"unexpected {self._tokens[self._at]!r}")
        return value

    def _pipeline(self) -> Value:
        value = self._command(())
        while self._peek() == "|":
            self._at += 1
            value = self._command((value,))
        return value

    def _command(self, piped: Sequence[Value]) -> Value:
        name = self._peek()
        function = FUNCTIONS.get(name)
        if function is None:
            if piped:
                raise self._refused(f"unknown function {name!r}")
            return self._operand()
        self._at += 1
        arguments: list[Value] = []
        while self._peek() not in ("", "|", ")"):
            arguments.append(self._operand())
        try:
            return function(*arguments, *piped)
        except TypeError:
            raise self._refused(
                f"{name} does not take {len(arguments) + len(piped)} arguments"
            ) from None

    def _operand(self) -> Value:
        token = self._peek()
        self._at += 1
        if token == "(":  # noqa: S105 - a parenthesis is no password
            value = self._pipeline()
            if self._peek() != ")":
                raise self._refused("expected )")
            self._at += 1
            return value
        if token.startswith('"'):
            return token[1:-1].replace('\\"', '"').replace("\\\\", "\\")
        if token.startswith("."):
            if token[1:] not in self._values:
                names = ", ".join(f".{name}" for name in self._values)
                raise self._refused(f"{token} is not defined, only {names}")
            return self._values[token[1:]]
        if token in ("true", "false"):
            return token == "true"  # noqa: S105 - a word is no password
        if re.fullmatch(r"-?\d+", token):
            return int(token)
        if re.fullmatch(r"-?\d+\.\d+", token):
            return float(token)
        raise self._refused(
            f"unknown function {token!r}" if token else "expected a value, got nothing"
        )

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _split(self, text: str) -> list[str]:
        tokens, at = [], 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self._refused(f"cannot be read from {text[at:]!r} on")
            tokens.append(match[0].strip())
            at = match.end()
        return tokens

    def _refused(self, problem: str) -> TemplateError:
        return TemplateError(f"{{{{ {self._text} }}}}: {problem}")


class Template:
    """An object template, read from a file or from a text.

    A template without actions is parsed once and always returns the same document.
    """

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text
        self._constant = None if "{{" in text else self._parsed(text)

    @staticmethod
    def read(path: Path) -> Template:
        """Reads a file. Raises TemplateError."""
        try:
            return Template(str(path), path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as problem:
            raise TemplateError(f"{path}: cannot be read: {problem}") from None

    def document(self, values: Mapping[str, Value]) -> Document:
        """Returns the document, which the caller must not change. Raises TemplateError."""
        if self._constant is not None:
            return self._constant
        try:
            text = fill(self._text, values)
        except TemplateError as problem:
            raise TemplateError(f"{self._name}: {problem}") from None
        return self._parsed(text)

    def _parsed(self, text: str) -> Document:
        try:
            document = read_yaml(text)
        except yaml.YAMLError as problem:
            raise TemplateError(
                f"{self._name}: not valid YAML: {' '.join(str(problem).split())}"
            ) from None
        if not isinstance(document, dict):
            raise TemplateError(f"{self._name}: expected one object, got {type(document).__name__}")
        if not isinstance(document.get("metadata", {}), dict):
            raise TemplateError(f"{self._name}: metadata: expected a mapping")
        return document
