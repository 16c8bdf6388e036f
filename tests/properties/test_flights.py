"""A recorded attempt tells what `explain` finds on the snapshot of that moment."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from berth.actors.attempt.attempts_page import RecordedAttempt
from berth.actors.attempt.flights import FlightRecorder
from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import NodeAdded, NodeDeleted, ReturnSnapshot
from berth.actors.messages.queue import QueuedPod
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.plugin import PodInfo
from berth.tools.answers.explain.decision import Decision, decide
from tests.kit.clock import VirtualClock
from tests.kit.examples import examples

from .test_reuse import FRESH, PROFILE, SPECS, make_node, make_pod

NODE = st.tuples(
    st.sampled_from(("", "a", "b")),
    st.booleans(),
    st.sampled_from(("", "soft", "hard")),
    st.sampled_from((50, 1000, 4000)),
    st.booleans(),
)


@given(
    nodes=st.lists(NODE, min_size=1, max_size=9),
    kinds=st.lists(st.integers(0, len(SPECS) - 1), min_size=1, max_size=4),
    seed=st.integers(0, 99),
)
@examples(0.5)
def test_a_recorded_attempt_tells_what_explain_finds(
    nodes: list[tuple[str, bool, str, int, bool]], kinds: list[int], seed: int
) -> None:
    cache, recorder = CacheState(), FlightRecorder(1 << 20, VirtualClock())
    scheduler = Scheduler(Random(seed), 100, observer=recorder)
    made = [make_node(f"n{i}", *values) for i, values in enumerate(nodes)]
    for node in made:
        cache.handle(NodeAdded(node))
    expected: list[tuple[str, Decision]] = []
    for number, kind in enumerate(kinds * 3):  # pods that recur are decided from memory
        snapshot = cache.snapshot()
        info = PodInfo(make_pod(number, kind))
        recorder.add(QueuedPod(info, 1, 0.0), scheduler.schedule(PROFILE, info, snapshot), 0.0, 0.0)
        explained = decide(FRESH, info, snapshot)
        assert isinstance(explained, Decision)
        expected.append((info.key, explained))
        cache.handle(ReturnSnapshot(None))
        if number == len(kinds) and len(made) > 1:
            cache.handle(NodeDeleted(made.pop()))
    for key, explained in expected:  # only now, when the cluster is another
        (attempt,) = recorder.page(key).attempts
        agree(attempt, explained)


def agree(attempt: RecordedAttempt, explained: Decision) -> None:
    if attempt.result == "placed":
        assert attempt.node in explained.hosts
        if attempt.best:
            assert attempt.tied == len(explained.best)
            highest = max(explained.total.values())
            behind = [attempt.best[0].score - best.score for best in attempt.best]
            assert behind == [highest - explained.total[best.node] for best in attempt.best]
        return
    assert attempt.result == "unschedulable"
    recorded = {
        node: (rejection.code, rejection.plugin, list(rejection.reasons))
        for rejection in attempt.rejections
        for node in rejection.nodes
    }
    if explained.filter:
        assert recorded == {
            node: (verdict.code, verdict.plugin, verdict.reasons)
            for node, verdict in explained.filter.items()
        }
    else:
        assert explained.prefilter is not None
        assert {rejection.reasons for rejection in attempt.rejections} == {
            tuple(explained.prefilter.reasons)
        }
