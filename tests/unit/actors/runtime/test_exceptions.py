"""The first exception of nested groups."""

from __future__ import annotations

import pytest

from berth.actors.runtime.exceptions import first_of, ungrouped


def test_the_first_exception_is_found_inside_nested_groups() -> None:
    first, second = ValueError("first"), KeyError("second")
    inner = ExceptionGroup("inner", [first, second])
    assert first_of(BaseExceptionGroup("outer", [inner, KeyboardInterrupt()])) is first
    assert first_of(second) is second


def test_a_block_raises_the_exception_in_place_of_its_groups() -> None:
    first = ValueError("first")
    with pytest.raises(ValueError, match="first") as raised, ungrouped():
        raise ExceptionGroup("outer", [ExceptionGroup("inner", [first, KeyError("second")])])
    assert raised.value is first
