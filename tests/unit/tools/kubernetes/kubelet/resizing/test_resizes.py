"""The resizes of a node: their order, when they are tried again, and kubelets that start again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from berth.tools.kubernetes.kubelet.kubelet_writes import KubeletWrite, StatusPatch
from berth.tools.kubernetes.kubelet.resizing.allocation import Allocation
from berth.tools.kubernetes.kubelet.resizing.resizes import NEVER, RETRY_SECONDS, Resizes
from berth.tools.kubernetes.kubelet.usage_models import PodUsage
from berth.tools.kubernetes.objects.object_events import Reporter
from berth.tools.kubernetes.objects.structs import Pod, read
from tests.kit import documents
from tests.kit.documents import Document

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECONDS = NOW.timestamp()
FULL = ("OutOfcpu", "Node didn't have enough resource: cpu", list[KubeletWrite]())


def pod(
    name: str, cpu: str, has: str = "1", version: int = 1, conditions: Any = (), **fields: Any
) -> Pod:
    """Returns a running pod that requests `cpu`, and to which `has` is allocated."""
    resources = {"requests": {"cpu": has}}
    container = {
        "name": "c",
        "state": {"running": {}},
        "resources": fields.pop("in_effect", resources),
        "allocatedResources": resources["requests"],
    }
    status = {
        "phase": "Running",
        "qosClass": fields.pop("qos", "Burstable"),
        "conditions": list(conditions),
        "containerStatuses": [container],
    }
    about = {"generation": version, "resourceVersion": str(version)}
    priority = fields.pop("priority", 0)
    return read(documents.pod(name, cpu, "", priority, metadata=about, status=status), Pod)


def condition(kind: str, reason: str = "", since: str = "2026-01-01T00:00:00Z") -> Document:
    return {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": since}


def deferred(since: str = "2026-01-01T00:00:00Z") -> list[Document]:
    return [condition("PodResizePending", "Deferred", since)]


class Node:
    """A node whose resizes are admitted or not, and the order in which they were tried."""

    def __init__(self, *, has_room: bool) -> None:
        self.has_room = has_room
        self.tried: list[str] = []
        self.pods: dict[str, Pod] = {}
        self.resizes = Resizes(self.admit, self.usage, Reporter("kubelet", "n"))

    def admit(
        self, pod: Pod, allocation: Allocation, now: datetime
    ) -> tuple[str, str, list[KubeletWrite]]:
        self.tried.append(pod.metadata.name)
        return ("", "", []) if self.has_room else FULL

    def usage(self, pod: Pod, now: datetime) -> PodUsage | None:
        return None

    def put(self, pod: Pod) -> None:
        self.resizes.put(self.pods.get(pod.metadata.uid), pod, SECONDS)
        self.pods[pod.metadata.uid] = pod

    def look(self, later: float = 0.0) -> list[KubeletWrite]:
        return self.resizes.look(self.pods, datetime.fromtimestamp(SECONDS + later, UTC))


def requested(pod: Pod) -> str:
    return str(pod.spec.containers[0].resources.requests["cpu"])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pod("a", "1", has="2", conditions=deferred()), pod("b", "2", priority=9)),
        (pod("a", "2", priority=1), pod("b", "2", qos="Guaranteed")),
        (pod("a", "2", qos="Guaranteed"), pod("b", "2", conditions=deferred())),
        (
            pod("a", "2", conditions=deferred("2026-01-01T00:00:00Z")),
            pod("b", "2", conditions=deferred("2026-01-01T00:00:01Z")),
        ),
        (pod("a", "2", conditions=deferred()), pod("b", "2")),
    ],
)
def test_the_more_urgent_resize_is_tried_first(first: Pod, second: Pod) -> None:
    node = Node(has_room=False)
    for each in (second, first):
        node.put(each)
    node.look()
    assert node.tried == ["a", "b"]


def test_a_pod_that_was_never_resized_is_never_looked_at() -> None:
    node = Node(has_room=True)
    node.put(pod("a", "1"))
    node.put(pod("a", "1", version=2))
    assert node.resizes.due == NEVER
    assert node.resizes.allocated(node.pods["a"]) is node.pods["a"]


def test_amounts_that_are_written_otherwise_are_no_resize() -> None:
    node = Node(has_room=True)
    node.put(pod("a", "1"))
    node.put(pod("a", "1000m", version=2))
    assert node.resizes.due == NEVER


def test_until_it_is_admitted_the_pod_has_what_was_allocated() -> None:
    node = Node(has_room=False)
    node.put(pod("a", "1"))
    node.put(pod("a", "2", version=2))
    node.look()
    assert requested(node.resizes.allocated(node.pods["a"])) == "1"
    node.has_room = True
    node.look(RETRY_SECONDS)
    assert requested(node.resizes.allocated(node.pods["a"])) == "2"


def test_a_deferred_resize_is_tried_again_every_three_minutes_or_when_there_is_room() -> None:
    node = Node(has_room=False)
    node.put(pod("a", "1"))
    node.put(pod("a", "2", version=2))
    node.look()
    assert node.resizes.due == SECONDS + RETRY_SECONDS
    node.look(10)
    assert node.tried == ["a"]
    node.resizes.make_room(SECONDS + 20)
    assert node.resizes.due == SECONDS + 20
    node.look(20)
    assert node.tried == ["a", "a"]


def test_a_reverted_resize_only_loses_its_condition() -> None:
    node = Node(has_room=False)
    node.put(pod("a", "1"))
    node.put(pod("a", "2", version=2))
    node.look()
    node.put(pod("a", "1", version=3, conditions=deferred()))
    (write,) = node.look()
    assert isinstance(write, StatusPatch)
    assert write.status == {
        "observedGeneration": 3,
        "conditions": [{"type": "PodResizePending", "$patch": "delete"}],
    }
    assert node.tried == ["a"]
    assert node.resizes.due == NEVER


def test_a_kubelet_that_starts_again_knows_a_deferred_resize_from_the_status() -> None:
    node = Node(has_room=False)
    node.put(pod("a", "2", has="1", conditions=deferred()))
    assert requested(node.resizes.allocated(node.pods["a"])) == "1"
    node.look()
    assert node.tried == ["a"]


def test_a_kubelet_that_starts_again_ends_a_resize_in_progress() -> None:
    node = Node(has_room=True)
    before = {"requests": {"cpu": "1"}}
    node.put(pod("a", "2", "2", in_effect=before, conditions=[condition("PodResizeInProgress")]))
    writes = node.look(1)
    assert node.tried == []
    (patch,) = [write for write in writes if isinstance(write, StatusPatch)]
    assert patch.status["containerStatuses"][0]["resources"] == {"requests": {"cpu": "2"}}
    assert patch.version == "1"


def test_a_write_that_was_refused_is_repeated() -> None:
    node = Node(has_room=True)
    node.put(pod("a", "1"))
    node.put(pod("a", "2", version=2))
    node.look()
    assert len(node.look(1)) == 2  # the event and the status
    (again,) = node.look(2)
    assert isinstance(again, StatusPatch)
    node.put(pod("a", "2", "2", version=3))
    assert node.resizes.due == NEVER


def test_a_pod_that_is_gone_is_forgotten() -> None:
    node = Node(has_room=False)
    node.put(pod("a", "1"))
    node.put(pod("a", "2", version=2))
    node.resizes.remove("a")
    assert node.resizes.due == NEVER


def test_a_pod_that_another_resize_preempts_is_not_tried() -> None:
    class Critical(Node):
        def admit(
            self, pod: Pod, allocation: Allocation, now: datetime
        ) -> tuple[str, str, list[KubeletWrite]]:
            self.resizes.remove("b")
            return super().admit(pod, allocation, now)

    node = Critical(has_room=True)
    for name, priority in (("a", 9), ("b", 0)):
        node.put(pod(name, "1", priority=priority))
        node.put(pod(name, "2", version=2, priority=priority))
    node.look()
    assert node.tried == ["a"]
