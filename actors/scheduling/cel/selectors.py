"""Selectors: compiled expressions over a device. Pure.

Upstream compiles in k8s.io/dynamic-resource-allocation/cel, with the environment for expressions
that are stored, so every function is available whatever the feature gates say. The gate
DRAListTypeAttributes is off: attributes are scalars of the type `any`.
"""

from __future__ import annotations

import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from ..kube.devices import Device, DeviceAttribute
from .checker import check
from .declarations import LIMIT, MOST_WORK
from .errors import CelError, CompileError, LimitError, shown
from .evaluator import Program, program
from .parser import parse
from .quantities import parse as parse_quantity
from .run import Run
from .semver import parse as parse_semver
from .tree import Node
from .validation import instantiate, patterns_of, validate
from .values import Domains, type_name

T = TypeVar("T")
# Units of work to compile a character and a node, and bytes of a node and of a pattern.
CHARACTER, NODE = 2, 30
NODE_BYTES, PATTERN_BYTES = 600, 1 << 18
MOST_KEPT = 64 << 20
MOST_FRAMES = 20_000
_SURROGATE = re.compile("[\ud800-\udfff]")
# Errors that a defect of a function raises; as in cel-go, they end the evaluation.
_DEFECTS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


class Selector:
    """A compiled expression. Compiling took `work` units; the program takes about `size` bytes.

    `error` says why the expression cannot be used; it is empty if it can. `root` is the checked
    tree of an expression that can be used.
    """

    def __init__(self, expression: str) -> None:
        self.expression = expression
        self.error = ""
        self.root: Node | None = None
        self._program: Program | None = None
        self.work = CHARACTER * len(expression)
        self.size = len(expression)
        try:
            with enough_frames():
                self.error = self._compile()
        except CompileError as failure:
            self.error = f"compilation failed: {shown(failure.problems, expression)}"
        except LimitError:
            self.work += MOST_WORK
            self.error = "compilation failed: its patterns are too complex"
        except RecursionError:
            self.error = "compilation failed: expression recursion limit exceeded"

    def _compile(self) -> str:
        """Compiles the expression and returns the error, or an empty text. Raises CompileError."""
        # Go reads a surrogate, which is no character, as U+FFFD.
        root = parse(_SURROGATE.sub("\ufffd", self.expression))
        self.work += NODE * root.size
        self.size += NODE_BYTES * root.size
        problems = check(root)
        patterns = {} if problems else patterns_of(root)
        self.work += sum(pattern.work for pattern in patterns.values())
        self.size += PATTERN_BYTES * len(patterns)
        problems = problems or validate(root, patterns)
        if problems:
            raise CompileError(problems)
        if root.type.kind not in ("bool", "any"):
            return f"must evaluate to bool or the unknown type, not {root.type.declared}"
        problem = instantiate(root, patterns)
        if problem:
            return f"program instantiation failed: {problem}"
        self._program = program(root, patterns)
        self.root = root
        return ""

    def matches(
        self, driver: str, device: Device, spend: Callable[[int], None] | None = None
    ) -> bool:
        """True if the device is selected. Raises CelError. Calls `spend` with the units of work
        that the evaluation took.
        """
        if self._program is None:
            raise CelError(self.error)
        step, slots, size, patterns = self._program
        multiple = device.allow_multiple_allocations is True
        run = Run(
            slots,
            driver,
            _by_domain(driver, device.attributes, _value),
            _by_domain(driver, device.capacity, lambda _, item: parse_quantity(str(item.value))),
            multiple=multiple,
            work=size,
            patterns=patterns,
        )
        try:
            with enough_frames():
                result = step(run)
        except RecursionError:
            raise CelError("expression recursion limit exceeded") from None
        except _DEFECTS as defect:
            raise CelError(f"internal error: {defect}") from defect
        finally:
            if spend is not None:
                spend(run.work)
        if run.cost > LIMIT:
            raise LimitError
        if type(result) is not bool:
            name = type_name(result)
            raise CelError(
                f"CEL result of type {name} could not be converted to bool: "
                f"type conversion error from '{name}' to 'bool'"
            )
        return result


class _RecentSelectors:
    """The selectors that were used last, up to MOST_KEPT bytes."""

    def __init__(self) -> None:
        self._selectors: OrderedDict[str, Selector] = OrderedDict()
        self._size = 0

    def get(self, expression: str) -> Selector | None:
        selector = self._selectors.get(expression)
        if selector is not None:
            self._selectors.move_to_end(expression)
        return selector

    def add(self, selector: Selector) -> None:
        self._selectors[selector.expression] = selector
        self._size += selector.size
        while self._size > MOST_KEPT and len(self._selectors) > 1:
            self._size -= self._selectors.popitem(last=False)[1].size


_KEPT = _RecentSelectors()


def selector(expression: str, spend: Callable[[int], None] | None = None) -> Selector:
    """Returns the compiled expression. An expression that cannot be compiled has an `error`.

    Calls `spend` with the units of work if the expression has to be compiled.
    """
    selector = _KEPT.get(expression)
    if selector is None:
        selector = Selector(expression)
        _KEPT.add(selector)
        if spend is not None:
            spend(selector.work)
    return selector


@contextmanager
def enough_frames() -> Iterator[None]:
    """Lets the deepest expression be evaluated, however deep the caller's stack is."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, MOST_FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _by_domain(driver: str, parts: Mapping[str, T], value_of: Callable[[str, T], Any]) -> Domains:
    """Returns the values of attributes or capacities by domain and id. Raises CelError."""
    values = Domains()
    for name, part in parts.items():
        domain, slash, id_ = name.partition("/")
        if not slash:
            domain, id_ = driver, name
        ids = values.get(domain)
        if ids is None:
            ids = values[domain] = {}
        ids[id_] = value_of(name, part)
    return values


def _value(name: str, attribute: DeviceAttribute) -> Any:
    if attribute.int_ is not None:
        return attribute.int_
    if attribute.bool_ is not None:
        return attribute.bool_
    if attribute.string is not None:
        return attribute.string
    if attribute.version is not None:
        try:
            return parse_semver(attribute.version)
        except CelError as problem:
            raise CelError(f"attribute {name}: parse semantic version: {problem}") from None
    raise CelError(f"attribute {name}: unsupported attribute value")
