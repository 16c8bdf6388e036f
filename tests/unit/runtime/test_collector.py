"""The collector looks at an object in one full collection at most."""

from __future__ import annotations

import gc

from actors.runtime.collector import tune_collector


def test_what_survives_a_full_collection_is_set_aside() -> None:
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    try:
        tune_collector()
        before = gc.get_freeze_count()
        kept = [[number] for number in range(1000)]
        gc.collect()
        assert gc.get_freeze_count() >= before + len(kept)
        assert not gc.get_objects(generation=2)
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks[:] = callbacks
        gc.unfreeze()
