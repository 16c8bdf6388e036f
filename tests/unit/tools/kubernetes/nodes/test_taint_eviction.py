"""When pods leave tainted nodes."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.nodes.taint_eviction import MESSAGE, TaintEviction
from berth.tools.kubernetes.objects.structs import Document, Node, Pod
from berth.tools.kubernetes.objects.writes import Again, Delete, Write
from tests.unit.tools.kubernetes.nodes.objects import (
    at,
    deleted,
    events,
    node,
    patched,
    pod,
    tolerates,
)

MARKED = ("TaintManagerEviction", "Marking for deletion Pod n/p")
CANCELLED = ("TaintManagerEviction", "Cancelling deletion of Pod n/p")
A, B = "a:NoExecute", "b:NoExecute"


def tainted(*taints: str) -> Node:
    return node("n1", "True", *taints)


def decide(
    eviction: TaintEviction, each: Pod | None, where: Node | None, seconds: float
) -> list[Write]:
    return eviction.reconcile("n", "p", each, where, at(seconds))


def leaves_after(writes: list[Write]) -> float | None:
    """Returns the seconds until the pod is deleted; None if it stays."""
    if deleted(writes):
        return 0.0
    return next((write.seconds for write in writes if isinstance(write, Again)), None)


@pytest.mark.parametrize(
    ("tolerations", "taints", "seconds"),
    [
        ([], [], None),
        ([], ["a:NoSchedule"], None),
        ([], [A], 0),
        ([tolerates(A, 100)], [A], 100),
        ([tolerates(A)], [A], None),
        ([tolerates(B)], [A], 0),
        ([tolerates(A, 100)], [A, B], 0),
        ([tolerates(A, 1), tolerates(B, 100)], [A, B], 1),
        ([tolerates(A), tolerates(B, 60)], [A, B], 60),
        ([tolerates(A), tolerates(B, 60)], [A], None),
        ([tolerates(A, 0)], [A], 0),
        ([tolerates(A, -5)], [A], 0),
        ([tolerates(A, 5), tolerates(A)], [A], 5),  # the first that matches counts
        ([tolerates(A), tolerates(A, 5)], [A], None),
        ([tolerates("a=x:NoExecute", 5)], ["a=y:NoExecute"], 0),
        ([tolerates("a=x:NoExecute", 5)], ["a=x:NoExecute"], 5),
        ([tolerates("a:NoSchedule")], [A], 0),
        ([{"operator": "Exists"}], [A, B], None),
        ([{"operator": "Exists", "tolerationSeconds": 9, "effect": "NoExecute"}], [A, B], 9),
        ([{"operator": "Exists", "tolerationSeconds": 2**63 - 1}], [A], 9223372036.854776),
        ([{"operator": "Exists", "tolerationSeconds": -(2**63)}], [A], 0),
    ],
)
def test_a_pod_leaves_when_its_first_toleration_ends(
    tolerations: list[Document], taints: list[str], seconds: float | None
) -> None:
    writes = decide(TaintEviction(), pod("p", *tolerations), tainted(*taints), 0)
    assert leaves_after(writes) == seconds


def test_an_evicted_pod_gets_an_event_a_condition_and_its_usual_grace() -> None:
    writes = decide(TaintEviction(), pod(), tainted(A), 0)
    assert events(writes) == [MARKED]
    (mark,) = patched(writes)
    condition = mark.body["status"]["conditions"][-1]
    assert [condition[field] for field in ("type", "status", "reason", "message")] == [
        "DisruptionTarget",
        "True",
        "DeletionByTaintManager",
        MESSAGE,
    ]
    assert writes[-1] == Delete("Pod", "n", "p", "uid-p")


def test_the_reason_of_an_earlier_disruption_is_replaced() -> None:
    before = {"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}
    (mark,) = patched(decide(TaintEviction(), pod(conditions=[before]), tainted(A), 0))
    (_, condition) = mark.body["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("True", "DeletionByTaintManager")


def test_a_timer_ends_with_the_taint() -> None:
    eviction, each = TaintEviction(), pod("p", tolerates(A, 10))
    assert decide(eviction, each, tainted(A), 0) == [Again(10.0)]
    assert events(decide(eviction, each, tainted(), 5)) == [CANCELLED]
    assert decide(eviction, each, tainted(), 6) == []
    assert decide(eviction, each, tainted(A), 7) == [Again(10.0)], "a new taint, a new timer"
    assert deleted(decide(eviction, each, tainted(A), 17)) == ["p"]


def test_a_timer_keeps_its_time_while_taints_and_tolerations_change() -> None:
    eviction = TaintEviction()
    assert decide(eviction, pod("p", tolerates(A, 10)), tainted(A), 0) == [Again(10.0)]
    longer = pod("p", tolerates(A, 100), tolerates(B, 1))
    assert decide(eviction, longer, tainted(A), 4) == [Again(6.0)], "not lengthened"
    assert decide(eviction, longer, tainted(A, B), 5) == [Again(5.0)], "not shortened"
    assert decide(eviction, longer, tainted(B), 6) == [Again(4.0)], "whatever taint it began with"
    assert decide(eviction, longer, None, 7) == [Again(3.0)], "the node is gone, the timer is not"
    assert deleted(decide(eviction, longer, tainted(B), 10)) == ["p"]


def test_a_pod_that_no_longer_tolerates_a_taint_leaves_at_once() -> None:
    eviction = TaintEviction()
    decide(eviction, pod("p", tolerates(A, 10)), tainted(A), 0)
    writes = decide(eviction, pod("p", tolerates(A, 10)), tainted(A, B), 5)
    assert events(writes) == [CANCELLED, MARKED]
    assert deleted(writes) == ["p"]


def test_a_timer_ends_with_a_toleration_for_ever_and_with_the_pod() -> None:
    eviction, each = TaintEviction(), pod("p", tolerates(A, 10))
    decide(eviction, each, tainted(A), 0)
    assert events(decide(eviction, pod("p", tolerates(A)), tainted(A), 5)) == [CANCELLED]
    decide(eviction, each, tainted(A), 6)
    assert eviction.waits("n", "p")
    assert events(decide(eviction, None, None, 7)) == [CANCELLED]
    assert not eviction.waits("n", "p")
    decide(eviction, each, tainted(A), 8)
    second = pod("p", tolerates(A, 10), uid="second")
    assert decide(eviction, second, tainted(A), 9)[-1] == Again(10.0), "not the first pod's timer"


def test_a_pod_that_is_already_being_deleted_is_left_alone() -> None:
    eviction, ending = TaintEviction(), pod("p", deletionTimestamp="2026-01-01T00:00:00Z")
    assert decide(eviction, ending, tainted(A), 0) == []
    decide(eviction, pod("p", tolerates(A, 10)), tainted(A), 0)
    assert decide(eviction, ending, tainted(A), 10) == []
    assert decide(eviction, None, None, 11) == [], "the timer has run out"
    assert deleted(decide(eviction, pod(), tainted(A), 12)) == ["p"]
    assert deleted(decide(eviction, pod(), tainted(A), 13)) == ["p"], "the first write failed"
