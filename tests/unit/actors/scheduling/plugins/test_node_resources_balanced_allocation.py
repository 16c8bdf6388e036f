"""NodeResourcesBalancedAllocation and extended resources that a device class provides."""

from __future__ import annotations

from berth.actors.scheduling.decision.rules import Rules, rule_hooks
from berth.actors.scheduling.kube.kinds import decode
from berth.actors.scheduling.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from berth.plugin import CycleState, DeviceClass, Pod, PodInfo, ResourceSlice, Snapshot
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

ARGS = {"resources": [{"name": name} for name in ("cpu", "memory", GPU)]}
GPUS = device_class("gpus", extendedResourceName=GPU)


def scores(snapshot: Snapshot, document: Document, **gates: bool) -> dict[str, int]:
    """Returns the score of each node; nothing if PreScore skips the pod."""
    plugin = NodeResourcesBalancedAllocation(ARGS, handle(**gates))
    rules = Rules(rule_hooks({"preScore": [(plugin, 1)], "score": [(plugin, 1)]}))
    state, waiting = CycleState(), decode(document)
    assert isinstance(waiting, Pod)
    info = PodInfo(waiting)
    rules.pre_score(state, info, snapshot.all())
    return {
        name: score
        for result in rules.score(state, info, snapshot.all())
        for name, score in zip(snapshot.columns.names, result.scores.tolist(), strict=True)
    }


def nodes() -> list[Document]:
    """Returns two nodes with 86 % of the cpu used, and 12 % of the memory of the second."""
    return [
        node("n1", cpu="3500m", memory=40000),
        node("n2", cpu="3500m", memory=40000),
        pod({"cpu": "3"}, "one", on="n1"),
        pod({"cpu": "3", "memory": 5000}, "two", on="n2"),
    ]


def test_devices_are_one_of_the_balanced_resources() -> None:
    devices = resource_slice("n1", *(f"d{number}" for number in range(8)))
    with_gpu, empty = pod({GPU: 1}), {"n1": 75, "n2": 75}
    assert scores(cluster(*nodes(), GPUS, devices), with_gpu) == {"n1": 76, "n2": 75}
    assert scores(cluster(*nodes(), devices), with_gpu) == empty
    assert scores(cluster(*nodes(), GPUS, devices), with_gpu, DRAExtendedResource=False) == empty


def test_allocated_devices_count() -> None:
    devices = resource_slice("n1", *(f"d{number}" for number in range(8)))
    held = allocated("held", "n1", *(f"d{number}" for number in range(7)))
    # The use of cpu, memory and devices goes from 86, 0 and 88 % to 86, 0 and 100 %.
    assert scores(cluster(*nodes(), GPUS, devices, held), pod({GPU: 1})) == {"n1": 73, "n2": 75}


def test_only_pods_that_request_devices_need_the_classes_and_slices() -> None:
    snapshot = cluster(*nodes())
    for kind in (DeviceClass, ResourceSlice):
        snapshot.objects.kind_listed(kind, "forbidden")
    assert scores(snapshot, pod({"cpu": 1})).keys() == {"n1", "n2"}
    assert scores(snapshot, pod({})) == {}
