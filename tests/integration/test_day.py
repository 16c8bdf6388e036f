"""A cluster with leaking pods and full disks in virtual time, from a seed."""

from __future__ import annotations

import pytest

from tests.kit.day import play


@pytest.mark.full("plays five hours of a cluster twice")
def test_the_same_seed_gives_the_same_writes() -> None:
    first = play(nodes=2, pods=20, hours=5.0)
    assert first.evicted >= 5
    assert play(nodes=2, pods=20, hours=5.0).digest == first.digest


@pytest.mark.full("long")
def test_another_seed_gives_other_writes() -> None:
    first, second = (play(nodes=2, pods=20, hours=0.02, seed=seed) for seed in (1, 2))
    assert first.digest != second.digest
    assert play(nodes=2, pods=20, hours=0.02, seed=1).digest == first.digest
