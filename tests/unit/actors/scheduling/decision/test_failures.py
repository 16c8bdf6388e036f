"""What a user reads of an attempt that ended with an error or was refused by a plugin:
kube-scheduler's texts.

The left side says what the plugin does, the right side what the pod's condition and event say, as
framework.go and waiting_pods_map.go of kube-scheduler 1.36 word it. A plugin of Go that raises ends
the process: these texts are ours, and so is the node where a user could not know it otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from berth.actors.binding.state import PodsInBinding
from berth.actors.scheduling.decision.outcome import DecisionFailure, Unfit
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.plugin import (
    SKIP,
    Code,
    CycleState,
    NodeInfo,
    PodInfo,
    PostFiltered,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from tests.kit import answering as at
from tests.kit.documents import node
from tests.kit.profiles import profile_of
from tests.kit.snapshots import snapshot_of
from tests.kit.structs import pod

POD = pod("web", namespace="default", uid="u")
NOT_HELPFUL = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
NO_VICTIMS = "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
UNSUPPORTED = "which is unsupported. It is supposed to return Success, Skip, or Error status"
INVALID = 'applying score defaultWeights on Score plugins: plugin "Disk" returns an invalid score'


class _PostFilter(at.PostFilter):
    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        return unresolvable("full")


def profile_with(plugin: type[at.Answering]) -> Profile:
    binder = () if issubclass(plugin, at.Bind) else ("DefaultBinder",)
    return profile_of("PrioritySort", plugin, "DefaultPreemption", *binder, disabled="*")


async def told(plugin: type[at.Answering], does: Callable[[], Any]) -> str:
    """Returns the text that the user reads about the first attempt of a pod."""
    profile = profile_with(at.doing(plugin, does, name="Disk"))
    status = profile.pre_enqueue(POD)
    if not status.ok:
        return status.message
    info = PodInfo(POD)
    snapshot = snapshot_of([node("a"), node("b")])
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
    for step in profile.pre_bind_steps(state, info, node, lambda _: False):
        for call in step:
            status = await call()
            if not status.ok:
                return status
    return await profile.bind(state, info, node, lambda _: False)


def raising() -> Any:
    raise OSError("no disk")


FULL, BROKEN = unschedulable("disk is full"), error("disk is broken")
TEXTS: list[tuple[type[at.Answering], Callable[[], Any], str]] = [
    (at.PreEnqueue, lambda: FULL, "disk is full"),
    (at.PreEnqueue, lambda: BROKEN, 'running PreEnqueue plugin "Disk": disk is broken'),
    (at.PreEnqueue, raising, 'running PreEnqueue plugin "Disk": OSError: no disk'),
    (at.PreFilter, lambda: FULL, f"0/2 nodes are available: disk is full. {NO_VICTIMS}"),
    (at.PreFilter, unschedulable, f"0/2 nodes are available: {NO_VICTIMS}"),
    (at.PreFilter, lambda: BROKEN, 'running PreFilter plugin "Disk": disk is broken'),
    (at.PreFilter, raising, 'running PreFilter plugin "Disk": OSError: no disk'),
    (
        at.PreFilter,
        lambda: None,
        'running PreFilter plugin "Disk": expected a Status or a PreFilterResult, got None',
    ),
    (at.Filter, lambda: FULL, f"0/2 nodes are available: 2 disk is full. {NO_VICTIMS}"),
    (at.Filter, lambda: BROKEN, 'running "Disk" filter plugin: disk is broken'),
    (at.Filter, lambda: SKIP, 'running "Disk" filter plugin: unexpected status Skip'),
    (at.Filter, raising, 'running "Disk" filter plugin: OSError: no disk (node a)'),
    (
        _PostFilter,
        lambda: PostFiltered(FULL),
        f"0/2 nodes are available: 2 full. disk is full, {NOT_HELPFUL}",
    ),
    (_PostFilter, lambda: PostFiltered(BROKEN), "0/2 nodes are available: 2 full. disk is broken"),
    (
        _PostFilter,
        raising,
        '0/2 nodes are available: 2 full. running PostFilter plugin "Disk": OSError: no disk',
    ),
    (at.PreScore, lambda: FULL, 'running PreScore plugin "Disk": disk is full'),
    (at.PreScore, lambda: BROKEN, 'running PreScore plugin "Disk": disk is broken'),
    (at.PreScore, raising, 'running PreScore plugin "Disk": OSError: no disk'),
    (at.VectorScore, raising, 'running Score plugins: plugin "Disk" failed with: OSError: no disk'),
    (
        at.VectorScore,
        lambda: np.array([101, 101]),
        f"{INVALID} 101, it should in the range of [0, 100] after normalizing (node a)",
    ),
    (
        at.Score,
        raising,
        'running Score plugins: plugin "Disk" failed with: OSError: no disk (node a)',
    ),
    (
        at.Score,
        lambda: -1,
        f"{INVALID} -1, it should in the range of [0, 100] after normalizing (node a)",
    ),
    (
        at.Normalize,
        raising,
        'running Normalize on Score plugins: plugin "Disk" failed with: OSError: no disk',
    ),
    (at.Reserve, lambda: FULL, "0/1 nodes are available: 1 disk is full."),
    (at.Reserve, lambda: BROKEN, 'running Reserve plugin "Disk": disk is broken'),
    (at.Reserve, raising, 'running Reserve plugin "Disk": OSError: no disk'),
    (at.Permit, lambda: (FULL, 1.0), "0/1 nodes are available: 1 disk is full."),
    (at.Permit, lambda: (BROKEN, 1.0), 'running Permit plugin "Disk": disk is broken'),
    (at.Permit, raising, 'running Permit plugin "Disk": OSError: no disk'),
    (at.PreFlight, lambda: BROKEN, 'running PreBindPreFlight "Disk": disk is broken'),
    (at.PreFlight, lambda: FULL, f'PreBindPreFlight Disk returned "Unschedulable", {UNSUPPORTED}'),
    (at.PreFlight, raising, 'running PreBindPreFlight "Disk": OSError: no disk'),
    (at.PreBind, lambda: FULL, "disk is full"),
    (at.PreBind, lambda: BROKEN, 'running PreBind plugin "Disk": disk is broken'),
    (at.PreBind, raising, 'running PreBind plugin "Disk": OSError: no disk'),
    (at.Bind, lambda: FULL, "disk is full"),
    (at.Bind, lambda: BROKEN, 'running Bind plugin "Disk": disk is broken'),
    (at.Bind, raising, 'running Bind plugin "Disk": OSError: no disk'),
]


@pytest.mark.parametrize(("plugin", "does", "text"), TEXTS, ids=range(len(TEXTS)))
async def test_what_a_user_reads(
    plugin: type[at.Answering], does: Callable[[], Any], text: str
) -> None:
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
    pods = PodsInBinding()
    pods.wait(PodInfo(POD), "a", {"Gang": 90.0}, 0.0)
    assert ends(pods)
    status = pods.take("u")
    assert status is not None
    assert status.message == text


def test_what_a_user_reads_of_a_pod_that_was_preempted_in_pre_bind() -> None:
    pods = PodsInBinding()
    pods.start_pre_bind("u", lambda: None)
    assert pods.preempt("u", "DefaultPreemption", "preempted")
    assert pods.finish_pre_bind("u").message == "preempted by DefaultPreemption"
