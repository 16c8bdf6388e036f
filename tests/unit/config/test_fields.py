"""The types of fields that may be null."""

from __future__ import annotations

import msgspec
import pytest

from berth.config.fields import Problems, read_document


class NullFirst(msgspec.Struct):
    size: None | int = None  # noqa: RUF036 - packages with plugins may write it so


class NullLast(msgspec.Struct):
    size: int | None = None


@pytest.mark.parametrize("into", [NullFirst, NullLast])
def test_a_field_that_may_be_null_has_the_type_beside_it(into: type) -> None:
    told = {}
    for value in (None, 3, "x"):
        problems = Problems()
        read_document({"size": value}, into, problems)
        told[value] = problems
    assert told == {None: [], 3: [], "x": ["size: expected an integer, got 'x'"]}
