"""NodeResourcesFit and extended resources that a device class provides."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

from berth.actors.scheduling.decision.failures import PluginError
from berth.actors.scheduling.decision.rules import Rules, rule_hooks
from berth.actors.scheduling.framework.events import Action, Resource
from berth.actors.scheduling.kube.devices import DEVICE_CLASS_PREFIX
from berth.actors.scheduling.kube.kinds import decode
from berth.actors.scheduling.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from berth.actors.scheduling.plugins.node_resources_fit import NodeResourcesFit
from berth.plugin import (
    ClusterEvent,
    CycleState,
    DependsOn,
    DeviceClass,
    Hint,
    Node,
    Pod,
    PodInfo,
    ResourceClaim,
    ResourceSlice,
)
from berth.tools.answers.explain.plugin_handle import HeldObjects
from tests.kit.devices import (
    GPU,
    allocated,
    cluster,
    device_class,
    handle,
    node,
    pod,
    resource_slice,
)
from tests.kit.documents import Document
from tests.kit.storage import answered, rejected

T = TypeVar("T")
OTHER = "example.com/other"
IMPLICIT = f"{DEVICE_CLASS_PREFIX}gpus"
GPUS = device_class("gpus", extendedResourceName=GPU)


def a_class(name: str = "gpus", resource: str | None = GPU) -> DeviceClass:
    device = decode(device_class(name, extendedResourceName=resource))
    assert isinstance(device, DeviceClass)
    return device


def refused(document: Document, *objects: Document, **gates: bool) -> dict[str, str]:
    """Returns the nodes that are rejected, each with the message."""
    return rejected(answered(NodeResourcesFit({}, handle(**gates)), document, cluster(*objects)))


# -------------------------------------------------------------------------------------- the filter


@pytest.mark.parametrize("resource", [GPU, IMPLICIT])
def test_what_a_class_provides_is_not_checked_on_nodes_without_it(resource: str) -> None:
    nodes = (node("absent"), node("zero", **{resource: 0}), node("few", **{resource: 1}))
    expected = {"few": f"Insufficient {resource}"}
    assert refused(pod({resource: 2}), *nodes, GPUS) == expected


def test_it_is_checked_where_no_class_provides_it() -> None:
    nodes = (node("absent"), node("zero", gpu=0), node("two", gpu=2))
    message = f"Insufficient {GPU}"
    for others in ([], [device_class("gpus", extendedResourceName=OTHER)], [device_class("gpus")]):
        assert refused(pod({GPU: 2}), *nodes, *others) == {"absent": message, "zero": message}


def test_a_resource_that_no_node_has() -> None:
    assert refused(pod({GPU: 1, OTHER: 1}), node(), GPUS) == {"n": f"Insufficient {OTHER}"}
    assert refused(pod({GPU: 1}), node(), GPUS) == {}


def test_other_resources_are_checked_besides() -> None:
    document = pod({GPU: 1, "cpu": 5})
    assert refused(document, node(), GPUS) == {"n": "Insufficient cpu"}


def test_pods_with_devices_do_not_fill_a_node() -> None:
    there = pod({GPU: 8}, "there", on="n")
    assert refused(pod({GPU: 1}), node(gpu=0), there, GPUS) == {}
    assert refused(pod({GPU: 1}), node(gpu=8), there, GPUS) == {"n": f"Insufficient {GPU}"}


def test_everything_is_checked_without_the_gate() -> None:
    message = {"n": f"Insufficient {GPU}"}
    assert refused(pod({GPU: 1}), node(), GPUS, DRAExtendedResource=False) == message


def test_only_pods_that_request_such_a_resource_need_the_classes() -> None:
    snapshot, plugin = cluster(node(gpu=1)), NodeResourcesFit({}, handle())
    snapshot.objects.kind_listed(DeviceClass, "forbidden")
    assert rejected(answered(plugin, pod({"cpu": 1, "hugepages-2Mi": 0, GPU: 0}), snapshot)) == {}
    with pytest.raises(PluginError, match="forbidden"):
        answered(plugin, pod({GPU: 1}), snapshot)


def test_an_ignored_resource_needs_no_class() -> None:
    snapshot = cluster(node())
    snapshot.objects.kind_listed(DeviceClass, "forbidden")
    plugin = NodeResourcesFit({"ignoredResources": [GPU]}, handle())
    assert rejected(answered(plugin, pod({GPU: 1}), snapshot)) == {}


def test_a_class_that_comes_and_goes() -> None:
    snapshot, plugin, item = cluster(node()), NodeResourcesFit({}, handle()), a_class()
    message = {"n": f"Insufficient {GPU}"}
    assert rejected(answered(plugin, pod({GPU: 1}), snapshot)) == message
    snapshot.objects.put(item)
    assert rejected(answered(plugin, pod({GPU: 1}), snapshot)) == {}
    snapshot.objects.remove(item)
    assert rejected(answered(plugin, pod({GPU: 1}), snapshot)) == message
    assert DeviceClass in plugin.lookups


def test_without_the_gate_no_class_is_looked_up() -> None:
    plugin = NodeResourcesFit({}, handle(DRAExtendedResource=False))
    assert not plugin.lookups
    assert not any(
        registration.event.resource is Resource.DEVICE_CLASS
        for registration in plugin.events_to_register()
    )


# --------------------------------------------------------------------------------------- the hints


class Classes(HeldObjects):
    """Only classes are known."""

    def __init__(self, *classes: DeviceClass) -> None:
        self._classes = classes

    def every(self, kind: type[T]) -> Iterable[T]:
        return [item for item in self._classes if isinstance(item, kind)]


def wakes(
    document: Document,
    event: tuple[Resource, Action],
    old: object | None,
    new: object | None,
    *classes: DeviceClass,
    **gates: bool,
) -> bool:
    """True if the event queues a pod that the plugin rejected."""
    services = handle(**gates)
    services.objects = Classes(*classes)
    waiting = decode(document)
    assert isinstance(waiting, Pod)
    happened = ClusterEvent(*event)
    return any(
        registration.hint is None or registration.hint(waiting, old, new) is Hint.QUEUE
        for registration in NodeResourcesFit({}, services).events_to_register()
        if registration.event.matches(happened)
    )


def a_node(**allocatable: int) -> Node:
    answer = decode(node(**allocatable))
    assert isinstance(answer, Node)
    return answer


ADDED, ALLOCATABLE = ((Resource.NODE, Action.ADD), (Resource.NODE, Action.UPDATE_NODE_ALLOCATABLE))


def test_a_new_node_for_devices() -> None:
    document = pod({GPU: 2, "cpu": 1})
    assert not wakes(document, ADDED, None, a_node())
    assert wakes(document, ADDED, None, a_node(), a_class())
    assert wakes(document, ADDED, None, a_node(gpu=0), a_class())
    assert not wakes(document, ADDED, None, a_node(gpu=1), a_class())
    assert not wakes(document, ADDED, None, a_node(cpu=0), a_class())
    assert not wakes(document, ADDED, None, a_node(), a_class("other", OTHER))
    assert not wakes(document, ADDED, None, a_node(), a_class(), DRAExtendedResource=False)
    assert wakes(pod({IMPLICIT: 1}), ADDED, None, a_node(), a_class("gpus", None))


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        ({"gpu": 4}, {"gpu": 1}, False),  # the device plugin has less
        ({"gpu": 4}, {}, True),  # devices take the place of the device plugin
        ({"gpu": 0}, {"gpu": 0}, True),
        ({}, {}, True),
        ({"gpu": 2}, {"gpu": 2}, False),
        ({"gpu": 2}, {"gpu": 3}, True),
    ],
)
def test_a_changed_node_for_devices(old: dict[str, int], new: dict[str, int], helps: bool) -> None:
    document = pod({GPU: 2})
    assert wakes(document, ALLOCATABLE, a_node(**old), a_node(**new), a_class()) == helps
    assert wakes(document, ALLOCATABLE, a_node(**old), a_node(**new)) == (new.get("gpu", 0) > 2)


CLASS_ADDED, CLASS_CHANGED = (
    (Resource.DEVICE_CLASS, Action.ADD),
    (Resource.DEVICE_CLASS, Action.UPDATE),
)


@pytest.mark.parametrize(
    ("requested", "name", "resource", "helps"),
    [
        (GPU, "c", GPU, True),
        (GPU, "c", None, False),
        (GPU, "c", OTHER, False),
        (IMPLICIT, "gpus", None, True),
        (IMPLICIT, "gpus", OTHER, True),
        (IMPLICIT, "c", GPU, False),
        ("memory", "c", GPU, False),
    ],
)
def test_a_new_class(requested: str, name: str, resource: str | None, helps: bool) -> None:
    assert wakes(pod({requested: 1}), CLASS_ADDED, None, a_class(name, resource)) == helps


@pytest.mark.parametrize(
    ("requested", "old", "new", "helps"),
    [
        (GPU, OTHER, GPU, True),
        (GPU, None, GPU, True),
        (GPU, GPU, GPU, False),
        (GPU, GPU, None, False),
        (GPU, None, None, False),
        (GPU, None, OTHER, False),
        (IMPLICIT, None, GPU, False),
    ],
)
def test_a_changed_class(requested: str, old: str | None, new: str | None, helps: bool) -> None:
    before, after = a_class("gpus", old), a_class("gpus", new)
    assert wakes(pod({requested: 1}), CLASS_CHANGED, before, after) == helps


# -------------------------------------------------------------------------------------- the scores


def scoring(*resources: str, strategy: str = "LeastAllocated") -> dict[str, Any]:
    named = [{"name": name} for name in resources]
    return {"scoringStrategy": {"type": strategy, "resources": named}}


def scores(
    args: dict[str, Any], document: Document, *objects: Document, **gates: bool
) -> dict[str, int]:
    rules = Rules(rule_hooks({"score": [(NodeResourcesFit(args, handle(**gates)), 1)]}))
    waiting, snapshot = decode(document), cluster(*objects)
    assert isinstance(waiting, Pod)
    (ranking,) = rules.score(CycleState(), PodInfo(waiting), snapshot.all())
    return dict(zip(snapshot.columns.names, ranking.scores.tolist(), strict=True))


def test_devices_count_for_scores() -> None:
    slices = [resource_slice("n", "a", "b", "c"), resource_slice("m", "a", "b")]
    nodes, args = [node("n"), node("m"), node("plugin", gpu=4), node("none")], scoring(GPU)
    document = pod({GPU: 1})
    shares = {"n": 66, "m": 50, "plugin": 75, "none": 0}
    assert scores(args, document, *nodes, GPUS, *slices) == shares
    held = allocated("held", "n", "a")
    assert scores(args, document, *nodes, GPUS, *slices, held) == {**shares, "n": 33}
    most = scoring(GPU, strategy="MostAllocated")
    expected = {"n": 66, "m": 50, "plugin": 25, "none": 0}
    assert scores(most, document, *nodes, GPUS, *slices, held) == expected
    without = {"n": 0, "m": 0, "plugin": 75, "none": 0}
    assert scores(args, document, *nodes, *slices) == without
    assert scores(args, document, *nodes, GPUS, *slices, DRAExtendedResource=False) == without


def test_a_resource_that_the_pod_does_not_request_does_not_count() -> None:
    objects = [node("n"), GPUS, resource_slice("n", "a", "b")]
    args, plain = scoring("cpu", GPU), scoring("cpu")
    assert scores(args, pod({"cpu": 1}), *objects) == scores(plain, pod({"cpu": 1}), *objects)
    # Of cpu 3000m of 4000m are free, of the devices 1 of 2: the mean of 75 and 50.
    assert scores(args, pod({"cpu": 1, GPU: 1}), *objects) == {"n": 62}


@pytest.mark.parametrize(
    ("resources", "gate", "depends_on"),
    [
        (("cpu", GPU), True, DependsOn.CLUSTER),
        ((IMPLICIT,), True, DependsOn.CLUSTER),
        (("cpu", GPU), False, DependsOn.NODE_AND_PODS),
        (("cpu", "memory", "hugepages-2Mi"), True, DependsOn.NODE_AND_PODS),
    ],
)
@pytest.mark.parametrize("kind", [NodeResourcesFit, NodeResourcesBalancedAllocation])
def test_scores_read_the_cluster_only_if_they_may_count_devices(
    kind: type[NodeResourcesFit] | type[NodeResourcesBalancedAllocation],
    resources: tuple[str, ...],
    gate: bool,
    depends_on: DependsOn,
) -> None:
    args = scoring(*resources)
    if kind is NodeResourcesBalancedAllocation:
        args = {"resources": args["scoringStrategy"]["resources"]}
    plugin = kind(args, handle(DRAExtendedResource=gate))
    assert plugin.depends_on is depends_on
    follows_claims = ResourceClaim in plugin.lookups and ResourceSlice in plugin.lookups
    assert follows_claims == (depends_on is DependsOn.CLUSTER)
