"""The nodes to which a template is compiled, and the state of its execution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .go_builtins import MAX_LENGTH, Functions, check_length, is_true, printed

_MAX_TURNS = 100_000  # of all ranges of an execution
_MAX_ITEMS = 100_000  # of all lists and mappings that an execution makes
_MAKERS = ("list", "dict")  # the functions that make lists and mappings


class TemplateError(ValueError):
    """A template cannot be read or executed; the message begins with the line."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")


class BreakError(Exception):
    """A `break` inside of `range`."""


class ContinueError(Exception):
    """A `continue` inside of `range`."""


class Scope:
    """The state of an execution: the functions and variables, and the text so far."""

    __slots__ = ("_items", "_length", "_turns", "functions", "names", "output", "values")

    def __init__(self, data: Any, functions: Functions) -> None:
        self.functions = functions
        self.names = ["$"]
        self.values = [data]
        self.output: list[str] = []
        self._length = 0
        self._turns = 0
        self._items = 0

    def declare(self, name: str, value: Any) -> None:
        self.names.append(name)
        self.values.append(value)

    def place(self, name: str) -> int:
        """Returns the index of the innermost variable of this name."""
        return len(self.names) - 1 - self.names[::-1].index(name)

    def write(self, text: str, line: int) -> None:
        self._length += len(text)
        if self._length > MAX_LENGTH:
            raise TemplateError(line, f"the text is longer than {MAX_LENGTH:,} characters")
        self.output.append(text)

    def turn(self, turns: int, line: int) -> None:
        """Counts the turns of a range before they begin. Raises TemplateError for too many."""
        self._turns += turns
        if self._turns > _MAX_TURNS:
            raise TemplateError(line, f"range: expected at most {_MAX_TURNS:,} turns altogether")

    def make(self, value: Any) -> None:
        """Counts the contents of a new list or mapping. Raises ValueError if they are too many."""
        values, characters = [value], 0
        while values:
            value = values.pop()
            if isinstance(value, list | dict):
                self._items += len(value)
                if self._items > _MAX_ITEMS:
                    raise ValueError(f"expected at most {_MAX_ITEMS:,} items altogether")
                values += value if isinstance(value, list) else value.values()
            elif isinstance(value, str):
                characters += len(value)
                check_length(characters)

    def leave(self, size: int) -> None:
        del self.names[size:], self.values[size:]


Value = Callable[[Scope, Any], Any]  # (scope, dot) -> value
Node = Callable[[Scope, Any], None]


def dot(_: Scope, dot: Any) -> Any:
    return dot


def variable(name: str) -> Value:
    return lambda scope, _: scope.values[scope.place(name)]


def text(text: str, line: int) -> Node:
    return lambda scope, _: scope.write(text, line)


def sequence(nodes: list[Node]) -> Node:
    def run(scope: Scope, dot: Any) -> None:
        for node in nodes:
            node(scope, dot)

    return run


def leave(error: type[Exception]) -> Node:
    def leave(_: Scope, __: Any) -> None:
        raise error

    return leave


def print_value(value: Value, line: int) -> Node:
    return lambda scope, dot: scope.write(printed(value(scope, dot)), line)


def declare(name: str, value: Value) -> Node:
    return lambda scope, dot: scope.declare(name, value(scope, dot))


def assign(name: str, value: Value) -> Node:
    def assign(scope: Scope, dot: Any) -> None:
        scope.values[scope.place(name)] = value(scope, dot)

    return assign


def field(value: Value, name: str, line: int) -> Value:
    def field(scope: Scope, dot: Any) -> Any:
        owner = value(scope, dot)
        if owner is None:
            return None
        if not isinstance(owner, dict):
            raise TemplateError(line, f".{name}: expected a mapping, got {printed(owner)}")
        return owner.get(name)

    return field


def branch(
    test: Value, names: tuple[str, ...], body: Node, other: Node | None, *, rebinds: bool
) -> Node:
    """Returns the node of an `if`; with `rebinds`, that of a `with`, which binds the dot to the
    tested value.
    """

    def run(scope: Scope, dot: Any) -> None:
        size = len(scope.names)
        value = test(scope, dot)
        for name in names:
            scope.declare(name, value)
        if is_true(value):
            body(scope, value if rebinds else dot)
        elif other is not None:
            other(scope, dot)
        scope.leave(size)

    return run


def range_over(
    items: Value, names: tuple[str, ...], body: Node, other: Node | None, line: int
) -> Node:
    def run(scope: Scope, dot: Any) -> None:
        size = len(scope.names)
        pairs = _pairs(items(scope, dot), line)
        scope.turn(len(pairs), line)
        for key, item in pairs:
            declared = (item,) if len(names) == 1 else (key, item)
            for name, value in zip(names, declared, strict=False):
                scope.declare(name, value)
            try:
                body(scope, item)
            except BreakError:
                scope.leave(size)
                break
            except ContinueError:
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


def shortcut(arguments: list[Value], *, until: bool) -> Value:
    def run(scope: Scope, dot: Any) -> Any:
        value = None
        for argument in arguments:
            value = argument(scope, dot)
            if is_true(value) == until:
                break
        return value

    return run


def called(name: str, line: int, scope: Scope, arguments: Iterable[Any]) -> Any:
    try:
        value = scope.functions[name](*arguments)
        if name in _MAKERS:
            scope.make(value)
        elif isinstance(value, str):
            check_length(len(value))
    except (AttributeError, TypeError, ValueError, LookupError, ArithmeticError) as problem:
        raise TemplateError(line, f"{name}: {problem}") from None
    return value
