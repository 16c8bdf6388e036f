"""How constraints count devices as they are added and removed."""

from __future__ import annotations

import msgspec

from berth.actors.scheduling.kube.devices import Device, DeviceConstraint
from berth.actors.scheduling.plugins.dynamic_resources.constraints import Constraint, constraint_of
from tests.kit.devices import DRIVER


def device(value: int) -> Device:
    return msgspec.convert({"name": "d", "attributes": {"x": {"int": value}}}, Device)


def constraint_by(kind: str, *requests: str) -> Constraint:
    document = {kind: f"{DRIVER}/x", "requests": requests}
    constraint = constraint_of(msgspec.convert(document, DeviceConstraint))
    assert constraint is not None
    return constraint


def test_equal_values() -> None:
    same = constraint_by("matchAttribute")
    assert same.add("r", "", device(1), DRIVER)
    assert not same.add("s", "", device(2), DRIVER)
    assert same.add("s", "", device(1), DRIVER)
    same.remove("r", "")
    assert not same.add("s", "", device(2), DRIVER)
    same.remove("s", "")
    assert same.add("s", "", device(2), DRIVER)


def test_different_values() -> None:
    different = constraint_by("distinctAttribute")
    assert different.add("r", "", device(1), DRIVER)
    assert not different.add("s", "", device(1), DRIVER)
    assert different.add("s", "", device(2), DRIVER)
    different.remove("s", "")
    assert different.add("s", "", device(2), DRIVER)


def test_the_last_device_of_a_request_is_compared() -> None:
    """As in kube-scheduler: it keeps one value for each request."""
    different = constraint_by("distinctAttribute")
    assert different.add("r", "", device(1), DRIVER)
    assert different.add("r", "", device(2), DRIVER)
    assert different.add("r", "", device(1), DRIVER)
    # One that is removed takes the value of the request with it.
    different.remove("r", "")
    assert different.add("s", "", device(1), DRIVER)


def test_requests_that_it_holds_for() -> None:
    for names, held in (((), True), (("r",), True), (("r/s",), True), (("s", "r/t"), False)):
        same = constraint_by("matchAttribute", *names)
        assert same.add("r", "s", device(1), DRIVER)
        assert same.add("r", "s", device(2), DRIVER) != held


def test_no_known_type() -> None:
    assert constraint_of(DeviceConstraint()) is None
