"""The exception inside the groups in which task groups raise it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def first_of(problem: BaseException) -> BaseException:
    """Returns the first exception that is inside a group; one that is no group is returned."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return problem


@contextmanager
def ungrouped() -> Iterator[None]:
    """Raises the first exception of a group of a block in place of the group."""
    try:
        yield
    except ExceptionGroup as failures:
        raise first_of(failures) from None
