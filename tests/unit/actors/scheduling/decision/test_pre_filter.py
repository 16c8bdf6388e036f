"""PreFilter as RunPreFilterPlugins of kube-scheduler has it: which plugins run, and what comes of
their answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.decision.outcome import Choice, DecisionFailure, Outcome, Unfit
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.plugin import (
    SKIP,
    SUCCESS,
    Code,
    CycleState,
    DependsOn,
    FilterPlugin,
    NodeView,
    Plugin,
    PodInfo,
    PreFilterPlugin,
    PreFilterResult,
    Snapshot,
    Status,
    Verdicts,
    error,
    unresolvable,
    unschedulable,
)
from berth.tools.answers.explain.decision import Decision, Failure, decide
from tests.kit.documents import node
from tests.kit.examples import examples
from tests.kit.logs import capture_logs
from tests.kit.profiles import profile_of
from tests.kit.snapshots import snapshot_of
from tests.kit.structs import pod_info

Answer = Status | PreFilterResult | None  # None raises
RAN: list[str] = []
NAMES = "ABCD"
NOBODY_GOES = "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
NO_VICTIMS = "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."


class _Answering(PreFilterPlugin, FilterPlugin):
    answer: ClassVar[Answer]

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        RAN.append(self.name)
        if self.answer is None:
            raise OSError("no disk")
        return self.answer

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        return None


def only(*nodes: str) -> PreFilterResult:
    return PreFilterResult(frozenset(nodes))


def profile_with(answers: Sequence[Answer], depends_on: Sequence[DependsOn] = ()) -> Profile:
    """Returns a profile with plugins A, B, ... with these answers, before those in-tree."""
    padded = [*depends_on, *[DependsOn.CLUSTER] * len(answers)]
    plugins: list[type[Plugin]] = [
        type(name, (_Answering,), {"name": name, "answer": answer, "depends_on": read})
        for name, answer, read in zip(NAMES, answers, padded, strict=False)
    ]
    return profile_of(*plugins, "PrioritySort", "DefaultPreemption", "DefaultBinder", disabled="*")


def cluster() -> Snapshot:
    return snapshot_of([node(name) for name in "abc"])


def web() -> PodInfo:
    return pod_info("web", namespace="default", uid="u")


def scheduled(*answers: Answer) -> tuple[Outcome, list[str]]:
    """Returns the outcome, and the plugins that ran."""
    RAN.clear()
    outcome = Scheduler(Random(1)).schedule(profile_with(answers), web(), cluster())
    return outcome, RAN[: len(answers)]


def message(*answers: Answer) -> str:
    outcome, _ = scheduled(*answers)
    assert isinstance(outcome, Unfit)
    return outcome.message.removeprefix("0/3 nodes are available: ")


@pytest.mark.parametrize(
    ("answers", "told", "rejected_by"),
    [
        (
            (only("a"), SUCCESS, only("b", "c")),
            f"node(s) didn't satisfy plugin(s) [A C] simultaneously. {NOBODY_GOES}",
            {"A", "C"},
        ),
        ((only(),), f"node(s) didn't satisfy plugin A. {NOBODY_GOES}", {"A"}),
        (
            (only("a"), unschedulable("later"), only("b")),
            f"node(s) didn't satisfy plugin(s) [A C] simultaneously. {NOBODY_GOES}",
            {"A", "C"},
        ),
        ((unschedulable("later"), unresolvable("never")), f"never. {NOBODY_GOES}", {"B"}),
        ((only("a"), unresolvable("never")), f"never. {NOBODY_GOES}", {"B"}),
        ((unresolvable("never"), unschedulable("later")), f"never. {NOBODY_GOES}", {"A"}),
        ((unschedulable("first"), SKIP, unschedulable("last")), f"last. {NO_VICTIMS}", {"C"}),
        (
            (only("a"), unschedulable("later"), only("a", "b")),
            f"later. {NO_VICTIMS}",
            {"A", "B", "C"},
        ),
        ((unschedulable("one", "two"), SUCCESS), f"one, two. {NO_VICTIMS}", {"A"}),
    ],
)
def test_who_is_parked_for_whom(
    answers: tuple[Answer, ...], told: str, rejected_by: set[str]
) -> None:
    assert message(*answers) == told
    outcome, _ = scheduled(*answers)
    assert isinstance(outcome, Unfit)
    assert (set(outcome.rejected_by), set(outcome.pending)) == (rejected_by, set())
    decision = decide(profile_with(answers), web(), cluster())
    assert isinstance(decision, Decision)
    assert decision.message == f"0/3 nodes are available: {told}"


@pytest.mark.parametrize(
    ("answers", "ran"),
    [
        ((unschedulable(), SUCCESS, SKIP), "ABC"),
        ((unresolvable(), SUCCESS), "A"),
        ((unschedulable(), unresolvable(), SUCCESS), "AB"),
        ((only("a"), only("b"), SUCCESS), "AB"),
        ((unschedulable(), None, SUCCESS), "AB"),
    ],
)
def test_who_runs(answers: tuple[Answer, ...], ran: str) -> None:
    _, names = scheduled(*answers)
    assert "".join(dict.fromkeys(names)) == ran


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ((Status(Code.PENDING, ("not yet",)),), 'running PreFilter plugin "A": not yet'),
        ((unschedulable("later"), error("broken")), 'running PreFilter plugin "B": broken'),
        ((unschedulable("later"), None), 'running PreFilter plugin "B": OSError: no disk'),
        ((Status(Code.WAIT),), 'running PreFilter plugin "A": unexpected status Wait'),
    ],
)
def test_what_fails_the_attempt(answers: tuple[Answer, ...], told: str) -> None:
    outcome, _ = scheduled(*answers)
    assert isinstance(outcome, DecisionFailure)
    assert outcome.status.message == told
    assert decide(profile_with(answers), web(), cluster()) == Failure(told)


def test_a_skip_after_a_rejection_counts() -> None:
    state = CycleState()
    profile_with((unschedulable(), SKIP)).pre_filter(state, web(), cluster())
    assert state.skip_filter == {"B"}


ANSWERS: list[Callable[[], Answer]] = [
    lambda: SUCCESS,
    lambda: SKIP,
    lambda: only("a", "b"),
    lambda: only("b", "c"),
    lambda: only("c"),
    lambda: unschedulable("later"),
    lambda: unresolvable("never"),
    lambda: error("broken"),
    lambda: None,
]


def told(outcome: Outcome) -> tuple[Any, ...]:
    match outcome:
        case Choice():
            return (outcome.node, outcome.feasible)
        case Unfit():
            return (outcome.message, outcome.rejected_by)
        case DecisionFailure():
            return (outcome.status,)


@examples()
@given(
    st.lists(
        st.tuples(st.sampled_from(ANSWERS), st.sampled_from([*DependsOn])), min_size=1, max_size=4
    ),
    st.integers(0, 3),
)
def test_what_is_remembered_changes_nothing(
    drawn: list[tuple[Callable[[], Answer], DependsOn]], seed: int
) -> None:
    """A template is remembered from its second pod on, part by part of the rules; a scheduler
    without a past is not.
    """
    profile = profile_with([make() for make, _ in drawn], [depends_on for _, depends_on in drawn])
    remembering, snapshot = Scheduler(Random(seed)), cluster()
    with capture_logs():
        for _ in range(3):
            outcome = remembering.schedule(profile, web(), snapshot)
            fresh = Scheduler(Random(seed)).schedule(profile, web(), snapshot)
            if isinstance(outcome, Choice) and isinstance(fresh, Choice):
                assert outcome.feasible == fresh.feasible
            else:
                assert told(outcome) == told(fresh)
