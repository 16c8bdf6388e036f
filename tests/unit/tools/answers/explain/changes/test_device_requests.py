"""Requests for devices that are both too many and tainted."""

from __future__ import annotations

from tests.kit.changes import fits_after, suggested
from tests.kit.daemon import pod
from tests.kit.devices import claim, device_class, node, request, resource_slice, using
from tests.kit.documents import Document

TAINT = {"key": "worn", "effect": "NoSchedule"}


def tainted(name: str) -> Document:
    return {"name": name, "taints": [TAINT]}


def test_fewer_devices_and_a_toleration_go_together() -> None:
    devices = resource_slice("n", tainted("a"), tainted("b"))
    cluster = [device_class(), node(), devices, claim("c", request("r", count=3))]
    pending = using(pod("p", "1"), "c")
    changes = suggested(cluster, pending)
    assert changes is not None
    (change,) = changes
    assert change.sentence == (
        "Ask for 2 instead of 3 devices in request r of the claim c, and tolerate the device taint "
        "worn:NoSchedule in request r of the claim c: it fits on n."
    )
    assert fits_after(change, cluster, pending) == ["n"]
