"""DynamicResources with parts that feature gates turn off."""

from __future__ import annotations

import pytest

from berth.actors.scheduling.decision.failures import PluginError
from berth.actors.scheduling.decision.rules import Rules, rule_hooks
from berth.actors.scheduling.framework.status import SKIP
from berth.actors.scheduling.plugins.dynamic_resources.plugin import DynamicResources
from berth.plugin import ArgsError, CycleState, PodInfo
from tests.kit.devices import (
    DRIVER,
    GPU,
    allocated,
    claim,
    cluster,
    device_class,
    handle,
    node,
    pod,
    request,
    resource_slice,
    using,
)
from tests.kit.documents import Document
from tests.kit.storage import answered, as_pod, rejected

NOT_ALLOCATED = "cannot allocate all claims"


def pod_with_claim() -> Document:
    return using(pod({"cpu": 1}), "c")


def answer(*objects: Document, **gates: bool) -> str:
    """Returns the plugin's message about a node for a pod with the claim "c", or ""."""
    plugin = DynamicResources({}, handle(**gates))
    snapshot = cluster(node(), device_class(), *objects)
    reply = answered(plugin, pod_with_claim(), snapshot)
    return rejected(reply).get("n", "") if isinstance(reply, dict) else reply.message


def failure(*objects: Document, **gates: bool) -> str:
    with pytest.raises(PluginError) as failed:
        answer(*objects, **gates)
    return str(failed.value)


def test_no_devices_for_extended_resources() -> None:
    gpus, devices = device_class("gpus", extendedResourceName=GPU), resource_slice("n", "a")
    snapshot = cluster(node(), gpus, devices)
    requesting = pod({GPU: 1})
    assert answered(DynamicResources({}, handle()), requesting, snapshot) != SKIP
    without = DynamicResources({}, handle(DRAExtendedResource=False))
    assert answered(without, requesting, snapshot) == SKIP


# ----------------------------------------------------------------------------------------- requests


def listed() -> Document:
    sub = {"name": "s", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    return {"name": "r", "firstAvailable": [sub]}


def test_prioritized_lists() -> None:
    objects = [claim("c", listed()), resource_slice("n", "a")]
    assert answer(*objects) == ""
    assert answer(*objects, DRAPrioritizedList=False) == (
        "resource claim default/c, request r: has subrequests, but the DRAPrioritizedList feature "
        "is disabled"
    )


@pytest.mark.parametrize(("gate", "score"), [(True, 8), (False, 0)])
def test_lists_score_only_with_the_gate(gate: bool, score: int) -> None:
    before = allocated("c", "n", "a", request="r/s")
    before["spec"]["devices"]["requests"] = [listed()]
    snapshot = cluster(node(), device_class(), resource_slice("n", "a", "b"), before, claim("d"))
    plugin = DynamicResources({}, handle(DRAPrioritizedList=gate))
    state, info = CycleState(), PodInfo(as_pod(using(pod({}), "c", "d")))
    rules = Rules(rule_hooks({"preFilter": [(plugin, 1)], "filter": [(plugin, 1)]}))
    assert rules.pre_filter(state, info, snapshot).status.ok
    assert rules.filter(state, info, snapshot.all()).feasible().all()
    assert plugin.score(state, info, snapshot.all()).tolist() == [score]


def test_requests_for_capacity() -> None:
    memory = {"capacity": {"memory": {"value": "8Gi"}}, "allowMultipleAllocations": True}
    devices = resource_slice("n", {"name": "a", **memory})
    asks: Document = {"capacity": {"requests": {"memory": "1Gi"}}}
    assert answer(claim("c", request(**asks)), devices) == ""
    disabled = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
    assert failure(claim("c", request(**asks)), devices, DRAConsumableCapacity=False).endswith(
        f"claim default/c, request r: {disabled}"
    )
    sub_requests = listed()
    sub_requests["firstAvailable"][0] |= asks
    assert failure(claim("c", sub_requests), devices, DRAConsumableCapacity=False).endswith(
        f"claim default/c, subrequest s: {disabled}"
    )


# ------------------------------------------------------------------------------------------ devices


def test_devices_are_not_shared_without_the_gate() -> None:
    devices = resource_slice("n", {"name": "a", "allowMultipleAllocations": True})
    two = claim("c", request("one"), request("two"))
    assert answer(two, devices) == ""
    assert answer(two, devices, DRAConsumableCapacity=False) == NOT_ALLOCATED


def test_taints_are_ignored_without_the_gate() -> None:
    tainted = {"name": "a", "taints": [{"key": "broken", "effect": "NoSchedule"}]}
    objects = [claim("c"), resource_slice("n", tainted)]
    assert answer(*objects) == NOT_ALLOCATED
    assert answer(*objects, DRADeviceTaints=False) == ""


def test_slices_for_partitions_are_ignored_without_the_gate() -> None:
    each = resource_slice(
        "each", {"name": "a", "nodeName": "n"}, nodeName=None, perDeviceNodeSelection=True
    )
    counters = {"memory": {"value": "1"}}
    part = {"name": "a", "consumesCounters": [{"counterSet": "s", "counters": counters}]}
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 2}
    parts = resource_slice("n", part, name="parts", pool=pool)
    sets = resource_slice(
        "n", name="sets", pool=pool, sharedCounters=[{"name": "s", "counters": counters}]
    )
    alone = resource_slice("n", part)
    assert answer(claim("c"), each) == ""
    assert answer(claim("c"), parts, sets) == ""
    assert answer(claim("c"), alone) == "invalid resource pools were encountered"
    for slices in ([each], [parts, sets], [alone]):
        assert answer(claim("c"), *slices, DRAPartitionableDevices=False) == NOT_ALLOCATED
    assert answer(claim("c"), resource_slice("n", part, "b"), DRAPartitionableDevices=False) == ""


# ------------------------------------------------------------------------------- binding conditions

GATES = ["DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"]


@pytest.mark.parametrize("gate", GATES)
def test_devices_that_must_be_prepared(gate: str) -> None:
    later = {"name": "a", "bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"]}
    assert answer(claim("c"), resource_slice("n", later)) == ""
    assert answer(claim("c"), resource_slice("n", later), **{gate: False}) == NOT_ALLOCATED
    both = claim("c", request(allocationMode="All"))
    assert answer(both, resource_slice("n", later, "b"), **{gate: False}) == ""


@pytest.mark.parametrize("gate", GATES)
def test_devices_that_were_not_prepared(gate: str) -> None:
    failed = allocated(
        "c", "n", "a", bindingConditions=["Ready"], bindingFailureConditions=["Failed"]
    )
    failed["status"]["devices"] = [
        {
            "driver": DRIVER,
            "pool": "n",
            "device": "a",
            "conditions": [{"type": "Failed", "status": "True"}],
        }
    ]
    assert answer(failed) == "resourceclaim not available on the node"
    assert answer(failed, **{gate: False}) == ""


# ---------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("field", "gate"),
    [
        ("filterTimeout", "DRASchedulerFilterTimeout"),
        ("bindingTimeout", "DRADeviceBindingConditions"),
        ("bindingTimeout", "DRAResourceClaimDeviceStatus"),
    ],
)
def test_arguments_of_features_that_are_off(field: str, gate: str) -> None:
    DynamicResources({field: "5s"}, handle())
    DynamicResources({}, handle(**{gate: False}))
    with pytest.raises(ArgsError, match=rf"^{field}: the feature gate .*{gate}.* is disabled$"):
        DynamicResources({field: "5s"}, handle(**{gate: False}))
