"""What the hollow driver remembers of claims from change to change."""

from __future__ import annotations

from random import Random

import anyio

from berth.tools.cluster.controllers.embedded_access import EmbeddedAccess
from berth.tools.cluster.drivers.negotiation_driver import run_negotiating_driver
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.kubernetes.devices.claim_release import QUARANTINE_SECONDS
from berth.tools.testing.virtual_time import LoopClock
from tests.kit.documents import Document
from tests.kit.stores import fresh_store
from tests.kit.virtual_loop import in_virtual_time

CLAIMS = "/apis/resource.k8s.io/v1alpha2/namespaces/default/resourceclaims"
CLAIM: Document = {"metadata": {"name": "c"}, "spec": {"resourceClassName": "gpu"}}
MISSING = {"resource": "pods", "name": "p", "uid": "u"}


@in_virtual_time
async def test_a_claim_of_a_missing_pod_is_freed_though_it_changes_meanwhile() -> None:
    store = fresh_store()
    Api(store).seed()
    access = EmbeddedAccess(store)
    await access.call("POST", CLAIMS, dict, CLAIM)
    status = {"allocation": {"shareable": True}, "reservedFor": [MISSING]}
    await access.patch(f"{CLAIMS}/c/status", {"status": status}, dict)
    async with anyio.create_task_group() as group:
        await group.start(run_negotiating_driver, access, LoopClock(), Random(1))
        for seconds in (0.5, 1.5, 2.5):
            await anyio.sleep_until(seconds)
            assert await reserved(access) == (seconds < QUARANTINE_SECONDS), seconds
            body = {"metadata": {"labels": {"at": f"{seconds}"}}}
            await access.patch(f"{CLAIMS}/c", body, dict)
        group.cancel_scope.cancel()


async def reserved(access: EmbeddedAccess) -> bool:
    claim: Document = await access.call("GET", f"{CLAIMS}/c", dict)
    return bool(claim["status"].get("reservedFor"))
