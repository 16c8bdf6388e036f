"""A NodeInfo logs what a snapshot has to take in, and no more."""

from __future__ import annotations

from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.pod_info import PodInfo
from tests.kit import structs


def pod(version: int, name: str = "p") -> PodInfo:
    return structs.pod_info(name, labels={"v": str(version)})


def test_a_pod_whose_labels_change_all_the_time_counts_once() -> None:
    node, versions = NodeInfo("n"), [pod(number) for number in range(1_000)]
    node.add_pod(versions[0])
    assert node.take_changes() == [(versions[0], 1)]
    for version in versions[1:]:
        node.remove_pod("ns/p")
        node.add_pod(version)
    assert node.take_changes() == [(versions[0], -1), (versions[-1], 1)]
    node.validate()


def test_pods_that_come_and_go_leave_nothing_for_the_next_snapshot() -> None:
    """On a quiet cluster no snapshot is taken for hours, and the pods may be large."""
    node, (kept, *others) = NodeInfo("n"), [pod(0, f"p{number}") for number in range(10)]
    node.add_pod(kept)
    for other in others:
        node.add_pod(other)
    for other in others:
        node.remove_pod(other.key)
    assert node.take_changes() == [(kept, 1)]
    node.remove_pod(kept.key)
    node.add_pod(kept)
    node.remove_pod(kept.key)
    assert node.take_changes() == [(kept, -1)]
    node.validate()
