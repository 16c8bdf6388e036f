"""What a request takes of a capacity, by the request policy of the device."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.kube.devices import DeviceCapacity
from berth.actors.scheduling.plugins.dynamic_resources.consumed_capacity import consumed_capacity

RANGE = {"min": "2", "step": "4", "max": "12"}


def taken(requested: str | None, value: str = "16", **policy: Any) -> str | None:
    """Returns the amount as it is written; None if the device cannot meet the request."""
    document: dict[str, Any] = {"value": value}
    if policy:
        document["requestPolicy"] = policy
    capacity = {"memory": msgspec.convert(document, DeviceCapacity)}
    consumed = consumed_capacity(capacity, {} if requested is None else {"memory": requested})
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
