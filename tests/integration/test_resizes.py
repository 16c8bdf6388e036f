"""Resizes in place in a toy cluster in virtual time: admitted, deferred, infeasible, failing."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest

from berth.tools.cluster.kubelets.housekeeping import Setup
from berth.tools.kubernetes.kubelet.pressure.kubelet_settings import DEFAULTS, Configuration
from tests.kit import documents
from tests.kit.cluster import Cluster, toy_cluster
from tests.kit.documents import Document
from tests.kit.virtual_loop import in_long_virtual_time, in_virtual_time

pytestmark = pytest.mark.full("long")

PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"


def pod(name: str, cpu: str, memory: str = "1Gi", usage: str = "", **fields: Any) -> Document:
    """Returns a pod on no node; `limits` and `policy` are fields of its container."""
    resources = {"requests": {"cpu": cpu, "memory": memory}, "limits": fields.pop("limits", {})}
    container: Document = {"name": "c", "image": "nginx", "resources": resources}
    if "policy" in fields:
        kind, restart = fields.pop("policy")
        container |= {"resizePolicy": [{"resourceName": kind, "restartPolicy": restart}]}
    annotations = {"berth.dev/usage": usage} if usage else {}
    return documents.pod(name, annotations=annotations, containers=[container], **fields)


async def resize(running: Cluster, name: str, **resources: Any) -> Document:
    change = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
    path = f"/api/v1/namespaces/default/pods/{name}/resize"
    return await running.client.patch(path, change, dict, "strategic")


def condition(pod: Document, kind: str) -> Document:
    return next((c for c in pod["status"].get("conditions", ()) if c["type"] == kind), {})


def has(pod: Document) -> Document:
    resources: Document = pod["status"]["containerStatuses"][0]["resources"]
    return resources


def runs(pod: Document) -> bool:
    return condition(pod, "Ready").get("status") == "True"


async def messages(running: Cluster, reason: str) -> list[str]:
    return [event["message"] for event in await running.all("Event") if event["reason"] == reason]


async def start(running: Cluster, *pods: Document) -> None:
    for each in pods:
        await running.create("Pod", each)
        await running.until("Pod", each["metadata"]["name"], runs)


@in_long_virtual_time
async def test_a_resize_is_allocated_and_then_in_effect() -> None:
    async with toy_cluster(1) as running:
        await start(running, pod("p", "1"))
        before = await running.get("Pod", "p")
        assert has(before)["requests"] == {"cpu": "1", "memory": "1Gi"}
        assert before["status"]["observedGeneration"] == 1
        after = await resize(running, "p", requests={"cpu": "2"})
        generation = after["metadata"]["generation"]
        going = await running.until("Pod", "p", lambda pod: bool(condition(pod, IN_PROGRESS)))
        (status,) = going["status"]["containerStatuses"]
        assert status["allocatedResources"] == {"cpu": "2", "memory": "1Gi"}
        assert status["resources"]["requests"]["cpu"] == "1"
        assert condition(going, IN_PROGRESS)["observedGeneration"] == generation
        done = await running.until("Pod", "p", lambda pod: not condition(pod, IN_PROGRESS))
        assert has(done)["requests"] == {"cpu": "2", "memory": "1Gi"}
        assert done["status"]["observedGeneration"] == generation
        assert done["status"]["containerStatuses"][0]["restartCount"] == 0
        assert runs(done)
        told = (
            '{"containers":[{"name":"c","resources":{"requests":{"cpu":"2","memory":"1Gi"}}}],'
            '"generation":2}'
        )
        assert await messages(running, "ResizeStarted") == [f"Pod resize started: {told}"]
        assert await messages(running, "ResizeCompleted") == [f"Pod resize completed: {told}"]
        await anyio.sleep(60)
        assert await messages(running, "ResizeCompleted") == [f"Pod resize completed: {told}"]


@in_virtual_time
async def test_a_container_is_restarted_if_its_policy_says_so() -> None:
    async with toy_cluster(1) as running:
        await start(running, pod("p", "1", policy=("memory", "RestartContainer")))
        await resize(running, "p", requests={"cpu": "2"})
        await running.until("Pod", "p", lambda pod: has(pod)["requests"]["cpu"] == "2")
        first = await running.get("Pod", "p")
        assert first["status"]["containerStatuses"][0]["restartCount"] == 0
        await resize(running, "p", requests={"memory": "2Gi"})
        await running.until("Pod", "p", lambda pod: has(pod)["requests"]["memory"] == "2Gi")
        last = await running.until("Pod", "p", runs)
        (status,) = last["status"]["containerStatuses"]
        assert (status["restartCount"], status["ready"]) == (1, True)
        assert status["lastState"]["terminated"]["reason"] == "Completed"
        assert await messages(running, "Killing") == ["Container c resize requires restart"]


@in_virtual_time
async def test_a_deferred_resize_waits_for_room_and_others_for_its_end() -> None:
    async with toy_cluster(1) as running:
        await start(running, pod("a", "5"), pod("b", "2"))
        await resize(running, "a", requests={"cpu": "7"})
        waits = await running.until("Pod", "a", lambda pod: bool(condition(pod, PENDING)))
        pending = condition(waits, PENDING)
        why = "Node didn't have enough resource: cpu, requested: 7000, used: 2000, capacity: 8000"
        assert (pending["reason"], pending["message"]) == ("Deferred", why)
        (told,) = await messages(running, "ResizeDeferred")
        assert told.startswith("Pod resize OutOfcpu: {")
        assert why in told
        assert has(waits)["requests"]["cpu"] == "5"
        await running.delete("Pod", "b")
        done = await running.until("Pod", "a", lambda pod: has(pod)["requests"]["cpu"] == "7")
        assert not condition(done, PENDING)


@in_virtual_time
async def test_a_pod_that_waits_for_room_is_woken_when_another_shrinks() -> None:
    async with toy_cluster(1) as running:
        await start(running, pod("a", "6"))
        await running.create("Pod", pod("b", "4"))
        await running.until(
            "Pod", "b", lambda pod: condition(pod, "PodScheduled").get("status") == "False"
        )
        await resize(running, "a", requests={"cpu": "3"})
        with anyio.fail_after(5):
            await running.until("Pod", "b", runs)
        shrunk = await running.get("Pod", "a")
        assert has(shrunk)["requests"]["cpu"] == "3"


@in_virtual_time
async def test_the_scheduler_counts_a_deferred_resize() -> None:
    async with toy_cluster(1) as running:
        await start(running, pod("a", "4"), pod("b", "2"))
        await resize(running, "a", requests={"cpu": "7"})
        await running.until("Pod", "a", lambda pod: bool(condition(pod, PENDING)))
        await running.create("Pod", pod("c", "1"))
        await anyio.sleep(10)
        late = await running.get("Pod", "c")
        assert condition(late, "PodScheduled")["reason"] == "Unschedulable"


@in_long_virtual_time
async def test_a_memory_limit_is_not_set_below_what_the_container_uses() -> None:
    async with toy_cluster(1) as running:
        usage = "memory=600Mi spike 1Gi at 0s for 60s"
        await start(running, pod("p", "1", "1Gi", usage, limits={"memory": "4Gi"}))
        await resize(running, "p", limits={"memory": "1Gi"})
        failed = await running.until(
            "Pod", "p", lambda pod: condition(pod, IN_PROGRESS).get("reason") == "Error"
        )
        used = 1624 << 20
        assert condition(failed, IN_PROGRESS)["message"] == (
            "cannot decrease memory limits: "
            f"[attempting to set pod memory limit ({1 << 30}) below current usage ({used}), "
            f'attempting to set container "c" memory limit ({1 << 30}) '
            f"below current usage ({used})]"
        )
        assert has(failed)["limits"]["memory"] == "4Gi"
        assert len(await messages(running, "ResizeError")) == 1
        done = await running.until(
            "Pod", "p", lambda pod: has(pod)["limits"]["memory"] == "1Gi", 120.0
        )
        assert done["status"]["containerStatuses"][0]["restartCount"] == 0


@in_long_virtual_time
async def test_a_bigger_limit_saves_a_leaking_container() -> None:
    async with toy_cluster(1) as running:
        usage = "memory=900Mi+20Mi/s to 1500Mi"
        await start(running, pod("p", "1", "1Gi", usage, limits={"memory": "1Gi"}))
        await resize(running, "p", limits={"memory": "2Gi"})
        await anyio.sleep(60)
        after = await running.get("Pod", "p")
        assert after["status"]["containerStatuses"][0]["restartCount"] == 0


@in_virtual_time
async def test_the_resources_of_the_pod_itself_are_resized() -> None:
    async with toy_cluster(1) as running:
        await start(running, pod("p", "1", resources={"requests": {"cpu": "2"}}))
        path = "/api/v1/namespaces/default/pods/p/resize"
        change = {"spec": {"resources": {"requests": {"cpu": "7"}}}}
        await running.client.patch(path, change, dict, "strategic")
        done = await running.until(
            "Pod", "p", lambda pod: pod["status"]["resources"]["requests"]["cpu"] == "7"
        )
        assert done["status"]["allocatedResources"]["cpu"] == "7"
        assert len(await messages(running, "ResizeCompleted")) == 1
        await running.create("Pod", pod("q", "2"))
        await anyio.sleep(5)
        assert not runs(await running.get("Pod", "q"))


@in_long_virtual_time
async def test_a_resize_of_a_pod_whose_images_are_pulled_takes_effect_at_its_start() -> None:
    async with toy_cluster(1) as running:
        document = pod("p", "1")
        document["metadata"]["annotations"]["berth.dev/image-size"] = "2000Mi"
        await running.create("Pod", document)
        await running.until("Pod", "p", lambda pod: bool(pod["status"].get("containerStatuses")))
        await resize(running, "p", requests={"cpu": "2"})
        done = await running.until("Pod", "p", runs)
        assert has(done)["requests"]["cpu"] == "2"
        assert not condition(done, IN_PROGRESS)


@in_virtual_time
async def test_a_container_that_starts_while_a_resize_is_deferred_has_what_it_had() -> None:
    async with toy_cluster(1) as running:
        document = pod("p", "1")
        document["metadata"]["annotations"]["berth.dev/fail-seconds"] = "5"
        await start(running, document)
        await start(running, pod("q", "4"))
        await resize(running, "p", requests={"cpu": "7"})
        await running.until("Pod", "p", lambda pod: bool(condition(pod, PENDING)))
        again = await running.until(
            "Pod", "p", lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] > 0
        )
        assert has(again)["requests"]["cpu"] == "1"


@in_virtual_time
async def test_a_kubelet_with_static_cpus_never_resizes_guaranteed_pods() -> None:
    static = msgspec.structs.replace(DEFAULTS, static_managers=("cpu",))
    async with toy_cluster(1, setup=Setup([Configuration(static)])) as running:
        same = {"cpu": "1", "memory": "1Gi"}
        await start(running, pod("p", "1", limits=same))
        await resize(running, "p", requests={"cpu": "2"}, limits={"cpu": "2"})
        refused = await running.until("Pod", "p", lambda pod: bool(condition(pod, PENDING)))
        pending = condition(refused, PENDING)
        why = 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
        assert (pending["reason"], pending["message"]) == ("Infeasible", why)
        await resize(running, "p", requests={"memory": "2Gi"}, limits={"memory": "2Gi"})
        still = await running.until(
            "Pod", "p", lambda pod: condition(pod, PENDING).get("observedGeneration") == 3
        )
        assert condition(still, PENDING)["reason"] == "Infeasible"
