"""The scheduler survives any objects that the API server sends, and recovers when they are put
right.

The whole scheduler runs in virtual time; its informers decode the lines of an API server in memory.
Odd objects of every kind come, change and go, with nulls, wrong types, extremes and duplicates, in
watches and lists, beside a stream of good pods for which good nodes are reserved. In the end every
odd object is put right or deleted. Then the cache, the queue and the decisions must equal those of
a newly started scheduler.
"""

from __future__ import annotations

import signal
from random import Random
from typing import Any

import anyio
import anyio.lowlevel
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.process.signals import DUMP
from berth.actors.scheduling.kube.kinds import LOOKED_UP, NODES, PODS, WatchedKind
from berth.config.options import Options
from tests.kit.clock import VirtualClock
from tests.kit.daemon import Daemon, daemon, node, pod
from tests.kit.devices import claim, device_class, request, resource_slice
from tests.kit.documents import Document
from tests.kit.examples import examples
from tests.kit.logs import capture_logs
from tests.kit.odd import broken, document

OPTIONS = Options(max_unschedulable=20.0)
LONG = 90.0  # seconds after which everything that failed has been tried again
FLUSHED = 65.0  # seconds after which every parked pod has been tried again
ZONE = "topology.kubernetes.io/zone"
GOOD = {"key": "good", "value": "yes", "effect": "NoSchedule"}
GARBAGE = (
    b"<html>",
    b"{}",
    b"",
    b'{"type": "ADDED", "object": null}',
    b'{"type": "ERROR", "object": {"code": 500}}',
)


# Two devices, and a claim that asks for three: nobody gets them, because the API server of these
# tests takes no writes of claims.
CLAIMS = [{"name": "web", "resourceClaimName": "web"}]
DEVICES = {
    "DeviceClass": device_class("web", 'device.driver == "gpu.example.com"')["spec"],
    "ResourceSlice": resource_slice("pool", "d-0", "d-1", allNodes=True)["spec"],
    "ResourceClaim": claim("web", request(count=3, of="web"))["spec"],
}


class Target:
    """An object that becomes odd: its path and key, and its correct document."""

    def __init__(self, kind: WatchedKind, name: str, right: Document) -> None:
        self.kind = kind
        self.right = right
        namespace = right["metadata"].get("namespace")
        self.key = f"{namespace}/{name}" if namespace else name

    def odd(self, rng: Random, uid: str) -> Document:
        """Returns a document, mostly of this name, with any values and up to two broken places."""
        fields = document(self.kind.type, rng)
        for part in ("metadata", "spec", "status"):
            if part in self.right and rng.random() < 0.95:
                kept = {
                    name: value for name, value in self.right[part].items() if rng.random() < 0.8
                }
                fields[part] = {**(fields.get(part) or {}), **kept}
        metadata = {**(fields.get("metadata") or {}), **self.right["metadata"], "uid": uid}
        fields["metadata"] = metadata
        for _ in range(rng.randrange(3)):
            fields = broken(fields, rng)
        return self._of_its_name(fields if isinstance(fields, dict) else {"metadata": fields})

    def _of_its_name(self, fields: Document) -> Document:
        """Keeps the name, because another name is another object; removes the deletion time, which
        cannot be undone; keeps a pod from preempting.
        """
        spec, metadata = fields.get("spec"), fields.setdefault("metadata", None)
        if self.kind is PODS and (spec is None or isinstance(spec, dict)):
            fields["spec"] = {**(spec or {}), "preemptionPolicy": "Never"}
        if isinstance(metadata, dict):
            if isinstance(metadata.get("deletionTimestamp"), str):
                del metadata["deletionTimestamp"]
            for name in ("name", "namespace"):
                if metadata.get(name) and isinstance(metadata[name], str):
                    metadata[name] = self.right["metadata"].get(name, "")
        return fields


def looked_up(kind: WatchedKind) -> Target:
    namespace = {} if kind.kind == "Namespace" else {"namespace": "default"}
    selector: Any = (
        {"app": "odd"}
        if kind.kind in ("Service", "ReplicationController")
        else {"matchLabels": {"app": "odd"}}
    )
    name = "default" if kind.kind == "Namespace" else "web"
    right = {
        "metadata": {"name": name, **namespace, "uid": kind.kind, "labels": {"team": "a"}},
        "spec": DEVICES.get(kind.kind, {"selector": selector}),
        "status": {"disruptionsAllowed": 1},
    }
    return Target(kind, name, right)


