"""How fast the nodes of failing zones are tainted."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from berth.tools.kubernetes.nodes.zones import Limiter, State, Zones, rate_of, state_of
from berth.tools.kubernetes.objects.structs import Node
from berth.tools.kubernetes.objects.writes import Again, Write
from tests.unit.tools.kubernetes.nodes.objects import at, node, patched, taints_in

ZONE = "topology.kubernetes.io/zone"
FAILURE = "node.kubernetes.io/not-ready:NoExecute"


@pytest.mark.parametrize(
    ("ready", "unready", "state"),
    [
        (3, 0, State.NORMAL),
        (0, 1, State.FULL),
        (1, 2, State.NORMAL),  # two unready nodes are no disruption
        (2, 3, State.PARTIAL),
        (3, 3, State.NORMAL),
        (9, 11, State.PARTIAL),  # 55 % exactly
        (46, 54, State.NORMAL),
        (45, 55, State.PARTIAL),
    ],
)
def test_the_state_of_a_zone_follows_from_its_share_of_unready_nodes(
    ready: int, unready: int, state: State
) -> None:
    assert state_of(ready, unready) is state


def test_a_partially_disrupted_zone_is_tainted_slowly_if_it_is_large_else_not_at_all() -> None:
    rates = {size: rate_of(State.PARTIAL, size) for size in (3, 50, 51)}
    assert rates == {3: 0.0, 50: 0.0, 51: 0.01}
    assert rate_of(State.NORMAL, 51) == rate_of(State.FULL, 3) == 0.1


def test_a_limiter_lets_the_first_pass_at_once_and_then_one_each_interval() -> None:
    limiter = Limiter()
    assert [limiter.accepts(at(second)) for second in (0, 1, 9.9, 10, 15, 20)] == [
        True, False, False, True, False, True,
    ]  # fmt: skip
    assert limiter.wait(at(25)) == 5.0
    assert limiter.accepts(at(100)), "unused time is not saved"
    assert not limiter.accepts(at(109))


def test_a_limiter_that_was_waiting_waits_anew_at_another_rate() -> None:
    fresh, waiting = Limiter(), Limiter()
    waiting.accepts(at(0))
    for limiter in (fresh, waiting):
        limiter.swap(0.01, at(5))
        limiter.swap(0.01, at(6))
    assert (fresh.wait(at(5)), waiting.wait(at(5))) == (0.0, 100.0)
    fresh.swap(0.0, at(7))
    assert fresh.wait(at(7)) is None
    fresh.swap(0.1, at(8))
    assert fresh.wait(at(8)) == 10.0, "after a stop, nothing may pass at once"


class Cluster:
    """Zones that follow these nodes. Their writes are carried out at once."""

    def __init__(self) -> None:
        self.zones = Zones()
        self.nodes: dict[str, Node] = {}

    def put(self, *nodes: Node) -> None:
        for each in nodes:
            self.nodes[each.metadata.name] = each
            self.zones.observe(each.metadata.name, each)

    def decide(self, seconds: float) -> list[Write]:
        self.zones.advance(at(seconds))
        return self.zones.reconcile(self.nodes.get, at(seconds))

    def tainted(self, seconds: float) -> tuple[list[str], float | None]:
        """Taints the nodes that may pass now; returns their names, and the wait until the next."""
        writes = self.decide(seconds)
        names = []
        for write in patched(writes):
            assert taints_in(write)[-1] == "not-ready:NoExecute"
            labels = dict(self.nodes[write.name].metadata.labels)
            self.put(node(write.name, "False", FAILURE, labels=labels))
            names.append(write.name)
        return names, next((write.seconds for write in writes if isinstance(write, Again)), None)


def of_zone(zone: str, names: Iterable[str], ready: str = "True") -> list[Node]:
    return [node(name, ready, labels={ZONE: zone}) for name in names]


def test_nodes_are_tainted_one_after_another_in_the_order_in_which_they_failed() -> None:
    cluster = Cluster()
    cluster.put(*of_zone("a", "12345"), *of_zone("b", "67"))
    assert cluster.decide(0) == []
    cluster.put(*of_zone("a", "31", "False"), *of_zone("b", "6", "False"))
    assert cluster.tainted(1) == (["3", "6"], 10.0), "each zone has its own limiter"
    assert cluster.tainted(5) == ([], 6.0)
    cluster.put(*of_zone("a", "1"))
    assert cluster.tainted(11) == ([], None), "a node that recovers leaves the queue"


def test_a_node_that_has_passed_is_written_until_it_has_the_taint() -> None:
    cluster = Cluster()
    cluster.put(*of_zone("a", "123"))
    cluster.put(*of_zone("a", "12", "False"))
    for seconds in (0, 1, 2):  # as after a write that failed
        assert [write.name for write in patched(cluster.decide(seconds))] == ["1"]


def test_a_small_zone_that_is_partially_disrupted_keeps_its_nodes() -> None:
    cluster = Cluster()
    cluster.put(*of_zone("a", "12345"), *of_zone("b", "6"))
    cluster.decide(0)
    cluster.put(*of_zone("a", "123", "False"))
    assert cluster.tainted(1) == ([], None)
    cluster.put(*of_zone("a", "3"))
    assert cluster.tainted(2) == ([], 10.0), "normal again"
    assert cluster.tainted(12) == (["1"], 10.0)


def test_a_dark_zone_loses_its_nodes_at_the_usual_rate() -> None:
    cluster = Cluster()
    cluster.put(*of_zone("a", "123"), *of_zone("b", "4"))
    cluster.decide(0)
    cluster.put(*of_zone("a", "123", "False"))
    assert cluster.tainted(1) == (["1"], 10.0)
    assert cluster.tainted(11) == (["2"], 10.0)


def test_if_all_zones_are_dark_the_taints_go_and_no_node_is_tainted() -> None:
    cluster = Cluster()
    cluster.put(*of_zone("a", "12"), *of_zone("b", "3"))
    assert not cluster.zones.advance(at(0))
    cluster.put(*of_zone("a", "12", "False"))
    assert cluster.tainted(1) == (["1"], 10.0)
    cluster.put(*of_zone("b", "3", "False"))
    for seconds in (2, 3):
        freed = cluster.decide(seconds)
        assert [(write.name, taints_in(write)) for write in patched(freed)] == [("1", [])]
    cluster.put(*of_zone("a", "1", "False"))
    assert cluster.decide(1_000) == []
    cluster.put(*of_zone("b", "3"))
    assert cluster.zones.advance(at(1_001)), "silent nodes get new grace"
    assert cluster.tainted(1_001) == ([], 10.0)
    assert cluster.tainted(1_011) == (["2"], 10.0)


def test_an_excluded_node_does_not_count_but_is_tainted() -> None:
    cluster = Cluster()
    excluded = "node.kubernetes.io/exclude-disruption"
    labels = {ZONE: "a", excluded: ""}
    cluster.put(*of_zone("a", "12"), node("3", labels=labels))
    cluster.decide(0)
    cluster.put(*of_zone("a", "1", "False"), node("3", "False", labels=labels))
    assert cluster.tainted(1) == (["1"], 10.0)
    assert cluster.tainted(11) == (["3"], None)


def test_a_heartbeat_changes_nothing() -> None:
    zones = Zones()
    assert zones.observe("n1", node())
    assert not zones.observe("n1", node(heartbeat="2026-01-01T00:00:00Z", version=2))
    assert zones.observe("n1", node("n1", "False"))
    assert zones.observe("n1", None)
    assert not zones.observe("n1", None)
