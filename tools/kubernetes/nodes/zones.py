"""Taints failing nodes with NoExecute, at a rate that lets a failing zone keep most of its pods.

Mirrors the part of Kubernetes' node lifecycle controller that looks at zones. Nodes of a zone wait
for their taint in the order in which they failed. A zone's limiter lets one node pass at a time, at
a rate that depends on the zone's state. Once all zones are fully disrupted, which suggests a fault
of the control plane, all nodes lose these taints, and no node is tainted.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum

import msgspec

from berth.actors.scheduling.kube.zone_keys import zone_of

from ..objects.documents import documents_of
from ..objects.structs import Node
from ..objects.writes import Again, Write, patch
from .condition_taints import (
    NO_EXECUTE,
    NOT_READY,
    OF_READY,
    UNREACHABLE,
    has_taint,
    new_taint,
    ready_status,
    without_failure,
)

UNHEALTHY = 0.55  # the share of unready nodes from which a zone is partially disrupted
LARGE = 50  # a zone with more nodes is large
RATE = 0.1  # nodes a second
SECONDARY_RATE = 0.01  # of a large zone that is partially disrupted; a small one has rate 0
EXCLUDED = "node.kubernetes.io/exclude-disruption"  # a node with this label does not count


class State(Enum):
    INITIAL = "Initial"
    NORMAL = "Normal"
    FULL = "FullDisruption"
    PARTIAL = "PartialDisruption"


def state_of(ready: int, unready: int) -> State:
    """Returns the state of a zone with these numbers of nodes. There is at least one node."""
    if not ready:
        return State.FULL
    partial = unready > 2 and unready / (ready + unready) >= UNHEALTHY
    return State.PARTIAL if partial else State.NORMAL


def rate_of(state: State, nodes: int) -> float:
    if state is not State.PARTIAL:
        return RATE
    return SECONDARY_RATE if nodes > LARGE else 0.0


class Limiter:
    """A limiter that lets one node pass every 1/rate seconds, the first at once; at rate 0, no
    node.
    """

    def __init__(self) -> None:
        self._rate = RATE
        self._next: datetime | None = None  # None: at once

    def accepts(self, now: datetime) -> bool:
        if self.wait(now) != 0.0:
            return False
        self._next = now + timedelta(seconds=1 / self._rate)
        return True

    def wait(self, now: datetime) -> float | None:
        """Returns the seconds until a node may pass; None if none may."""
        if not self._rate:
            return None
        return 0.0 if self._next is None else max((self._next - now).total_seconds(), 0.0)

    def shift(self, step: timedelta) -> None:
        if self._next is not None:
            self._next += step

    def swap(self, rate: float, now: datetime) -> None:
        """Changes the rate. A limiter that blocks now starts a new wait."""
        if rate == self._rate:
            return
        waits = self.wait(now) != 0.0
        self._rate = rate
        self._next = now + timedelta(seconds=1 / rate) if rate and waits else None


class _NodeInZone(msgspec.Struct, frozen=True):
    """The relevant state of a node; `failure` is true if it has the NoExecute taint of a failing
    node.
    """

    zone: str
    ready: str
    excluded: bool
    failure: bool

    @property
    def waits(self) -> bool:
        return self.ready in OF_READY and not self.failure


class _Zone:
    def __init__(self) -> None:
        self.state = State.INITIAL
        self.limiter = Limiter()
        self.nodes = 0
        self.ready = 0
        self.unready = 0
        self.waiting: dict[str, None] = {}

    @property
    def counted(self) -> int:
        return self.ready + self.unready

    def count(self, seen: _NodeInZone, step: int) -> None:
        self.nodes += step
        if not seen.excluded:
            if seen.ready == "True":
                self.ready += step
            else:
                self.unready += step


class Zones:
    """The zones, and the nodes of each that wait for the taint."""

    def __init__(self) -> None:
        self._zones: dict[str, _Zone] = {}
        self._nodes: dict[str, _NodeInZone] = {}
        self._passed: set[str] = set()  # nodes that passed a limiter and are to be tainted
        self._freed: dict[str, None] = {}  # nodes that are to lose the taint

    def observe(self, name: str, node: Node | None) -> bool:
        """Handles a version of a node; None if it is deleted. Returns True if its relevant state
        has changed.
        """
        before, after = self._nodes.get(name), None if node is None else _node_in_zone(node)
        if before == after:
            return False
        if before is not None:
            self._leave_zone(name, before, after)
        if after is None:
            return True
        self._nodes[name] = after
        zone = self._zones.setdefault(after.zone, _Zone())
        zone.count(after, 1)
        if after.waits:
            zone.waiting.setdefault(name)
        else:
            self._passed.discard(name)
        if not after.failure:
            self._freed.pop(name, None)
        return True

    def _leave_zone(self, name: str, before: _NodeInZone, after: _NodeInZone | None) -> None:
        zone = self._zones[before.zone]
        zone.count(before, -1)
        if after is None:
            del self._nodes[name]
            self._freed.pop(name, None)
        if after is None or not after.waits or after.zone != before.zone:
            zone.waiting.pop(name, None)
            self._passed.discard(name)
        if not zone.nodes and (after is None or after.zone != before.zone):
            del self._zones[before.zone]

    def shift(self, step: timedelta) -> None:
        for zone in self._zones.values():
            zone.limiter.shift(step)

    def advance(self, now: datetime) -> bool:
        """Updates the states of the zones and their rates.

        Returns True if all zones were fully disrupted and one no longer is: a fault of the control
        plane is over, and silent nodes deserve a new period of grace.
        """
        zones = [zone for zone in self._zones.values() if zone.counted]
        states = [state_of(zone.ready, zone.unready) for zone in zones]
        was_dark = all(zone.state is State.FULL for zone in zones)
        is_dark = all(state is State.FULL for state in states)
        for zone, state in zip(zones, states, strict=True):
            if is_dark and not was_dark:
                zone.limiter.swap(0.0, now)
            elif not is_dark and (was_dark or state is not zone.state):
                zone.limiter.swap(rate_of(state, zone.counted), now)
            zone.state = state
        if is_dark and not was_dark:
            self._passed.clear()
            self._freed = {name: None for name, seen in self._nodes.items() if seen.failure}
        elif not is_dark:
            self._freed.clear()
        return was_dark and not is_dark

    def reconcile(self, find: Callable[[str], Node | None], now: datetime) -> list[Write]:
        """Taints the nodes that may pass now. `find` returns the node of a name."""
        writes: list[Write] = []
        waits: list[float] = []
        for name in self._freed:
            node = find(name)
            if node is not None:
                body = {"spec": {"taints": without_failure(node)}}
                writes.append(patch(node, body, guarded=True))
        for zone in self._zones.values():
            for name in zone.waiting:
                if name not in self._passed and not zone.limiter.accepts(now):
                    wait = zone.limiter.wait(now)
                    waits += [] if wait is None else [wait]
                    break
                self._passed.add(name)
                node = find(name)
                if node is not None:
                    writes.append(taint_of_failure(node, now))
        return [*writes, *([Again(min(waits))] if waits else [])]


def taint_of_failure(node: Node, now: datetime) -> Write:
    """Returns the patch that adds the NoExecute taint of a failing node."""
    failure = new_taint(OF_READY[ready_status(node)], NO_EXECUTE, now)
    return patch(
        node, {"spec": {"taints": [*documents_of(node.spec.taints), failure]}}, guarded=True
    )


def _node_in_zone(node: Node) -> _NodeInZone:
    return _NodeInZone(
        zone=zone_of(node),
        ready=ready_status(node),
        excluded=EXCLUDED in node.metadata.labels,
        failure=has_taint(node, NOT_READY, UNREACHABLE, effect=NO_EXECUTE),
    )