def odd_pod(name: str, on: str = "", **spec: Any) -> Target:
    place: Document = {"nodeName": on} if on else {"nodeSelector": {"odd": "yes"}}
    right = pod(name, "200m", **place, **spec)
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": "ReplicaSet",
        "controller": True,
    }
    right["metadata"] |= {"labels": {"app": "odd"}, "ownerReferences": [owner]}
    return Target(PODS, name, right)


def odd_node(name: str) -> Target:
    right = node(name, "4", odd="yes", **{ZONE: f"zone-{name}"})
    right["status"]["images"] = [{"names": ["i"], "sizeBytes": 1 << 30}]
    return Target(NODES, name, right)


TARGETS = (
    *(odd_node(name) for name in ("odd-0", "odd-1")),
    *(odd_pod(f"{name}-on-{on}", on) for on in ("odd-0", "odd-1", "ghost") for name in "ab"),
    *(odd_pod(name) for name in ("waits-0", "waits-1")),
    *(odd_pod(name, resourceClaims=CLAIMS) for name in ("claims-0", "claims-1")),
    *(looked_up(kind) for kind in LOOKED_UP),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["put"] * 8
            + ["delete", "delete", "again", "sever", "forget", "garbage", "right", "pause"]
        ),
        st.integers(0, len(TARGETS) - 1),
        st.integers(0, 1 << 32),
    ),
    min_size=1,
    max_size=25,
)


class Story:
    """Odd changes to a cluster, with one good pod for each of them."""

    def __init__(self, running: Daemon) -> None:
        self.running = running
        self.api = running.api
        self.good: list[str] = []
        for name in ("good-0", "good-1"):
            manifest = node(name, "64", **{ZONE: f"zone-{name}"})
            manifest["spec"]["taints"] = [GOOD]
            self.api.put(NODES.path, name, manifest)

    def add_good(self) -> None:
        name = f"good-pod-{len(self.good)}"
        toleration = {"key": "good", "operator": "Equal", "value": "yes"}
        near = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "good"}}}
        affinity = {
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": near}
                ]
            }
        }
        manifest = pod(
            name,
            "100m",
            tolerations=[toleration],
            nodeSelector={ZONE: f"zone-good-{len(self.good) % 2}"},
        )
        if len(self.good) % 3 == 0:
            manifest["spec"]["affinity"] = affinity
        manifest["metadata"]["labels"] = {"app": "good"}
        self.api.put(PODS.path, f"default/{name}", manifest)
        self.good.append(name)

    async def take(self, step: tuple[str, int, int]) -> None:
        what, number, seed = step
        target, rng = TARGETS[number], Random(seed)
        path, key = target.kind.path, target.key
        there = self.api.documents(path).get(key)
        match what:
            case "put":
                metadata = there.get("metadata") if isinstance(there, dict) else None
                before = metadata.get("uid") if isinstance(metadata, dict) else None
                uid = (
                    before
                    if isinstance(before, str) and before and rng.random() < 0.9
                    else f"uid-{self.api.version}"
                )
                odd = target.odd(rng, uid)
                hostile = (
                    {"metadata": odd["metadata"]} if not isinstance(odd["metadata"], dict) else {}
                )
                self.api.put(path, key, {**odd, "metadata": {}} if hostile else odd, hostile)
            case "delete" if there is not None:
                hostile = broken(there, rng) if rng.random() < 0.5 else {}
                self.api.delete(
                    path, key, hostile if isinstance(hostile, dict) else {"spec": hostile}
                )
            case "right" if there is None:
                self.api.put(path, key, target.right)
            case "again":
                self.api.again(path)
            case "sever":
                self.api.sever()
            case "forget":
                self.api.sever(forget=True)
            case "garbage":
                self.api.say(path, rng.choice(GARBAGE))
            case "pause":
                await self.running.advance(rng.randrange(40))
        self.add_good()
        await self.running.advance(rng.randrange(3))

    def check_good(self) -> None:
        unplaced = {
            name: self.running.message_of(name)
            for name in self.good
            if not self.running.node_of(name)
        }
        assert not unplaced, unplaced

    def put_right(self, deleted: set[int]) -> None:
        """Corrects or deletes every odd object."""
        for number, target in enumerate(TARGETS):
            path, key = target.kind.path, target.key
            there = self.api.documents(path).pop(key, None)
            if there is None:
                continue
            self.api.documents(path)[key] = there
            if number in deleted or not _may_become(there, target.right):
                self.api.delete(
                    path, key, {"metadata": {**target.right["metadata"], **_identity(there)}}
                )
            else:
                metadata = {**target.right["metadata"], **_identity(there)}
                self.api.put(
                    path, key, {**_with_its_node(target.right, there), "metadata": metadata}
                )


