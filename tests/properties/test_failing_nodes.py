"""Random histories of failing nodes: which of them are tainted, and when pods leave.

The zones are compared with a model that counts all nodes at every step, the evictions with the
whole history of a pod.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.tools.kubernetes.nodes import zones
from berth.tools.kubernetes.nodes.taint_eviction import TaintEviction
from berth.tools.kubernetes.objects.structs import Document, Node
from berth.tools.kubernetes.objects.writes import Again
from tests.unit.tools.kubernetes.nodes.objects import at, deleted, node, patched, pod, tolerates

ZONE = "topology.kubernetes.io/zone"
FAILURE = {
    "False": "node.kubernetes.io/not-ready:NoExecute",
    "Unknown": "node.kubernetes.io/unreachable:NoExecute",
}
LARGE = 3  # a zone with more nodes is large, so that random zones are small and large
NODES = "abcdefgh"


@dataclass
class SlowZone:
    """What the model remembers of a zone; its limiter has at most one token."""

    state: str = "initial"
    rate: Fraction = Fraction(1, 10)
    tokens: Fraction = Fraction(1)
    waiting: list[str] = field(default_factory=list)

    def swap(self, rate: Fraction) -> None:
        if rate != self.rate:
            self.tokens = Fraction(int(self.rate > 0 and self.tokens >= 1 and rate > 0))
            self.rate = rate


class SlowZones:
    """The model: nodes by name with zone and status, and the names of tainted nodes."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[str, str]] = {}
        self.tainted: set[str] = set()
        self.zones: dict[str, SlowZone] = {}
        self.now = 0

    def step(self, now: int) -> bool:
        """Goes on to a time; returns True if the cluster is no longer dark."""
        for zone in self.zones.values():
            if zone.rate:
                zone.tokens = min(Fraction(1), zone.tokens + zone.rate * (now - self.now))
        self.now = now
        present = {zone for zone, _ in self.nodes.values()}
        self.zones = {name: zone for name, zone in self.zones.items() if name in present}
        for name in sorted(present):
            self.zones.setdefault(name, SlowZone())
        self._queue()
        woke = self._disrupt()
        self._queue()
        for zone in self.zones.values():
            while zone.waiting and zone.rate and zone.tokens >= 1:
                zone.tokens -= 1
                self.tainted.add(zone.waiting.pop(0))
        return woke

    def _queue(self) -> None:
        """Lets the nodes wait that are lost and not tainted."""
        for name, zone in self.zones.items():
            lost = [
                each
                for each, (where, ready) in self.nodes.items()
                if where == name and ready != "True" and each not in self.tainted
            ]
            zone.waiting = [each for each in zone.waiting if each in lost]
            zone.waiting += [each for each in lost if each not in zone.waiting]

    def _disrupt(self) -> bool:
        states = {}
        for name in self.zones:
            ready = [status == "True" for zone, status in self.nodes.values() if zone == name]
            lost = ready.count(False)
            states[name] = (
                "full"
                if not any(ready)
                else "partial"
                if lost > 2 and Fraction(lost, len(ready)) >= Fraction(55, 100)
                else "normal"
            )
        was_dark = all(zone.state == "full" for zone in self.zones.values())
        is_dark = all(state == "full" for state in states.values())
        for name, state in states.items():
            zone, size = self.zones[name], sum(where == name for where, _ in self.nodes.values())
            if is_dark and not was_dark:
                zone.swap(Fraction(0))
            elif not is_dark and (was_dark or zone.state != state):
                slow = Fraction(1, 100) if size > LARGE else Fraction(0)
                zone.swap(slow if state == "partial" else Fraction(1, 10))
            zone.state = state
        if is_dark and not was_dark:
            self.tainted.clear()
        return was_dark and not is_dark


def as_node(name: str, zone: str, ready: str, tainted: bool) -> Node:
    taints = [FAILURE[ready]] if tainted else []
    return node(name, ready, *taints, labels={ZONE: zone})


