"""An answer that is none fails one attempt, and says which plugin gave what, where, and what was
expected.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf, nan
from random import Random
from types import coroutine
from typing import Any

import numpy as np
import pytest

from berth.actors.scheduling.decision.outcome import Choice, DecisionFailure, Unfit
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.plugin import (
    PODS_TO_ACTIVATE,
    SUCCESS,
    Action,
    BindPlugin,
    ClusterEvent,
    Code,
    CycleState,
    Deletion,
    DependsOn,
    Hint,
    NodeInfo,
    NodeView,
    Nomination,
    Patch,
    Pod,
    PodInfo,
    PostFiltered,
    PreemptVictims,
    PreFilterResult,
    Registration,
    Resource,
    ScorePlugin,
    Snapshot,
    Status,
    Verdicts,
    unschedulable,
)
from tests.kit import answering as at
from tests.kit.documents import node
from tests.kit.logs import capture_logs
from tests.kit.snapshots import snapshot_of
from tests.kit.structs import pod_info

ANY = object()
ROUNDS = 3  # a template is remembered from the second pod on
PRE_FILTER = 'running PreFilter plugin "Wrong": '
FILTER = 'running "Wrong" filter plugin: '
PRE_SCORE = 'running PreScore plugin "Wrong": '
SCORES = 'running Score plugins: plugin "Wrong" failed with: '
NORMALIZE = 'running Normalize on Score plugins: plugin "Wrong" failed with: '
RANGE = "it should in the range of [0, 100] after normalizing"
INVALID = 'applying score defaultWeights on Score plugins: plugin "Wrong" returns an invalid score'


class Unshowable:
    def __repr__(self) -> str:
        raise ValueError("no")


class _Filter(at.Filter):
    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Any:
        return self.does() if node.name == "b" else SUCCESS


class _Passing(at.VectorFilter):
    """Only what is remembered is asked for in this way."""

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Any:
        return None

    def passing(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Any:
        return self.does()


class _Score(at.Score):
    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Any:
        return self.does() if node.name == "b" else 1


class _NormalizedNode(at.Normalize):
    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Any:
        return 0.5


class _RawScore(at.VectorScore):
    def normalize(self, state: CycleState, info: PodInfo, scores: Any) -> Any:
        return np.zeros(2, dtype=np.int64)


class _Normalized(at.Answering, ScorePlugin):
    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Any:
        return np.ones(nodes.size, dtype=np.int64)

    def normalize(self, state: CycleState, info: PodInfo, scores: Any) -> Any:
        return self.does()


class _Sync(at.Answering, BindPlugin):
    def bind(self, state: CycleState, info: PodInfo, node: str) -> Any:
        return SUCCESS


def profile_with(
    kind: type[at.Answering], answer: object = None, depends_on: DependsOn = DependsOn.CLUSTER
) -> Profile:
    return at.profile_with(kind, lambda: answer, depends_on)


@pytest.fixture
def snapshot() -> Snapshot:
    return snapshot_of([node("a"), node("b")])


@pytest.fixture
def info() -> PodInfo:
    return pod_info("web", namespace="default", uid="u")


def verdicts(codes: Any, keys: Any = (0, 0), reasons: Any = ("full",)) -> Verdicts:
    return Verdicts(np.array(codes), np.array(keys), lambda _: reasons)


CODES = 'running "Wrong" filter plugin: expected codes of 2 nodes as integers, got '
ATTEMPTS: list[tuple[type[at.Answering], Any, str]] = [
    (at.PreFilter, None, f"{PRE_FILTER}expected a Status or a PreFilterResult, got None"),
    (at.PreFilter, True, f"{PRE_FILTER}expected a Status or a PreFilterResult, got True"),
    (
        at.PreFilter,
        Unshowable(),
        f"{PRE_FILTER}expected a Status or a PreFilterResult, got <Unshowable instance at ",
    ),
    (at.PreFilter, Status(2), f"{PRE_FILTER}expected a Status with a Code, got 2"),  # type: ignore[arg-type]
    (
        at.PreFilter,
        Status(Code.UNSCHEDULABLE, "full"),  # type: ignore[arg-type]
        f"{PRE_FILTER}expected reasons as a tuple of strings, got 'full'",
    ),
    (at.PreFilter, Status(Code.WAIT), f"{PRE_FILTER}unexpected status Wait"),
    (at.PreFilter, Status(Code.PENDING, ("not yet",)), f"{PRE_FILTER}not yet"),
    (
        at.PreFilter,
        PreFilterResult(["a"]),  # type: ignore[arg-type]
        f"{PRE_FILTER}expected node_names as a frozenset of names, got ['a']",
    ),
    (_Filter, None, f"{FILTER}expected a Status, got None (node b)"),
    (_Filter, Status(Code.SKIP), f"{FILTER}unexpected status Skip"),
    (at.VectorFilter, verdicts([0]), f"{CODES}int64 (1,)"),
    (at.VectorFilter, verdicts([0.0, 2.0]), f"{CODES}float64 (2,)"),
    (at.VectorFilter, verdicts([True, False]), f"{CODES}bool (2,)"),
    (
        at.VectorFilter,
        verdicts([0, 2], [None, None]),
        f"{FILTER}expected keys of 2 nodes as integers, got object (2,)",
    ),
    (
        at.VectorFilter,
        np.array([True, False]),
        f"{FILTER}expected Verdicts, or None where every node passes, got bool (2,)",
    ),
    (
        at.VectorFilter,
        verdicts([0, 9]),
        f"{FILTER}expected the code of Success or of a rejection, got 9 (node b)",
    ),
    (
        at.VectorFilter,
        verdicts([2, -3]),
        f"{FILTER}expected the code of Success or of a rejection, got -3 (node b)",
    ),
    (
        at.VectorFilter,
        verdicts([2, 256]),
        f"{FILTER}expected the code of Success or of a rejection, got 256 (node b)",
    ),
    (at.VectorFilter, verdicts([2, 1]), f"{FILTER}full"),
    (at.PreScore, None, f"{PRE_SCORE}expected a Status, got None"),
    (at.PreScore, Status(Code.WAIT), f"{PRE_SCORE}unexpected status Wait"),
    (_Score, None, f"{SCORES}expected a number, got None (node b)"),
    (_Score, "7", f"{SCORES}expected a number, got '7' (node b)"),
    (_Score, nan, f"{SCORES}expected a number, got nan (node b)"),
    (_Score, 0.5, f"{NORMALIZE}expected an integer, got 1.0 (node a)"),
    (_Score, 101, f"{INVALID} 101, {RANGE} (node b)"),
    (_Score, -1, f"{INVALID} -1, {RANGE} (node b)"),
    (_Score, 1 << 80, f"{INVALID} "),
    (_NormalizedNode, [1, None], f"{NORMALIZE}expected an integer, got None (node b)"),
    (_NormalizedNode, [1], f"{NORMALIZE}expected a score for each of 2 nodes, got [1]"),
    (_NormalizedNode, None, f"{NORMALIZE}expected a score for each of 2 nodes, got None"),
    (at.VectorScore, None, f"{SCORES}expected an integer for each of 2 nodes, got None"),
    (at.VectorScore, [1, 2], f"{SCORES}expected an integer for each of 2 nodes, got [1, 2]"),
    (
        at.VectorScore,
        np.zeros(3, dtype=np.int64),
        f"{SCORES}expected an integer for each of 2 nodes, got int64 (3,)",
    ),
    (
        at.VectorScore,
        np.array([1, nan]),
        f"{SCORES}expected an integer for each of 2 nodes, got float64 (2,)",
    ),
    (at.VectorScore, np.array([1, -5]), f"{INVALID} -5, {RANGE} (node b)"),
    (
        _RawScore,
        np.array([0.5, 1.0]),
        f"{SCORES}expected an integer for each of 2 nodes, got float64 (2,)",
    ),
    (
        _RawScore,
        np.ones(3, dtype=np.int64),
        f"{SCORES}expected an integer for each of 2 nodes, got int64 (3,)",
    ),
    (_Normalized, None, f"{NORMALIZE}expected a score for each of 2 nodes, got None"),
    (_Normalized, np.array([1, nan]), f"{NORMALIZE}expected an integer, got 1.0 (node a)"),
    (_Normalized, np.array([1, 500]), f"{INVALID} 500, {RANGE} (node b)"),
]


@pytest.mark.parametrize("depends_on", [DependsOn.CLUSTER, DependsOn.NODE])
@pytest.mark.parametrize(("kind", "answer", "message"), ATTEMPTS, ids=range(len(ATTEMPTS)))
def test_an_answer_that_is_none_fails_the_attempt(
    kind: type[at.Answering],
    answer: Any,
    message: str,
    depends_on: DependsOn,
    snapshot: Snapshot,
    info: PodInfo,
) -> None:
    scheduler, profile = Scheduler(Random(1)), profile_with(kind, answer, depends_on)
    for _ in range(ROUNDS):
        outcome = scheduler.schedule(profile, info, snapshot)
        assert isinstance(outcome, DecisionFailure)
        assert outcome.status.plugin == "Wrong"
        assert outcome.status.message.startswith(message)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.array([0, 1]), "expected a bool for each of 2 nodes, or None, got int64 (2,)"),
        (np.array([True]), "expected a bool for each of 2 nodes, or None, got bool (1,)"),
        ([True, True], "expected a bool for each of 2 nodes, or None, got [True, True]"),
    ],
)
def test_what_is_remembered_is_looked_at(
    answer: Any, message: str, snapshot: Snapshot, info: PodInfo
) -> None:
    scheduler, profile = Scheduler(Random(1)), profile_with(_Passing, answer, DependsOn.NODE)
    with capture_logs() as logs:
        outcomes = [scheduler.schedule(profile, info, snapshot) for _ in range(ROUNDS)]
    # It is reported, and the decision is made without a memory: the plugin's plain form answers
    # correctly.
    assert all(isinstance(outcome, Choice) for outcome in outcomes)
    assert {entry["error"] for entry in logs} == {message}


def test_a_code_for_the_row_of_a_node_that_is_gone_does_not_matter(
    snapshot: Snapshot, info: PodInfo
) -> None:
    snapshot.columns.remove("b")
    profile, state = profile_with(at.VectorFilter, verdicts([0, 9])), CycleState()
    assert profile.pre_filter(state, info, snapshot).status.ok
    assert profile.filter(state, info, snapshot.rows(np.arange(2))).feasible()[0]


def test_reasons_that_are_none_are_a_reason(snapshot: Snapshot, info: PodInfo) -> None:
    outcome = Scheduler(Random(1)).schedule(
        profile_with(at.VectorFilter, verdicts([3, 3], reasons="full")), info, snapshot
    )
    assert isinstance(outcome, Unfit)
    problem = "expected reasons as a tuple of strings, got 'full'"
    assert f'2 running "Wrong" filter plugin: {problem}.' in outcome.message


VICTIM = PodInfo(Pod())
POST_FILTERS: list[tuple[type[at.Answering], Any, str]] = [
    (at.PostFilter, None, "expected PostFiltered, got None"),
    (at.PostFilter, SUCCESS, "expected PostFiltered, got Status("),
    (at.PostFilter, PostFiltered(None), "expected a Status, got None"),  # type: ignore[arg-type]
    (at.PostFilter, PostFiltered(SUCCESS, "a"), "expected a Nomination, or None, got 'a'"),  # type: ignore[arg-type]
    (
        at.PostFilter,
        PostFiltered(SUCCESS, Nomination("c")),
        "expected a nomination to a node of the cluster, got 'c'",
    ),
    (
        at.PostFilter,
        PostFiltered(SUCCESS, Nomination("a", (VICTIM, "default/web"))),  # type: ignore[arg-type]
        "expected victims as a tuple of PodInfo, got (",
    ),
    (
        at.PostFilter,
        PostFiltered(SUCCESS, Nomination("a", (VICTIM,), None)),  # type: ignore[arg-type]
        "expected displaced as a tuple of PodInfo, got None",
    ),
    (
        at.PostFilter,
        PostFiltered(SUCCESS, patches=Patch(Pod, "web", {})),  # type: ignore[arg-type]
        "expected patches as a tuple of Patch and Deletion, got Patch(",
    ),
    (
        at.PostFilter,
        PostFiltered(SUCCESS, patches=(Patch("Pod", "web", {}),)),  # type: ignore[arg-type]
        "expected a Patch with the type of a kind, got 'Pod'",
    ),
    (
        at.PostFilter,
        PostFiltered(SUCCESS, patches=(Patch(Pod, "web", {}, None),)),  # type: ignore[arg-type]
        "expected a Patch with strings as name, namespace and subresource, got None",
    ),
    (
        at.PostFilter,
        PostFiltered(SUCCESS, patches=(Patch(Pod, "web", "{}"),)),  # type: ignore[arg-type]
        "expected a Patch with a mapping as changes, got '{}'",
    ),
    (
        at.PostFilter,
        PostFiltered(SUCCESS, patches=(Deletion("Pod", "web", "u"),)),  # type: ignore[arg-type]
        "expected a Deletion with the type of a kind, got 'Pod'",
    ),
    (
        at.PostFilter,
        PostFiltered(SUCCESS, patches=(Deletion(Pod, "web", None),)),  # type: ignore[arg-type]
        "expected a Deletion with strings as name, namespace and uid, got None",
    ),
    (
        at.PostFilter,
        PostFiltered(SUCCESS, rejected_by="Gpu"),  # type: ignore[arg-type]
        "expected rejected_by as a frozenset of names of plugins, got 'Gpu'",
    ),
    (at.Asking, "who?", "expected PreemptVictims to be asked, got 'who?'"),
]


@pytest.mark.parametrize(("kind", "answer", "message"), POST_FILTERS, ids=range(len(POST_FILTERS)))
def test_post_filter(
    kind: type[at.Answering], answer: Any, message: str, snapshot: Snapshot, info: PodInfo
) -> None:
    outcome = Scheduler(Random(1)).schedule(profile_with(kind, answer), info, snapshot)
    assert isinstance(outcome, Unfit)
    assert outcome.message.startswith("0/2 nodes are available: 2 full. ")
    assert f'running PostFilter plugin "Wrong": {message}' in outcome.message
    assert outcome.nomination is None


def test_a_post_filter_may_ask_extenders(snapshot: Snapshot, info: PodInfo) -> None:
    outcome = Scheduler(Random(1)).schedule(
        profile_with(at.Asking, PreemptVictims(snapshot, {})), info, snapshot
    )
    assert isinstance(outcome, Unfit)
    assert 'running PostFilter plugin "Wrong": expected PostFiltered, got None' in outcome.message


async def pre_bind(profile: Profile, info: PodInfo) -> Status:
    ((step,),) = profile.pre_bind_steps(CycleState(), info, "a", lambda _: False)
    return await step()


async def at_once(status: Status) -> Status:
    return status


AFTERWARDS: list[
    tuple[type[at.Answering], Any, Callable[[Profile, PodInfo], Awaitable[Status]], str]
] = [
    (
        at.Reserve,
        None,
        lambda profile, info: at_once(profile.reserve(CycleState(), info, "a")),
        'running Reserve plugin "Wrong": expected a Status, got None',
    ),
    *(
        (
            at.Permit,
            answer,
            lambda profile, info: at_once(profile.permit(CycleState(), info, "a")[0]),
            f'running Permit plugin "Wrong": {message}',
        )
        for answer, message in (
            (None, "expected a Status and seconds, as a pair, got None"),
            (SUCCESS, "expected a Status and seconds, as a pair, got Status("),
            ((SUCCESS, 1, 2), "expected a Status and seconds, as a pair, got (Status("),
            ((None, 1.0), "expected a Status, got None"),
            ((Status(Code.WAIT), -1), "expected seconds to wait, from 0, got -1"),
            ((Status(Code.WAIT), nan), "expected seconds to wait, from 0, got nan"),
            ((Status(Code.WAIT), "5s"), "expected seconds to wait, from 0, got '5s'"),
            ((Status(Code.WAIT), None), "expected seconds to wait, from 0, got None"),
        )
    ),
    (
        at.PreFlight,
        None,
        lambda profile, info: at_once(profile.pre_bind_pre_flight(CycleState(), info, "a")),
        'running PreBindPreFlight "Wrong": expected a Status, got None',
    ),
    (at.PreBind, None, pre_bind, 'running PreBind plugin "Wrong": expected a Status, got None'),
    (
        at.PreBind,
        Status(Code.SKIP),
        pre_bind,
        'running PreBind plugin "Wrong": unexpected status Skip',
    ),
    (
        at.Bind,
        None,
        lambda profile, info: profile.bind(CycleState(), info, "a", lambda _: False),
        'running Bind plugin "Wrong": expected a Status, got None',
    ),
    (
        _Sync,
        None,
        lambda profile, info: profile.bind(CycleState(), info, "a", lambda _: False),
        'running Bind plugin "Wrong": expected an async function, which can be awaited, got Status',
    ),
]


@pytest.mark.parametrize(
    ("kind", "answer", "call", "message"), AFTERWARDS, ids=range(len(AFTERWARDS))
)
async def test_after_a_node_is_chosen(
    kind: type[at.Answering],
    answer: Any,
    call: Callable[[Profile, PodInfo], Awaitable[Status]],
    message: str,
    info: PodInfo,
) -> None:
    status = await call(profile_with(kind, answer), info)
    assert (status.code, status.plugin) == (Code.ERROR, "Wrong")
    assert status.message.startswith(message)


class _OlderForm(at.Bind):
    @coroutine
    def bind(self, state: CycleState, info: PodInfo, node: str) -> Any:
        """Awaits nothing, as a generator that can be awaited."""
        yield from ()
        return SUCCESS


async def test_a_generator_that_can_be_awaited_is_an_async_function(info: PodInfo) -> None:
    profile = profile_with(_OlderForm, None)
    assert await profile.bind(CycleState(), info, "a", lambda _: False) == SUCCESS


async def test_permit_may_let_a_pod_wait_for_ever(info: PodInfo) -> None:
    status, waits = profile_with(at.Permit, (Status(Code.WAIT), inf)).permit(
        CycleState(), info, "a"
    )
    assert (status.code, waits) == (Code.WAIT, {"Wrong": inf})


def test_pre_enqueue(info: PodInfo) -> None:
    status = profile_with(at.PreEnqueue, None).pre_enqueue(info.pod)
    assert (status.code, status.plugin) == (Code.ERROR, "Wrong")
    assert status.message == 'running PreEnqueue plugin "Wrong": expected a Status, got None'
    skips = profile_with(at.PreEnqueue, Status(Code.SKIP)).pre_enqueue(info.pod)
    assert skips.message == 'running PreEnqueue plugin "Wrong": unexpected status Skip'


def test_an_answer_is_signed_by_who_gave_it(info: PodInfo) -> None:
    answer = Status(Code.UNSCHEDULABLE, ("no",), None)  # type: ignore[arg-type]
    assert profile_with(at.PreEnqueue, answer).pre_enqueue(info.pod).plugin == "Wrong"


@pytest.mark.parametrize("answer", [None, (1, nan), 1j, object(), {}])
def test_a_pod_without_a_place_in_the_queue_gets_the_one_of_its_priority(
    answer: Any, info: PodInfo
) -> None:
    with capture_logs() as lines:
        assert profile_with(at.QueueSort, answer).sort_key(info, 12.5) == (0, 12.5)
    (line,) = lines
    assert (line["point"], line["plugin"], line["pod"]) == ("QueueSort", "Wrong", "default/web")
    expected = ("expected a value that can be compared with <, got ", "expected a key without NaN")
    assert line["error"].startswith(expected)


@pytest.mark.parametrize("keys", [("b", "a"), ((2, "x"), (1, "y")), ([2], [1]), (("b",), ("a",))])
def test_any_value_that_can_be_compared_sorts(keys: tuple[Any, Any], info: PodInfo) -> None:
    later, sooner = (profile_with(at.QueueSort, key).sort_key(info, 12.5) for key in keys)
    assert sooner < later
    assert later > sooner
    assert not later < sooner
    assert sooner != later


class Moody(float):
    def __lt__(self, other: object) -> bool:
        raise SystemExit(3)

    __gt__ = __eq__ = __lt__
    __hash__ = None  # type: ignore[assignment]


class Mute(str):
    def __hash__(self) -> int:
        raise SystemExit(3)

    __eq__ = __str__ = isascii = encode = __hash__  # type: ignore[assignment]


class Split(Status, frozen=True):
    @property
    def rejected(self) -> bool:
        raise SystemExit(3)

    ok = rejected


def test_numbers_of_a_class_of_their_own_are_compared_under_guard(info: PodInfo) -> None:
    one, other = (
        profile_with(at.QueueSort, (Moody(number), 1)).sort_key(info, 12.5) for number in range(2)
    )
    with capture_logs():
        assert not one < other
        assert not other < one


@pytest.mark.parametrize("kind", [at.Filter, at.PreFilter, at.PostFilter, at.Permit])
@pytest.mark.parametrize(
    "status",
    [unschedulable(Mute("no")), Split(Code.UNSCHEDULABLE, ("no",))],
    ids=["text", "status"],
)
def test_texts_and_statuses_of_a_class_of_their_own_are_taken_as_plain_ones(
    kind: type[at.Answering], status: Status, info: PodInfo
) -> None:
    answer: object = status
    if kind is at.Permit:
        answer = (status, Moody(0))
    elif kind is at.PostFilter:
        answer = PostFiltered(status)
    profile = profile_with(kind, answer)
    if kind is at.Permit:
        told = profile.permit(CycleState(), info, "a")[0]
        assert told == Status(Code.UNSCHEDULABLE, ("no",), "Wrong")
        return
    outcome = Scheduler(Random(1)).schedule(profile, info, snapshot_of([node("a"), node("b")]))
    assert isinstance(outcome, Unfit)
    assert "no" in outcome.message
    assert type(outcome.message) is str


@pytest.mark.parametrize("keys", [("b", 1), ((1, "x"), (1, None))])
def test_keys_that_cannot_be_compared_count_as_equal(keys: tuple[Any, Any], info: PodInfo) -> None:
    one, other = (profile_with(at.QueueSort, key).sort_key(info, 12.5) for key in keys)
    with capture_logs() as lines:
        assert sorted([(one, 1), (other, 0)]) == [(other, 0), (one, 1)]
    assert {line["plugin"] for line in lines} <= {"Wrong"}


@pytest.mark.parametrize(
    "answer", [(), (1, 2.5), (inf, -inf), (np.int64(3), np.float64(0.5)), (True,)]
)
def test_a_place_in_the_queue(answer: Any, info: PodInfo) -> None:
    assert profile_with(at.QueueSort, answer).sort_key(info, 12.5) == answer


EVENT = ClusterEvent(Resource.NODE, Action.ADD)
REGISTERED: list[tuple[Any, str]] = [
    (ANY, "RuntimeError: not yet"),
    (None, "expected a sequence of Registration, got None"),
    ("Node", "expected a sequence of Registration, got 'Node'"),
    ([EVENT], "expected a sequence of Registration, got ClusterEvent("),
    ([Registration(None)], ("expected a Registration of a ClusterEvent, got None")),  # type: ignore[arg-type]
    (
        [Registration(ClusterEvent(7, Action.ADD))],  # type: ignore[arg-type]
        "expected a ClusterEvent of a Resource and an Action, got (7, <Action.ADD: 1>)",
    ),
    (
        [Registration(ClusterEvent("Node", Action.ADD))],
        "expected a member of Resource, or the name of a kind that it lacks, got 'Node'",
    ),
    (
        [Registration(ClusterEvent("example.com/Widget", Action.ADD))],
        "expected a member of Resource, or the name of a kind that it lacks, got 'example.com/W",
    ),
    (
        [Registration(ClusterEvent("widgets.v1.example.com", Action.ADD))],
        "expected a ClusterEvent of a kind that is in lookups, by its name, got 'widgets.v1.exa",
    ),
    (
        [Registration(EVENT, None, "pods")],  # type: ignore[arg-type]
        "expected a Registration with Concerns or None, got 'pods'",
    ),
    (
        [Registration(EVENT, Hint.QUEUE)],  # type: ignore[arg-type]
        "expected a Registration with a hint function or None, got ",
    ),
]


@pytest.mark.parametrize(("answer", "message"), REGISTERED, ids=range(len(REGISTERED)))
def test_who_fails_to_register_waits_for_every_event(answer: Any, message: str) -> None:
    def does() -> Any:
        if answer is ANY:
            raise RuntimeError("not yet")
        return answer

    profile = at.profile_with(at.Registers, does)
    with capture_logs() as lines:
        hints = profile.hints()
    assert "Wrong" not in hints
    assert hints.keys() >= {"NodeResourcesFit"}
    (line,) = lines
    assert (line["point"], line["plugin"]) == ("EventsToRegister", "Wrong")
    assert line["error"].startswith(message)


@pytest.mark.parametrize("answer", [True, False, None, "Queue"])
def test_a_hint_that_is_none_lets_the_pod_be_tried_again(answer: Any, info: PodInfo) -> None:
    registration = Registration(EVENT, lambda _pod, _old, _new: answer)

    (registered,) = profile_with(at.Registers, [registration]).hints()["Wrong"]
    assert registered.hint is not None
    with capture_logs() as lines:
        assert registered.hint(info.pod, None, None) is Hint.QUEUE
    (line,) = lines
    assert (line["point"], line["pod"]) == ("QueueingHint", "default/web")
    assert line["error"] == f"expected Hint.QUEUE or Hint.SKIP, got {answer!r}"


def test_pods_to_activate_that_are_no_keys_are_left_out() -> None:
    state = CycleState()
    keys: set[Any] = {"a/b", 7, None, "a/a"}
    state.write(PODS_TO_ACTIVATE, keys)
    assert state.take_pods_to_activate() == ("a/a", "a/b")
