"""A stack tells which plugin it is in, at which of its own lines, and for which pod."""

from __future__ import annotations

import re
import sys

import pytest

from berth.actors.scheduling.decision.profile import hinting
from berth.actors.scheduling.decision.whereabouts import whereabouts
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
    Registration,
    ReservePlugin,
    Resource,
    Status,
)
from tests.kit.handle import NoApi
from tests.unit.actors.scheduling.decision.test_profile import profile_with

SEEN: list[dict[str, str]] = []


def look(_match: object) -> str:
    SEEN.append(whereabouts(sys._getframe()))
    return ""


class Looking(NodeFilterPlugin, ReservePlugin):
    name = "Looking"

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
    profile_with(Looking).reserve(CycleState(), info, "n")
    (fields,) = seen
    assert (fields["plugin"], fields["pod"]) == ("Looking", info.key)
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
    assert seen[0]["plugin"] == "Looking"
