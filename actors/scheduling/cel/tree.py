"""The nodes of a parsed expression, and a way to walk them without recursion in Python.

Macros are expanded by the parser, so `x.all(i, p)` is a `Comprehension`, as in cel-go. The checker
writes `type` and `overloads`. A node may have several parents (the macro `optMap` uses its operand
twice), and then walks visit it several times.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from .types import DYN, Type

T = TypeVar("T")
Walk = Generator["Walk[Any]", Any, T]

ACCUMULATOR = "@result"
UNUSED = "#unused"


class TreeNode:
    """A node. `at` is the offset in the source; `depth` and `size` include the node itself."""

    __slots__ = ("at", "children", "depth", "size", "type")

    def __init__(self, at: int, *children: TreeNode) -> None:
        self.at = at
        self.children = children
        self.type: Type = DYN
        self.depth: int = 1 + max((child.depth for child in children), default=0)
        self.size: int = 1 + sum(child.size for child in children)


class Literal(TreeNode):
    __slots__ = ("value",)

    def __init__(self, at: int, value: Any) -> None:
        super().__init__(at)
        self.value = value


class Ident(TreeNode):
    __slots__ = ("name",)

    def __init__(self, at: int, name: str) -> None:
        super().__init__(at)
        self.name = name


class Select(TreeNode):
    """A field, `operand.field`, or the test `has(operand.field)`."""

    __slots__ = ("field", "operand", "test")

    def __init__(self, at: int, operand: TreeNode, field: str, *, test: bool = False) -> None:
        super().__init__(at, operand)
        self.operand, self.field, self.test = operand, field, test


class Call(TreeNode):
    """A call of a function or an operator, with cel-go's name: `_+_`, `_?_:_`, `_[_]`."""

    __slots__ = ("args", "function", "overloads", "target")

    def __init__(
        self, at: int, function: str, args: list[TreeNode], target: TreeNode | None = None
    ) -> None:
        super().__init__(at, *(() if target is None else (target,)), *args)
        self.function, self.args, self.target = function, args, target
        self.overloads: list[Any] = []

    @property
    def operands(self) -> list[TreeNode]:
        """The target, if there is one, and the arguments."""
        return self.args if self.target is None else [self.target, *self.args]


class ListNode(TreeNode):
    __slots__ = ("elements", "optional")

    def __init__(
        self, at: int, elements: list[TreeNode], optional: frozenset[int] = frozenset()
    ) -> None:
        super().__init__(at, *elements)
        self.elements, self.optional = elements, optional


class MapNode(TreeNode):
    __slots__ = ("entries",)

    def __init__(self, at: int, entries: list[tuple[TreeNode, TreeNode, bool]]) -> None:
        super().__init__(at, *(node for key, value, _ in entries for node in (key, value)))
        self.entries = entries


class Message(TreeNode):
    """A message such as `Name{field: value}`; a field may be optional. Only the expressions of
    mutating policies have types of messages.
    """

    __slots__ = ("fields", "name")

    def __init__(self, at: int, name: str, fields: list[tuple[str, TreeNode, bool]]) -> None:
        super().__init__(at, *(value for _, value, _ in fields))
        self.name, self.fields = name, fields


class Comprehension(TreeNode):
    """A node that folds `range` into the accumulator, or binds a variable if `binds`."""

    __slots__ = ("accumulator", "condition", "init", "range", "result", "step", "var", "var2")

    def __init__(
        self,
        at: int,
        over: TreeNode,
        variables: tuple[str, str],
        accumulator: str,
        init: TreeNode,
        condition: TreeNode,
        step: TreeNode,
        result: TreeNode,
    ) -> None:
        super().__init__(at, over, init, condition, step, result)
        self.range, self.accumulator, self.init = over, accumulator, init
        self.var, self.var2 = variables
        self.condition, self.step, self.result = condition, step, result

    @property
    def binds(self) -> bool:
        """True if the node only binds the value of `init` to a name for `result`."""
        return self.var == UNUSED


def walk(start: Walk[T]) -> T:
    """Runs a walk to its end. A walk is a generator that yields other walks and receives their
    results.
    """
    stack: list[Walk[Any]] = [start]
    value: Any = None
    while stack:
        try:
            stack.append(stack[-1].send(value))
            value = None
        except StopIteration as end:
            stack.pop()
            value = end.value
    result: T = value
    return result
