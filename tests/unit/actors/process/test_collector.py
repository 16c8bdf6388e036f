"""The collector visits few objects at a time, and frees every cycle in the end."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import anyio
import pytest

from berth.actors.process import collector
from berth.actors.process.collector import (
    FULL_EVERY,
    PATIENCE,
    Rounds,
    collecting,
    tune_collector,
)

MANY = 50_000
DAY = 20.0  # seconds


@pytest.fixture
def tuned() -> Iterator[None]:
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    try:
        tune_collector()
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks[:] = callbacks
        gc.unfreeze()
        gc.freeze()  # as the tests began


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MOST", 100)
    monkeypatch.setattr(collector, "THOROUGH_SECONDS", DAY)


class Tail:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.own = self


def ticks(rounds: Rounds, start: float, number: int, busy: float = 0.0) -> float:
    """Runs that many ticks, half a second apart, and returns the time of the last one."""
    for tick in range(1, number + 1):
        now = start + tick * collector.SECONDS
        rounds.tick(now, now * busy)
    return start + number * collector.SECONDS


@pytest.mark.usefixtures("tuned", "few_are_many")
def test_objects_that_survive_a_full_collection_are_set_aside() -> None:
    before = gc.get_freeze_count()
    kept = [[number] for number in range(1000)]
    gc.collect()
    assert gc.get_freeze_count() >= before + len(kept)
    assert not gc.get_objects(generation=2)


@pytest.mark.full("long")
@pytest.mark.usefixtures("tuned")
def test_few_objects_are_not_set_aside_and_their_cycles_are_freed() -> None:
    rounds, tail = Rounds(0.0, 0.0), Tail()
    gone, before = weakref.ref(tail), gc.get_freeze_count()
    now = ticks(rounds, 0.0, FULL_EVERY)
    assert gc.get_freeze_count() <= before
    del tail
    ticks(rounds, now, FULL_EVERY)
    assert gone() is None


@pytest.mark.full("long")
@pytest.mark.usefixtures("tuned", "few_are_many")
@pytest.mark.parametrize(
    ("busy", "patience"),
    [pytest.param(0.0, 1, id="idle"), pytest.param(1.0, PATIENCE, id="busy")],
)
def test_a_cycle_that_was_set_aside_is_freed_when_a_pause_does_not_matter(
    busy: float, patience: int
) -> None:
    rounds, tail, kept = Rounds(0.0, 0.0), Tail(), [[number] for number in range(1000)]
    gone = weakref.ref(tail)
    gc.collect()
    assert not gc.get_objects(generation=2)
    del tail, kept
    until = int(patience * DAY / collector.SECONDS)
    now = ticks(rounds, 0.0, until - 1, busy)
    assert gone() is not None, "it took the pause too early"
    ticks(rounds, now, 1, busy)
    assert gone() is None


@pytest.mark.full("long")
@pytest.mark.usefixtures("tuned", "few_are_many")
def test_there_is_no_thorough_collection_if_nothing_was_set_aside_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds, thorough = Rounds(0.0, 0.0), list[bool]()
    kept = [[number] for number in range(1000)]
    gc.collect()
    now = ticks(rounds, 0.0, int(DAY / collector.SECONDS))
    monkeypatch.setattr(gc, "unfreeze", lambda: thorough.append(True))
    ticks(rounds, now, int(DAY / collector.SECONDS))
    assert not thorough
    assert kept


@pytest.mark.full("long")
@pytest.mark.usefixtures("tuned", "few_are_many")
async def test_objects_replaced_one_by_one_are_set_aside_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CPython counts objects made less those freed: alone it would let all pile up."""
    kept = [[number] for number in range(MANY)]
    young = []

    async def replace_all(pause: float) -> None:
        for number in range(MANY):
            kept[number] = [number]
        await anyio.sleep(pause)
        young.append(len(gc.get_objects(generation=0)))

    await replace_all(0)
    monkeypatch.setattr(collector, "SECONDS", 0.01)
    await collecting(lambda: replace_all(0.1))
    assert young[0] > MANY > 10 * young[1]


async def test_it_ends_with_the_work_and_raises_its_exception() -> None:
    async def fail() -> None:
        raise KeyError("work")

    with pytest.raises(KeyError, match="work"):
        await collecting(fail)
