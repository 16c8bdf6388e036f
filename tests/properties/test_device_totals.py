"""The devices of nodes, counted through random histories, equal a fresh count and a naive one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import (
    AssumeObject,
    NodeAdded,
    NodeDeleted,
    ObjectPut,
    ObjectRemoved,
    RestoreObject,
)
from berth.actors.scheduling.kube.devices import (
    DEVICE_CLASS_PREFIX,
    DeviceRequestAllocationResult,
    InFlightAllocation,
)
from berth.actors.scheduling.kube.kinds import decode
from berth.actors.scheduling.kube.meta import HasMetadata, ObjectMeta
from berth.actors.scheduling.plugins.dynamic_resources.totals import DeviceTotals
from berth.actors.scheduling.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from berth.actors.scheduling.plugins.node_resources_fit import NodeResourcesFit
from berth.plugin import (
    CycleState,
    Node,
    NodeView,
    Pod,
    PodInfo,
    ResourceClaim,
    ScorePlugin,
    Snapshot,
)
from tests.kit.devices import (
    DRIVER,
    GPU,
    allocated,
    device_class,
    handle,
    node,
    pod,
    resource_slice,
)
from tests.kit.examples import examples

NAMES = ["n1", "n2", "n3"]
NODES = st.sampled_from(NAMES)
DEVICES = ["a", "b", "c"]
MODELS = st.sampled_from(["", "x", "y"])
RESOURCES = [GPU, f"{DEVICE_CLASS_PREFIX}one"]
# A device without a model makes the first expression fail.
SELECTORS = [f'device.attributes["{DRIVER}"].model == "x"', f'device.driver == "{DRIVER}"', "true"]
POOLS = [*NAMES, "all", "zone", "each"]
ZONE_A = {
    "nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    ]
}
WHERE: dict[str, dict[str, Any]] = {
    "all": {"allNodes": True},
    "zone": {"nodeName": None, "nodeSelector": ZONE_A},
    "each": {"nodeName": None, "perDeviceNodeSelection": True},
}
RESOURCES_ARGS = [{"name": name} for name in ("cpu", *RESOURCES)]
FIT = {"scoringStrategy": {"type": "LeastAllocated", "resources": RESOURCES_ARGS}}
BALANCED = {"resources": RESOURCES_ARGS}


def selected(device: Mapping[str, Any], expressions: Iterable[str]) -> bool | None:
    """Returns the answer of the selectors of a class about a device; None if one fails."""
    for expression in expressions:
        if expression == SELECTORS[0]:
            model = device.get("attributes", {}).get("model", {}).get("string")
            if model is None:
                return None
            if model != "x":
                return False
    return True


def serves(where: Mapping[str, Any], on: Node) -> bool:
    """True if a slice or a device that is there serves the node."""
    if where.get("nodeName"):
        return bool(where["nodeName"] == on.metadata.name)
    if where.get("nodeSelector"):
        return on.metadata.labels["zone"] == "a"
    return bool(where.get("allNodes"))


class Devices(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cache = CacheState()
        self.nodes: dict[str, Node] = {}
        self.documents: dict[tuple[str, str], dict[str, Any]] = {}
        self.objects: dict[tuple[str, str], HasMetadata] = {}
        self.pending: dict[str, InFlightAllocation] = {}
        self.serial = 0
        self.totals = DeviceTotals()
        self.plugins: tuple[ScorePlugin, ...] = (
            NodeResourcesFit(FIT, handle()),
            NodeResourcesBalancedAllocation(BALANCED, handle()),
        )

    @initialize()
    def cluster(self) -> None:
        """Makes a cluster in which most changes matter."""
        for number, name in enumerate(NAMES):
            self.node_put(name, "aab"[number], number == 2)
            self.slice_put(name, ["x", "y"][: 1 + number % 2], number)
        for pool in ("zone", "each"):
            self.slice_put(pool, ["x", "x", "x"], 0)
        self.class_put("one", GPU, [])
        self.counts_agree(NAMES)

    def put(self, document: dict[str, Any]) -> None:
        self.serial += 1
        document["metadata"] |= {"resourceVersion": str(self.serial), "uid": "u"}
        item = decode(document)
        assert item is not None
        place = (document["kind"], document["metadata"]["name"])
        self.documents[place], self.objects[place] = document, item
        self.cache.handle(ObjectPut(item))

    # ---------------------------------------------------------------------------------- the cluster

    @rule(name=NODES, zone=st.sampled_from("ab"), plugin=st.booleans())
    def node_put(self, name: str, zone: str, plugin: bool) -> None:
        amounts: dict[str, int | str] = {"gpu": 2} if plugin else {}
        item = decode(node(name, {"zone": zone}, **amounts))
        assert isinstance(item, Node)
        self.nodes[name] = item
        self.cache.handle(NodeAdded(item))

    @rule(name=NODES)
    def node_gone(self, name: str) -> None:
        if name in self.nodes:
            self.cache.handle(NodeDeleted(self.nodes.pop(name)))

    @rule(
        name=st.sampled_from(["one", "two"]),
        resource=st.sampled_from([GPU, None]),
        expressions=st.lists(st.sampled_from(SELECTORS), max_size=2),
    )
    def class_put(self, name: str, resource: str | None, expressions: list[str]) -> None:
        self.put(device_class(name, *expressions, extendedResourceName=resource))

    @rule(
        pool=st.sampled_from(POOLS),
        models=st.lists(MODELS, max_size=3),
        shift=st.integers(0, 2),
    )
    def slice_put(self, pool: str, models: list[str], shift: int) -> None:
        devices: list[dict[str, Any]] = [
            {
                "name": DEVICES[(number + shift) % 3],
                **({"attributes": {"model": {"string": model}}} if model else {}),
            }
            for number, model in enumerate(models)
        ]
        if pool == "each":
            places: list[dict[str, Any]] = [
                {"nodeName": "n1"},
                {"nodeSelector": ZONE_A},
                {"allNodes": True},
            ]
            devices = [device | places[i] for i, device in enumerate(devices)]
        self.put(resource_slice(pool, *devices, **WHERE.get(pool, {})))

    @rule(
        name=st.sampled_from(["one", "two", "three"]),
        pool=st.sampled_from(POOLS),
        devices=st.lists(st.sampled_from(DEVICES), max_size=2, unique=True),
        share=st.booleans(),
    )
    def claim_put(self, name: str, pool: str, devices: list[str], share: bool) -> None:
        self.put(allocated(name, pool, *devices, **({"shareID": "s"} if share else {})))

    @rule(data=st.data())
    def object_gone(self, data: st.DataObject) -> None:
        if self.objects:
            place = data.draw(st.sampled_from(sorted(self.objects)))
            del self.documents[place]
            self.cache.handle(ObjectRemoved(self.objects.pop(place)))

    @rule(
        uid=st.sampled_from(["p1", "p2"]),
        pool=st.sampled_from(POOLS),
        device=st.sampled_from(DEVICES),
    )
    def allocation_decided(self, uid: str, pool: str, device: str) -> None:
        result = DeviceRequestAllocationResult(driver=DRIVER, pool=pool, device=device)
        pending = InFlightAllocation(metadata=ObjectMeta(name=uid), results=(result,))
        self.pending[uid] = pending
        self.cache.handle(AssumeObject(pending))

    @rule(uid=st.sampled_from(["p1", "p2"]))
    def allocation_ended(self, uid: str) -> None:
        if uid in self.pending:
            self.cache.handle(RestoreObject(self.pending.pop(uid)))

    # ----------------------------------------------------------------------------------- the counts

    @rule(some=st.lists(NODES, min_size=1, unique=True))
    def counts_agree(self, some: list[str]) -> None:
        snapshot = self._snapshot()
        for names in (some, NAMES):
            rows = [snapshot.columns.row_of[name] for name in names if name in self.nodes]
            if not rows:
                continue
            nodes = snapshot.rows(np.array(rows))
            for resource in RESOURCES:
                kept = counts(self.totals, resource, nodes)
                assert kept == counts(DeviceTotals(), resource, nodes)
                assert kept == {name: self._naive(resource, name) for name in kept}
            fresh: tuple[ScorePlugin, ...] = (
                NodeResourcesFit(FIT, handle()),
                NodeResourcesBalancedAllocation(BALANCED, handle()),
            )
            for plugin, new in zip(self.plugins, fresh, strict=True):
                assert scores(plugin, nodes) == scores(new, nodes)

    def _snapshot(self) -> Snapshot:
        return self.cache.snapshot()

    def _naive(self, resource: str, name: str) -> tuple[int, int]:
        on = self.nodes[name]
        if resource in on.status.allocatable:
            return 2, 0
        expressions = self._expressions(resource)
        if expressions is None:
            return 0, 0
        total, held = 0, self._held()
        taken = 0
        for (kind, _), document in self.documents.items():
            if kind != "ResourceSlice":
                continue
            spec = document["spec"]
            for device in spec["devices"]:
                if not serves(device if spec.get("perDeviceNodeSelection") else spec, on):
                    continue
                match = selected(device, expressions)
                if match is None:
                    return 0, 0
                total += match
                taken += match and (spec["pool"]["name"], device["name"]) in held
        return total, taken

    def _expressions(self, resource: str) -> list[str] | None:
        """Returns the selectors of the class that provides a resource; None if there is none."""
        classes = [
            document
            for (kind, name), document in sorted(self.documents.items())
            if kind == "DeviceClass"
            and resource
            in (document["spec"]["extendedResourceName"], f"{DEVICE_CLASS_PREFIX}{name}")
        ]
        if not classes:
            return None
        selectors = classes[0]["spec"]["selectors"]
        return [selector["cel"]["expression"] for selector in selectors]

    def _held(self) -> set[tuple[str, str]]:
        claims = [item for item in self.objects.values() if isinstance(item, ResourceClaim)]
        allocations = [claim.status.allocation for claim in claims]
        results = [
            *(result for each in allocations if each for result in each.devices.results),
            *(result for pending in self.pending.values() for result in pending.results),
        ]
        return {(result.pool, result.device) for result in results}


def counts(totals: DeviceTotals, resource: str, nodes: NodeView) -> dict[str, tuple[int, int]]:
    have, used = nodes.allocatable([resource])[0], nodes.requested([resource])[0]
    devices, taken = totals.in_place(resource, nodes, have, used)
    pairs = zip(devices.tolist(), taken.tolist(), strict=True)
    return {nodes.name(position): pair for position, pair in enumerate(pairs)}


def scores(plugin: ScorePlugin, nodes: NodeView) -> list[int]:
    subject = decode(pod({"cpu": 1, **dict.fromkeys(RESOURCES, 1)}))
    assert isinstance(subject, Pod)
    return list(plugin.score(CycleState(), PodInfo(subject), nodes).tolist())


TestDevices = Devices.TestCase
TestDevices.settings = examples()
