"""Claims of pods in process: made from templates, and released with their pods."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import anyio
import pytest

from berth.actors.client.rest import ApiError
from berth.actors.client.watch import ObjectChanged, ObjectDeleted, ObjectsListed, WatchUpdate
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.devices import FINALIZER, ResourceClaim, ResourceSlice
from berth.tools.bench import device_objects
from berth.tools.bench.inproc import TEMPLATES as CLAIM_TEMPLATES
from berth.tools.bench.inproc import InProcess
from berth.tools.bench.objects import PODS
from berth.tools.bench.pod_counts import PodTracker

TEMPLATE: dict[str, Any] = {
    "apiVersion": device_objects.API,
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "gpus"},
    "spec": {
        "metadata": {"labels": {"for": "pods"}},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
    },
}
CONTAINERS = [{"name": "c", "image": "i"}]
ALLOCATION = {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]}}


def pod_with(*entries: dict[str, str]) -> dict[str, Any]:
    spec = {"containers": CONTAINERS, "resourceClaims": list(entries)}
    return {"apiVersion": "v1", "kind": "Pod", "spec": spec}


FROM_TEMPLATE = pod_with({"name": "d", "resourceClaimTemplateName": "gpus"})
SHARING = pod_with({"name": "d", "resourceClaimName": "shared"})


def reserved_for(*uids: str) -> dict[str, Any]:
    return {
        "allocation": ALLOCATION,
        "reservedFor": [{"resource": "pods", "name": uid, "uid": uid} for uid in uids],
    }


async def claims_in(cluster: InProcess) -> list[ResourceClaim]:
    return await cluster.every(device_objects.CLAIMS, ResourceClaim)


async def pod_in(cluster: InProcess, name: str) -> Pod:
    pods = await cluster.every(PODS, Pod)
    return next(pod for pod in pods if pod.metadata.name == name)


async def with_template() -> InProcess:
    cluster = InProcess(PodTracker())
    await cluster.create(CLAIM_TEMPLATES, "ns", "gpus", TEMPLATE)
    return cluster


async def test_a_pod_gets_a_claim_of_its_own_from_a_template() -> None:
    cluster = await with_template()
    for name in ("one", "two"):
        await cluster.create(PODS, "ns", name, FROM_TEMPLATE)
    first, second = await claims_in(cluster)
    assert first.metadata.name != second.metadata.name
    pod = await pod_in(cluster, "one")
    (named,) = pod.status.resource_claim_statuses
    assert (named.name, named.resource_claim_name) == ("d", first.metadata.name)
    (owner,) = first.metadata.owner_references
    assert (owner.kind, owner.uid, owner.controller) == ("Pod", pod.metadata.uid, True)
    assert first.metadata.labels == {"for": "pods"}
    assert first.metadata.annotations == {"resource.kubernetes.io/pod-claim-name": "d"}
    (request,) = first.spec.devices.requests
    assert request.exactly is not None
    assert request.exactly.device_class_name == "gpu"


async def test_an_allocated_claim_is_released_and_deleted_with_its_pod() -> None:
    cluster = await with_template()
    await cluster.create(PODS, "ns", "one", FROM_TEMPLATE)
    pod, (claim,) = await pod_in(cluster, "one"), await claims_in(cluster)
    path = device_objects.CLAIMS.path("ns", claim.metadata.name)
    finalizers = {"metadata": {"finalizers": [FINALIZER]}}
    await cluster.patch(path, finalizers, ResourceClaim, "merge")
    status = {"status": reserved_for(pod.metadata.uid)}
    await cluster.patch(f"{path}/status", status, ResourceClaim, "merge")
    changes = cluster.follow(device_objects.CLAIMS.path(), ResourceClaim).changes({})
    async with aclosing(cast("AsyncGenerator[WatchUpdate[ResourceClaim]]", changes)) as seen:
        assert isinstance(await anext(seen), ObjectsListed)
        await cluster.delete(PODS, "ns", "one", grace=0)
        change, end = await anext(seen), await anext(seen)
    assert isinstance(change, ObjectChanged)
    assert change.object.status.allocation is None
    assert isinstance(end, ObjectDeleted)
    assert await claims_in(cluster) == []


async def test_a_shared_claim_stays_allocated_until_its_last_pod_is_deleted() -> None:
    cluster = await with_template()
    document = {**TEMPLATE["spec"], "metadata": {"finalizers": [FINALIZER]}}
    await cluster.create(device_objects.CLAIMS, "ns", "shared", document)
    for name in ("one", "two"):
        await cluster.create(PODS, "ns", name, SHARING)
    uids = [(await pod_in(cluster, name)).metadata.uid for name in ("one", "two")]
    await cluster.set_status(device_objects.CLAIMS, "ns", "shared", reserved_for(*uids))
    await cluster.delete(PODS, "ns", "one", grace=0)
    (claim,) = await claims_in(cluster)
    assert [each.uid for each in claim.status.reserved_for] == uids[1:]
    assert claim.status.allocation is not None
    await cluster.delete(PODS, "ns", "two", grace=0)
    (claim,) = await claims_in(cluster)
    assert (claim.status.reserved_for, claim.status.allocation) == ((), None)
    assert claim.metadata.finalizers == ()


async def test_the_scheduler_makes_a_claim_that_ends_with_its_pod() -> None:
    cluster = await with_template()
    await cluster.create(PODS, "ns", "one", pod_with())
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "one"}
    owner |= {"uid": (await pod_in(cluster, "one")).metadata.uid}
    metadata = {"generateName": "one-extended-", "ownerReferences": [owner]}
    body = {**TEMPLATE["spec"], "metadata": metadata}
    created = await cluster.call("POST", device_objects.CLAIMS.path("ns"), ResourceClaim, body)
    assert created.metadata.name.startswith("one-extended-")
    assert await claims_in(cluster) == [created]
    again = {**body, "metadata": {"name": created.metadata.name}}
    with pytest.raises(ApiError, match="already exists"):
        await cluster.call("POST", device_objects.CLAIMS.path("ns"), ResourceClaim, again)
    await cluster.delete(PODS, "ns", "one", grace=0)
    assert await claims_in(cluster) == []


async def test_a_patch_of_an_older_version_is_refused() -> None:
    cluster = await with_template()
    await cluster.create(device_objects.CLAIMS, "ns", "c", TEMPLATE["spec"])
    (claim,) = await claims_in(cluster)
    await cluster.set_status(device_objects.CLAIMS, "ns", "c", reserved_for("a"))
    body = {
        "metadata": {"resourceVersion": claim.metadata.resource_version},
        "status": reserved_for("b"),
    }
    path = device_objects.CLAIMS.path("ns", "c") + "/status"
    with pytest.raises(ApiError, match="another resourceVersion") as refused:
        await cluster.patch(path, body, ResourceClaim, "merge")
    assert refused.value.code == 409


async def test_what_followers_have_not_taken_is_waited_for() -> None:
    cluster = await with_template()
    taken: list[str] = []
    async with anyio.create_task_group() as group:

        async def follow() -> None:
            async for change in cluster.follow(device_objects.SLICES.path(), ResourceSlice).changes(
                {}
            ):
                names = [change.object.metadata.name] if isinstance(change, ObjectChanged) else []
                taken.extend(names)

        group.start_soon(follow)
        await anyio.wait_all_tasks_blocked()
        for name in ("a", "b"):
            await cluster.create(
                device_objects.SLICES, "", name, device_objects.resource_slice("d", name, 2)
            )
        assert taken == []
        await cluster.delivered()
        assert taken == ["a", "b"]
        group.cancel_scope.cancel()