def _identity(there: Any) -> Document:
    """Returns the fields that no update changes."""
    metadata = there.get("metadata") if isinstance(there, dict) else None
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    return {"uid": uid} if isinstance(uid, str) and uid else {}


def _node_name(there: Any) -> Any:
    spec = there.get("spec") if isinstance(there, dict) else None
    return spec.get("nodeName") if isinstance(spec, dict) else None


def _with_its_node(right: Document, there: Any) -> Document:
    name = _node_name(there)
    return (
        {**right, "spec": {**right["spec"], "nodeName": name}}
        if isinstance(name, str) and name
        else right
    )


def _may_become(there: Any, right: Document) -> bool:
    """False if the pod would change its node: pods never do, so it must be deleted instead."""
    name, right_node = _node_name(there), right.get("spec", {}).get("nodeName")
    return not (isinstance(name, str) and name and right_node and name != right_node)


async def dumped(running: Daemon) -> tuple[list[Any], int]:
    """Returns the cached nodes, and the number of pods in the queue."""
    with capture_logs() as logs:
        signal.raise_signal(DUMP)
        with anyio.fail_after(10):
            while not any(
                line["event"] == "comparison of the cache with the API server" for line in logs
            ):
                await anyio.lowlevel.checkpoint()
    assert logs[-1]["differences"] == []
    nodes = sorted(
        (line for line in logs if line["event"] == "dump of a cached node"),
        key=lambda line: line["name"],
    )
    for line in nodes:
        line["pods"] = sorted(line["pods"], key=lambda entry: entry["key"])
    queue = next(line for line in logs if line.get("of") == "queue")
    return nodes, sum(
        queue[place] for place in ("active", "backoff", "unschedulable", "gated", "in_flight")
    )


def probes() -> list[Document]:
    """Returns pods, each for at most one node, whose decisions together look at everything."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "odd"}}}
    by_team = {**term, "namespaceSelector": {"matchLabels": {"team": "a"}}}
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": term["labelSelector"],
    }
    specs: list[Document] = [
        {},
        {"affinity": {"podAffinity": {required: [term]}}},
        {"affinity": {"podAntiAffinity": {required: [term]}}},
        {"affinity": {"podAntiAffinity": {required: [by_team]}}},
        {"topologySpreadConstraints": [spread]},
        {"resourceClaims": CLAIMS},
    ]
    pinned = []
    for name in ("odd-0", "odd-1", "good-0"):
        pinned += [{**spec, "nodeSelector": {"kubernetes.io/hostname": name}} for spec in specs]
    return [*pinned, {"priority": 1000}]


async def placed(running: Daemon) -> list[tuple[str, str]]:
    """Returns the node of each probe, or the reason why it has none."""
    for number, spec in enumerate(probes()):
        running.put_pod(f"probe-{number}", "90" if "priority" in spec else "10m", spec)
        await running.advance(3)
    return [
        (running.node_of(f"probe-{n}"), running.message_of(f"probe-{n}"))
        for n in range(len(probes()))
    ]


async def settled(running: Daemon) -> tuple[list[Any], int]:
    await running.clock.advance(FLUSHED)
    await running.advance(2)
    return await dumped(running)


async def play(steps: list[tuple[str, int, int]], deleted: set[int]) -> None:
    async with daemon(options=OPTIONS) as running:
        story = Story(running)
        for step in steps:
            await story.take(step)
        await running.clock.advance(LONG)
        await running.advance(2)
        story.check_good()
        story.put_right(deleted)
        await running.clock.advance(LONG)
        before = await settled(running)
        copied = running.api.copied(VirtualClock(), Random(2))
        told = await placed(running)
    fresh = Daemon(api=copied, clock=copied.clock)
    async with daemon(options=OPTIONS, existing=fresh):
        after = await settled(fresh)
        assert before == after
        assert told == await placed(fresh)


@examples(0.1)
@given(STEPS, st.sets(st.integers(0, len(TARGETS) - 1)))
def test_no_object_stops_or_misleads_the_scheduler(
    steps: list[tuple[str, int, int]], deleted: set[int]
) -> None:
    anyio.run(play, steps, deleted)
