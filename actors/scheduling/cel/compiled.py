"""Compiled expressions, and the bounds within which they are evaluated. Pure."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .checker import check
from .declarations import LIMIT, MOST_WORK
from .errors import CelError, CompileError, LimitError, problems_with_source
from .evaluator import Program, program
from .parser import parse
from .run import Run, Step
from .tree import TreeNode
from .types import Type
from .validation import instantiate, patterns_of, validate

# Units of work to compile a character and a node, and bytes of a node and of a pattern.
CHARACTER, NODE = 2, 30
NODE_BYTES, PATTERN_BYTES = 600, 1 << 18
MOST_FRAMES = 20_000
_SURROGATE = re.compile("[\ud800-\udfff]")
# Errors that a defect of a function raises; as in cel-go, they end the evaluation.
_DEFECTS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


class Compiled(ABC):
    """A compiled expression. It took `work` units to compile, and takes about `size` bytes.

    `error` says why the expression cannot be used; it is empty if it can. `root` is the checked
    tree of an expression that can be used. `variables` are the types of the variables. With
    `lists`, attributes of devices may be lists. With `builds`, it may build objects.
    """

    def __init__(
        self,
        expression: str,
        variables: Mapping[str, Type],
        *,
        lists: bool = False,
        builds: bool = False,
    ) -> None:
        self.expression = expression
        self._lists = lists
        self._builds = builds
        self.error = ""
        self.root: TreeNode | None = None
        self._program: Program | None = None
        self.work = CHARACTER * len(expression)
        self.size = len(expression)
        try:
            with enough_frames():
                self.error = self._compile(variables)
        except CompileError as failure:
            self.error = f"compilation failed: {problems_with_source(failure.problems, expression)}"
        except LimitError:
            self.work += MOST_WORK
            self.error = "compilation failed: its patterns are too complex"
        except RecursionError:
            self.error = "compilation failed: expression recursion limit exceeded"

    @abstractmethod
    def _problem(self, result: Type) -> str:
        """Returns why an expression with a result of this type cannot be used; "" if it can."""

    def _compile(self, variables: Mapping[str, Type]) -> str:
        """Compiles the expression and returns the error, or an empty text. Raises CompileError."""
        # Go reads a surrogate, which is no character, as U+FFFD.
        root = parse(_SURROGATE.sub("\ufffd", self.expression))
        self.work += NODE * root.size
        self.size += NODE_BYTES * root.size
        problems = check(root, variables, lists=self._lists, builds=self._builds)
        patterns = {} if problems else patterns_of(root)
        self.work += sum(pattern.work for pattern in patterns.values())
        self.size += PATTERN_BYTES * len(patterns)
        problems = problems or validate(root, patterns)
        if problems:
            raise CompileError(problems)
        problem = self._problem(root.type)
        if problem:
            return problem
        problem = instantiate(root, patterns)
        if problem:
            return f"program instantiation failed: {problem}"
        self._program = program(root, patterns, variables)
        self.root = root
        return ""


def evaluated(step: Step, run: Run, spend: Callable[[int], None] | None) -> Any:
    """Returns the value of a step. Raises CelError.

    Calls `spend` with the units of work that the evaluation took.
    """
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
    return result


@contextmanager
def enough_frames() -> Iterator[None]:
    """Allows Python to evaluate the deepest expression, however deep the caller's stack is."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, MOST_FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
