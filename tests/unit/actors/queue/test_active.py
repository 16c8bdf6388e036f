"""The active pods: pods of paused namespaces stay, all others come out in order."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.queue.active import ActivePods
from berth.actors.queue.entry import Entry
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.model.pod_info import PodInfos
from tests.kit.examples import examples

NAMESPACES = ("a", "b", "c")
INFOS = PodInfos()


def entry_of(namespace: str, number: int, priority: int = 0) -> Entry:
    metadata = {"namespace": namespace, "name": f"p{number}", "uid": f"{namespace}{number}"}
    pod = msgspec.convert({"metadata": metadata, "spec": {"priority": priority}}, Pod)
    return Entry(INFOS.of(pod), 0.0, number)


def active(*keys: str) -> ActivePods:
    """Returns pods by namespace and number, the number being their place in the order."""
    pods = ActivePods()
    for key in keys:
        put(pods, key, int(key[1:]))
    return pods


def put(pods: ActivePods, key: str, slot: int) -> None:
    entry = entry_of(key[0], int(key[1:]))
    pods.put(entry.key, (float(slot),), entry)


def taken(pods: ActivePods) -> list[str]:
    """Takes all pods that may be taken; returns them in order."""
    order = []
    while (entry := pods.peek()) is not None:
        pods.remove(entry)
        order.append(f"{entry.namespace}{entry.key.rpartition('p')[2]}")
        pods.validate()
    return order


def test_pods_of_a_paused_namespace_are_passed_over_until_it_may_go_on() -> None:
    pods = active("a1", "b2", "a3", "c4")
    pods.pause("a")
    assert taken(pods) == ["b2", "c4"]
    assert len(pods) == 2
    assert {entry.key for entry in pods} == {"a/p1", "a/p3"}
    pods.resume("a")
    assert taken(pods) == ["a1", "a3"]


def test_a_namespace_that_goes_on_has_its_place_among_the_others() -> None:
    pods = active("a1", "a5", "b2")
    pods.pause("a")
    assert pods.peek() is not None
    pods.resume("a")
    put(pods, "a3", 3)
    put(pods, "b4", 4)
    assert taken(pods) == ["a1", "b2", "a3", "b4", "a5"]


def test_a_pod_that_is_sorted_again_while_its_namespace_is_paused_is_there_once() -> None:
    pods = active("b1", "a2")
    pods.pause("a")
    put(pods, "a2", 0)
    pods.validate()
    assert len(pods) == 2
    pods.resume("a")
    assert taken(pods) == ["a2", "b1"]


def test_a_namespace_that_is_not_paused_may_be_told_to_go_on() -> None:
    pods = active("a1")
    pods.resume("a")
    pods.validate()
    assert taken(pods) == ["a1"]


def test_a_namespace_that_is_behind_comes_after_others_of_its_priority() -> None:
    pods = ActivePods()
    for key, priority in (("a1", 0), ("a2", 0), ("b3", 0), ("b4", -1), ("a5", 9)):
        number = int(key[1:])
        entry = entry_of(key[0], number, priority)
        pods.put(entry.key, (-float(priority), float(number)), entry)
    pods.put_behind("a")
    assert taken(pods) == ["a5", "b3", "a1", "a2", "b4"]


def test_a_namespace_that_is_put_back_has_its_place_among_the_others() -> None:
    pods = active("a1", "b2", "a3", "b4")
    pods.put_behind("a")
    first = pods.peek()
    assert first is not None
    assert first.namespace == "b"
    pods.put_back("a")
    assert taken(pods) == ["a1", "b2", "a3", "b4"]


def test_the_heap_of_one_namespace_alone_becomes_its_own() -> None:
    pods = active("a1", "a2", "a3")
    pods.put_behind("a")
    assert pods.peek() is not None
    put(pods, "b9", 9)
    put(pods, "a0", 0)
    assert taken(pods) == ["b9", "a0", "a1", "a2", "a3"]


STEPS = st.tuples(
    st.sampled_from(["put", "put", "remove", "peek", "pause", "resume", "behind", "back"]),
    st.sampled_from(NAMESPACES),
    st.integers(0, 5),
    st.integers(0, 3),
)


@examples()
@given(st.lists(STEPS, max_size=60))
def test_it_is_as_a_plain_table(steps: list[tuple[str, str, int, int]]) -> None:
    pods, paused, behind = ActivePods(), set[str](), set[str]()
    table: dict[str, tuple[int, str]] = {}
    for verb, namespace, number, priority in steps:
        key = f"{namespace}/p{number}"
        match verb:
            case "put":
                table[key] = (-priority, key)
                slot = (-float(priority), float(NAMESPACES.index(namespace)), float(number))
                pods.put(key, slot, entry_of(namespace, number, priority))
            case "remove":
                table.pop(key, None)
                pods.remove(entry_of(namespace, number))
            case "pause":
                paused.add(namespace)
                pods.pause(namespace)
            case "resume":
                paused.discard(namespace)
                pods.resume(namespace)
            case "behind":
                behind.add(namespace)
                pods.put_behind(namespace)
            case "back":
                behind.discard(namespace)
                pods.put_back(namespace)
            case _:
                running = [row for row in table.values() if row[1][0] not in paused]
                order = sorted(running, key=lambda row: (row[0], row[1][0] in behind, row[1]))
                first = pods.peek()
                assert (first and first.key) == (order[0][1] if order else None)
        pods.validate()
        assert {entry.key for entry in pods} == table.keys()
        assert len(pods) == len(table)
