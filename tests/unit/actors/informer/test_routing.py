"""Which changes are sent to the queue, and the names of their events."""

from __future__ import annotations

import msgspec
import pytest

from berth.actors.informer.routing import route_node, route_object, route_pod
from berth.actors.informer.stand_ins import node_without_new_pods
from berth.actors.informer.state import Change
from berth.actors.messages.cache import NodeUpdated
from berth.actors.messages.queue import (
    ClusterChanged,
    PendingPodUpdated,
    PodNoLongerPending,
    QueueMessage,
)
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.plugin import Action, ClusterEvent, Namespace, Node, Pod, ReplicaSet, Resource, Service
from tests.kit.structs import node, pod

OURS = frozenset(("default-scheduler",))


def ours(name: str = "p", *, on: str = "", nominated: str = "", priority: int = 0) -> Pod:
    mine = pod(name, node=on, schedulerName="default-scheduler", priority=priority)
    return msgspec.structs.replace(
        mine,
        status=msgspec.structs.replace(mine.status, nominated_node_name=nominated, phase="Pending"),
    )


def sent_to_queue(change: Change[Pod]) -> list[QueueMessage]:
    return route_pod(change, OURS)[1]


def names(messages: list[QueueMessage]) -> list[str]:
    return [str(message.event) for message in messages if isinstance(message, ClusterChanged)]


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        (None, node(), "NodeAdd"),
        (node(), None, "NodeDelete"),
        (node(), node(labels={"a": ""}), "NodeUpdateNodeLabel"),
        (node(), node(allocatable={"cpu": "1"}), "NodeUpdateNodeAllocatable"),
        (node(unschedulable=True), node(), "NodeUpdateNodeTaint"),
        (node(), node(status={"declaredFeatures": ["A"]}), "NodeUpdateNodeDeclaredFeature"),
        (
            node(status={"conditions": [{"type": "Ready"}]}),
            node(status={"conditions": [{"type": "Ready", "status": "True"}]}),
            "NodeUpdateNodeCondition",
        ),
    ],
)
def test_nodes(old: Node | None, new: Node | None, name: str) -> None:
    assert names(route_node(Change(old, new))[1]) == [name]


def test_an_update_with_several_changes_is_as_many_events_in_kubernetes_order() -> None:
    old = node(unschedulable=True, taints=[{"key": "a"}])
    new = node(labels={"a": ""}, status={"declaredFeatures": ["A"]}, allocatable={"cpu": "1"})
    events = route_node(Change(old, new))[1]
    assert names(events) == [
        "NodeUpdateNodeTaint",  # the end of the cordon
        "NodeUpdateNodeAllocatable",
        "NodeUpdateNodeLabel",
        "NodeUpdateNodeTaint",
        "NodeUpdateNodeDeclaredFeature",
    ]
    assert all(
        isinstance(event, ClusterChanged) and (event.old, event.new) == (old, new)
        for event in events
    )
    large = pod("p", node="n", containers=[{"resources": {"requests": {"cpu": "2"}}}])
    small = pod("p", node="n", labels={"a": ""}, tolerations=[{"key": "a"}])
    assert names(sent_to_queue(Change(large, small))) == [
        "AssignedPodUpdatePodLabel",
        "AssignedPodUpdatePodScaleDown",
        "AssignedPodUpdatePodToleration",
    ]


def test_a_node_that_can_be_read_again_is_an_added_node() -> None:
    stale = node_without_new_pods(node(), node())
    assert stale is not None
    (fact,), events = route_node(Change(node(), stale))
    assert (fact, events) == (NodeUpdated(node(), stale), [])
    assert names(route_node(Change(stale, stale))[1]) == []
    (fact,), events = route_node(Change(stale, node(labels={"a": ""})))
    assert fact == NodeUpdated(stale, node(labels={"a": ""}))
    assert names(events) == ["NodeAdd", "NodeUpdateNodeLabel"]


