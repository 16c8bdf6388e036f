"""What the flight recorder costs a decision, in work that calls do not show: instructions, and the
elements of arrays that it looks at.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from berth.actors.attempt import flights
from berth.actors.attempt.flights import BEST, FlightRecorder
from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import Assume
from berth.actors.messages.queue import QueuedPod
from berth.actors.scheduling.decision.outcome import Choice
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.tools.bench.decision import make_cache, pending
from tests.kit.clock import VirtualClock
from tests.kit.profiles import profile_of
from tests.kit.work import OpcodeCounter, Watched

PROFILE = profile_of()
NODES, WARM, MEASURED = 300, 20, 40
MOST_PERCENT = 8  # of a decision's instructions; the shortest decision has 2,300


def recorded(
    cache: CacheState, scheduler: Scheduler, recorder: FlightRecorder, info: PodInfo
) -> None:
    outcome = scheduler.schedule(PROFILE, info, cache.snapshot())
    recorder.add(QueuedPod(info, 1, 0.0), outcome, 0.0, 1.0)
    if isinstance(outcome, Choice):
        cache.handle(Assume(info, outcome.node))


@pytest.mark.parametrize("kind", ["basic", "spread", "pod affinity", "unfit"])
def test_the_recorder_runs_few_instructions(kind: str) -> None:
    cache, recorder = make_cache(NODES), FlightRecorder(1 << 20, VirtualClock())
    scheduler = Scheduler(Random(1), observer=recorder)
    every, own = OpcodeCounter(), OpcodeCounter(flights.__name__)
    for number, pod in enumerate(pending(kind, WARM + 2 * MEASURED)):
        info = PodInfo(pod)
        if number < WARM:
            recorded(cache, scheduler, recorder, info)
        else:
            with own if number % 2 else every:
                recorded(cache, scheduler, recorder, info)
    assert 0 < own.opcodes <= every.opcodes * MOST_PERCENT / 100


@pytest.mark.parametrize("tied", [NODES, 1])
def test_the_recorder_does_not_search_all_nodes(tied: int) -> None:
    """Of the nodes that share the highest score, it looks at the first few. If they are too few, it
    copies the scores, and searches those of many decisions together.
    """
    recorder, snapshot = FlightRecorder(1 << 20, VirtualClock()), make_cache(NODES).snapshot()
    pods = [*map(PodInfo, pending("basic", MEASURED))]
    rows, totals = np.arange(NODES), np.where(np.arange(NODES) < tied, 7, 3)
    ties = Watched.of(np.arange(tied))
    Watched.elements = 0
    outcome = Scheduler(Random(1)).schedule(PROFILE, pods[0], snapshot)
    for info in pods:
        recorder.compared(Watched.of(rows), Watched.of(totals), 7, ties, snapshot)
        recorder.add(QueuedPod(info, 1, 0.0), outcome, 0.0, 1.0)
    (attempt,) = recorder.page(pods[-1].key).attempts
    scores = [7] * min(tied, BEST) + [3] * (BEST - tied)
    assert ([best.score for best in attempt.best], attempt.tied) == (scores, tied)
    assert Watched.elements <= 4 * BEST * MEASURED
