"""Pods with claims while writes and reads fail, writes and watches are late, somebody else binds
pods, and objects come and go.

At every moment no device is held by two claims, and a bound pod has its devices. Afterwards no
allocation is pending, the cache has the API server's claims, and every pod gets its devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import anyio
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.devices import (
    EXTENDED_RESOURCE_CLAIM,
    NO_EXECUTE,
    DeviceClass,
    DeviceTaintRule,
    InFlightAllocation,
    ResourceClaim,
    ResourceSlice,
)
from berth.actors.scheduling.kube.kinds import BY_KIND
from berth.config.feature_gates import DEFAULTS, defaults_of
from berth.config.versions import VERSIONS
from berth.tools.kubernetes.devices.device_claims import results_of
from berth.tools.kubernetes.devices.device_eviction import selects
from tests.kit.devices import (
    API,
    DRIVER,
    GPU,
    claim,
    device_class,
    device_taint_rule,
    request,
    resource_slice,
    using,
)
from tests.kit.examples import examples
from tests.kit.virtual_cluster import Fault, VirtualCluster, node, pod, virtual_cluster

CLAIMS = BY_KIND[API, "ResourceClaim"]
SLICES = BY_KIND[API, "ResourceSlice"]
CLAIM = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{}"
NODES = ("a", "b", "c")
LONG = 330.0  # seconds after which every pod that waits has been tried again


CHANGES = (
    *("pod", "pod", "pod", "extended", "shared", "many", "preempt"),
    *("delete", "delete", "claim", "slice", "touch", "touch", "node", "bind"),
)
RULES = BY_KIND[API, "DeviceTaintRule"]


class Story:
    """Random changes to a cluster of three nodes with two devices each."""

    def __init__(self, cluster: VirtualCluster, rng: Random, changes: tuple[str, ...]) -> None:
        self.cluster = cluster
        self.rng = rng
        self.changes = changes
        self.number = 0
        self.foreign: set[str] = set()  # the uids of pods that somebody else bound

    async def furnish(self) -> None:
        for name in NODES:
            await self.cluster.create(node(name, 1000))
            await self.publish(name)
        await self.cluster.create(device_class())
        await self.cluster.create(device_class("ext", extendedResourceName=GPU))
        await self.cluster.clock.advance(1.0)

    async def publish(self, name: str) -> None:
        await self.cluster.create(resource_slice(name, "gpu-0", "gpu-1"))

    async def step(self) -> None:
        what = self.rng.choice(self.changes)
        self.number += 1
        name = f"x{self.number}"
        match what:
            case "pod":
                await self.cluster.create(claim(name, request(count=self.rng.choice((1, 1, 2)))))
                await self.cluster.create(using(pod(name), name))
            case "shared":
                await self.cluster.create(claim(name))
                for user in range(3):
                    await self.cluster.create(using(pod(f"{name}-{user}"), name))
            case "many":
                for part in range(2):
                    await self.cluster.create(claim(f"{name}-{part}"))
                await self.cluster.create(using(pod(name), f"{name}-0", f"{name}-1"))
            case "extended":
                await self.cluster.create(extended(name))
            case "preempt":
                await self.cluster.create(claim(name))
                await self.cluster.create(using(pod(name, cpu=900, priority=10), name))
            case "delete" if self.cluster.pods():
                await self.cluster.delete_pod(self.rng.choice(sorted(self.cluster.pods())))
            case "claim":
                await self.remake()
            case "slice":
                name = self.rng.choice(NODES)
                if ("", f"{name}-gpus") in self.cluster.objects(SLICES):
                    await self.cluster.delete("ResourceSlice", f"{name}-gpus", "", API)
                else:
                    await self.publish(name)
            case "touch" | "taint" | "bind":
                await getattr(self, what)()
            case "node":
                name = self.rng.choice(NODES)
                await self.cluster.delete("Node", name)
                await self.cluster.create(node(name, 1000))

    async def bind(self) -> None:
        """Binds a pod as another scheduler would, whatever claims it has."""
        waiting = [p.metadata for p in self.cluster.pods().values() if not p.spec.node_name]
        if waiting:
            metadata, name = self.rng.choice(waiting), self.rng.choice(NODES)
            self.foreign.add(metadata.uid)
            await self.cluster.api.bind("default", metadata.name, metadata.uid, name)

    async def taint(self) -> None:
        """Makes a rule that taints some devices, or deletes one, once there are two."""
        rules = sorted(rule for _, rule in self.cluster.objects(RULES))
        if len(rules) > 1:
            await self.cluster.delete("DeviceTaintRule", self.rng.choice(rules), "", API)
            return
        some = {"pool": self.rng.choice(NODES), "device": self.rng.choice(("gpu-0", "gpu-1"))}
        selector = {key: some[key] for key in self.rng.choice(((), ("pool",), ("pool", "device")))}
        effect = self.rng.choice(("NoSchedule", "NoExecute"))
        rule = device_taint_rule(
            f"r{self.number}", "broken", effect=effect, driver=DRIVER, **selector
        )
        await self.cluster.create(rule)

    async def end_rules(self) -> None:
        for _, rule in self.cluster.objects(RULES):
            await self.cluster.delete("DeviceTaintRule", rule, "", API)

    async def evict(self) -> None:
        """Deletes the pods whose devices a rule taints with the effect NoExecute."""
        rules = self.cluster.objects(RULES).values()
        for item in self.claims():
            tainted = any(
                rule.spec.taint.effect == NO_EXECUTE and selects(rule, result)
                for rule in rules
                for result in results_of(item)
            )
            users = {user.name for user in item.status.reserved_for} if tainted else set()
            for name in sorted(users & self.cluster.pods().keys()):
                await self.cluster.delete_pod(name)

    async def remake(self) -> None:
        """Replaces a claim that has no devices by another of its name."""
        free = [c.metadata.name for c in self.claims() if not c.metadata.finalizers]
        if free:
            name = self.rng.choice(free)
            await self.cluster.delete("ResourceClaim", name, "default", API)
            await self.cluster.create(claim(name))

    async def touch(self) -> None:
        if self.claims():
            name = self.rng.choice(self.claims()).metadata.name
            body = {"metadata": {"labels": {"n": str(self.number)}}}
            await self.cluster.api.patch(CLAIM.format(name), body, object, "merge")

    def claims(self) -> list[ResourceClaim]:
        by_key = self.cluster.objects(CLAIMS)
        return [by_key[name] for name in sorted(by_key)]

    # --------------------------------------------------------------------------- the controllers

    async def control(self) -> None:
        """Takes pods that are gone out of claims, frees what nobody uses, and deletes what was made
        for a pod that is gone.
        """
        await self.evict()
        there = {pod.metadata.uid for pod in self.cluster.pods().values()}
        for item in self.claims():
            name, users = item.metadata.name, item.status.reserved_for
            if is_extended(item) and item.metadata.owner_references[0].uid not in there:
                await self.cluster.delete("ResourceClaim", name, "default", API)
                continue
            left = [user for user in users if user.uid in there]
            if len(left) == len(users):
                continue
            kept = [{"resource": "pods", "name": user.name, "uid": user.uid} for user in left]
            status: dict[str, Any] = {"reservedFor": kept or None}
            if not left:
                status["allocation"] = None
            path = CLAIM.format(name) + "/status"
            await self.cluster.api.patch(path, {"status": status}, object, "merge")

    # ------------------------------------------------------------------------------ what must hold

    def check(self) -> None:
        held: dict[tuple[str, str, str], str] = {}
        for item in self.claims():
            allocation = item.status.allocation
            for result in () if allocation is None else allocation.devices.results:
                device = (result.driver, result.pool, result.device)
                assert device not in held, (device, held[device], item.metadata.name)
                held[device] = item.metadata.name
        for bound in self.cluster.pods().values():
            if bound.spec.node_name and bound.metadata.uid not in self.foreign:
                self.check_bound(bound)

    def check_bound(self, bound: Pod) -> None:
        names = [str(entry.resource_claim_name) for entry in bound.spec.resource_claims]
        by_key = self.cluster.objects(CLAIMS)
        if bound.metadata.name.startswith("e"):
            (its_own,) = (
                item.metadata.name
                for item in self.claims()
                if is_extended(item)
                and item.metadata.owner_references[0].uid == bound.metadata.uid
                and item.status.allocation is not None
            )
            names.append(its_own)
        for name in names:
            item = by_key["default", name]
            assert bound.metadata.uid in [user.uid for user in item.status.reserved_for], name
            assert item.status.allocation is not None
            pools = {result.pool for result in item.status.allocation.devices.results}
            assert pools == {bound.spec.node_name}, (name, pools, bound.spec.node_name)

    def settle(self) -> None:
        cluster = self.cluster
        assert cluster.snapshot is not None
        objects = cluster.snapshot.objects
        assert objects.assumed() == []
        assert [*objects.every(InFlightAllocation)] == []
        claims = {
            (it.metadata.namespace, it.metadata.name): it for it in objects.every(ResourceClaim)
        }
        assert claims == cluster.objects(CLAIMS)
        objects.validate()


def extended(name: str) -> dict[str, Any]:
    document = pod(f"e{name}")
    document["spec"]["containers"][0]["resources"]["requests"][GPU] = "1"
    return document


def is_extended(item: ResourceClaim) -> bool:
    """True for a claim for extended resources."""
    return EXTENDED_RESOURCE_CLAIM in item.metadata.annotations


def failing(rng: Random, rate: float, working: list[bool]) -> Callable[[str, str, object], Fault]:
    faults = (Fault.REFUSED, Fault.LOST, Fault.UNANSWERED)
    faults_of_claims = (*faults, Fault.DELAYED, Fault.DELAYED)

    def choose(_method: str, path: str, _body: object) -> Fault:
        if not working or rng.random() >= rate:
            return Fault.NONE
        return rng.choice(faults_of_claims if "/resourceclaims" in path else faults)

    return choose


async def play(
    seed: int,
    rate: float,
    late: float,
    lags: tuple[float, float, float],
    changes: tuple[str, ...] = CHANGES,
    gates: Mapping[str, bool] = DEFAULTS,
) -> None:
    rng, failing_now = Random(seed), [True]
    kinds = (ResourceClaim, ResourceSlice, DeviceClass)
    async with virtual_cluster(
        late=late,
        fault=failing(rng, rate, failing_now),
        lags={**dict(zip(kinds, lags, strict=True)), Pod: lags[1], DeviceTaintRule: lags[2]},
        gates=gates,
    ) as cluster:
        cluster.fails_read = lambda _path: bool(failing_now) and rng.random() < rate
        story = Story(cluster, rng, changes)
        await story.furnish()
        for _ in range(20):
            await story.step()
            for _ in range(rng.randrange(1, 8)):
                await cluster.clock.advance(rng.choice((0.05, 0.3, 1.0)))
                story.check()
            if rng.random() < 0.5:
                await story.control()
        failing_now.clear()
        await story.end_rules()
        for _ in range(12):
            await story.control()
            await cluster.clock.advance(2.0)
            story.check()
        for name in "defghijk":
            await cluster.create(node(name, 100_000))
            await cluster.create(resource_slice(name, *(f"gpu-{n}" for n in range(12))))
        for name in NODES:
            if ("", f"{name}-gpus") not in cluster.objects(SLICES):
                await story.publish(name)
        for _ in range(4):
            await cluster.clock.advance(LONG)
            await story.control()
            story.check()
        waiting = {
            name: [c.message for c in pending.status.conditions]
            for name, pending in cluster.pods().items()
            if not pending.spec.node_name
        }
        assert not waiting, waiting
        await cluster.create(pod("last"))
        await cluster.clock.advance(10.0)
        story.settle()


@examples(0.05)
@given(
    st.integers(0, 1 << 32),
    st.sampled_from((0.0, 0.1, 0.3, 0.7)),
    st.sampled_from((0.0, 0.1, 0.5)),
    st.tuples(*[st.sampled_from((0.0, 0.2, 1.5, 6.0))] * 3),
)
def test_no_device_is_given_twice_and_no_pod_is_forgotten(
    seed: int, rate: float, late: float, lags: tuple[float, float, float]
) -> None:
    anyio.run(play, seed, rate, late, lags)


@examples(0.05)
@given(
    st.integers(0, 1 << 32),
    st.sampled_from((0.0, 0.1, 0.3)),
    st.sampled_from((0.0, 0.1)),
    st.tuples(*[st.sampled_from((0.0, 1.5, 6.0))] * 3),
)
def test_nor_while_rules_taint_devices(
    seed: int, rate: float, late: float, lags: tuple[float, float, float]
) -> None:
    newest = defaults_of(VERSIONS[37])
    anyio.run(play, seed, rate, late, lags, (*CHANGES, *["taint"] * 4), newest)