def test_events_are_named_with_the_group_of_the_kind() -> None:
    labels = [str(ClusterEvent(resource, Action.ADD)) for resource in Resource]
    assert labels == [
        "PodAdd",
        "AssignedPodAdd",
        "UnschedulablePodAdd",
        "TargetPodAdd",
        "NodeAdd",
        "NamespaceAdd",
        "ServiceAdd",
        "PersistentVolumeAdd",
        "PersistentVolumeClaimAdd",
        "storage.k8s.io/CSINodeAdd",
        "storage.k8s.io/CSIDriverAdd",
        "storage.k8s.io/CSIStorageCapacityAdd",
        "storage.k8s.io/StorageClassAdd",
        "storage.k8s.io/VolumeAttachmentAdd",
        "resource.k8s.io/ResourceClaimAdd",
        "resource.k8s.io/ResourceSliceAdd",
        "resource.k8s.io/DeviceClassAdd",
        "resource.k8s.io/DeviceTaintRuleAdd",
        "*Add",
    ]


def test_a_cordon_and_a_heartbeat_are_no_events() -> None:
    assert not route_node(Change(node(), node(unschedulable=True)))[1]
    assert not route_node(Change(node(), node()))[1]


def test_assigned_pods() -> None:
    assert names(sent_to_queue(Change(None, ours(on="n")))) == ["AssignedPodAdd"]
    assert names(sent_to_queue(Change(ours(on="n"), None))) == ["AssignedPodDelete"]
    assert names(sent_to_queue(Change(ours(on="n"), ours(on="n")))) == ["AssignedPodUpdate"]
    labelled = pod("p", node="n", labels={"a": ""})
    assert names(sent_to_queue(Change(pod("p", node="n"), labelled))) == [
        "AssignedPodUpdatePodLabel"
    ]
    small, large = (
        pod("p", node="n", containers=[{"resources": {"requests": {"cpu": cpu}}}]) for cpu in "12"
    )
    assert names(sent_to_queue(Change(large, small))) == ["AssignedPodUpdatePodScaleDown"]
    assert names(sent_to_queue(Change(small, large))) == ["AssignedPodUpdate"]


def test_a_pod_that_is_bound_leaves_the_queue_and_is_an_event() -> None:
    left, event = sent_to_queue(Change(ours(), ours(on="n")))
    assert left == PodNoLongerPending(ours())
    assert names([event]) == ["AssignedPodAdd"]


def test_the_end_of_a_nomination_is_the_event_of_a_deleted_pod() -> None:
    nominated = ours(nominated="n", priority=7)
    freed = ClusterChanged(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), nominated, None, 7)
    elsewhere, nowhere = ours(nominated="m", priority=7), ours(priority=7)
    assert sent_to_queue(Change(nominated, elsewhere)) == [
        PendingPodUpdated(nominated, elsewhere),
        freed,
    ]
    assert sent_to_queue(Change(nominated, nowhere)) == [
        PendingPodUpdated(nominated, nowhere),
        freed,
    ]
    assert sent_to_queue(Change(nominated, None)) == [PodNoLongerPending(nominated), freed]
    assert sent_to_queue(Change(nominated, nominated)) == [PendingPodUpdated(nominated, nominated)]
    assert names(sent_to_queue(Change(nominated, ours(on="n")))) == ["AssignedPodAdd"]


@pytest.mark.parametrize(
    ("change", "resource", "expected"),
    [
        (Change(None, Service()), Resource.SERVICE, ["ServiceAdd"]),
        (Change(Service(), Service()), Resource.SERVICE, ["ServiceUpdate"]),
        (Change(Service(), None), Resource.SERVICE, ["ServiceDelete"]),
        (Change(None, Namespace()), Resource.NAMESPACE, ["NamespaceAdd"]),
        (Change(None, ReplicaSet()), None, []),
        (Change(ReplicaSet(), ReplicaSet()), "ReplicaSet", ["ReplicaSetUpdate"]),
        (Change(None, ReplicaSet()), "ReplicaSet", ["ReplicaSetAdd"]),
    ],
)
def test_objects_that_plugins_look_up(
    change: Change[HasMetadata], resource: Resource | str | None, expected: list[str]
) -> None:
    to_cache, to_queue = route_object(change, resource)
    assert len(to_cache) == 1
    assert names(to_queue) == expected
