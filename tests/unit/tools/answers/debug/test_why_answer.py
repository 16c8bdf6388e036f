"""The answer of `berth why` for programs: what was recorded has codes."""

from __future__ import annotations

from typing import Any

import msgspec

from berth.actors.attempt.attempts_page import AttemptsPage, PodNow, RecordedAttempt, Rejection
from berth.actors.messages.binding import WaitingPodDump
from berth.actors.messages.queue import Place, StoryStep
from berth.tools.answers.debug.why_answer import why_answer

MESSAGE = (
    "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). "
    "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
)
REJECTIONS = (
    Rejection("NodeResourcesFit", "Unschedulable", ("Insufficient cpu",), ("a",)),
    Rejection("TaintToleration", "Unschedulable", ("node(s) had untolerated taint(s)",), ("b",)),
    Rejection("Mine", "Unschedulable", ("no love",), ("c", "d")),
)
PENDING = PodNow("uid", "", "Pending", "default-scheduler", "")


def attempt(**parts: Any) -> RecordedAttempt:
    whole = RecordedAttempt("ns/p", "uid", "1", 1, 10.0, 0.001, 0.5, "unschedulable")
    return msgspec.structs.replace(whole, **parts)


def codes(page: AttemptsPage) -> list[tuple[str, str, int]]:
    answer = why_answer(page, None, is_latest=True)
    return [(cause.code, cause.plugin, cause.nodes) for cause in answer.causes]


def page(*attempts: RecordedAttempt, **parts: Any) -> AttemptsPage:
    return AttemptsPage(0.0, 0.0, attempts, **{"pod": PENDING, **parts})


def test_each_rejection_and_the_pod_have_causes() -> None:
    asked = page(attempt(rejections=REJECTIONS, message=MESSAGE))
    answer = why_answer(asked, None, is_latest=True)
    (recorded,) = answer.attempts
    assert [[c.code for c in of.causes] for of in recorded.rejections] == [
        ["InsufficientResource"],
        ["UntoleratedTaint"],
        ["PluginRejected"],
    ]
    assert answer.causes == recorded.causes
    assert codes(asked) == [
        ("PluginRejected", "Mine", 2),
        ("InsufficientResource", "NodeResourcesFit", 1),
        ("UntoleratedTaint", "TaintToleration", 1),
        ("PreemptionNotHelpful", "DefaultPreemption", 3),
    ]
    assert msgspec.to_builtins(answer).keys() >= msgspec.to_builtins(asked).keys()
    assert why_answer(asked, None, is_latest=False).causes == []


def test_the_message_is_enough() -> None:
    said = [
        ("InsufficientResource", "NodeResourcesFit", 1),
        ("UntoleratedTaint", "TaintToleration", 2),
        ("PreemptionNotHelpful", "DefaultPreemption", 3),
    ]
    assert codes(page(attempt(message=MESSAGE))) == said
    told = msgspec.structs.replace(PENDING, scheduled="False", message=MESSAGE)
    assert codes(page(pod=told)) == said


def test_an_attempt_that_fails_has_its_node() -> None:
    broke = 'running PreBind plugin "VolumeBinding": it broke'
    for message, code in (
        (broke, "AttemptFailed"),
        ("it broke", "AttemptFailed"),
        ("0/1 nodes are available: 1 no licence.", "PluginRejected"),
        ("rejected due to timeout after waiting 15s at plugin Gang", "PermitTimeout"),
    ):
        asked = page(attempt(result="failed", node="n", message=message))
        (cause,) = why_answer(asked, None, is_latest=True).causes
        assert (cause.code, cause.node) == (code, "n"), message
    (cause,) = why_answer(page(attempt(result="error", message=broke)), None, is_latest=True).causes
    assert (cause.code, cause.plugin) == ("AttemptFailed", "VolumeBinding")


def test_what_holds_the_pod_now_comes_before_its_attempts() -> None:
    gate = StoryStep(
        1.0, Place.GATED, "Gated", "SchedulingGates", "", "waiting for scheduling gates: [a]"
    )
    assert codes(page(attempt(message=MESSAGE), story=(gate,))) == [
        ("SchedulingGated", "SchedulingGates", 0)
    ]
    waiting = WaitingPodDump("ns/p", "uid", "n", {"Gang": 9.0})
    (cause,) = why_answer(page(waiting=waiting), None, is_latest=True).causes
    assert (cause.code, cause.node, cause.plugins) == ("WaitingOnPermit", "n", ("Gang",))
    (cause,) = why_answer(page(attempt(result="placed", node="n")), None, is_latest=True).causes
    assert (cause.code, cause.node) == ("NotBoundYet", "n")
    placed = msgspec.structs.replace(PENDING, node="n")
    assert codes(page(attempt(message=MESSAGE), pod=placed)) == []
