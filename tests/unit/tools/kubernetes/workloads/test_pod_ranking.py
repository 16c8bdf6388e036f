"""Which of several pods a controller deletes first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from berth.tools.kubernetes.objects.structs import Document, Pod, read
from berth.tools.kubernetes.workloads.pod_ranking import DELETION_COST, by_age, by_usefulness

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LONG_AGO, EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T11:00:00Z", "2026-01-01T11:59:00Z"


def pod(
    name: str,
    *,
    cost: str | None = None,
    node: str = "n",
    phase: str = "Running",
    ready: str | None = LONG_AGO,
    created: str | None = LONG_AGO,
    restarts: int = 0,
    sidecar: int = 0,
) -> Pod:
    condition = {"type": "Ready", "status": str(ready is not None), "lastTransitionTime": ready}
    metadata: Document = {"name": name, "uid": name, "creationTimestamp": created}
    if cost is not None:
        metadata["annotations"] = {DELETION_COST: cost}
    status: Document = {"phase": phase, "conditions": [condition]}
    status["containerStatuses"] = [{"name": "c", "restartCount": restarts}]
    status["initContainerStatuses"] = [
        {"name": "side", "restartCount": sidecar},
        {"name": "once", "restartCount": 9},
    ]
    spec: Document = {"nodeName": node, "containers": [{"name": "c"}]}
    spec["initContainers"] = [{"name": "side", "restartPolicy": "Always"}, {"name": "once"}]
    return read({"metadata": metadata, "spec": spec, "status": status}, Pod)


def names(pods: list[Pod]) -> list[str]:
    return [each.metadata.name for each in pods]


def first(*pods: Pod, related: tuple[Pod, ...] = ()) -> str:
    """Returns the pod that a ReplicaSet deletes first, in whatever order the pods come."""
    (forwards, *_), (backwards, *_) = (
        names(by_usefulness(order, related, NOW)) for order in (pods, pods[::-1])
    )
    assert forwards == backwards
    return forwards


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"node": "", "cost": "9"}, {"phase": "Pending"}),
        ({"phase": "Pending", "cost": "9"}, {"phase": "Unknown"}),
        ({"phase": "Unknown", "cost": "9"}, {"ready": None}),
        ({"ready": None, "cost": "9"}, {"cost": "-9"}),
        ({"cost": "-1", "ready": EARLY}, {"ready": LATE}),
        ({"ready": LATE, "created": EARLY}, {"ready": EARLY, "created": LATE, "restarts": 9}),
        ({"restarts": 2}, {"restarts": 1, "sidecar": 5}),
        ({"restarts": 1, "created": EARLY}, {"created": LATE}),
        ({"sidecar": 1}, {}),
        ({"created": LATE}, {"created": EARLY}),
        ({"created": None}, {"created": LATE}),
    ],
)
def test_the_less_useful_pod_goes_first(less: dict[str, Any], more: dict[str, Any]) -> None:
    assert first(pod("z", **less), pod("a", **more)) == "z"
    assert first(pod("a", **less), pod("z", **more)) == "a"


@pytest.mark.parametrize("cost", ["", "cheap", "+10", "-08x", "008", "1e3", "-2147483649", " -5"])
def test_a_cost_that_is_no_number_counts_as_zero(cost: str) -> None:
    assert first(pod("invalid", cost=cost), pod("cheap", cost="-1")) == "cheap"
    assert first(pod("invalid", cost=cost), pod("dear", cost="1")) == "invalid"


def test_pods_of_nearly_the_same_age_go_in_the_order_of_their_uids() -> None:
    earlier, later = "2026-01-01T11:00:00Z", "2026-01-01T11:05:00Z"
    assert first(pod("a", ready=earlier), pod("b", ready=later, restarts=3)) == "a"
    assert first(pod("a", created=earlier), pod("b", created=later)) == "a"


def test_pods_go_first_from_nodes_with_more_related_pods() -> None:
    crowded, alone = pod("crowded", node="n1"), pod("alone", node="n2", ready=LATE)
    related = (crowded, alone, pod("neighbour", node="n1"))
    assert first(crowded, alone, related=related) == "crowded"
    ended = pod("neighbour", node="n1", phase="Succeeded")
    assert first(crowded, alone, related=(crowded, alone, ended)) == "alone"
    assert first(crowded, alone) == "alone"


def test_a_job_looks_at_the_exact_age_and_at_no_cost() -> None:
    earlier, later = "2026-01-01T11:00:00Z", "2026-01-01T11:05:00Z"
    pods = [pod("a", ready=earlier, cost="-5"), pod("b", ready=later), pod("c", ready=None)]
    assert names(by_age(pods, NOW)) == ["c", "b", "a"]
