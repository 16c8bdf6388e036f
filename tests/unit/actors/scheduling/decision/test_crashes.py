"""Whatever a plugin raises is logged once, with its traceback, plugin, extension point, pod and
node.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from types import FrameType
from typing import NoReturn

import pytest

from berth.actors.scheduling.decision.outcome import DecisionFailure, Outcome
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.plugin import (
    SUCCESS,
    Action,
    ClusterEvent,
    CycleState,
    Hint,
    PodInfo,
    Registration,
    Resource,
    Status,
)
from tests.kit import answering as at
from tests.kit.documents import node
from tests.kit.logs import capture_logs
from tests.kit.snapshots import snapshot_of
from tests.kit.structs import pod_info

RAISED: list[BaseException] = [OSError("disk full")]


def boom() -> NoReturn:
    raise RAISED[0]


class _Hints(at.Registers):
    def events_to_register(self) -> tuple[Registration, ...]:
        return (Registration(ClusterEvent(Resource.NODE, Action.ADD), lambda *_: boom()),)


def profile_with(kind: type[at.Answering]) -> Profile:
    return at.profile_with(kind, boom)


def scheduled(profile: Profile, info: PodInfo) -> Outcome:
    snapshot = snapshot_of([node("a"), node("b")])
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
    ((step,),) = profile.pre_bind_steps(CycleState(), info, "n", lambda _: False)
    return await step()


async def hint(profile: Profile, info: PodInfo) -> None:
    (registration,) = profile.hints()["Wrong"]
    assert registration.hint is not None
    assert registration.hint(info.pod, None, None) is Hint.QUEUE


POINTS: list[tuple[str, type[at.Answering], Call, str | None]] = [
    ("PreEnqueue", at.PreEnqueue, lambda profile, info: at_once(profile.pre_enqueue(info.pod)), ""),
    ("QueueSort", at.QueueSort, lambda profile, info: at_once(profile.sort_key(info, 0.0)), ""),
    ("PreFilter", at.PreparesFor, schedule, ""),
    ("PreFilter", at.Preparing, schedule, ""),
    ("PreFilter", at.PreFilter, schedule, ""),
    ("Filter", at.Filter, schedule, "a"),
    ("Filter", at.VectorFilter, schedule, ""),
    ("PostFilter", at.PostFilter, schedule, ""),
    ("PostFilter", at.Asking, schedule, ""),
    ("PreScore", at.PreScore, schedule, ""),
    ("Score", at.Score, schedule, "a"),
    ("Score", at.VectorScore, schedule, ""),
    ("NormalizeScore", at.Normalize, schedule, ""),
    (
        "Reserve",
        at.Reserve,
        lambda profile, info: at_once(profile.reserve(CycleState(), info, "n")),
        "n",
    ),
    ("Unreserve", at.Reserve, unreserve, "n"),
    (
        "Permit",
        at.Permit,
        lambda profile, info: at_once(profile.permit(CycleState(), info, "n")),
        "n",
    ),
    (
        "PreBindPreFlight",
        at.PreFlight,
        lambda profile, info: at_once(profile.pre_bind_pre_flight(CycleState(), info, "n")),
        "n",
    ),
    ("PreBind", at.PreBind, pre_bind, "n"),
    (
        "Bind",
        at.Bind,
        lambda profile, info: profile.bind(CycleState(), info, "n", lambda _: False),
        "n",
    ),
    ("PostBind", at.Bind, post_bind, "n"),
    ("QueueingHint", _Hints, hint, ""),
    ("EventsToRegister", at.Registers, lambda profile, info: at_once(profile.hints()), None),
]


@pytest.fixture
def info() -> PodInfo:
    return pod_info("web", namespace="default", uid="u")


class PanicError(BaseException):
    """What extensions in other languages raise when they panic."""


@pytest.mark.parametrize(
    "raised",
    [
        OSError("disk full"),
        SystemExit(3),
        PanicError("at the disco"),
        asyncio.CancelledError("by nobody"),
        GeneratorExit("by hand"),
        KeyboardInterrupt("by hand"),
        BaseExceptionGroup("both", [SystemExit(3), asyncio.CancelledError()]),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    ("point", "kind", "call", "node"), POINTS, ids=[f"{p[0]}{p[1].__name__}" for p in POINTS]
)
async def test_a_traceback_is_logged(
    point: str,
    kind: type[at.Answering],
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
    assert (line["point"], line["plugin"]) == (point, "Wrong")
    assert (line.get("pod", ""), line.get("node", "")) == (
        "" if node is None else "default/web",
        node or "",
    )
    assert line["error"] == f"{type(raised).__name__}: {raised}"


def interrupted(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("handler", [signal.default_int_handler, interrupted])
def test_a_signal_is_no_failure_of_the_plugin_in_which_it_arrives(
    handler: Callable[[int, FrameType | None], object], info: PodInfo
) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            scheduled(at.profile_with(at.Filter, lambda: signal.raise_signal(signal.SIGINT)), info)
    finally:
        signal.signal(signal.SIGINT, before)


class _Waits(at.PreBind):
    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        await asyncio.sleep(1e6)
        return SUCCESS


async def test_a_coroutine_that_nobody_awaits_any_more_is_no_failure(info: PodInfo) -> None:
    ((step,),) = profile_with(_Waits).pre_bind_steps(CycleState(), info, "n", lambda _: False)
    with capture_logs() as lines:
        waiting = step()
        assert isinstance(waiting, Coroutine)
        waiting.send(None)
        waiting.close()
    assert not lines


def test_the_same_failure_is_a_repeat_and_another_is_none(info: PodInfo) -> None:
    with capture_logs() as lines:
        for kind in (at.Filter, at.Filter, at.Score, at.VectorFilter):
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
        (ValueError("gone-\udcff"), r"ValueError: gone-\udcff"),
        (ValueError("x" * 100_000), f"ValueError: {'x' * 1000} ..."),
    ],
)
def test_an_exception_without_a_proper_text(
    raised: Exception, text: str, info: PodInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.RAISED", [raised])
    with capture_logs():
        outcome = scheduled(profile_with(at.PreFilter), info)
    assert isinstance(outcome, DecisionFailure)
    assert outcome.status.message == f'running PreFilter plugin "Wrong": {text}'
