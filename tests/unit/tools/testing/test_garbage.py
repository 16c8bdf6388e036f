"""The garbage collector while clusters run."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from berth.testing import Cluster, run_virtually
from berth.tools.testing.garbage import SELDOM


@pytest.fixture(autouse=True)
def threshold() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def _bare() -> Cluster:
    return Cluster(scheduler=False, controllers=False, kubelets=False)


def _while_it_runs() -> tuple[int, int, int]:
    """Returns the thresholds within a cluster that ends after another one of its time."""

    async def run() -> tuple[int, int, int]:
        async with _bare():
            async with _bare():
                pass
            return gc.get_threshold()

    return run_virtually(run)


def test_garbage_is_looked_for_seldom_until_the_last_cluster_ends() -> None:
    gc.set_threshold(700, 10, 10)
    assert _while_it_runs() == (SELDOM, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("first", [0, 2 * SELDOM])
def test_whoever_looks_less_often_goes_on_so(first: int) -> None:
    gc.set_threshold(first, 10, 10)
    assert _while_it_runs() == (first, 10, 10)
    assert gc.get_threshold() == (first, 10, 10)


def test_what_the_test_sets_meanwhile_stays() -> None:
    async def run() -> None:
        async with _bare():
            gc.set_threshold(900, 10, 10)

    run_virtually(run)
    assert gc.get_threshold() == (900, 10, 10)
