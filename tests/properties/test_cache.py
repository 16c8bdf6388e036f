"""The cache over random histories, compared with a model that keeps plain lists and recounts
everything each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from berth.actors.cache.state import CacheState, Lend, OrderRefused, PodVanished, SnapshotRepaired
from berth.actors.messages.cache import (
    AssignedPodAdded,
    AssignedPodDeleted,
    AssignedPodUpdated,
    Assume,
    AssumedPodDeleted,
    Compare,
    Forget,
    ListCached,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    Nominate,
    TakeSnapshot,
    WhereBound,
)
from berth.actors.messages.comparison import Difference, Healed
from berth.actors.messages.order import Answer
from berth.actors.scheduling.kube.labels import from_label_selector
from berth.actors.scheduling.kube.meta import LabelSelector
from berth.actors.scheduling.model.pod_counts import pods_selected
from berth.plugin import Node, Pod, PodInfo, Snapshot
from tests.kit import structs
from tests.kit.examples import examples
from tests.kit.handle import Nowhere

NODES = st.sampled_from(["n1", "n2", "n3", "n4"])
PODS = st.sampled_from(["p1", "p2", "p3", "p4", "p5"])
MILLIS = st.sampled_from([0, 100, 101, 333, 900])
ZONES = st.sampled_from(["a", "b", ""])
SELECTORS = {app: from_label_selector(LabelSelector(match_labels={"app": app})) for app in "ab"}
RESOURCES = ("cpu", "pods", "example.com/gpu")


def make_pod(name: str, uid: int, node: str, milli: int, port: int, revision: int = 0) -> Pod:
    container = {
        "resources": {"requests": {"cpu": f"{milli}m", "example.com/gpu": milli % 2}},
        "ports": [{"hostPort": port}] if port else [],
    }
    anti = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
    spec: dict[str, Any] = {
        "containers": [container],
        "nodeName": node,
        "volumes": [
            {"persistentVolumeClaim": {"claimName": f"claim-{milli % 3}"}},
            {"iscsi": {"iqn": f"disk-{milli % 3}", "readOnly": not port}},
        ]
        if milli % 2
        else [{}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [anti]}}
        if port
        else None,
    }
    metadata = {
        "namespace": "ns",
        "name": name,
        "uid": str(uid),
        "resourceVersion": str(revision),
        "labels": {"app": "ab"[milli % 2]},
    }
    return msgspec.convert({"metadata": metadata, "spec": spec}, Pod)


def make_node(name: str, zone: str, cpu: int, revision: int = 0) -> Node:
    metadata = {"resourceVersion": str(revision)}
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    images = [{"names": [f"image-{zone}"], "sizeBytes": cpu}]
    fields: Any = {
        "allocatable": {f"example.com/of-{cpu}-cores": cpu},
        "status": {"images": images},
    }
    taints = [{"key": zone, "effect": "NoSchedule"}]
    return structs.node(
        name, cpu, pods=10, labels=labels, metadata=metadata, taints=taints, **fields
    )


class Counted(msgspec.Struct):
    """A pod of the model: where it counts, and whether it is only assumed."""

    pod: Pod
    node: str
    assumed: bool

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid


def claims_of(counted: Counted) -> tuple[str, ...]:
    return PodInfo(counted.pod).claims


def interleaved(zones: list[list[str]]) -> Iterator[str]:
    """Yields the first node of each zone, then the second of each, and so on."""
    zones = [list(zone) for zone in zones]
    while any(zones):
        for zone in zones:
            if zone:
                yield zone.pop(0)


class CacheHistory(RuleBasedStateMachine):
    """The model has the nodes by zone in their order of arrival, and each pod that counts, in plain
    lists and dicts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cache = CacheState()
        self.serial = 0
        self.nodes: dict[str, Node] = {}
        self.zones: list[tuple[str, list[str]]] = []
        self.pods: dict[str, Counted] = {}
        self.nominated: dict[str, str] = {}
        self.healed = 0

    def send(self, message: Any) -> tuple[Any, ...]:
        return self.cache.handle(message)

    def next(self) -> int:
        self.serial += 1
        return self.serial

    # ---------------------------------------------------------------------------------------- nodes

    def place(self, name: str, zone: str) -> None:
        for other, names in self.zones:
            if other == zone:
                names.append(name)
                return
        self.zones.append((zone, [name]))

    def displace(self, name: str) -> None:
        for _, names in self.zones:
            if name in names:
                names.remove(name)
        self.zones = [(zone, names) for zone, names in self.zones if names]

    def zone_of(self, name: str) -> str:
        return next((zone for zone, names in self.zones if name in names), "none")

    @rule(name=NODES, zone=ZONES, cpu=st.integers(1, 8), as_update=st.booleans())
    def node_put(self, name: str, zone: str, cpu: int, as_update: bool) -> None:
        new = make_node(name, zone, cpu, self.next())
        old = self.nodes.get(name, new)
        assert not self.send(NodeUpdated(old, new) if as_update else NodeAdded(new))
        if self.zone_of(name) != zone:
            self.displace(name)
            self.place(name, zone)
        self.nodes[name] = new

    @rule(name=NODES)
    def node_deleted(self, name: str) -> None:
        node = self.nodes.pop(name, None) or make_node(name, "a", 1)
        self.displace(name)
        assert not self.send(NodeDeleted(node))

    # ----------------------------------------------------------------------------------------- pods

    def vanish(self, name: str, kept_on: str = "") -> tuple[PodVanished, ...]:
        """Drops a pod from the model. Returns the effects that the cache must have."""
        old = self.pods.pop(name, None)
        if old is None or not old.assumed or old.node == kept_on:
            return ()
        return (PodVanished(old.pod, old.node),)

    @rule(
        name=PODS, node=NODES, milli=MILLIS, port=st.sampled_from([0, 80, 81]), same=st.booleans()
    )
    def pod_put(self, name: str, node: str, milli: int, port: int, same: bool) -> None:
        """A pod is added or updated at the API server. It may confirm the known pod, move it, or be
        another pod of its name.
        """
        old = self.pods.get(name)
        same = same and old is not None
        uid = int(old.uid) if same and old is not None else self.next()
        pod = make_pod(name, uid, node, milli, port, self.next())
        before = old.pod if old is not None else pod
        effects = self.send(AssignedPodUpdated(before, pod) if milli % 2 else AssignedPodAdded(pod))
        assert effects == self.vanish(name, kept_on=node if same else "")
        self.pods[name] = Counted(pod, node, assumed=False)

    @rule(name=PODS, stale=st.booleans(), pending=st.booleans())
    def pod_deleted(self, name: str, stale: bool, pending: bool) -> None:
        """A pod is deleted, with or without a node. The deletion of an earlier pod of its name
        changes nothing.
        """
        old = self.pods.get(name)
        if old is None or stale:
            gone = make_pod(name, self.next(), "n1", 1, 0)
            assert not self.send(AssumedPodDeleted(gone) if pending else AssignedPodDeleted(gone))
        elif pending:
            expected = self.vanish(name) if old.assumed else ()
            assert self.send(AssumedPodDeleted(old.pod)) == expected
        else:
            self.vanish(name)
            assert not self.send(AssignedPodDeleted(old.pod))

    @rule(name=PODS, node=NODES, milli=MILLIS, again=st.booleans())
    def assume(self, name: str, node: str, milli: int, again: bool) -> None:
        old = self.pods.get(name)
        uid = int(old.uid) if again and old is not None else self.next()
        pod = make_pod(name, uid, "", milli, 0)
        effects = self.send(Assume(PodInfo(pod), node))
        if old is not None and (not old.assumed or old.uid == str(uid)):
            assert [type(effect) for effect in effects] == [OrderRefused]
            return
        assert effects == self.vanish(name)
        self.pods[name] = Counted(pod, node, assumed=True)
        self.nominated.pop(name, None)

    @rule(name=PODS, node=NODES, stale=st.booleans())
    def forget(self, name: str, node: str, stale: bool) -> None:
        old = self.pods.get(name)
        counted = old is not None and not stale
        pod = old.pod if old is not None and not stale else make_pod(name, self.next(), "", 1, 0)
        effects = self.send(Forget(PodInfo(pod), node))
        fits = old is not None and counted and old.assumed and old.node == node
        refusals = [OrderRefused] if counted and not fits else []
        assert [type(effect) for effect in effects] == refusals
        if fits:
            del self.pods[name]

    @rule(name=PODS, node=NODES)
    def nominated_by_status(self, name: str, node: str) -> None:
        old = self.pods.get(name)
        pod = old.pod if old is not None else make_pod(name, self.next(), "", 1, 0)
        assert not self.send(Nominate(PodInfo(pod), node))
        if old is None:
            self.nominated[name] = node

    @rule(name=PODS)
    def where_bound(self, name: str) -> None:
        old = self.pods.get(name)
        order = WhereBound(Nowhere(), f"ns/{name}", old.uid if old is not None else "none")
        bound = old is not None and not old.assumed
        assert self.send(order) == (Answer(order, old.node if old is not None and bound else ""),)

    # ------------------------------------------------------------------------------------ comparing

    @rule(
        lost_pod=PODS,
        lost_node=NODES,
        extra=PODS,
        extra_node=NODES,
        heal=st.booleans(),
        twice=st.booleans(),
    )
    def compared(
        self, lost_pod: str, lost_node: str, extra: str, extra_node: str, heal: bool, twice: bool
    ) -> None:
        """The API server may have more, fewer or other objects than the cache. The differences are
        healed if asked.
        """
        nodes = {name: node for name, node in self.nodes.items() if name != lost_node}
        pods: dict[str, Pod] = {
            f"ns/{name}": counted.pod for name, counted in self.pods.items() if name != lost_pod
        }
        if f"ns/{extra}" not in pods or not self.pods[extra].assumed:
            pods[f"ns/{extra}"] = make_pod(extra, self.next(), extra_node, 1, 0, self.next())
        for _ in range(1 + twice):
            differences = set(self.expected_differences(nodes, pods))
            (listed,) = self.send(ListCached(Nowhere()))
            assert isinstance(listed, Answer)
            here = listed.value
            order = Compare(
                Nowhere(),
                {name: nodes.get(name) for name in (*nodes, *here.nodes)},
                {name: pods.get(name) for name in (*pods, *here.pods)},
                heal,
            )
            *healing, answer = self.send(order)
            assert answer == Answer(order, tuple(sorted(differences)))
            healed = [effect for effect in healing if not isinstance(effect, PodVanished)]
            assert healed == [Healed(difference) for difference in sorted(differences) if heal]
            for difference in differences if heal else ():
                self.healed += 1
                self.heal(difference, nodes, pods)

    def expected_differences(
        self, nodes: dict[str, Node], pods: dict[str, Pod]
    ) -> Iterator[Difference]:
        for name in nodes.keys() | self.nodes.keys():
            if name not in self.nodes:
                yield Difference("missed", "Node", name)
            elif name not in nodes:
                yield Difference("redundant", "Node", name)
        for name in pods.keys() | {f"ns/{name}" for name in self.pods}:
            counted, pod = self.pods.get(name.removeprefix("ns/")), pods.get(name)
            if counted is None:
                if pod is not None and pod.spec.node_name:
                    yield Difference("missed", "Pod", name)
            elif pod is None:
                yield Difference("redundant", "Pod", name)
            elif not (counted.assumed and not pod.spec.node_name) and counted.pod != pod:
                yield Difference("stale", "Pod", name)

    def heal(self, difference: Difference, nodes: dict[str, Node], pods: dict[str, Pod]) -> None:
        name = difference.key.removeprefix("ns/")
        if difference.kind == "Pod":
            self.pods.pop(name, None)
            pod = pods.get(difference.key)
            if pod is not None:
                self.pods[name] = Counted(pod, pod.spec.node_name, assumed=False)
            return
        self.nodes.pop(name, None)
        self.displace(name)
        if name in nodes:
            self.nodes[name] = nodes[name]
            self.place(name, nodes[name].metadata.labels.get("topology.kubernetes.io/zone", ""))

    # --------------------------------------------------------------------------------- the snapshot

    def take(self) -> Snapshot:
        (lend,) = self.send(TakeSnapshot(Nowhere()))
        assert isinstance(lend, Lend)
        return lend.snapshot

    @rule(damage=NODES)
    def a_damaged_snapshot_is_repaired(self, damage: str) -> None:
        snapshot = self.take()
        snapshot.columns.remove(damage)
        effects = self.send(TakeSnapshot(Nowhere()))
        repaired = [effect for effect in effects if isinstance(effect, SnapshotRepaired)]
        assert bool(repaired) == (damage in self.nodes)
        self.snapshot_is_as_the_model_recounts_it()

    @rule(nodes=st.integers(1, 3))
    def some_of_the_snapshot_is_brought_up_to_date(self, nodes: int) -> None:
        before = self.cache.behind
        self.cache.catch_up(nodes)
        assert self.cache.behind == max(0, before - nodes)

    @rule()
    def snapshot_is_as_the_model_recounts_it(self) -> None:
        snapshot = self.take()
        columns = snapshot.columns
        columns.counts.validate()
        names = [columns.names[row] for row in columns.order]
        assert names == list(interleaved([names for _, names in self.zones]))
        assert sorted(columns.row_of) == sorted(names) == sorted(self.nodes)
        on_nodes = [counted for counted in self.pods.values() if counted.node in self.nodes]
        for name, node in self.nodes.items():
            row = columns.row_of[name]
            pods = [counted.pod for counted in on_nodes if counted.node == name]
            infos = [PodInfo(pod) for pod in pods]
            cpu = int(node.status.allocatable["cpu"])
            allocatable = {"cpu": cpu * 1000, "pods": 10, f"example.com/of-{cpu}-cores": cpu}
            for resource in (
                *RESOURCES,
                *(f"example.com/of-{cores}-cores" for cores in range(1, 9)),
            ):
                column = columns.allocatable(resource)
                assert column[row] == allocatable.get(resource, 0)
                column = columns.requested(resource)
                total = sum(info.requests.get(resource, 0) for info in infos)
                assert column[row] == total
            assert columns.pods[row] == len(pods)
            assert columns.nonzero[:, row].tolist() == [
                sum(info.template.nonzero[i] for info in infos) for i in (0, 1)
            ]
            assert [*columns.taint_classes][columns.taints[row]] == node.spec.taints
            held = {
                port
                for (_, port), ips in columns.ports.items()
                if any(ip.present[row] for ip in ips.values())
            }
            assert held == {port.host_port for pod in pods for port in pod.spec.containers[0].ports}
            zone = columns.label("topology.kubernetes.io/zone")
            said = [*zone.values][zone.codes[row]] if zone.codes[row] >= 0 else None
            assert said == node.metadata.labels.get("topology.kubernetes.io/zone")
        claims = Counter(claim for counted in on_nodes for claim in PodInfo(counted.pod).claims)
        assert columns.counts.claims == claims
        images = Counter(node.status.images[0].names[0] for node in self.nodes.values())
        assert {n: (i.nodes, int(i.present.sum())) for n, i in columns.images.items()} == {
            n: (number, number) for n, number in images.items()
        }
        assert columns.counts.claims == Counter(
            c for counted in on_nodes for c in PodInfo(counted.pod).claims
        )
        by_row = columns.names
        assert {by_row[row]: set(pods) for row, pods in columns.counts.attaching.items()} == {
            node: {f"ns/{c.pod.metadata.name}" for c in on_nodes if c.node == node and claims_of(c)}
            for node in {c.node for c in on_nodes if claims_of(c)}
        }
        most = {
            name: sum(PodInfo(c.pod).template.most_volumes for c in on_nodes if c.node == name)
            for name in self.nodes
        }
        assert {name: columns.counts.most_volumes[columns.row_of[name]] for name in most} == most
        assert {
            (disk, by_row[row], number)
            for disk, rows in columns.counts.disks.items()
            for row, number in rows.items()
        } == {
            (*counted, number)
            for counted, number in Counter(
                (disk, c.node) for c in on_nodes for disk in PodInfo(c.pod).template.disks
            ).items()
        }
        anti = sum(column.total for column in columns.counts.required_anti.columns.values())
        assert anti == sum(counted.pod.spec.affinity is not None for counted in on_nodes)
        for app in "ab":
            selected = columns.counts.column(pods_selected("ns", SELECTORS[app]))
            expected = Counter(c.node for c in on_nodes if c.pod.metadata.labels["app"] == app)
            assert {
                names[i]: int(n) for i, n in enumerate(selected.by_row[columns.order]) if n
            } == dict(expected)
        assert {
            n: snapshot.nominations.node_of(f"ns/{n}") for n in self.nominated
        } == self.nominated

    @invariant()
    def holds_together(self) -> None:
        self.cache.validate()
        statistics = self.cache.statistics()
        assert (statistics.nodes, statistics.pods) == (len(self.nodes), len(self.pods))
        assert statistics.assumed_pods == sum(counted.assumed for counted in self.pods.values())
        assert statistics.healed == self.healed


TestCache = CacheHistory.TestCase
TestCache.settings = examples()


def test_a_standby_keeps_no_list_of_changes_that_nothing_reads() -> None:
    cache = CacheState()
    cache.handle(NodeAdded(make_node("n1", "a", 4)))
    pod = make_pod("p", 1, "n1", 100, 0)
    for revision in range(1000):
        new = make_pod("p", 1, "n1", 100, 0, revision)
        cache.handle(AssignedPodUpdated(pod, new))
    snapshot = cache.snapshot()
    info = snapshot.columns.infos[0]
    assert info is not None
    for revision in range(1000):
        cache.handle(AssignedPodUpdated(pod, make_pod("p", 1, "n1", 301, 0, revision)))
        assert info.changes is None or len(info.changes) < 100
    cache.snapshot()
    requested = snapshot.columns.requested("cpu")
    assert np.array_equal(requested[:1], [301])
    assert snapshot.columns.counts.column(pods_selected("ns", SELECTORS["b"])).total == 1
    cache.validate()
