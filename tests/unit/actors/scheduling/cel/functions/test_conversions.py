"""Conversions between types."""

from __future__ import annotations

import pytest

from tests.unit.actors.scheduling.cel.expressions import outcome


@pytest.mark.parametrize(
    "expression",
    [
        "1.0 / 0.0 == double('Inf')",
        "dyn(1) == 1u",
        "dyn(1u) == 1.0",
        "dyn(1) != 'a'",
        "dyn({1: 'a'})[1.0] == 'a'",
        "size('äbc') == 3 && 'äbc'.size() == 3 && size(b'ä') == 1 || size(bytes('ä')) == 2",
        "['foo', 'bar', 'bazz'].sortBy(e, e.size()) == ['foo', 'bar', 'bazz']",
        "int(2.9) == 2",
        "int(-2.9) == -2",
        "int('-12') == -12",
        "uint(3) == 3u",
        "double('1.5') == 1.5",
        "string(1.5) == '1.5'",
        "string(1e100) == '1e+100'",
        "string(100.0) == '100'",
        "bool('true')",
        "!bool('F')",
        "string(true) == 'true'",
        "bytes('a') == b'a'",
        "string(b'a') == 'a'",
        "string(0.00001) == '1e-05'",
        "string(123456789.0) == '1.23456789e+08'",
        "type(1) == int",
        "type('a') == string",
        "type(type(1)) == type",
        "type([]) == list",
        "type({}) == map",
        "type(null) == null_type",
        "type(1u) == uint",
        "type(1.0) == double",
        "type(true) == bool",
        "type(b'') == bytes",
        "type(duration('1s')) == google.protobuf.Duration",
        "type(timestamp(0)) == google.protobuf.Timestamp",
        "cel.bind(x, [1, 2], x.size() + x.size()) == 4",
        "type(device.driver) == string",
        "device.attributes.size() == 0",
        "size(device.capacity) == 0",
        "dyn([1, 2]).size() == 2",
        "dyn(1) + dyn(2) == 3",
        "dyn('a') + 'b' == 'ab'",
        "dyn([1, 2]).map(x, x + 1) == [2, 3]",
        "dyn(null) != 1",
    ],
)
def test_is_true(expression: str) -> None:
    assert outcome(expression) is True


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("uint(dyn(-1)) == 1u", "unsigned integer overflow"),
        ("int(dyn(1e30)) == 1", "integer overflow"),
        ("int(dyn('a')) == 1", "type conversion error from 'string' to 'int'"),
        ("string(b'\\xff') == ''", "invalid UTF-8 in bytes, cannot convert to string"),
        ("bool(dyn('x'))", "type conversion error from 'string' to 'bool'"),
        ("size(dyn(1)) == 1", "no such overload: size(int)"),
        ("1 == 1.0", "found no matching overload for '_==_' applied to '(int, double)'"),
    ],
)
def test_fails(expression: str, message: str) -> None:
    assert message in str(outcome(expression))
