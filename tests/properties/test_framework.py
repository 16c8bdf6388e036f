"""The extension points as kube-scheduler's frameworkImpl has them: whose status counts, in which
words and by which plugin, and who is asked after it. Each is compared with its rule in plain
Python, for plugins with any answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.decision.outcome import Unfit
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.plugin import (
    BindPlugin,
    Code,
    CycleState,
    FailedAttempt,
    NodeFilterPlugin,
    NodeInfo,
    Nomination,
    PermitPlugin,
    PodInfo,
    PostFiltered,
    PostFilterPlugin,
    PreBindPlugin,
    PreBindPreFlightResult,
    ReservePlugin,
    Status,
    unschedulable,
)
from tests.kit.documents import node
from tests.kit.examples import examples
from tests.kit.logs import capture_logs
from tests.kit.profiles import profile_of
from tests.kit.snapshots import snapshot_of
from tests.kit.structs import pod_info

RAN: list[str] = []
NAMES = "ABC"
REJECTED = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)
WEB = pod_info("web", namespace="default", uid="u")
Told = tuple[Code, str, str]  # the code, the message and the plugin of a status
PASSED: Told = (Code.SUCCESS, "", "")


class Answering(
    ReservePlugin, PermitPlugin, PreBindPlugin, BindPlugin, NodeFilterPlugin, PostFilterPlugin
):
    """Answers everywhere the same, and notes its name in RAN."""

    answer: Any

    def answered(self) -> Any:
        RAN.append(self.name)
        return self.answer

    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        return unschedulable("full")

    def post_filter(self, attempt: FailedAttempt) -> PostFiltered:
        answer: PostFiltered = self.answered()
        return answer

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        status: Status = self.answered()
        return status

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        RAN.append(f"-{self.name}")

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        return self.answered(), float(ord(self.name))

    def pre_bind_pre_flight(
        self, state: CycleState, info: PodInfo, node: str
    ) -> Status | PreBindPreFlightResult:
        status: Status | PreBindPreFlightResult = self.answered()
        return status

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        raise AssertionError

    async def bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        status: Status = self.answered()
        return status


def profile_with(answers: Sequence[object]) -> Profile:
    RAN.clear()
    plugins = [
        type(name, (Answering,), {"name": name, "answer": answer})
        for name, answer in zip(NAMES, answers, strict=False)
    ]
    return profile_of(*plugins, "PrioritySort", "DefaultBinder", disabled="*")


def told(status: Status) -> Told:
    return status.code, status.message, status.plugin


def failed(status: Status, name: str, point: str) -> Told:
    """Returns what becomes of a status that ends the attempt: a rejection in the plugin's words, or
    an error that names the point and the plugin.
    """
    if status.code in REJECTED:
        return status.code, status.message, name
    message = status.message or f"unexpected status {status.code.label}"
    return Code.ERROR, f'running {point} "{name}": {message}', name


statuses = st.builds(
    Status, st.sampled_from(Code), st.lists(st.sampled_from("xy"), max_size=2).map(tuple)
)
answers = st.lists(statuses, min_size=1, max_size=len(NAMES))


@examples()
@given(answers)
def test_reserve(drawn: list[Status]) -> None:
    profile = profile_with(drawn)
    with capture_logs():
        status = profile.reserve(CycleState(), WEB, "a")
    ran, expected = "", PASSED
    for name, answer in zip(NAMES, drawn, strict=False):
        ran += name
        if not answer.ok:
            expected = failed(answer, name, "Reserve plugin")
            break
    undone = [] if expected is PASSED else [f"-{name}" for name in NAMES[len(drawn) - 1 :: -1]]
    assert told(status) == expected
    assert [*ran, *undone] == RAN


@examples()
@given(answers)
def test_permit(drawn: list[Status]) -> None:
    profile = profile_with(drawn)
    with capture_logs():
        status, waits = profile.permit(CycleState(), WEB, "a")
    ran, expected, waited = "", PASSED, dict[str, float]()
    for name, answer in zip(NAMES, drawn, strict=False):
        ran += name
        if answer.code is Code.WAIT:
            waited[name], expected = float(ord(name)), (Code.WAIT, "", "")
        elif not answer.ok:
            waited, expected = {}, failed(answer, name, "Permit plugin")
            break
    assert (told(status), waits) == (expected, waited)
    assert "".join(RAN) == ran


flights = st.one_of(statuses, st.builds(PreBindPreFlightResult, allow_parallel=st.booleans()))


@examples()
@given(st.lists(flights, min_size=1, max_size=len(NAMES)))
def test_pre_bind_pre_flight(drawn: list[Status | PreBindPreFlightResult]) -> None:
    profile, state = profile_with(drawn), CycleState()
    with capture_logs():
        status = profile.pre_bind_pre_flight(state, WEB, "a")
    expected: Told = (Code.SKIP, "", "")
    skipped, parallel = set(), set()
    for name, answer in zip(NAMES, drawn, strict=False):
        if isinstance(answer, PreBindPreFlightResult):
            expected = PASSED
            parallel |= {name} if answer.allow_parallel else set()
        elif answer.ok:
            expected = PASSED
        elif answer.code is Code.SKIP:
            skipped.add(name)
        else:
            expected = failed(answer, name, "PreBindPreFlight")
            if answer.code is not Code.ERROR:
                only = "is supposed to return Success, Skip, or Error status"
                returned = f'returned "{answer.code.label}", which is unsupported. It {only}'
                expected = (Code.ERROR, f"PreBindPreFlight {name} {returned}", name)
            break
    assert told(status) == expected
    if status.code is not Code.ERROR:
        assert (state.skip_pre_bind, state.parallel_pre_bind) == (skipped, parallel)


@examples()
@given(answers)
def test_bind(drawn: list[Status]) -> None:
    profile = profile_with([*drawn, Status(Code.SUCCESS)][: len(NAMES)])
    with capture_logs():
        status = asyncio.run(profile.bind(CycleState(), WEB, "a", lambda _: False))
    ran, expected = "", None
    for name, answer in zip(NAMES, [*drawn, Status(Code.SUCCESS)], strict=False):
        ran += name
        if answer.code is not Code.SKIP:
            expected = PASSED if answer.ok else failed(answer, name, "Bind plugin")
            break
    assert "".join(RAN) == ran
    assert expected is None or told(status) == expected


post_filtered = st.builds(
    PostFiltered,
    statuses,
    st.sampled_from([None, Nomination("a"), Nomination("b")]),
    denominate=st.booleans(),
    again=st.booleans(),
)


@examples()
@given(st.lists(post_filtered, min_size=1, max_size=len(NAMES)))
def test_post_filter(drawn: list[PostFiltered]) -> None:
    profile = profile_with(drawn)
    with capture_logs():
        outcome = Scheduler(Random(1)).schedule(profile, WEB, snapshot_of([node("a"), node("b")]))
    ran, reasons, nominated, again = "", list[str](), None, False
    for name, answer in zip(NAMES, drawn, strict=False):
        ran += name
        status = answer.status
        kept = nominated_by(answer)
        again = again or answer.again
        if status.code not in (Code.UNSCHEDULABLE, Code.PENDING):
            reasons, again = [*status.reasons], answer.again
            rejects = status.ok or status.code in REJECTED
            nominated = kept if rejects else None
            break
        reasons += status.reasons
        nominated = nominated if kept is None else kept
    assert isinstance(outcome, Unfit)
    assert "".join(RAN) == ran
    message = f"0/2 nodes are available: 2 full. {', '.join(reasons)}".rstrip()
    assert outcome.message == message
    assert outcome.post_filtered is not None
    assert nominated_by(outcome.post_filtered) == nominated
    assert outcome.rejected_by == (set() if again else set(NAMES[0]))


def nominated_by(answer: PostFiltered) -> str | None:
    """Returns the node that an answer nominates the pod to, "" for none, None if it leaves the
    nomination as it is.
    """
    if answer.nomination is not None:
        return answer.nomination.node
    return "" if answer.denominate else None
