"""A mapping keeps the entries that were put last."""

from __future__ import annotations

from berth.actors.scheduling.model.latest import Latest


def test_the_oldest_entry_goes_and_putting_an_entry_again_makes_it_the_newest() -> None:
    kept: Latest[str, int] = Latest(2)
    for key, value in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        kept.put(key, value)
    assert kept == {"a": 3, "c": 4}
