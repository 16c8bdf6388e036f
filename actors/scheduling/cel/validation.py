"""Checks the literals of an expression whose types are checked: patterns, times, formats and mixed
lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .declarations import Budget
from .errors import CelError, Problem
from .functions.conversions import CONVERSIONS
from .functions.formatting import ACCEPTED, clauses, wrong_type_message
from .regex import Pattern, checked_pattern, compile_pattern
from .tree import Call, ListNode, Literal, MapNode, TreeNode
from .types import Type

SEARCHES = ("find", "findAll", "matches")  # functions of a text and a pattern


def validate(root: TreeNode, patterns: Mapping[str, Pattern]) -> list[Problem]:
    """Returns the problems of the literals of a checked tree."""
    problems: list[Problem] = []
    stack: list[tuple[TreeNode, bool]] = [(root, False)]
    seen: set[int] = set()
    while stack:
        node, formatted = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Call):
            problems += _argument(node, patterns)
            formatted = formatted or node.function == "format"
        elif isinstance(node, ListNode) and not formatted:
            problems += _mixed_list(node)
        elif isinstance(node, MapNode) and not formatted:
            problems += _mixed_map(node)
        stack += [(child, formatted) for child in node.children]
    return problems


def _calls(root: TreeNode) -> Iterator[Call]:
    """Yields the calls of a tree, each once."""
    stack, seen = [root], set()
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            if isinstance(node, Call):
                yield node
            stack += node.children


def patterns_of(root: TreeNode) -> dict[str, Pattern]:
    """Returns the compiled patterns of the literals. Raises LimitError if that takes too much
    work.
    """
    budget = Budget()
    patterns: dict[str, Pattern] = {}
    for call in _calls(root):
        if call.function in SEARCHES:
            for literal in (*call.operands[1:2], *call.args[:1]):
                if isinstance(literal, Literal) and type(literal.value) is str:
                    pattern = patterns[literal.value] = compile_pattern(literal.value)
                    budget.strain(pattern.work)
    return patterns


def instantiate(root: TreeNode, patterns: Mapping[str, Pattern]) -> str:
    """Evaluates the calls that need no device, as cel-go does for a program. Returns the first
    error.
    """
    try:
        for call in _calls(root):
            _check_literal(call, patterns)
    except CelError as problem:
        return str(problem)
    return ""


def _check_literal(call: Call, patterns: Mapping[str, Pattern]) -> None:
    """Raises CelError for a conversion or a match whose literal makes it always fail."""
    if call.function in SEARCHES:
        pattern = call.operands[1]
        if isinstance(pattern, Literal):
            checked_pattern(patterns[pattern.value])
    elif call.function in CONVERSIONS and len(call.args) == 1 and len(call.overloads) == 1:
        run, arg = call.overloads[0].run, call.args[0]
        if isinstance(arg, Literal) and run is not None:
            run(arg.value)


def _argument(call: Call, patterns: Mapping[str, Pattern]) -> list[Problem]:
    if call.function == "format" and call.target is not None:
        return _format(call)
    if call.function not in ("duration", "timestamp", "matches") or not call.args:
        return []
    literal = call.args[0]
    if not isinstance(literal, Literal):
        return []
    try:
        if call.function == "matches":
            checked_pattern(patterns[literal.value])
        elif len(call.overloads) == 1 and call.overloads[0].run is not None:
            call.overloads[0].run(literal.value)
    except CelError:
        return [Problem(literal.at, f"invalid {call.function} argument")]
    return []


def _format(call: Call) -> list[Problem]:
    target, values = call.target, call.args[0]
    if not isinstance(target, Literal) or not isinstance(values, ListNode):
        return []
    try:
        letters = [letter for _, letter, _ in clauses(target.value) if letter]
    except CelError as problem:
        return [Problem(call.at, str(problem))]
    count = len(values.elements)
    if len(letters) > count:
        return [Problem(call.at, f"index {count} out of range")]
    for letter, value in zip(letters, values.elements, strict=False):
        clause, kinds = ACCEPTED[letter]
        if value.type.kind != "dyn" and value.type.kind not in kinds:
            message = f"error during formatting: {wrong_type_message(clause, value.type.name)}"
            return [Problem(value.at, message)]
    if count > len(letters):
        message = f"too many arguments supplied to string.format (expected {len(letters)}, "
        return [Problem(call.at, f"{message}got {count})")]
    return []


def _mismatch(node: TreeNode, expected: Type, actual: Type) -> Problem:
    return Problem(node.at, f"expected type '{expected}' but found '{actual}'")


def _mixed_list(node: ListNode) -> list[Problem]:
    types = [
        element.type.of[0] if i in node.optional and element.type.of else element.type
        for i, element in enumerate(node.elements)
    ]
    for element, element_type in zip(node.elements, types, strict=True):
        if element_type != types[0]:
            return [_mismatch(element, types[0], element_type)]
    return []


def _mixed_map(node: MapNode) -> list[Problem]:
    problems = []
    first: tuple[Type, Type] | None = None
    for key, value, optional in node.entries:
        value_type = value.type.of[0] if optional and value.type.of else value.type
        if first is None:
            first = key.type, value_type
        if key.type != first[0]:
            problems.append(_mismatch(key, first[0], key.type))
        if value_type != first[1]:
            problems.append(_mismatch(value, first[1], value_type))
    return problems
