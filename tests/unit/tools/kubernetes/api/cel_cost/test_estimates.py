"""The costs in the worst case, against those that Kubernetes' compile_test.go expects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.cel import selector
from berth.tools.kubernetes.api.cel_cost import worst_cost
from tests.kit.examples import examples
from tests.unit.actors.scheduling.cel.test_limits import (
    DOUBLED,
    LISTS,
    PIECES,
    TEXT,
    typed_expressions,
)
from tests.unit.actors.scheduling.cel.test_selectors import ALL

LARGEST = (1 << 64) - 1
NESTED = "int('1'.find('[0-9]*')) < 100"
for _variable in ("z5", "z4", "z3", "z2", "z", "y", "x"):
    NESTED = f"[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all({_variable}, {NESTED})"


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ("true", 0),
        ('device.attributes["no-such-domain"].noSuchAttr.isGreaterThan(quantity("0"))', 6),
        ('"no-such-domain" in device.attributes', 3),
        ('device.driver == ""', 2),
        ('device.driver == "dra.example.com"', 4),
        ('device.attributes["dra.example.com"].name', 4),
        ('device.attributes["dra.example.com"]["name"]', 4),
        ('cel.bind(dra, device.attributes["dra.example.com"], dra.name)', 15),
        ('device.attributes["dra.example.com"].name > 0', 5),
        ('device.attributes["dra.example.com"].name == "fish"', 5),
        ('device.capacity["dra.example.com"].name.isGreaterThan(quantity("1Ki"))', 6),
        (
            (
                '"name" in device.capacity["dra.example.com"] && '
                'device.capacity["dra.example.com"].name.isGreaterThan(quantity("1Ki"))'
            ),
            10,
        ),
        (
            (
                '!("name" in device.capacity["dra.example.com"]) || '
                'device.capacity["dra.example.com"].name.isGreaterThan(quantity("1Ki"))'
            ),
            11,
        ),
        (ALL, 52),
        (
            (
                'device.attributes["dra.example.com"].a && '
                'device.attributes["dra.example.com"].b && '
                'device.attributes["dra.example.com"].c'
            ),
            12,
        ),
        ('device.attributes.exists_one(x, x == "dra.example.com")', 164),
        ('device.attributes["dra.example.com"].exists_one(x, x == "services")', 133),
        ('device.attributes["dra.example.com"].services.split("example").size() >= 2', 19),
        ('device.attributes["dra.example.com"].services.matches("[^a]?sym")', 18),
        ('device.capacity.exists_one(x, x == "dra.example.com")', 164),
        ('device.capacity["dra.example.com"].exists_one(x, x == "memory")', 133),
        ("device.allowMultipleAllocations == true", 3),
        ("isIP(device.driver)", 9),
        ("[3, 1].reverse() == [1, 3]", 34),
        (NESTED, 85555551),
    ],
)
def test_the_worst_cost_is_that_of_kubernetes(expression: str, cost: int) -> None:
    assert worst_cost(selector(expression)) == cost


def test_an_expression_with_an_error_has_the_largest_cost() -> None:
    assert worst_cost(selector("1 +")) == LARGEST


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(5).map(x, x + 1).sum() == 15",
        "'a,b'.split(',').join('-').replace('a', 'bb') == 'bb-b'",
        "device.attributes.all(d, device.attributes[d].all(i, i.size() < 40))",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "optional.of(1).optMap(x, x + 1).orValue(0) == 2",
        "true ? device.driver < 'a' : '%s'.format([1]) == 'x'",
        "url('https://a.b').getHost() == ip('1.2.3.4').isLoopback().size()",
        "sets.contains([1], [1]) && [3, 1].sort().distinct().reverse().slice(0, 1) == [3]",
        "bytes(device.driver) == b'a' && string(b'a') == 'a' && strings.quote('a') != ''",
        "format.dns1123Label().validate('a').hasValue() || [[1]].flatten().size() == 1",
        "cidr('::/8').containsIP('::1') && cidr('::/8').containsCIDR('::/9')",
    ],
)
def test_every_kind_of_call_has_an_estimate(expression: str) -> None:
    compiled = selector(expression)
    assert compiled.error or 0 < worst_cost(compiled) <= LARGEST


@given(st.lists(PIECES, max_size=25).map(" ".join) | typed_expressions())
@examples(2)
def test_every_expression_has_a_cost(expression: str) -> None:
    assert 0 <= worst_cost(selector(expression)) <= LARGEST


@pytest.mark.parametrize("value", [DOUBLED, TEXT, LISTS], ids=["doubled", "text", "lists"])
def test_a_value_that_grows_with_each_level_has_a_bounded_cost(value: str) -> None:
    assert 0 < worst_cost(selector(f"size({value}) == 1")) <= LARGEST
