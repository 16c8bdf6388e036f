"""What a request takes of a capacity, by the request policy of the device."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.kube.devices import DeviceCapacity
from berth.actors.scheduling.plugins.dynamic_resources.consumed_capacity import consumed_capacity
from berth.actors.scheduling.plugins.dynamic_resources.features import EVERY_FEATURE, Features

RANGE = {"min": "2", "step": "4", "max": "12"}


def taken(
    requested: str | None,
    value: str = "16",
    features: Features = EVERY_FEATURE,
    **policy: Any,
) -> str | None:
    """Returns the amount as it is written; None if the device cannot meet the request."""
    document: dict[str, Any] = {"value": value}
    if policy:
        document["requestPolicy"] = policy
    capacity = {"memory": msgspec.convert(document, DeviceCapacity)}
    asked = {} if requested is None else {"memory": requested}
    consumed = consumed_capacity(capacity, asked, features)
    return None if consumed is None else str(consumed["memory"].text)


def test_without_a_policy() -> None:
    assert taken(None) == "16"
    assert taken("2") == "2"
    assert taken("1500m") == "1500m"
    assert taken("0") == "0"
    # Whether there is enough is for the search to say.
    assert taken("17") == "17"


def test_the_default() -> None:
    assert taken(None, default="2") == "2"
    assert taken("3", default="2") == "3"
    assert taken(None, default="2", validValues=["2", "4"]) == "2"
    # The default is allowed in any case.
    assert taken(None, default="3", validValues=["2", "4"]) == "3"
    assert taken(None, default="0", validRange=RANGE) == "0"
    # Without a default, all of it, if the policy allows that.
    assert taken(None, validValues=["2", "16"]) == "16"
    assert taken(None, validValues=["2", "4"]) is None


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        *(("0", "2"), ("1", "2"), ("2", "2"), ("3", "6"), ("6", "6"), ("5500m", "6"), ("10", "10")),
        # 11 becomes 14, which is too much.
        *(("11", None), ("13", None)),
    ],
)
def test_steps_of_a_range(requested: str, expected: str | None) -> None:
    assert taken(requested, validRange=RANGE) == expected


def test_ranges_without_all_limits() -> None:
    assert taken("3", validRange={"min": "2"}) == "3"
    assert taken("1", validRange={"min": "2"}) == "2"
    assert taken("30", validRange={"min": "2"}) == "30"
    assert taken("5", validRange={"min": "2", "max": "4"}) is None
    assert taken("3", validRange={"max": "4"}) == "3"
    assert taken("5", validRange={"max": "4"}) is None


@pytest.mark.parametrize(
    ("requested", "expected"), [("0", "2"), ("2", "2"), ("3", "4"), ("4", "4"), ("5", None)]
)
def test_the_next_valid_value(requested: str, expected: str | None) -> None:
    assert taken(requested, validValues=["2", "4"]) == expected


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        ("1Mi", "1Mi"),
        ("1025Ki", "2Mi"),
        ("1536Mi", "1536Mi"),
        ("1023Mi", "1023Mi"),
        ("2048Mi", "2Gi"),
    ],
)
def test_rounded_amounts_have_binary_suffixes(requested: str, expected: str) -> None:
    assert taken(requested, "8Gi", validRange={"min": "0", "step": "1Mi"}) == expected


@pytest.mark.parametrize(
    ("requested", "expected"),
    [("999", "999"), ("1000", "1k"), ("1001", "1001"), ("1024", "1Ki"), ("2000", "2000")],
)
def test_rounded_amounts_below_1024_have_decimal_suffixes(requested: str, expected: str) -> None:
    assert taken(requested, "8Gi", validRange={"min": "0", "step": "1"}) == expected


def test_a_capacity_that_the_device_does_not_have() -> None:
    assert consumed_capacity({}, {"memory": "1"}) is None
    assert consumed_capacity({}, {}) == {}


# ------------------------------------------------------------------------------------- since 1.37

# testCalculateConsumedCapacity, testViolateCapacityRequestPolicy and testUseMilli, in
# consumable_capacity_test.go of the module k8s.io/dynamic-resource-allocation; after the empty line
# by the rules of consumable_capacity.go.
ROWS = """
min 1, max 2: 1 => 1
min 1, max 1: 2 => none
min 1: 2 => 2
min 2: 1 => 2
min 1, step 2: 2 => 3
min 1, step 1: 2 => 2
min 0.2, step 0.1, max 1: 0.25 => 300m
min 0.2, step 0.1, max 1: 0.4 => 400m
min 0.2, step 0.1, max 1: 0.3 => 300m
min 1, step 1: 1.0001 => none
min 1, step 1: 1001m => 2
min 0.5, step 0.5: 1.0001 => none
min 0.5, step 0.5: 1001m => 1500m
min 1, step 1: 9223372036854775807 => none
min 9223372036854775, step 1: 9223372036854775 => 9223372036854775

min 500m, step 250m: 600m => 750m
min 500m, step 250m: 800m => 1
min 500m, step 250m, max 1: 1100m => none
min 1m, step 1m: 2m => 2m
min 1, step 500u: 2 => 2
min 0, step 1500m: 100 => 100500m
min 0, step 1500m: 3000 => 3k
"""


def rows(text: str) -> list[tuple[dict[str, str], str, str | None]]:
    parsed = []
    for line in filter(None, text.splitlines()):
        limits, _, rest = line.partition(": ")
        requested, _, expected = rest.partition(" => ")
        valid = dict(part.split() for part in limits.split(", "))
        parsed.append((valid, requested, None if expected == "none" else expected))
    return parsed


@pytest.mark.parametrize(("valid", "requested", "expected"), rows(ROWS))
def test_steps_of_thousandths(valid: dict[str, str], requested: str, expected: str | None) -> None:
    features = Features(fractional_ranges=True, capacity_in_format_of_step=True)
    assert taken(requested, "1M", features, default="7", validRange=valid) == expected


def test_without_the_gate_fractions_of_a_step_count_as_a_whole() -> None:
    whole = Features(capacity_in_format_of_step=True)
    valid = {"min": "500m", "step": "250m"}
    assert taken("1.0001", features=whole, validRange={"min": "1", "step": "1"}) == "2"
    assert taken("600m", features=whole, validRange=valid) == "1"
    assert taken("1100m", features=whole, validRange=valid) == "2"


@pytest.mark.parametrize(
    ("step", "requested", "before", "since"),
    [
        ("1Gi", "1500Mi", "2Gi", "2Gi"),
        ("1G", "1500M", "1953125Ki", "2G"),
        ("1e9", "1500M", "1953125Ki", "2e9"),
        ("1024", "1500", "2Ki", "2048"),
        ("1Ki", "1000", "1Ki", "1Ki"),
        ("100", "950", "1k", "1k"),
        ("100Mi", "150M", "200Mi", "200Mi"),
        ("1", "2000", "2000", "2k"),
    ],
)
def test_the_amount_is_written_as_the_step_is(
    step: str, requested: str, before: str, since: str
) -> None:
    valid = {"min": "0", "step": step}
    assert taken(requested, "100G", validRange=valid) == before
    later = Features(capacity_in_format_of_step=True)
    assert taken(requested, "100G", later, validRange=valid) == since
