"""The flight recorder: what it keeps of attempts, and how much."""

from __future__ import annotations

import gc
import tracemalloc
from random import Random

import msgspec
import pytest

from berth.actors.attempt.flights import AttemptsPage, FlightRecorder
from berth.actors.messages.queue import QueuedPod
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.wiring.profiles import profiles_of
from berth.config.types import KubeSchedulerConfiguration
from berth.tools.bench.decision import make_cache, make_pod, take
from berth.tools.explain.handle import ReadOnlyHandle
from tests.kit.clock import VirtualClock

PROFILE = profiles_of(KubeSchedulerConfiguration(), ReadOnlyHandle())["default-scheduler"]


class Recording:
    """A scheduler of empty nodes with a recorder of its attempts."""

    def __init__(self, most_bytes: int = 1 << 20, *, remembers: bool = True) -> None:
        self.recorder = FlightRecorder(most_bytes, VirtualClock())
        self._scheduler = Scheduler(Random(1), observer=self.recorder, remembers=remembers)
        self._snapshot = take(make_cache(7))

    def attempt(self, number: int, millicores: int, **annotations: str) -> str:
        pod = make_pod(number, {}, millicores)
        metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
        info = PodInfo(msgspec.structs.replace(pod, metadata=metadata))
        outcome = self._scheduler.schedule(PROFILE, info, self._snapshot)
        self.recorder.add(QueuedPod(info, 3, 1.0), outcome, 5.0, 5.5)
        return info.key

    def page(self, key: str) -> AttemptsPage:
        return self.recorder.page(key)


def test_a_placed_pod_has_the_best_nodes_and_the_tie() -> None:
    recording = Recording()
    (attempt,) = recording.page(recording.attempt(1, 100)).attempts
    assert (attempt.result, attempt.number, attempt.waited, attempt.seconds) == (
        "placed",
        3,
        4.0,
        0.5,
    )
    assert (attempt.evaluated, attempt.feasible, attempt.tied) == (7, 7, 7)
    assert len(attempt.best) == 5
    assert len({best.score for best in attempt.best}) == 1


def test_a_pending_pod_has_each_reason_with_its_nodes() -> None:
    recording = Recording()
    (attempt,) = recording.page(recording.attempt(1, 90_000)).attempts
    (rejection,) = attempt.rejections
    assert (rejection.plugin, rejection.reasons) == ("NodeResourcesFit", ("Insufficient cpu",))
    assert len(rejection.nodes) == 7
    assert attempt.message.startswith("0/7 nodes are available: 7 Insufficient cpu.")


def test_only_the_attempts_of_the_pod_are_shown_oldest_first() -> None:
    recording = Recording()
    recording.attempt(1, 100)
    key = recording.attempt(2, 90_000)
    recording.attempt(2, 100)
    results = [attempt.result for attempt in recording.page(key).attempts]
    assert results == ["unschedulable", "placed"]


def test_the_oldest_attempts_go_when_the_bytes_are_used_up() -> None:
    recording = Recording(10_000)
    first = recording.attempt(0, 100)
    for number in range(1, 30):
        last = recording.attempt(number, 100)
    assert not recording.page(first).attempts
    assert recording.page(last).attempts
    assert 0 < recording.recorder.size <= 10_000


@pytest.mark.full("long")
def test_a_flood_of_large_pods_takes_no_more_than_its_bytes() -> None:
    most = 200_000
    recording = Recording(most)
    for number in range(10):
        recording.attempt(number, 90_000 + number)
    before = recording.recorder.size
    tracemalloc.start()
    for number in range(150):
        recording.attempt(number, 90_000, text=f"{number} {'x' * 20_000}")
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size = recording.recorder.size
    assert most // 2 < size <= most
    assert used <= size - before + 20 * 20_000  # of 3 MB: caches of others hold a few pods


def test_columns_count_until_the_last_attempt_with_them_goes() -> None:
    recording = Recording(20_000)
    for number in range(100):
        recording.attempt(number, 90_000 if number % 3 else 100)
        assert recording.recorder.size <= 20_000
    for number in range(100, 200):
        recording.attempt(number, 100)
    placed = 1000 * (recording.recorder.size // 1000)
    assert placed >= 15_000
    assert recording.page("default/none").attempts == ()