STEPS = st.lists(
    st.tuples(
        st.sampled_from([1, 5, 10, 30, 100]),
        st.sampled_from(NODES),
        st.sampled_from(["gone", "True", "True", "False", "Unknown", "Unknown"]),
    ),
    min_size=30,
    max_size=60,
)


@given(steps=STEPS, homes=st.lists(st.sampled_from("xxxy"), min_size=8, max_size=8))
def test_the_nodes_of_failing_zones_are_tainted_as_in_the_slow_model(
    steps: list[tuple[int, str, str]], homes: list[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zones, "LARGE", LARGE)
        model, fast, now = SlowZones(), zones.Zones(), 0
        nodes: dict[str, Node] = {}
        marked: set[str] = set()

        def put(name: str) -> None:
            if name not in model.nodes:
                nodes.pop(name, None)
                fast.observe(name, None)
                return
            nodes[name] = as_node(name, *model.nodes[name], tainted=name in marked)
            fast.observe(name, nodes[name])

        for name, home in zip(NODES, homes, strict=True):
            model.nodes[name] = home, "True"
            put(name)
        for gap, name, status in steps:
            now += gap
            if status == "gone":
                model.nodes.pop(name, None)
            else:
                model.nodes[name] = homes[NODES.index(name)], status
            if status in ("gone", "True"):
                model.tainted.discard(name)
                marked.discard(name)
            put(name)
            woke = fast.advance(at(now))
            for write in patched(fast.reconcile(nodes.get, at(now))):
                (marked.add if write.body["spec"]["taints"] else marked.discard)(write.name)
                put(write.name)
            assert model.step(now) == woke
            assert marked == model.tainted


TOLERANCES = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from([None, 0, 5, 20, 60])), max_size=3
)
CHANGES = st.lists(
    st.tuples(st.integers(1, 30), st.sets(st.sampled_from("ab")), TOLERANCES),
    min_size=1,
    max_size=20,
)


def tolerance(taints: set[str], tolerances: list[tuple[str, int | None]]) -> float:
    """Returns for how many seconds a pod may stay; -1 if it tolerates a taint not at all."""
    used = [
        next((seconds for key, seconds in tolerances if key == taint), -1)
        for taint in sorted(taints)
    ]
    if -1 in used:
        return -1
    return min((seconds for seconds in used if seconds is not None), default=float("inf"))


def end_of(history: list[tuple[int, float]]) -> float:
    """Returns when a pod leaves that may stay for these seconds from these times on.

    What counts is the tolerance at the begin of a span in which the pod may stay for a while.
    """
    due = float("inf")
    for index, (time, seconds) in enumerate(history):
        if due <= time:
            break
        if seconds == -1:
            return time
        if seconds == float("inf"):
            due = seconds
        elif index == 0 or history[index - 1][1] == float("inf"):
            due = time + seconds
    return due


@given(changes=CHANGES)
def test_a_pod_leaves_at_the_end_of_the_toleration_with_which_its_wait_began(
    changes: list[tuple[int, set[str], list[tuple[str, int | None]]]],
) -> None:
    eviction, history = TaintEviction(), list[tuple[int, float]]()
    now, left_at = 0, float("inf")
    due = float("inf")
    for gap, taints, tolerances in changes:
        if due <= now + gap:
            left_at = due
            break
        now += gap
        stated: list[Document] = [tolerates(f"{key}:NoExecute", end) for key, end in tolerances]
        where = node("n1", "True", *(f"{key}:NoExecute" for key in sorted(taints)))
        writes = eviction.reconcile("n", "p", pod("p", *stated), where, at(now))
        history.append((now, tolerance(taints, tolerances)))
        if deleted(writes):
            left_at = now
            break
        waits = [each.seconds for each in writes if isinstance(each, Again)]
        due = now + waits[0] if waits else float("inf")
    else:
        left_at = due
    assert left_at == end_of(history)
