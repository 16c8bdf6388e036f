"""Pods that exceed their own limits of local storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from berth.tools.kubernetes.kubelet.pressure.eviction_ranking import Layout
from berth.tools.kubernetes.kubelet.pressure.local_storage import limit_exceeded
from berth.tools.kubernetes.kubelet.usage_models import PodUsage

from .objects import container, pod, resources, uses

TOTAL = "Pod ephemeral local storage usage exceeds the total limit of containers {}. "


def exceeded(usage: PodUsage, layout: Layout = Layout.SHARED, **fields: Any) -> str:
    return limit_exceeded(pod("p", **fields), usage, layout)


USERS: list[Callable[[str], PodUsage]] = [
    lambda amount: uses("p", rootfs=amount),
    lambda amount: uses("p", logs=amount),
    lambda amount: uses("p", volume=amount),
]


@pytest.mark.parametrize("using", USERS)
def test_a_pod_must_keep_the_sum_of_its_limits(using: Callable[[str], PodUsage]) -> None:
    limits = resources(disk="1Gi")
    assert exceeded(using("2Gi"), limits=limits) == TOTAL.format("1Gi")
    assert exceeded(using("1Gi"), limits=limits) == ""
    assert exceeded(using("2Gi")) == ""


def test_a_container_must_keep_its_own_limit() -> None:
    both = [container("p", {}, resources(disk="1Gi")), container("q", {}, resources(disk="9Gi"))]
    message = 'Container p exceeded its local ephemeral storage limit "1Gi". '
    assert exceeded(uses("p", rootfs="1Gi", logs="1"), containers=both) == message
    assert exceeded(uses("p", rootfs="1Gi"), containers=both) == ""
    assert exceeded(uses("p", rootfs="2Gi"), Layout.DEDICATED, containers=both) == ""
    assert exceeded(uses("p", logs="2Gi"), Layout.DEDICATED, containers=both) == message
    assert exceeded(uses("p", rootfs="10.1Gi"), containers=both) == TOTAL.format("10Gi")


@pytest.mark.parametrize("medium", ["", "Memory"])
def test_a_volume_must_keep_its_size_limit(medium: str) -> None:
    volumes = [{"name": "local", "emptyDir": {"sizeLimit": "1Gi", "medium": medium}}]
    message = 'Usage of EmptyDir volume "local" exceeds the limit "1Gi". '
    assert exceeded(uses("p", volume="1025Mi"), volumes=volumes) == message
    assert exceeded(uses("p", volume="1Gi"), volumes=volumes) == ""
    unlimited = [{"name": "local", "emptyDir": {"sizeLimit": "0"}}]
    assert exceeded(uses("p", volume="1025Mi"), volumes=unlimited) == ""
