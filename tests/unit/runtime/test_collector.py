"""The collector looks at an object in one full collection at most."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import anyio
import pytest

from actors.runtime import collector
from actors.runtime.collector import collecting, tune_collector

MANY = 50_000


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


@pytest.mark.usefixtures("tuned")
def test_what_survives_a_full_collection_is_set_aside() -> None:
    before = gc.get_freeze_count()
    kept = [[number] for number in range(1000)]
    gc.collect()
    assert gc.get_freeze_count() >= before + len(kept)
    assert not gc.get_objects(generation=2)


@pytest.mark.usefixtures("tuned")
async def test_what_is_replaced_one_by_one_is_set_aside_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython counts what is made less what is freed, and would let all of it pile up."""
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


async def test_it_ends_with_the_work_and_raises_what_that_raises() -> None:
    async def fail() -> None:
        raise KeyError("work")

    with pytest.raises(KeyError, match="work"):
        await collecting(fail)
