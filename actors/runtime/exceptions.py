"""The exception inside the groups in which task groups raise it."""

from __future__ import annotations


def first_of(problem: BaseException) -> BaseException:
    """Returns the first exception inside a group and the groups in it; another one is itself."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return problem
