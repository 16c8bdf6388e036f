"""A demo ends when nothing more will happen, and says every ten seconds what it waits for."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest

from berth.actors.wiring.glance import Glance
from berth.tools.cluster.controllers.embedded_access import EmbeddedAccess
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.testing.demo.progress import Watching
from tests.kit.clock import VirtualClock
from tests.kit.documents import pod
from tests.kit.stores import fresh_store

PODS = BY_KIND["v1", "Pod"]
IDLE = Glance(
    active=0,
    backoff=0,
    parked=0,
    gated=0,
    in_flight=0,
    on_permit=0,
    in_pre_bind=0,
    rejections=(),
    pods=(),
    leads=True,
    problems=(),
    still_seconds=0.0,
)


async def ended(
    pods: list[dict[str, Any]],
    acts_for: float,
    in_flight: int | None = 0,
    *claims: dict[str, Any],
) -> tuple[float, list[str], list[str]]:
    """Returns when the demo of some pods ends, what it told, and what has not happened. Kubelets
    are due on each pod for some seconds. Without `in_flight`, the scheduler cannot be asked.
    """
    clock, store, told = VirtualClock(), fresh_store(), list[str]()
    api = Api(store)
    api.seed()
    for claim in claims:
        api.create(BY_KIND["v1", "PersistentVolumeClaim"], "default", claim)
    for each in pods:
        api.create(PODS, "default", each)
    watching, end = Watching(EmbeddedAccess(store), clock, {"default-scheduler"}), 0.0
    async with anyio.create_task_group() as group:
        await watching.start(group)

        async def idle() -> Glance | None:
            if in_flight is None:
                return None
            return msgspec.structs.replace(IDLE, in_flight=in_flight)

        async def settle() -> None:
            nonlocal end
            await watching.settled(idle, lambda _: clock.now() < acts_for, told.append)
            end = clock.now()
            group.cancel_scope.cancel()

        group.start_soon(settle)
        await clock.advance(100)
        group.cancel_scope.cancel()
    return end, told, watching.summary().missing


@pytest.mark.anyio
async def test_a_pod_that_nobody_starts_ends_the_demo_once_no_kubelet_acts() -> None:
    pinned = [pod("pinned", nodeName="gone")]
    sentence = "pod default/pinned is bound to gone, which does not exist"
    end, told, missing = await ended(pinned, acts_for=0)
    assert 5 <= end < 7
    assert (told, missing) == ([], [sentence])
    end, told, missing = await ended(pinned, acts_for=32)
    assert 32 <= end < 34
    assert told == [f"waiting after {seconds} s: {sentence}" for seconds in (10, 20, 30)]
    assert missing == [sentence]


@pytest.mark.anyio
async def test_pods_of_other_schedulers_do_not_delay_the_end() -> None:
    end, told, missing = await ended([pod("foreign", schedulerName="volcano")], acts_for=100)
    assert end < 2
    assert (told, missing) == ([], [])


@pytest.mark.anyio
async def test_a_pod_that_the_scheduler_keeps_for_a_volume_that_nothing_makes_ends_the_demo() -> (
    None
):
    claim = {
        "metadata": {
            "name": "picky",
            "annotations": {"volume.kubernetes.io/selected-node": "node-1"},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "selector": {"matchLabels": {"disk": "mine"}},
        },
    }
    keeps = [pod("keeps", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "picky"}}])]
    end, _, missing = await ended(keeps, 0, 1, claim)
    assert 5 <= end < 7
    (sentence,) = missing
    assert "before its claim picky has a volume: none is made" in sentence
    end, *_ = await ended(keeps, 0, 2, claim)
    assert end == 0.0  # the scheduler has another pod in hand


@pytest.mark.anyio
async def test_a_scheduler_of_somebody_else_is_waited_for() -> None:
    end, told, missing = await ended([pod("waits")], 0, None)
    assert end == 0.0
    sentence = "pod default/waits has no node, and its scheduler has not said why"
    assert (told[0], missing) == (f"waiting after 10 s: {sentence}", [sentence])


@pytest.mark.anyio
async def test_the_end_with_a_scheduler_of_somebody_else_is_a_cluster_that_is_still() -> None:
    end, *_ = await ended([pod("foreign", schedulerName="volcano")], 0, None)
    assert 5 <= end < 7
