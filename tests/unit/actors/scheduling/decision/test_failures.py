"""What a user reads of an attempt that ended with an error or was refused by a plugin:
kube-scheduler's texts.

The left side says what the plugin does, the right side what the pod's condition and event say, as
framework.go and waiting_pods_map.go of kube-scheduler 1.36 word it. A plugin of Go that raises ends
the process: these texts are ours, and so is the node where a user could not know it otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, ClassVar

import numpy as np
import pytest

from berth.actors.binding.state import PodsInBinding
from berth.actors.scheduling.decision.outcome import DecisionFailure, Unfit
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.kube.kinds import decode
from berth.plugin import (
    SKIP,
    BindPlugin,
    Code,
    CycleState,
    FailedAttempt,
    Ints,
    NodeFilterPlugin,
    NodeInfo,
    NodeScorePlugin,
    NodeView,
    PermitPlugin,
    Plugin,
    Pod,
    PodInfo,
    PostFiltered,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
    Snapshot,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from tests.kit.documents import thing
from tests.kit.profiles import profile_of
from tests.kit.snapshots import snapshot_of

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
}
POD = thing("Pod", "web", uid="u", spec={})
NOT_HELPFUL = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
NO_VICTIMS = "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
UNSUPPORTED = "which is unsupported. It is supposed to return Success, Skip, or Error status"
INVALID = 'applying score defaultWeights on Score plugins: plugin "Disk" returns an invalid score'


class _Disk(Plugin):
    """A plugin that calls `does` at its extension point."""

    name = "Disk"
    does: ClassVar[Callable[[], Any]]

    def answer(self) -> Any:
        return type(self).does()


class _PreEnqueue(_Disk, PreEnqueuePlugin):
    def pre_enqueue(self, pod: Pod) -> Status:
        answer: Status = self.answer()
        return answer


class _PreFilter(_Disk, PreFilterPlugin):
    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Status:
        answer: Status = self.answer()
        return answer


class _Filter(_Disk, NodeFilterPlugin):
    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        answer: Status = self.answer()
        return answer


class _PostFilter(_Disk, NodeFilterPlugin, PostFilterPlugin):
    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        return unresolvable("full")

    def post_filter(self, attempt: FailedAttempt) -> PostFiltered:
        return PostFiltered(self.answer())


class _PreScore(_Disk, PreScorePlugin, NodeScorePlugin):
    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        raise AssertionError

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        answer: Status = self.answer()
        return answer


class _Score(_Disk, ScorePlugin):
    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        return np.full(nodes.size, self.answer(), dtype=np.int64)


class _NodeScore(_Disk, NodeScorePlugin):
    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        return int(self.answer())


class _Normalize(_Disk, NodeScorePlugin):
    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        return 1

    def normalize_scores(self, state: CycleState, info: PodInfo, scores: list[int]) -> list[int]:
        times: int = self.answer()
        return scores * times


class _Reserve(_Disk, ReservePlugin):
    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        answer: Status = self.answer()
        return answer

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        """Does nothing: there is nothing to undo."""


class _Permit(_Disk, PermitPlugin):
    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        return self.answer(), 1.0


class _PreFlight(_Disk, PreBindPlugin):
    def pre_bind_pre_flight(self, state: CycleState, info: PodInfo, node: str) -> Status:
        answer: Status = self.answer()
        return answer

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        raise AssertionError


class _PreBind(_Disk, PreBindPlugin):
    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        answer: Status = self.answer()
        return answer


class _Bind(_Disk, BindPlugin):
    async def bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        answer: Status = self.answer()
        return answer


def profile_with(plugin: type[_Disk]) -> Profile:
    binder = () if issubclass(plugin, _Bind) else ("DefaultBinder",)
    return profile_of("PrioritySort", plugin, "DefaultPreemption", *binder, disabled="*")


async def told(plugin: type[_Disk], does: Callable[[], Any]) -> str:
    """Returns the text that the user reads about the first attempt of a pod."""
    profile = profile_with(type("Doing", (plugin,), {"does": staticmethod(does)}))
    pod = decode(POD)
    assert isinstance(pod, Pod)
    status = profile.pre_enqueue(pod)
    if not status.ok:
        return status.message
    info = PodInfo(pod)
    snapshot = snapshot_of(
        [{**NODE, "metadata": {"name": name}} for name in ("a", "b")], {"default-scheduler"}
    )
    outcome = Scheduler(Random(1)).schedule(profile, info, snapshot)
    match outcome:
        case DecisionFailure(status):
            return status.message
        case Unfit():
            return outcome.message
    return (await bound(profile, outcome.state, info, outcome.node)).message


async def bound(profile: Profile, state: CycleState, info: PodInfo, node: str) -> Status:
    """Returns the first answer after a node is chosen that is no success."""
    status = profile.reserve(state, info, node)
    if status.ok:
        status, _ = profile.permit(state, info, node)
    if not status.ok:
        return status.on_chosen_node() if status.rejected else status
    flight = profile.pre_bind_pre_flight(state, info, node)
    if not flight.ok and flight.code is not Code.SKIP:
        return flight
    for step in profile.pre_bind_steps(state, info, node, lambda: False):
        for call in step:
            status = await call()
            if not status.ok:
                return status
    return await profile.bind(state, info, node, lambda: False)


def raising() -> Any:
    raise OSError("no disk")


FULL, BROKEN = unschedulable("disk is full"), error("disk is broken")
TEXTS: list[tuple[type[_Disk], Callable[[], Any], str]] = [
    (_PreEnqueue, lambda: FULL, "disk is full"),
    (_PreEnqueue, lambda: BROKEN, 'running PreEnqueue plugin "Disk": disk is broken'),
    (_PreEnqueue, raising, 'running PreEnqueue plugin "Disk": OSError: no disk'),
    (_PreFilter, lambda: FULL, f"0/2 nodes are available: disk is full. {NO_VICTIMS}"),
    (_PreFilter, unschedulable, f"0/2 nodes are available: {NO_VICTIMS}"),
    (_PreFilter, lambda: BROKEN, 'running PreFilter plugin "Disk": disk is broken'),
    (_PreFilter, raising, 'running PreFilter plugin "Disk": OSError: no disk'),
    (_PreFilter, lambda: None, 'running PreFilter plugin "Disk": expected a Status, got None'),
    (_Filter, lambda: FULL, f"0/2 nodes are available: 2 disk is full. {NO_VICTIMS}"),
    (_Filter, lambda: BROKEN, 'running "Disk" filter plugin: disk is broken'),
    (_Filter, lambda: SKIP, 'running "Disk" filter plugin: unexpected status Skip'),
    (_Filter, raising, 'running "Disk" filter plugin: OSError: no disk (node a)'),
    (_PostFilter, lambda: FULL, f"0/2 nodes are available: 2 full. disk is full, {NOT_HELPFUL}"),
    (_PostFilter, lambda: BROKEN, "0/2 nodes are available: 2 full. disk is broken"),
    (
        _PostFilter,
        raising,
        '0/2 nodes are available: 2 full. running PostFilter plugin "Disk": OSError: no disk',
    ),
    (_PreScore, lambda: FULL, 'running PreScore plugin "Disk": disk is full'),
    (_PreScore, lambda: BROKEN, 'running PreScore plugin "Disk": disk is broken'),
    (_PreScore, raising, 'running PreScore plugin "Disk": OSError: no disk'),
    (_Score, raising, 'running Score plugins: plugin "Disk" failed with: OSError: no disk'),
    (
        _Score,
        lambda: 101,
        f"{INVALID} 101, it should in the range of [0, 100] after normalizing (node a)",
    ),
    (
        _NodeScore,
        raising,
        'running Score plugins: plugin "Disk" failed with: OSError: no disk (node a)',
    ),
    (
        _NodeScore,
        lambda: -1,
        f"{INVALID} -1, it should in the range of [0, 100] after normalizing (node a)",
    ),
    (
        _Normalize,
        raising,
        'running Normalize on Score plugins: plugin "Disk" failed with: OSError: no disk',
    ),
    (_Reserve, lambda: FULL, "0/1 nodes are available: 1 disk is full."),
    (_Reserve, lambda: BROKEN, 'running Reserve plugin "Disk": disk is broken'),
    (_Reserve, raising, 'running Reserve plugin "Disk": OSError: no disk'),
    (_Permit, lambda: FULL, "0/1 nodes are available: 1 disk is full."),
    (_Permit, lambda: BROKEN, 'running Permit plugin "Disk": disk is broken'),
    (_Permit, raising, 'running Permit plugin "Disk": OSError: no disk'),
    (_PreFlight, lambda: BROKEN, 'running PreBindPreFlight "Disk": disk is broken'),
    (_PreFlight, lambda: FULL, f'PreBindPreFlight Disk returned "Unschedulable", {UNSUPPORTED}'),
    (_PreFlight, raising, 'running PreBindPreFlight "Disk": OSError: no disk'),
    (_PreBind, lambda: FULL, "disk is full"),
    (_PreBind, lambda: BROKEN, 'running PreBind plugin "Disk": disk is broken'),
    (_PreBind, raising, 'running PreBind plugin "Disk": OSError: no disk'),
    (_Bind, lambda: FULL, "disk is full"),
    (_Bind, lambda: BROKEN, 'running Bind plugin "Disk": disk is broken'),
    (_Bind, raising, 'running Bind plugin "Disk": OSError: no disk'),
]


@pytest.mark.parametrize(("plugin", "does", "text"), TEXTS, ids=range(len(TEXTS)))
async def test_what_a_user_reads(plugin: type[_Disk], does: Callable[[], Any], text: str) -> None:
    assert await told(plugin, does) == text


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        (lambda pods: pods.reject("u", "Gang", "the group is gone"), "the group is gone"),
        (
            lambda pods: pods.expire("u", 90.0),
            "rejected due to timeout after waiting 1m30s at plugin Gang",
        ),
        (
            lambda pods: pods.preempt("u", "DefaultPreemption", "preempted"),
            "waiting on permit for pod: preempted",
        ),
    ],
)
def test_what_a_user_reads_of_a_pod_that_waited_on_permit(
    ends: Callable[[PodsInBinding], bool], text: str
) -> None:
    pods, pod = PodsInBinding(), decode(POD)
    assert isinstance(pod, Pod)
    pods.wait(PodInfo(pod), "a", {"Gang": 90.0}, 0.0)
    assert ends(pods)
    status = pods.take("u")
    assert status is not None
    assert status.message == text


def test_what_a_user_reads_of_a_pod_that_was_preempted_in_pre_bind() -> None:
    pods = PodsInBinding()
    pods.start_pre_bind("u", lambda: None)
    assert pods.preempt("u", "DefaultPreemption", "preempted")
    assert pods.finish_pre_bind("u").message == "preempted by DefaultPreemption"
