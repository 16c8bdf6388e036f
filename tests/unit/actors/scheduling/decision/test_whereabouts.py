"""A stack tells which plugin it is in, at which of its own lines, and for which pod."""

from __future__ import annotations

import re
import sys

import pytest

from berth.actors.scheduling.decision.profile import hinting
from berth.actors.scheduling.decision.whereabouts import in_words, whereabouts
from berth.actors.scheduling.kube.meta import ObjectMeta
from berth.plugin import (
    SUCCESS,
    Action,
    ClusterEvent,
    CycleState,
    Hint,
    NodeFilterPlugin,
    NodeInfo,
    Pod,
    PodInfo,
    PreEnqueuePlugin,
    Registration,
    ReservePlugin,
    Resource,
    Status,
)
from tests.kit.handle import NoApi
from tests.kit.profiles import APART, profile_of

SEEN: list[dict[str, str]] = []


def look(_match: object) -> str:
    SEEN.append(whereabouts(sys._getframe()))
    return ""


class Looking(NodeFilterPlugin, ReservePlugin, PreEnqueuePlugin):
    name = "Looking"

    def pre_enqueue(self, pod: Pod) -> Status:
        look(None)
        return SUCCESS

    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        return SUCCESS

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        re.sub("a", look, "a")
        return SUCCESS

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None: ...


@pytest.fixture
def seen() -> list[dict[str, str]]:
    SEEN.clear()
    return SEEN


def test_nobody_runs(seen: list[dict[str, str]]) -> None:
    look(None)
    (fields,) = seen
    assert fields.keys() == {"at"}
    assert fields["at"].startswith(f"{__file__}:")


def test_a_plugin_calls_others(seen: list[dict[str, str]]) -> None:
    info = PodInfo(Pod())
    profile_of(Looking, disabled=APART).reserve(CycleState(), info, "n")
    (fields,) = seen
    assert (fields["plugin"], fields["point"], fields["pod"]) == ("Looking", "Reserve", info.key)
    assert fields["at"].startswith(f"{__file__}:")


def test_a_hint_has_no_self(seen: list[dict[str, str]]) -> None:
    def hint(pod: Pod, old: object | None, new: object | None) -> Hint:
        look(None)
        return Hint.SKIP

    registered = hinting(
        Looking({}, NoApi()), Registration(ClusterEvent(Resource.NODE, Action.ADD), hint)
    )
    assert registered.hint is not None
    registered.hint(Pod(), None, None)
    assert (seen[0]["plugin"], seen[0]["point"]) == ("Looking", "QueueingHint")


def test_before_the_queue_and_in_filters_of_one_node(seen: list[dict[str, str]]) -> None:
    pod = Pod(metadata=ObjectMeta(namespace="shop", name="web"))
    profile_of(Looking, disabled=APART).pre_enqueue(pod)
    (fields,) = seen
    assert (fields["plugin"], fields["point"], fields["pod"]) == (
        "Looking",
        "PreEnqueue",
        "shop/web",
    )
    start = "in PreEnqueue of the plugin Looking about shop/web ("
    assert in_words(fields) == f"{start}{fields['at']})"
    assert in_words({"at": "queue.py:3"}) == "at queue.py:3"
