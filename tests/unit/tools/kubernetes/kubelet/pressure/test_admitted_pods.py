"""The room on a node, as its kubelet counts it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from berth.actors.scheduling.kube.core import Node
from berth.tools.kubernetes.kubelet.pressure.admitted_pods import Room
from berth.tools.kubernetes.kubelet.resizing.resizes import Resizes
from berth.tools.kubernetes.kubelet.usage_models import PodUsage
from berth.tools.kubernetes.objects.object_events import Reporter
from berth.tools.kubernetes.objects.structs import Pod, read
from tests.kit import documents


def resized(allocated: Sequence[str], now: Sequence[str]) -> Pod:
    """Returns a pod with two containers to which these amounts of cpu are allocated, and which have
    others as long as the resize is in progress.
    """
    containers = [documents.container(name, cpu) for name, cpu in zip("ab", allocated, strict=True)]
    reported: list[dict[str, Any]] = [
        {"name": name, "allocatedResources": {"cpu": cpu}, "resources": {"requests": {"cpu": has}}}
        for name, cpu, has in zip("ab", allocated, now, strict=True)
    ]
    status = {"phase": "Running", "containerStatuses": reported}
    return read(documents.pod("two", containers=containers, status=status), Pod)


@pytest.mark.parametrize(
    ("allocated", "now", "at_once", "fits"),
    [
        (("1", "5"), ("5", "1"), False, False),
        (("1", "5"), ("5", "1"), True, True),
        (("5", "1"), ("5", "1"), False, True),
        (("5", "1"), ("7", "1"), True, False),
        (("7", "1"), ("5", "1"), True, False),
    ],
)
def test_a_pod_that_is_resized_takes_what_the_version_says(
    allocated: tuple[str, str], now: tuple[str, str], at_once: bool, fits: bool
) -> None:
    def admit(*_: object) -> Any:
        raise AssertionError("no resize is tried")

    def usage(_pod: Pod, _now: datetime) -> PodUsage | None:
        return None

    resizes = Resizes(admit, usage, Reporter("kubelet", "n"))
    room = Room(resizes, at_once=at_once)
    node = read(documents.node("n", "10"), Node)
    room.put(resized(allocated, now), 0.0)
    rejection, _ = room.check(read(documents.pod("next", "3"), Pod), node)
    assert (rejection is None) is fits
