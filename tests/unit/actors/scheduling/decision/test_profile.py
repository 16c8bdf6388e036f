"""What a plugin does wrong fails the pod's attempt, in a line that names the plugin."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from berth.actors.scheduling.decision.outcome import Unfit
from berth.actors.scheduling.decision.plain import Plain
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.kube.kinds import decode
from berth.actors.scheduling.plugins.resource_args import NodeResourcesFitArgs
from berth.plugin import (
    SUCCESS,
    Action,
    ArgsError,
    ClusterEvent,
    CycleState,
    FailedAttempt,
    FilterPlugin,
    Handle,
    Hint,
    NodeFilterPlugin,
    NodeInfo,
    NodeScorePlugin,
    NodeView,
    Plugin,
    Pod,
    PodInfo,
    PostFiltered,
    PostFilterPlugin,
    PreFilterPlugin,
    Registration,
    ReservePlugin,
    Resource,
    ScorePlugin,
    Snapshot,
    Status,
    Verdicts,
    read_args,
)
from tests.kit.documents import thing
from tests.kit.logs import capture_logs
from tests.kit.profiles import APART, profile_of
from tests.kit.snapshots import snapshot_of

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
}
POST_FILTER = 'running PostFilter plugin "Wrong":'
POD = thing("Pod", "web", spec={})


class _Wrong(Plugin):
    name = "Wrong"


class _Filter(_Wrong, NodeFilterPlugin):
    answer: Status

    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        return self.answer


class _VectorFilter(_Wrong, FilterPlugin):
    answer: Verdicts | None

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        return self.answer


class _PreFilter(_Wrong, PreFilterPlugin):
    answer: Status

    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Status:
        return self.answer


class _Score(_Wrong, NodeScorePlugin):
    answer: int

    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        return self.answer


class _VectorScore(_Wrong, ScorePlugin):
    answer: Any

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Any:
        return self.answer


class _Reserve(_Wrong, ReservePlugin):
    answer: Status

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        return self.answer

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        raise OSError("disk full")


class _PostFilter(_Wrong, PostFilterPlugin):
    answer: Any

    def post_filter(self, attempt: FailedAttempt) -> Any:
        return self.answer


class _Hints(_Wrong, NodeFilterPlugin):
    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        raise AssertionError

    def events_to_register(self) -> tuple[Registration, ...]:
        def hint(pod: Pod, old: object | None, new: object | None) -> Hint:
            raise KeyError("zone")

        return (Registration(ClusterEvent(Resource.NODE, Action.ADD), hint),)


def profile_with(plugin: type[Plugin]) -> Profile:
    return profile_of(plugin, disabled=APART)


@pytest.fixture
def snapshot() -> Snapshot:
    return snapshot_of(
        [{**NODE, "metadata": {"name": name}} for name in ("a", "b")], {"default-scheduler"}
    )


@pytest.fixture
def info() -> PodInfo:
    pod = decode(POD)
    assert isinstance(pod, Pod)
    return PodInfo(pod)


def test_reasons_that_cannot_be_told_are_a_reason(
    snapshot: Snapshot, info: PodInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons: dict[int, tuple[str, ...]] = {}
    verdicts = Verdicts(
        np.full(2, 2, dtype=np.int8), np.zeros(2, dtype=np.int64), lambda key: reasons[key]
    )
    monkeypatch.setattr(_VectorFilter, "answer", verdicts, raising=False)
    evaluation = Plain(profile_with(_VectorFilter), info, snapshot).evaluation()
    assert (
        evaluation.message(2)
        == '0/2 nodes are available: 2 running "Wrong" filter plugin: KeyError: 0.'
    )


def test_reserve_and_unreserve(info: PodInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Reserve, "answer", None, raising=False)
    profile = profile_with(_Reserve)
    failed = profile.reserve(CycleState(), info, "a")
    assert failed.message == 'running Reserve plugin "Wrong": expected a Status, got None'
    with capture_logs() as lines:
        profile.unreserve(CycleState(), info, "a")
    (line,) = [line for line in lines if line["point"] == "Unreserve"]
    assert (line["plugin"], line["pod"], line["node"]) == ("Wrong", "default/web", "a")
    assert line["error"] == "OSError: disk full"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, f"{POST_FILTER} expected PostFiltered, got None"),
        (SUCCESS, f"{POST_FILTER} expected PostFiltered, got Status("),
        (
            msgspec.structs.replace(PostFiltered(SUCCESS), status=None),
            f"{POST_FILTER} expected a Status, got None",
        ),
    ],
)
def test_a_post_filter_that_answers_nothing_is_told_with_what_the_filters_said(
    answer: object, message: str, snapshot: Snapshot, info: PodInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_PostFilter, "answer", answer, raising=False)
    large = msgspec.structs.replace(
        info.pod, spec=msgspec.structs.replace(info.pod.spec, node_selector={"a": "b"})
    )
    outcome = Scheduler(Random(1)).schedule(profile_with(_PostFilter), PodInfo(large), snapshot)
    assert isinstance(outcome, Unfit)
    assert message in outcome.message
    assert outcome.message.startswith(
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    )
    assert outcome.nomination is None


def test_a_hint_that_fails_lets_the_pod_be_tried_again(info: PodInfo) -> None:
    (registration,) = profile_with(_Hints).hints()["Wrong"]
    assert registration.hint is not None
    assert registration.hint(info.pod, None, None) is Hint.QUEUE


def test_args_may_carry_their_kind_and_nothing_unknown() -> None:
    args = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "NodeResourcesFitArgs",
        "ignoredResources": ["a/b"],
    }
    assert read_args(args, NodeResourcesFitArgs).ignored_resources == ("a/b",)
    with pytest.raises(ArgsError, match=r"^ignored: unknown field"):
        read_args({"ignored": []}, NodeResourcesFitArgs)


def test_plugins_are_told_the_feature_gates() -> None:
    seen: list[bool] = []

    class Gated(_Filter):
        def __init__(self, args: dict[str, Any], handle: Handle) -> None:
            super().__init__(args, handle)
            seen.append(handle.feature_gates["SidecarContainers"])

    profile_with(Gated)
    assert seen == [True]
