"""The first exception of nested groups."""

from __future__ import annotations

from berth.actors.runtime.exceptions import first_of


def test_the_first_exception_is_found_inside_nested_groups() -> None:
    first, second = ValueError("first"), KeyError("second")
    inner = ExceptionGroup("inner", [first, second])
    assert first_of(BaseExceptionGroup("outer", [inner, KeyboardInterrupt()])) is first
    assert first_of(second) is second
