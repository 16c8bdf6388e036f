"""The errors of CEL: of compilation, with their places in the expression, and of evaluation."""

from __future__ import annotations

from typing import NamedTuple

# Errors show a line of the source up to this length.
LONGEST_SNIPPET = 16384
MOST_ERRORS = 100


class CelError(Exception):
    """The failure of an evaluation. `&&`, `||` and the macros built on them can absorb it."""


class LimitError(CelError):
    """The end of an evaluation that costs too much. Nothing absorbs this error."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class Problem(NamedTuple):
    """An error of compilation and its place: an offset in the expression."""

    at: int
    message: str


class CompileError(Exception):
    """The failure to compile an expression."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__()
        self.problems = problems


def no_such_overload() -> CelError:
    return CelError("no such overload")


def problems_with_source(problems: list[Problem], source: str) -> str:
    """Returns the problems in cel-go's form: each with its line of the source and a marker
    below.
    """
    ordered = sorted(problems, key=lambda problem: problem.at)
    lines = [_problem_with_source(problem, source) for problem in ordered[:MOST_ERRORS]]
    if len(ordered) > MOST_ERRORS:
        lines.append(f"{len(ordered) - MOST_ERRORS} more errors were truncated")
    return "\n".join(lines)


def _problem_with_source(problem: Problem, source: str) -> str:
    start = source.rfind("\n", 0, problem.at) + 1
    end = source.find("\n", start)
    line = source[start : len(source) if end < 0 else end].replace("\t", " ")
    number, column = source.count("\n", 0, start) + 1, problem.at - start
    heading = f"ERROR: <input>:{number}:{column + 1}: {problem.message}"
    if len(line.encode(errors="replace")) > LONGEST_SNIPPET:
        return heading
    before, marked = line[:column], line[column : column + 1]
    marker = "".join("." if char.isascii() else "\uff0e" for char in before)
    marker += "^" if not marked or marked.isascii() else "\uff3e"
    return f"{heading}\n | {line}\n | {marker}"
