from __future__ import annotations

import msgspec

from berth.actors.attempt.attempts_page import Score
from berth.tools.answers.explain.decision import Decision, Failure, NodeVerdict, Preemption
from berth.tools.answers.feed.story import (
    Happening,
    PastAttempt,
    Reason,
    Story,
    StoryChange,
    StoryCondition,
    read_story,
)
from berth.tools.views.top.story_lines import lines_of

MESSAGE = "0/2 nodes are available: 2 Insufficient cpu."
PENDING = StoryCondition("PodScheduled", "False", "Unschedulable", MESSAGE, "2026-01-01T00:00:00Z")
STORY = Story("shop/web", "", "Pending", "default-scheduler", 7, "2026-01-01T00:00:00Z", {}, [], [])
REFUSED = NodeVerdict("Unschedulable", "NodeResourcesFit", ["Insufficient cpu"])
FITS = NodeVerdict("Success", "", [])


def told(**fields: object) -> list[str]:
    """Returns the lines about a story that has come over the wire."""
    sent = msgspec.json.encode(msgspec.structs.replace(STORY, **fields))
    lines = lines_of(read_story(sent))
    return ["".join(text for text, _ in line) for line in lines]


def test_a_pending_pod_begins_with_the_sentence_of_explain() -> None:
    sentence = "stays pending: of 2 nodes, 2 lack cpu"
    _, first, *others = told(conditions=[PENDING], sentence=sentence)
    assert first == f"It {sentence}."
    assert others[-1].endswith(MESSAGE)


def test_a_pending_pod_tells_what_would_change_it_and_its_attempts() -> None:
    attempt = PastAttempt(
        3, 0.0, 0.001, 2.5, "unschedulable", "unschedulable", "NodeAdd (NodeResourcesFit)", (),
        [Reason("NodeResourcesFit", ("Insufficient cpu",), 2)], MESSAGE, "node-1", (),
    )  # fmt: skip
    lines = told(
        conditions=[PENDING],
        changes=[StoryChange("owner", "Request at most 4 cpu.")],
        attempts=[attempt],
        events=[
            Happening("2026-01-01T00:00:00.123456Z", "Warning", "FailedScheduling", MESSAGE, 3)
        ],
        decision=Decision(filter={"a": REFUSED, "b": REFUSED}, message=MESSAGE),
    )
    assert lines == [
        "no node, Pending, priority 7, default-scheduler, created 2026-01-01T00:00:00Z",
        MESSAGE,
        "",
        "What would change it",
        "Request at most 4 cpu. (the pod's owner)",
        "",
        "Recorded attempts",
        "1970-01-01T00:00:00Z attempt 3: unschedulable",
        "  waited 2.500 s, decided in 1.000 ms, woken by NodeAdd (NodeResourcesFit)",
        "  2 nodes: Insufficient cpu [NodeResourcesFit]",
        "  nominated to node-1; evicts nobody",
        "",
        "If it were decided now",
        "No node fits.",
        "  2 nodes  NodeResourcesFit: Insufficient cpu",
        "",
        "Events",
        f"2026-01-01T00:00:00Z FailedScheduling x 3: {MESSAGE}",
        "",
        "Conditions",
        f"PodScheduled False since 2026-01-01T00:00:00Z Unschedulable: {MESSAGE}",
    ]


def test_a_placed_pod_tells_the_scores() -> None:
    best = (Score("b", 9), Score("a", 1))
    attempt = PastAttempt(1, 0.0, 0.0, 0.0, "placed", "chose b", "", best, [], "", "", ())
    decision = Decision(
        filter={"a": FITS, "b": FITS, "c": REFUSED}, total={"a": 1, "b": 9}, best=["b"], hosts=["b"]
    )
    lines = told(node="b", attempts=[attempt], decision=decision)
    assert "  b 9, a 1" in lines
    start = lines.index("If it were decided now") + 1
    assert lines[start : start + 4] == [
        "2 of 3 nodes fit. b has the best score.",
        "  1 node  NodeResourcesFit: Insufficient cpu",
        "         9  b (runs here)",
        "         1  a",
    ]
    tie = msgspec.structs.replace(decision, best=["a", "b"])
    assert "2 of 3 nodes fit. 2 tie for the best score; chance decides." in told(decision=tie)


def test_what_cannot_be_decided_says_why() -> None:
    assert "no such class" in told(decision=Failure("no such class"))
    assert "too old" in told(problem="too old")
    lines = told(changes=[], decision=Decision(prefilter=REFUSED, message=""))
    assert "Nothing, nor two things together, of the kinds that are tried." in lines
    assert "NodeResourcesFit: Insufficient cpu" in lines
    assert "took too long" in told(changes=[], changes_problem="took too long")
    preemption = Preemption("a", ["shop/old"], [], {})
    assert "Preemption would evict shop/old from a." in told(
        decision=Decision(preemption=preemption)
    )
    assert "not helpful" in told(decision=Decision(preemption_message="not helpful"))


def test_an_event_that_was_seen_more_than_once_has_a_count() -> None:
    at = "2026-01-01T00:00:00Z"
    events = [Happening(at, "Normal", "Pulled", "It is here", count) for count in (1, 2)]
    lines = told(events=events)
    assert f"{at} Pulled: It is here" in lines
    assert f"{at} Pulled x 2: It is here" in lines
