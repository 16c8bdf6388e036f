"""Which parked pods are looked at for a change: those that the plugins' keys find, or all."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from berth.actors.messages.queue import ClusterChanged
from berth.actors.queue.entry import Entry
from berth.actors.queue.hints import HintTable
from berth.actors.queue.parked import ParkedPods
from berth.actors.scheduling.decision.profile import hinting
from berth.actors.scheduling.framework.events import (
    Action,
    ClusterEvent,
    Concerns,
    Hint,
    Registration,
    Resource,
)
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.meta import ObjectMeta
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.plugin import Plugin
from tests.kit.handle import NoApi
from tests.kit.structs import pod

ADDED, DELETED = ClusterEvent(Resource.NODE, Action.ADD), ClusterEvent(Resource.NODE, Action.DELETE)


class Keyed(Plugin):
    name = "Keyed"


def keys_of(item: Pod) -> list[str]:
    return [item.metadata.name, item.spec.node_selector.get("key", "none")]


def keys_of_node(_old: object | None, new: object | None) -> list[str] | None:
    assert isinstance(new, Node)
    return None if new.metadata.name == "all" else [new.metadata.name]


def broken(*_: object) -> list[str]:
    raise KeyError("no key")


def no_keys(*_: object) -> Iterable[str]:
    return "keys"


def parked(*concerns: Concerns | None) -> ParkedPods:
    """Returns three pods that wait for one plugin, two of them with the key x."""
    plugin = Keyed({}, NoApi())
    registrations = [
        hinting(plugin, Registration(ADDED, lambda *_: Hint.QUEUE, each)) for each in concerns
    ]
    pods = ParkedPods(HintTable({"s": {"Keyed": registrations}}))
    for name in ("a", "b", "c"):
        selector = {} if name == "a" else {"key": "x"}
        item = pod(name, schedulerName="s", nodeSelector=selector)
        pods.put(Entry(PodInfo(item), 0.0, 0), ("Keyed",), 0.0)
    pods.validate()
    return pods


def concerned(waiting: ParkedPods, node: str, event: ClusterEvent = ADDED) -> list[str]:
    change = ClusterChanged(event, None, Node(metadata=ObjectMeta(name=node)))
    return sorted(entry.info.pod.metadata.name for entry in waiting.concerned(change))


@pytest.mark.parametrize(
    ("node", "names"),
    [("a", ["a"]), ("x", ["b", "c"]), ("none", ["a"]), ("y", []), ("all", [*"abc"])],
)
def test_a_change_concerns_the_pods_with_its_keys(node: str, names: list[str]) -> None:
    assert concerned(parked(Concerns(keys_of, keys_of_node)), node) == names


def test_an_event_without_a_registration_concerns_nobody() -> None:
    assert concerned(parked(Concerns(keys_of, keys_of_node)), "all", DELETED) == []


def test_one_registration_for_all_pods_is_enough() -> None:
    assert concerned(parked(Concerns(keys_of, keys_of_node), None), "a") == [*"abc"]


@pytest.mark.parametrize("wrong", [broken, no_keys])
def test_functions_that_fail_miss_no_pod(wrong: object) -> None:
    of_pod = Concerns(wrong, keys_of_node)  # type: ignore[arg-type]
    of_change = Concerns(keys_of, wrong)  # type: ignore[arg-type]
    assert concerned(parked(of_pod), "y") == [*"abc"]
    assert concerned(parked(of_change), "y") == [*"abc"]


def test_a_pod_that_left_is_not_found() -> None:
    waiting = parked(Concerns(keys_of, keys_of_node))
    waiting.remove(next(entry for entry in waiting if entry.info.pod.metadata.name == "b"))
    waiting.validate()
    assert concerned(waiting, "x") == ["c"]
