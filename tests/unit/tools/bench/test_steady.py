"""The pods of a cluster that lives on, turn by turn."""

from __future__ import annotations

import asyncio

import anyio

from berth.tools.bench.objects import PODS
from berth.tools.bench.start import filled
from berth.tools.bench.steady import LIVES, TURN_SECONDS, Life
from berth.tools.kubernetes.api.store import Store
from tests.kit.virtual_loop import in_virtual_time


def bind(store: Store, *names: str) -> None:
    for name in names:
        pod = store.get(PODS, "default", name)
        store.update(PODS, {**pod, "spec": {**pod["spec"], "nodeName": "node-00000"}})


def new(store: Store) -> dict[str, str]:
    """Returns the phase of each pod that was created after the start."""
    pods = [stored.document for stored in store.list(PODS)]
    return {
        name: (pod.get("status") or {}).get("phase", "")
        for pod in pods
        if (name := pod["metadata"]["name"]).startswith("new-")
    }


@in_virtual_time
async def test_pods_run_in_the_turn_after_they_are_bound_also_behind_one_that_waits() -> None:
    store = filled(0, 1)
    life = Life(store, 4, 1)
    lived = asyncio.create_task(life.run())
    await anyio.sleep(TURN_SECONDS / 2)
    bind(store, "new-1", "new-3")
    await anyio.sleep(TURN_SECONDS)
    assert (life.bound, new(store)) == (
        2,
        {"new-0": "Pending", "new-1": "Running", "new-2": "Pending", "new-3": "Running"},
    )
    bind(store, "new-0", "new-2")
    await lived
    assert (life.bound, set(new(store).values())) == (4, {"Running"})


@in_virtual_time
async def test_a_pod_that_has_lived_ends_and_takes_an_old_one_with_it() -> None:
    store = filled(4, 1)
    life = Life(store, 1, 2 * LIVES + 10)  # the pod is created at half-time
    lived = asyncio.create_task(life.run())
    while not lived.done():
        bind(store, *(name for name, phase in new(store).items() if phase == "Pending"))
        await anyio.sleep(TURN_SECONDS / 2)
    await lived
    assert life.bound == 1
    assert (new(store), len([*store.list(PODS)])) == ({}, 3)
