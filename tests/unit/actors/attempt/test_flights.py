"""The flight recorder: what it keeps of attempts, and how much."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from random import Random

import msgspec
import numpy as np
import pytest

from berth.actors.attempt import flights
from berth.actors.attempt.attempts_page import AttemptsPage
from berth.actors.attempt.flights import FlightRecorder
from berth.actors.messages.cache import NodeDeleted
from berth.actors.messages.queue import QueuedPod
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.wiring.profiles import profiles_of
from berth.config.types import KubeSchedulerConfiguration
from berth.tools.answers.explain.plugin_handle import ReadOnlyHandle
from berth.tools.bench.decision import make_cache, make_node, make_pod
from tests.kit.calls import CallCounter
from tests.kit.clock import VirtualClock

PROFILE = profiles_of(KubeSchedulerConfiguration(), ReadOnlyHandle())["default-scheduler"]


class Recording:
    """A scheduler of empty nodes with a recorder of its attempts."""

    def __init__(
        self, most_bytes: int = 1 << 20, *, nodes: int = 7, remembers: bool = True
    ) -> None:
        self.recorder = FlightRecorder(most_bytes, VirtualClock())
        self._scheduler = Scheduler(Random(1), observer=self.recorder, remembers=remembers)
        self._snapshot = make_cache(nodes).snapshot()

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


def test_the_names_of_the_nodes_are_counted() -> None:
    sizes = []
    for nodes in (7, 707):
        recording = Recording(nodes=nodes)
        recording.attempt(1, 90_000)
        sizes.append(recording.recorder.size)
    assert sizes[1] - sizes[0] > sum(sys.getsizeof(f"n{number}") for number in range(7, 707))


def test_the_best_nodes_are_found_later() -> None:
    """Whatever the scores, and also if a node is gone by then."""
    recorder, rng = FlightRecorder(1 << 20, VirtualClock()), Random(3)
    cache = make_cache(700)
    snapshot, rows = cache.snapshot(), np.arange(700)
    outcome = Scheduler(Random(1)).schedule(PROFILE, PodInfo(make_pod(0, {})), snapshot)
    expected: dict[str, tuple[list[int], int]] = {}
    for number, size in enumerate([2, 5, 6, 700] + 60 * [640]):
        info = PodInfo(make_pod(number, {}))
        totals = np.array([rng.randrange(2000 if number % 2 else 20) for _ in range(size)])
        ties = (totals == totals.max()).nonzero()[0]
        recorder.compared(rows[:size], totals, int(totals.max()), ties, snapshot)
        recorder.add(QueuedPod(info, 1, 0.0), outcome, 0.0, 1.0)
        expected[info.key] = (sorted(totals.tolist(), reverse=True)[:5], len(ties))
        scores = {f"n{row}": int(score) for row, score in enumerate(totals)}
        totals[:] = 0  # as a memory that goes on
        if number == 20:
            cache.handle(NodeDeleted(make_node(3)))
            snapshot = cache.snapshot()
        if number % 30 == 0:
            (attempt,) = recorder.page(info.key).attempts
            assert {best.node: best.score for best in attempt.best}.items() <= scores.items()
    for key, (best, tied) in expected.items():
        (attempt,) = recorder.page(key).attempts
        assert ([score.score for score in attempt.best], attempt.tied) == (best, tied)


def test_a_change_of_the_nodes_names_no_more_attempts_than_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flights, "MOST_UNNAMED", 10)
    calls = []
    for attempts in (9, 99):
        recorder, cache, counter = (
            FlightRecorder(1 << 20, VirtualClock()),
            make_cache(7),
            CallCounter(),
        )
        scheduler = Scheduler(Random(1), observer=recorder)
        for number in range(attempts):
            info = PodInfo(make_pod(number, {}))
            outcome = scheduler.schedule(PROFILE, info, cache.snapshot())
            recorder.add(QueuedPod(info, 1, 0.0), outcome, 0.0, 1.0)
        cache.handle(NodeDeleted(make_node(3)))
        snapshot = cache.snapshot()
        rows = totals = np.arange(6)
        with counter:
            recorder.compared(rows, totals, 5, rows[5:], snapshot)
        calls.append(counter.calls)
    assert calls[0] == calls[1] > 9


def test_long_reasons_count_as_what_they_are() -> None:
    recorder = FlightRecorder(400_000, VirtualClock())
    scheduler, snapshot = Scheduler(Random(1), observer=recorder), make_cache(3).snapshot()
    name = ".".join(["d" * 60] * 3)
    for number in range(40):
        requests = {f"p{i}-{number}.{name}.com/x": "1" for i in range(600)}
        container = {"name": "c", "image": "i", "resources": {"requests": requests}}
        info = PodInfo(make_pod(number, {"containers": [container]}))
        outcome = scheduler.schedule(PROFILE, info, snapshot)
        recorder.add(QueuedPod(info, 1, 0.0), outcome, 0.0, 1.0)
    (attempt,) = recorder.page(info.key).attempts
    (rejection,) = attempt.rejections
    assert any(reason.startswith("and ") for reason in rejection.reasons)
    assert 50_000 < sum(map(len, rejection.reasons)) < 70_000
    held = [recorder.page(f"default/p{number}").attempts for number in range(40)]
    texts = sum(
        len(reason) for (kept,) in filter(None, held) for reason in kept.rejections[0].reasons
    )
    assert 100_000 < texts <= recorder.size <= 400_000
