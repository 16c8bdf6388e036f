"""Whatever a plugin raises is logged once, with its traceback, plugin, extension point, pod and
node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, NoReturn

import msgspec
import pytest

from berth.actors.scheduling.decision.outcome import DecisionFailure, Outcome
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.plugin import (
    Action,
    BindPlugin,
    ClusterEvent,
    CycleState,
    DependsOn,
    FailedAttempt,
    FilterPlugin,
    Hint,
    NodeFilterPlugin,
    NodeInfo,
    NodeScorePlugin,
    NodeView,
    PermitPlugin,
    Plugin,
    Pod,
    PodInfo,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    Registration,
    ReservePlugin,
    Resource,
    ScorePlugin,
    Snapshot,
    Status,
    Verdicts,
    unschedulable,
)
from tests.kit.logs import capture_logs
from tests.kit.profiles import APART, at, profile_of
from tests.kit.snapshots import snapshot_of

RAISED: list[BaseException] = [OSError("disk full")]


def boom() -> NoReturn:
    raise RAISED[0]


class _Broken(Plugin):
    name = "Broken"


class _PreEnqueue(_Broken, PreEnqueuePlugin):
    def pre_enqueue(self, pod: Pod) -> Status:
        boom()


class _QueueSort(_Broken, QueueSortPlugin):
    def sort_key(self, info: PodInfo, enqueued_at: float) -> tuple[float, ...]:
        boom()


class _PreFilter(_Broken, PreFilterPlugin):
    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Status:
        boom()


class _Filter(_Broken, NodeFilterPlugin):
    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        boom()


class _VectorFilter(_Broken, FilterPlugin):
    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        boom()


class _PostFilter(_Broken, NodeFilterPlugin, PostFilterPlugin):
    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        return unschedulable("full")

    def post_filter(self, attempt: FailedAttempt) -> Any:
        boom()


class _Asking(_PostFilter):
    def post_filter(self, attempt: FailedAttempt) -> Any:
        yield boom()


class _PreScore(_Broken, PreScorePlugin, NodeScorePlugin):
    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        boom()

    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        return 0


class _Score(_Broken, NodeScorePlugin):
    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        boom()


class _VectorScore(_Broken, ScorePlugin):
    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Any:
        boom()


class _Normalize(_Broken, NodeScorePlugin):
    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        return 1

    def normalize_scores(self, state: CycleState, info: PodInfo, scores: list[int]) -> list[int]:
        boom()


class _Reserve(_Broken, ReservePlugin):
    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        boom()

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        boom()


class _Permit(_Broken, PermitPlugin):
    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        boom()


class _PreBind(_Broken, PreBindPlugin):
    def pre_bind_pre_flight(self, state: CycleState, info: PodInfo, node: str) -> Status:
        boom()

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        boom()


class _Bind(_Broken, BindPlugin, PostBindPlugin):
    async def bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        boom()

    def post_bind(self, state: CycleState, info: PodInfo, node: str) -> None:
        boom()


class _Hints(_Broken, PostBindPlugin):
    def post_bind(self, state: CycleState, info: PodInfo, node: str) -> None: ...

    def events_to_register(self) -> tuple[Registration, ...]:
        def hint(pod: Pod, old: object | None, new: object | None) -> Hint:
            boom()

        return (Registration(ClusterEvent(Resource.NODE, Action.ADD), hint),)


class _Registers(_Hints):
    def events_to_register(self) -> tuple[Registration, ...]:
        boom()


def profile_with(kind: type[_Broken], depends_on: DependsOn = DependsOn.CLUSTER) -> Profile:
    plugin = type("Reading", (kind,), {"depends_on": depends_on})
    sort = ["PrioritySort"] if issubclass(kind, QueueSortPlugin) else []
    binder = ["DefaultBinder"] if issubclass(kind, BindPlugin) else []
    return profile_of(plugin, disabled=[*APART, *sort], points=at("bind", disabled=binder))


def scheduled(profile: Profile, info: PodInfo) -> Outcome:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    node = {"apiVersion": "v1", "kind": "Node", "status": {"allocatable": allocatable}}
    snapshot = snapshot_of(
        [{**node, "metadata": {"name": name}} for name in ("a", "b")], {"default-scheduler"}
    )
    return Scheduler(Random(1)).schedule(profile, info, snapshot)


async def at_once(answer: object) -> object:
    return answer


Call = Callable[[Profile, PodInfo], Awaitable[object]]


def schedule(profile: Profile, info: PodInfo) -> Awaitable[object]:
    return at_once(scheduled(profile, info))


async def unreserve(profile: Profile, info: PodInfo) -> None:
    profile.unreserve(CycleState(), info, "n")


async def post_bind(profile: Profile, info: PodInfo) -> None:
    profile.post_bind(CycleState(), info, "n")


async def pre_bind(profile: Profile, info: PodInfo) -> object:
    ((step,),) = profile.pre_bind_steps(CycleState(), info, "n", lambda: False)
    return await step()


async def hint(profile: Profile, info: PodInfo) -> object:
    (registration,) = profile.hints()["Broken"]
    assert registration.hint is not None
    return registration.hint(info.pod, None, None)


POINTS: list[tuple[str, type[_Broken], Call, str | None]] = [
    ("PreEnqueue", _PreEnqueue, lambda profile, info: at_once(profile.pre_enqueue(info.pod)), ""),
    ("QueueSort", _QueueSort, lambda profile, info: at_once(profile.sort_key(info, 0.0)), ""),
    ("PreFilter", _PreFilter, schedule, ""),
    ("Filter", _Filter, schedule, "a"),
    ("Filter", _VectorFilter, schedule, ""),
    ("PostFilter", _PostFilter, schedule, ""),
    ("PostFilter", _Asking, schedule, ""),
    ("PreScore", _PreScore, schedule, ""),
    ("Score", _Score, schedule, "a"),
    ("Score", _VectorScore, schedule, ""),
    ("NormalizeScore", _Normalize, schedule, ""),
    (
        "Reserve",
        _Reserve,
        lambda profile, info: at_once(profile.reserve(CycleState(), info, "n")),
        "n",
    ),
    ("Unreserve", _Reserve, unreserve, "n"),
    (
        "Permit",
        _Permit,
        lambda profile, info: at_once(profile.permit(CycleState(), info, "n")),
        "n",
    ),
    (
        "PreBindPreFlight",
        _PreBind,
        lambda profile, info: at_once(profile.pre_bind_pre_flight(CycleState(), info, "n")),
        "n",
    ),
    ("PreBind", _PreBind, pre_bind, "n"),
    (
        "Bind",
        _Bind,
        lambda profile, info: profile.bind(CycleState(), info, "n", lambda: False),
        "n",
    ),
    ("PostBind", _Bind, post_bind, "n"),
    ("QueueingHint", _Hints, hint, ""),
    ("EventsToRegister", _Registers, lambda profile, info: at_once(profile.hints()), None),
]


@pytest.fixture
def info() -> PodInfo:
    return PodInfo(
        msgspec.convert({"metadata": {"namespace": "default", "name": "web", "uid": "u"}}, Pod)
    )


class PanicError(BaseException):
    """What extensions in other languages raise when they panic."""


@pytest.mark.parametrize(
    "raised",
    [
        OSError("disk full"),
        SystemExit(3),
        PanicError("at the disco"),
        asyncio.CancelledError("by nobody"),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    ("point", "kind", "call", "node"), POINTS, ids=[f"{p[0]}{p[1].__name__}" for p in POINTS]
)
async def test_a_traceback_is_logged(
    point: str,
    kind: type[_Broken],
    call: Call,
    node: str | None,
    raised: BaseException,
    info: PodInfo,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{__name__}.RAISED", [raised])
    profile = profile_with(kind)
    with capture_logs() as lines:
        await call(profile, info)
    # A Reserve that fails is followed by Unreserve, which fails too.
    (line,) = [line for line in lines if line["point"] == point]
    assert (line["event"], line["log_level"]) == ("plugin failed", "error")
    assert line["exc_info"] is raised
    assert (line["point"], line["plugin"]) == (point, "Broken")
    assert (line.get("pod", ""), line.get("node", "")) == (
        "" if node is None else "default/web",
        node or "",
    )
    assert line["error"] == f"{type(raised).__name__}: {raised}"


def test_the_same_failure_is_a_repeat_and_another_is_none(info: PodInfo) -> None:
    with capture_logs() as lines:
        for kind in (_Filter, _Filter, _Score, _VectorFilter):
            scheduled(profile_with(kind), info)
    first, second, *others = (line["repeats"] for line in lines)
    assert first == second
    assert len({first, *others}) == 2, (
        "at the same extension point, in the same line, in the same way"
    )


class UntoldError(Exception):
    def __str__(self) -> str:
        raise ValueError("no")


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (UntoldError(), "UntoldError: (its text cannot be made)"),
        (ValueError(), "ValueError"),
        (ValueError("x" * 100_000), f"ValueError: {'x' * 1000} ..."),
    ],
)
def test_an_exception_without_a_proper_text(
    raised: Exception, text: str, info: PodInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.RAISED", [raised])
    with capture_logs():
        outcome = scheduled(profile_with(_PreFilter), info)
    assert isinstance(outcome, DecisionFailure)
    assert outcome.status.message == f'running PreFilter plugin "Broken": {text}'
