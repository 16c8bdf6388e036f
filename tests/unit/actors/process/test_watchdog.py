"""The watchdog logs a blocked loop once, with the running code, and the end of the block."""

from __future__ import annotations

import signal
import threading

import pytest

from berth.actors.process.heartbeat import BEAT_SECONDS, Heartbeat
from berth.actors.process.watchdog import INTERRUPT, Watchdog
from tests.kit.logs import capture_logs
from tests.kit.tasks import started


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Standstill:
    """A loop and its watchdog, which a test makes beat and look."""

    def __init__(self) -> None:
        self.time = Time()
        heartbeat = Heartbeat(self.time)
        self.watchdog = Watchdog(
            heartbeat, lambda frame: {"at": frame.f_code.co_name}, lambda _: None, self.time
        )
        self._heartbeat = heartbeat

    async def stands_still(self, *seconds: float) -> None:
        """Blocks the loop; the watchdog looks after each of these times in seconds."""
        async with started(self._heartbeat.run):
            self.time.now += BEAT_SECONDS
            for passed in seconds:
                self.time.now += passed
                self.watchdog.look()
        self.time.now += 0.5
        self.watchdog.look()


async def test_a_blocked_loop_is_logged_once_and_how_long_it_lasted() -> None:
    loop = Standstill()
    with capture_logs() as lines:
        await loop.stands_still(1.0, 1.5, 3.0)
    began, ended = lines
    expected = ("event loop stands still", "error", 2.5)
    assert (began["event"], began["log_level"], began["seconds"]) == expected
    assert began["at"] == "_where", "the watched thread is the one that made the watchdog"
    assert "in stands_still" in began["stack"]
    assert (ended["event"], ended["log_level"], ended["after_seconds"]) == (
        "event loop goes on",
        "warning",
        6.0,
    )
    with capture_logs() as lines:
        await loop.stands_still(2.5)
    assert [line["event"] for line in lines] == ["event loop stands still", "event loop goes on"]


async def test_each_plugin_that_holds_up_the_loop_in_one_block_is_named() -> None:
    places = [("A", "Filter")] * 2 + [("B", "Score")] * 4 + [("C", "Score")] + [("D", "Hint")] * 5
    seen = iter([*places, ("D", "Hint")])
    loop = Standstill()

    def where(_frame: object) -> dict[str, str]:
        plugin, point = next(seen)
        return {"plugin": plugin, "point": point}

    loop.watchdog._describe = where
    with capture_logs() as lines:
        await loop.stands_still(2.5, *[0.25] * 11)
    stalls = [line for line in lines if line["event"] == "event loop stands still"]
    assert [line["plugin"] for line in stalls] == ["A", "B", "D"]


async def test_a_long_block_is_interrupted_in_the_loops_thread() -> None:
    calls: list[float] = []
    loop = Standstill()
    loop.watchdog._interrupt = lambda _frame, _now, still: calls.append(still)
    before = signal.signal(INTERRUPT, loop.watchdog._on_interrupt)
    try:
        await loop.stands_still(4.0, 2.0, 2.0)
    finally:
        signal.signal(INTERRUPT, before)
    assert calls == [6.0, 8.0]


class Ended(BaseException):
    pass


class Beating(Heartbeat):
    def still_for(self) -> float:
        return 0.0


@pytest.mark.parametrize("signalled", [True, False])
def test_an_orderly_end_that_takes_too_long_is_cut_short(
    signalled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example if a plugin's hook ignores its cancellation, while the loop runs."""

    def end(_code: int) -> None:
        raise Ended

    monkeypatch.setattr("os._exit", end)
    monkeypatch.setattr("threading.Timer", lambda *_: threading.Thread(target=lambda: None))
    time = Time()
    watchdog = Watchdog(Beating(time), lambda frame: {}, lambda _: None, time)
    time.now += 1000.0
    watchdog.look()
    if signalled:
        watchdog.asked_to_end()
        watchdog.acted_upon()
    else:
        watchdog.ends()
    time.now += 27.0
    watchdog.look()
    time.now += 2.0
    with capture_logs() as lines, pytest.raises(Ended):
        watchdog.look()
    assert [line["event"] for line in lines] == ["ended by force"]


async def test_a_short_block_is_not_logged() -> None:
    loop = Standstill()
    with capture_logs() as lines:
        await loop.stands_still(1.9)
    assert lines == []


def test_it_stops_watching_when_its_block_is_left() -> None:
    before = threading.active_count()
    with Standstill().watchdog.watching():
        assert threading.active_count() == before + 1
    assert threading.active_count() == before
