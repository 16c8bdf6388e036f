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


def test_all_devices_of_a_request_are_compared() -> None:
    different = constraint_by("distinctAttribute")
    assert different.add("r", "", device(1), DRIVER)
    assert different.add("r", "", device(2), DRIVER)
    assert not different.add("r", "", device(1), DRIVER)
    # One that is removed leaves the others.
    different.remove("r", "")
    assert not different.add("s", "", device(1), DRIVER)
    assert different.add("s", "", device(2), DRIVER)


def test_requests_that_it_holds_for() -> None:
    for names, held in (((), True), (("r",), True), (("r/s",), True), (("s", "r/t"), False)):
        same = constraint_by("matchAttribute", *names)
        assert same.add("r", "s", device(1), DRIVER)
        assert same.add("r", "s", device(2), DRIVER) != held


def test_no_known_type() -> None:
    assert constraint_of(DeviceConstraint()) is None
