"""Which plugins are asked about an event: those that registered for it, and for changes of taints
also those that registered for new nodes.
"""

from __future__ import annotations

from collections.abc import Callable

from berth.actors.messages.queue import Activate, ClusterChanged
from berth.actors.queue.entry import Entry
from berth.actors.queue.hints import HintTable, Worth
from berth.actors.queue.turns import SAVED
from berth.actors.scheduling.framework.events import (
    Action,
    ClusterEvent,
    Hint,
    Registration,
    Resource,
)
from berth.actors.scheduling.kube.core import Node
from berth.actors.scheduling.model.pod_info import PodInfo
from tests.kit.queue import POD_GONE, Harness, dump_of, make_pod
from tests.kit.structs import pod

RETAINTED = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)
RELABELLED = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)


def skips(action: Action, resource: Resource = Resource.NODE) -> Registration:
    return Registration(ClusterEvent(resource, action), lambda *_: Hint.SKIP)


def test_a_change_of_taints_wakes_pods_of_plugins_that_wait_for_new_nodes() -> None:
    table = HintTable(
        {
            "s": {
                "Added": (
                    skips(Action.ADD | Action.UPDATE_NODE_LABEL),
                    skips(Action.DELETE, Resource.POD),
                ),
                "Both": (skips(Action.ADD | Action.UPDATE_NODE_TAINT),),
                "Apart": (skips(Action.ADD), skips(Action.UPDATE)),
                "Gone": (skips(Action.DELETE),),
                "OtherAdded": (skips(Action.ADD, Resource.NAMESPACE),),
            }
        }
    )

    def worth(plugin: str, event: ClusterEvent) -> Worth | None:
        entry = Entry(PodInfo(pod(schedulerName="s")), 0.0, 0)
        entry.unschedulable = frozenset((plugin,))
        return table.judge(entry, ClusterChanged(event, Node(), Node()))

    assert worth("Added", RETAINTED) == Worth("NodeUpdateNodeTaint", "Added")
    assert worth("Added", RELABELLED) is None
    assert [worth(plugin, RETAINTED) for plugin in ("Both", "Apart", "Gone", "OtherAdded")] == [
        None
    ] * 4


class Times:
    """HintTimes whose clock the test sets."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> float:
        return self.seconds

    def hinting_of(self, plugin: str, event: str, hint: str) -> Callable[[float], None]:
        return lambda _: None


def test_hints_about_pods_of_a_namespace_take_a_share_of_the_time() -> None:
    times, calls = Times(), []

    def slow(*_: object) -> Hint:
        calls.append(1)
        times.seconds += 0.01
        return Hint.SKIP

    table = HintTable({"s": {"Slow": (Registration(RELABELLED, slow),)}}, times)
    change = ClusterChanged(RELABELLED, Node(), Node())

    def parked(namespace: str) -> Entry:
        entry = Entry(PodInfo(make_pod("p", namespace=namespace)), 0.0, 0)
        entry.unschedulable = frozenset(("Slow",))
        return entry

    stormy, other = parked("stormy"), parked("other")
    answers = [table.judge(stormy, change) for _ in range(1000)]
    assert SAVED <= 0.01 * len(calls) < 1.5 * SAVED
    assert answers == [None] * len(calls) + [Worth(str(RELABELLED), "Slow")] * (1000 - len(calls))
    assert stormy.deferred_until > times.seconds
    assert table.judge(other, change) is None
    assert not other.deferred_until
    times.seconds = stormy.deferred_until
    assert table.judge(parked("stormy"), change) is None


def test_a_pending_plugin_does_not_wake_a_deferred_pod_at_once() -> None:
    times = Times()

    def slow(*_: object) -> Hint:
        times.seconds += 10
        return Hint.SKIP

    table = HintTable({"s": {"Slow": (Registration(RELABELLED, slow),)}}, times)
    entry = Entry(PodInfo(make_pod("p")), 0.0, 0)
    entry.pending = frozenset(("Slow",))
    change = ClusterChanged(RELABELLED, Node(), Node())
    assert table.judge(entry, change) is None
    assert table.judge(entry, change) == Worth(str(RELABELLED), "Slow", immediately=False)


def test_the_events_that_a_hint_skips_are_counted_until_the_next_attempt() -> None:
    queue = Harness()
    queue.park("p", "Door", "Nodes")
    queue.send(POD_GONE)
    queue.send(POD_GONE)
    (parked,) = dump_of(queue.state, ("ns/p",))
    assert parked.skipped == {f"Door: {POD_GONE.event}": 2}
    queue.send(Activate(("ns/p",)))
    queue.fail(queue.pop(), "Door")
    (parked,) = dump_of(queue.state, ("ns/p",))
    assert parked.skipped == {}


def test_one_change_does_not_have_many_pods_judged_at_once() -> None:
    times = Times()

    def slow(*_: object) -> Hint:
        times.seconds += 0.03
        return Hint.SKIP

    def parked(namespace: str) -> Entry:
        entry = Entry(PodInfo(make_pod("p", namespace=namespace)), 0.0, 0)
        entry.unschedulable = frozenset(("Slow",))
        return entry

    table = HintTable({"s": {"Slow": (Registration(RELABELLED, slow),)}}, times)
    change = ClusterChanged(RELABELLED, Node(), Node())
    entries = [parked(f"team-{number}") for number in range(8)]
    table.begin()
    answers = [table.judge(entry, change) for entry in entries]
    table.end()
    assert [answer is None for answer in answers] == [True] * 4 + [False] * 4
    assert all(entry.deferred_until == times.seconds for entry in entries[4:])
    assert table.judge(parked("team-9"), change) is None
