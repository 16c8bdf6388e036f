"""The cache over random histories: sums equal a recount, the snapshot equals one built from nothing."""

from __future__ import annotations

import msgspec
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actors.cache.state import CacheState, Lend, Refused
from actors.kube.core import Node, Pod
from actors.messages import (
    AssignedPodAdded,
    AssignedPodDeleted,
    Assume,
    Forget,
    NodeAdded,
    NodeDeleted,
    TakeSnapshot,
)
from actors.model.pod_info import PodInfo
from actors.model.snapshot import Snapshot

NODES = st.sampled_from(["n1", "n2", "n3", "n4"])
PODS = st.sampled_from(["p1", "p2", "p3", "p4", "p5"])


def make_pod(name: str, node: str, milli: int, port: int) -> Pod:
    container = {
        "resources": {"requests": {"cpu": f"{milli}m", "example.com/gpu": milli % 2}},
        "ports": [{"hostPort": port}] if port else [],
    }
    spec = {"containers": [container], "nodeName": node}
    return msgspec.convert({"metadata": {"namespace": "default", "name": name}, "spec": spec}, Pod)


def make_node(name: str, zone: str, cpu: int) -> Node:
    document = {
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
        "spec": {"taints": [{"key": zone, "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"cpu": cpu, "pods": 10},
            "images": [{"names": [f"image-{zone}"], "sizeBytes": cpu}],
        },
    }
    return msgspec.convert(document, Node)


class Reply:
    def set(self, value: Snapshot) -> None:
        raise AssertionError(value)


def take(cache: CacheState) -> Snapshot:
    (lend,) = cache.handle(TakeSnapshot(Reply()))
    assert isinstance(lend, Lend)
    return lend.snapshot


class CacheHistory(RuleBasedStateMachine):
    """The model: which node object stands, which pod counts where, which of them is assumed."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = CacheState()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, tuple[Pod, str]] = {}
        self.assumed: set[str] = set()

    @rule(name=NODES, zone=st.sampled_from(["a", "b", ""]), cpu=st.integers(1, 8))
    def node_put(self, name: str, zone: str, cpu: int) -> None:
        self.nodes[name] = make_node(name, zone, cpu)
        assert not self.cache.handle(NodeAdded(self.nodes[name]))

    @rule(name=NODES)
    def node_deleted(self, name: str) -> None:
        node = self.nodes.pop(name, None) or make_node(name, "a", 1)
        assert not self.cache.handle(NodeDeleted(node))

    @rule(name=PODS, node=NODES, milli=st.integers(0, 900), port=st.sampled_from([0, 80, 81]))
    def pod_put(self, name: str, node: str, milli: int, port: int) -> None:
        pod = make_pod(name, node, milli, port)
        assert not self.cache.handle(AssignedPodAdded(pod))
        self.pods[name] = (pod, node)
        self.assumed.discard(name)

    @rule(name=PODS)
    def pod_deleted(self, name: str) -> None:
        pod, _ = self.pods.pop(name, (make_pod(name, "n1", 1, 0), ""))
        self.assumed.discard(name)
        assert not self.cache.handle(AssignedPodDeleted(pod))

    @rule(name=PODS, node=NODES, milli=st.integers(0, 900))
    def assume(self, name: str, node: str, milli: int) -> None:
        pod = make_pod(name, "", milli, 0)
        effects = self.cache.handle(Assume(PodInfo(pod), node))
        assert bool(effects) == (name in self.pods)
        if not effects:
            self.pods[name] = (pod, node)
            self.assumed.add(name)

    @rule(name=PODS, node=NODES)
    def forget(self, name: str, node: str) -> None:
        effects = self.cache.handle(Forget(PodInfo(make_pod(name, "", 1, 0)), node))
        fits = name in self.assumed and self.pods[name][1] == node
        assert all(isinstance(effect, Refused) for effect in effects)
        assert bool(effects) != fits
        if fits:
            del self.pods[name]
            self.assumed.remove(name)

    @rule()
    def snapshot_equals_one_built_from_nothing(self) -> None:
        snapshot, fresh = take(self.cache), CacheState()
        for node in self.nodes.values():
            fresh.handle(NodeAdded(node))
        for pod, node_name in self.pods.values():
            fresh.handle(Assume(PodInfo(pod), node_name))
        rebuilt = take(fresh)
        assert sorted(snapshot.columns.row_of) == sorted(rebuilt.columns.row_of) == sorted(self.nodes)
        ours, theirs = snapshot.columns, rebuilt.columns
        assert len(ours.order) == len(self.nodes)
        for name in self.nodes:
            a, b = ours.row_of[name], theirs.row_of[name]
            for resource in ("cpu", "pods", "example.com/gpu"):
                for column in ("allocatable", "requested"):
                    left, right = getattr(ours, column)(resource), getattr(theirs, column)(resource)
                    assert (0 if left is None else left[a]) == (0 if right is None else right[b])
            assert ours.pods[a] == theirs.pods[b]
            assert np.array_equal(ours.nonzero[:, a], theirs.nonzero[:, b])
            assert ours.taint_classes[ours.taints[a]] == theirs.taint_classes[theirs.taints[b]]
            held = {port: rows[a] for port, rows in ours.ports.items() if a in rows}
            assert held == {port: rows[b] for port, rows in theirs.ports.items() if b in rows}
            zones, other = ours.label("topology.kubernetes.io/zone"), theirs.label("topology.kubernetes.io/zone")
            assert zones.values[zones.codes[a]] == other.values[other.codes[b]]
        assert {n: (i.nodes, int(i.present.sum())) for n, i in ours.images.items()} == {
            n: (i.nodes, int(i.present.sum())) for n, i in theirs.images.items()
        }

    @invariant()
    def holds_together(self) -> None:
        self.cache.validate()
        statistics = self.cache.statistics()
        assert (statistics.nodes, statistics.pods) == (len(self.nodes), len(self.pods))
        assert statistics.assumed_pods == len(self.assumed)


CacheHistory.TestCase.settings = settings(max_examples=500, stateful_step_count=30, deadline=None)
TestCache = CacheHistory.TestCase
