"""The exceptions inside the groups that task groups raise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def first_of(problem: BaseException) -> BaseException:
    """Returns the first exception inside a group. Any other exception is returned as it is."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return problem


@contextmanager
def ungrouped() -> Iterator[None]:
    """Raises, in place of a group that the block raises, the first exception in it."""
    try:
        yield
    except ExceptionGroup as failures:
        raise first_of(failures) from None
