"""Regular expressions in the syntax of RE2, which is also Go's.

RE2 cannot be interrupted, so its memory is bounded, and its runs are counted as work.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import re2

from .errors import CelError

# The bytes of a compiled pattern: at most 50 ms of compilation.
MOST_MEMORY = 1 << 19
# Units of work: per compilation, per instruction, and per compilation that fails.
COMPILATION, INSTRUCTION, FAILURE = 100, 6, 30_000
MOST_KEPT = 32  # patterns that evaluations compiled


class Pattern(NamedTuple):
    """A regular expression. `matcher` is RE2's object, or `problem` its error. `work` is the work
    of its compilation.
    """

    matcher: Any
    work: int
    instructions: int
    problem: str

    def search_work(self, size: int) -> int:
        """Returns the work of a search in a text of this size, in the worst case."""
        return (size + 1) * (1 + (self.instructions >> 6))


NO_PATTERNS: Mapping[str, Pattern] = {}


@lru_cache(maxsize=MOST_KEPT)
def compile_pattern(pattern: str) -> Pattern:
    """Compiles a pattern."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MOST_MEMORY
    try:
        matcher = re2.compile(pattern.encode(errors="replace"), options)
    except re2.error as problem:
        detail = problem.args[0] if problem.args else ""
        text = detail.decode(errors="replace") if isinstance(detail, bytes) else str(detail)
        work = FAILURE if "too large" in text else COMPILATION + len(pattern)
        return Pattern(None, work, 0, f"error parsing regexp: {text}")
    size = matcher.programsize
    return Pattern(matcher, COMPILATION + INSTRUCTION * size, size, "")


def checked_pattern(pattern: Pattern) -> Pattern:
    """Returns the pattern. Raises CelError if its compilation failed."""
    if pattern.problem:
        raise CelError(pattern.problem)
    return pattern
