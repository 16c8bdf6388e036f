"""Hollow kubelets over HTTP: leases, heartbeats, stopped kubelets, restarts and users' stages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from berth.tools.cluster.controllers.cluster_access import OverHttp
from berth.tools.cluster.kubelets.kubelets import run_kubelets
from berth.tools.cluster.kubelets.stage_files import read_stages
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.testing.virtual_time import LoopClock
from tests.kit import documents
from tests.kit.cluster import Cluster, cluster
from tests.kit.documents import Document, condition
from tests.kit.virtual_loop import in_long_virtual_time, in_virtual_time

pytestmark = pytest.mark.full("long")

STARTED = ("Pulled", "Created", "Started")
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1"


def pod(name: str, node: str = "node-1", **annotations: str) -> Document:
    containers = [documents.container(image="x")]
    fields: Document = {"annotations": annotations, "containers": containers}
    return documents.pod(name, node=node, restartPolicy="Never", **fields)


@asynccontextmanager
async def one_node() -> AsyncIterator[Cluster]:
    async with cluster() as running:
        await running.start(run_kubelets)
        await running.create("Node", hollow_node(1))
        yield running


def in_phase(phase: str) -> Any:
    return lambda status: status.get("phase") == phase


async def events_of_pods(running: Cluster) -> list[Document]:
    events = await running.all("Event")
    return [event for event in events if event["involvedObject"]["kind"] == "Pod"]


async def renewed(running: Cluster) -> datetime:
    lease = await running.client.call("GET", LEASE, dict)
    return datetime.fromisoformat(lease["spec"]["renewTime"])


@in_long_virtual_time
async def test_leases_are_renewed_every_ten_seconds_until_the_kubelet_stops() -> None:
    async with one_node() as running:
        await anyio.sleep(100)
        first = await renewed(running)
        await anyio.sleep(20)
        assert (await renewed(running) - first).total_seconds() == 20
        stop = {"metadata": {"annotations": {"berth.dev/kubelet": "stopped"}}}
        await running.patch("Node", "node-1", stop)
        await anyio.sleep(1)
        last = await renewed(running)
        await anyio.sleep(60)
        assert await renewed(running) == last
        await running.patch("Node", "node-1", {"metadata": {"annotations": None}})
        await anyio.sleep(1)
        assert (await renewed(running) - last).total_seconds() > 60
        await running.delete("Node", "node-1")
        await anyio.sleep(1)
        leases = await running.client.call("GET", LEASE.rpartition("/")[0], dict)
        assert leases["items"] == []


async def told_about_annotations(running: Cluster) -> list[tuple[str, str, str, str]]:
    return [
        (event["type"], event["involvedObject"]["kind"], event["source"]["host"], event["message"])
        for event in await running.all("Event")
        if event["reason"] == "InvalidAnnotation"
    ]


@in_virtual_time
async def test_a_value_of_an_annotation_that_cannot_be_read_is_told_once() -> None:
    async with one_node() as running:
        steering = {"berth.dev/run-seconds": "60s", "berth.dev/pull-failures": "2"}
        await running.create("Pod", pod("slow", **steering))
        await running.create("Pod", pod("fine", **{"berth.dev/run-seconds": "0.5"}))
        await anyio.sleep(30)
        seconds = "expected a number of seconds without a unit, such as 5"
        slow = "annotation berth.dev/run-seconds: '60s': " + seconds
        of_pod = ("Warning", "Pod", "node-1", slow)
        assert await told_about_annotations(running) == [of_pod]
        for number, typo in enumerate(("stoped", "stoped ", "stoped")):
            changed = {"berth.dev/kubelet": typo, "number": str(number)}
            await running.patch("Node", "node-1", {"metadata": {"annotations": changed}})
            await anyio.sleep(10)
        expected = "expected stopped, or no such annotation"
        of_node = [
            ("Warning", "Node", "node-1", f"annotation berth.dev/kubelet: {typo!r}: {expected}")
            for typo in ("stoped", "stoped ")
        ]
        assert sorted(await told_about_annotations(running)) == sorted([of_pod, *of_node])
        stop = {"metadata": {"annotations": {"berth.dev/kubelet": "stopped"}}}
        await running.patch("Node", "node-1", stop)
        await anyio.sleep(10)
        assert len(await told_about_annotations(running)) == 3


@in_virtual_time
async def test_the_renewals_of_nodes_are_spread_over_the_interval() -> None:
    async with cluster() as running:
        await running.start(run_kubelets)
        await running.create_all("Node", map(hollow_node, range(1, 21)))
        await anyio.sleep(60)
        listed = await running.client.call("GET", LEASE.rpartition("/")[0], dict)
        times = sorted(lease["spec"]["renewTime"] for lease in listed["items"])
        assert len(times) == 20
        first, last = map(datetime.fromisoformat, (times[0], times[-1]))
        assert 7 < (last - first).total_seconds() < 10.6
        assert len({time[:19] for time in times}) >= 7


@in_long_virtual_time
async def test_a_node_that_does_not_change_reports_its_conditions_after_five_minutes() -> None:
    async with one_node() as running:
        await anyio.sleep(1)
        before = await running.get("Node", "node-1")
        await anyio.sleep(290)
        same = await running.get("Node", "node-1")
        assert same["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        await anyio.sleep(30)
        conditions = (await running.get("Node", "node-1"))["status"]["conditions"]
        assert {each["type"]: (each["status"], each["reason"]) for each in conditions} == {
            "Ready": ("True", "KubeletReady"),
            "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
            "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
            "PIDPressure": ("False", "KubeletHasSufficientPID"),
        }
        for each in conditions:
            assert each["lastHeartbeatTime"].startswith("2026-01-01T00:05:")
            assert each["lastTransitionTime"].startswith("2026-01-01T00:00:0")


@in_virtual_time
async def test_a_stopped_kubelet_leaves_its_pods_alone_and_goes_on_later() -> None:
    async with cluster() as running:
        await running.start(run_kubelets)
        node = hollow_node(1)
        node["metadata"]["annotations"] = {"berth.dev/kubelet": "stopped"}
        await running.create("Node", node)
        await running.create("Pod", pod("a"))
        await running.create("Pod", pod("b", node="node-2"))
        await anyio.sleep(30)
        for name in ("a", "b"):
            assert (await running.get("Pod", name))["status"]["phase"] == "Pending"
        await running.patch("Node", "node-1", {"metadata": {"annotations": None}})
        await running.status("Pod", "a", in_phase("Running"))
        await running.create("Node", hollow_node(2))
        await running.status("Pod", "b", in_phase("Running"))
        lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        await running.patch("Node", "node-1", {"status": {"conditions": [lost]}}, "/status")
        node = await running.status(
            "Node", "node-1", lambda status: status["conditions"][0]["status"] == "True"
        )
        assert node["status"]["conditions"][0]["reason"] == "KubeletReady"
        ready = "Node node-1 status is now: NodeReady"  # at the start, and once more
        await running.until_all(
            "Event",
            lambda events: sum(e.get("count", 1) for e in events if e["message"] == ready) == 2,
        )


@in_long_virtual_time
async def test_a_zone_goes_dark_and_comes_back() -> None:
    async with cluster() as running:
        await running.start_hollow(map(hollow_node, range(1, 5)))
        await running.create("Pod", pod("a", node="node-2"))
        await running.status("Pod", "a", in_phase("Running"))
        await anyio.sleep(20)
        stop = {"metadata": {"annotations": {"berth.dev/kubelet": "stopped"}}}
        await running.patch("Node", "node-2", stop)
        await running.until("Node", "node-2", lambda node: condition(node) == "Unknown", 90)
        await running.until("Pod", "a", lambda item: condition(item) == "False")
        await anyio.sleep(30)
        assert condition(await running.get("Node", "node-2")) == "Unknown"
        assert condition(await running.get("Node", "node-1")) == "True"
        await running.patch("Node", "node-2", {"metadata": {"annotations": None}})
        await running.until("Node", "node-2", lambda node: condition(node) == "True")
        await running.until("Pod", "a", lambda item: condition(item) == "True")
        await running.until("Node", "node-2", lambda node: not node["spec"].get("taints"))


@in_virtual_time
async def test_a_kubelet_that_only_seemed_silent_reports_its_pods_as_ready_again() -> None:
    async with one_node() as running:
        for name in ("a", "b"):
            await running.create("Pod", pod(name))
        ready = await running.status("Pod", "a", in_phase("Running"))
        lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        marked = {
            "conditions": [
                {**each, "status": "False"} if each["type"] == "Ready" else each
                for each in ready["status"]["conditions"]
            ]
        }
        await running.patch("Pod", "a", {"status": marked}, "/status")
        await running.until("Pod", "a", lambda item: condition(item) == "True")
        await running.patch("Node", "node-1", {"status": {"conditions": [lost]}}, "/status")
        await running.patch("Pod", "b", {"status": marked}, "/status")
        await running.until("Pod", "b", lambda item: condition(item) == "True")
        assert condition(await running.get("Node", "node-1")) == "True"


@in_virtual_time
async def test_kubelets_that_start_again_go_on_with_the_delays() -> None:
    async with cluster() as running:
        run = {"berth.dev/run-seconds": "60"}
        async with anyio.create_task_group() as group:
            clock, rng = LoopClock(), Random(1)
            access = OverHttp(running.client, clock, rng)
            await group.start(run_kubelets, access, clock, rng)
            await running.create("Node", hollow_node(1))
            await running.create("Pod", pod("a", **run))
            await running.status("Pod", "a", in_phase("Running"))
            await anyio.sleep(40)
            group.cancel_scope.cancel()
        await anyio.sleep(5)
        await running.start(run_kubelets)
        await anyio.sleep(10)
        assert (await running.get("Pod", "a"))["status"]["phase"] == "Running"
        await anyio.sleep(6)
        assert (await running.get("Pod", "a"))["status"]["phase"] == "Succeeded"
        await running.create("Pod", pod("b"))
        b = await running.status("Pod", "b", in_phase("Running"))
        a = await running.get("Pod", "a")
        assert a["status"]["podIP"] != b["status"]["podIP"]


STAGES = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: pod-ready
spec:
  resourceRef:
    apiGroup: v1
    kind: Pod
  selector:
    matchExpressions:
    - key: .metadata.deletionTimestamp
      operator: DoesNotExist
    - key: .status.phase
      operator: In
      values: [Pending]
  delay:
    durationMilliseconds: 20000
    jitterDurationMilliseconds: 30000
  next:
    event:
      type: Normal
      reason: Started
      message: slowly
    finalizers:
      add:
      - value: example.com/kept
    statusTemplate: |
      {{ $now := Now }}
      phase: Running
      hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
      podIP: {{ PodIPWith .spec.nodeName false .metadata.uid .metadata.name "" | Quote }}
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name }}
        image: {{ .image | Quote }}
        imageID: ""
        ready: true
        restartCount: 0
        state: {running: {startedAt: {{ $now | Quote }}}}
      {{ end }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: pod-let-go
spec:
  resourceRef:
    kind: Pod
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: Exists}
    - {key: '.metadata.finalizers[]?', operator: In, values: [example.com/kept]}
  weight: 1
  next:
    finalizers:
      empty: true
"""


@in_virtual_time
async def test_users_play_their_own_stages(tmp_path: Path) -> None:
    (tmp_path / "slow.yaml").write_text(STAGES)
    stages = read_stages([tmp_path])
    assert (stages.replaced, stages.added) == (("pod-ready",), ("pod-let-go",))
    async with cluster() as running:
        await running.start(run_kubelets, stages)
        await running.create("Node", hollow_node(1))
        await running.create("Pod", pod("a", **{"berth.dev/run-seconds": "1000"}))
        await anyio.sleep(19)
        assert (await running.get("Pod", "a"))["status"]["phase"] == "Pending"
        await anyio.sleep(12)
        after = await running.get("Pod", "a")
        assert after["status"]["phase"] == "Running"
        assert after["status"]["podIP"].startswith("10.244.")
        assert after["metadata"]["finalizers"] == ["example.com/kept"]
        (event,) = await events_of_pods(running)
        assert (event["reason"], event["message"]) == ("Started", "slowly")
        await running.delete("Pod", "a")
        await running.gone("Pod", "a")


def restarts(count: int, reason: str = "") -> Any:
    def holds(status: Document) -> bool:
        (container,) = status.get("containerStatuses") or [{"restartCount": -1}]
        waiting = container.get("state", {}).get("waiting", {}).get("reason", "")
        return bool(container["restartCount"] == count and waiting == reason)

    return holds


@in_virtual_time
async def test_labels_and_annotations_of_kwok_fail_a_pod() -> None:
    async with one_node() as running:
        name = "pod-container-running-failed.stage.kwok.x-k8s.io"
        failing = pod(
            "a", **{f"{name}/delay": "4s", f"{name}/exit-code": "42", f"{name}/reason": "Boom"}
        )
        failing["metadata"]["labels"] = {name: "true"}
        await running.create("Pod", failing)
        await anyio.sleep(3)
        assert (await running.get("Pod", "a"))["status"]["phase"] == "Running"
        a = await running.status("Pod", "a", in_phase("Failed"))
        ended = a["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (42, "Boom")


@in_virtual_time
async def test_a_failing_liveness_probe_restarts_the_container() -> None:
    async with one_node() as running:
        unhealthy = pod("a", **{"berth.dev/unhealthy-seconds": "20"})
        unhealthy["spec"]["restartPolicy"] = "Always"
        unhealthy["spec"]["containers"][0]["livenessProbe"] = {"exec": {"command": ["x"]}}
        await running.create("Pod", unhealthy)
        await anyio.sleep(19)
        assert (await running.get("Pod", "a"))["status"]["containerStatuses"][0]["ready"]
        a = await running.status("Pod", "a", restarts(1))
        ended = a["status"]["containerStatuses"][0]["lastState"]["terminated"]
        assert ended["exitCode"] == 137
        reasons = {event["reason"] for event in await events_of_pods(running)}
        assert reasons == {*STARTED, "Unhealthy", "Killing"}


@in_virtual_time
async def test_readiness_is_seen_when_its_time_comes() -> None:
    async with one_node() as running:
        await running.create("Pod", pod("a", **{"berth.dev/ready-seconds": "15"}))
        await running.status("Pod", "a", in_phase("Running"))
        await anyio.sleep(13)
        assert not (await running.get("Pod", "a"))["status"]["containerStatuses"][0]["ready"]
        await anyio.sleep(3)
        a = await running.get("Pod", "a")
        conditions = {each["type"]: each["status"] for each in a["status"]["conditions"]}
        assert conditions["Ready"] == "True"
        assert a["status"]["containerStatuses"][0]["ready"]


@in_virtual_time
async def test_a_sidecar_that_crashes_backs_off_in_a_running_pod() -> None:
    async with one_node() as running:
        stage = "pod-container-running-failed.stage.kwok.x-k8s.io"
        beside = pod("a", **{f"{stage}/container-name": "s", "berth.dev/fail-seconds": "5"})
        sidecar = {"name": "s", "image": "x", "restartPolicy": "Always"}
        beside["spec"]["initContainers"] = [sidecar]
        await running.create("Pod", beside)
        await running.status("Pod", "a", in_phase("Running"))
        await anyio.sleep(11)
        status = (await running.get("Pod", "a"))["status"]
        assert status["phase"] == "Running"
        (waiting,) = status["initContainerStatuses"]
        assert waiting["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        (event,) = [each for each in await running.all("Event") if each["reason"] == "BackOff"]
        assert event["involvedObject"]["fieldPath"] == "spec.initContainers{s}"
        await anyio.sleep(10)
        (again,) = (await running.get("Pod", "a"))["status"]["initContainerStatuses"]
        assert "running" in again["state"]


@in_virtual_time
async def test_a_pod_stops_after_its_hook_within_the_grace_period() -> None:
    async with one_node() as running:
        hooked = pod("a")
        hook = {"preStop": {"sleep": {"seconds": 8}}}
        hooked["spec"]["containers"][0]["lifecycle"] = hook
        await running.create("Pod", hooked)
        await running.create("Pod", pod("b", **{"berth.dev/stop-seconds": "600"}))
        beside = pod("c")
        sidecar = {"name": "s", "image": "x", "restartPolicy": "Always", "lifecycle": hook}
        beside["spec"]["initContainers"] = [sidecar]
        await running.create("Pod", beside)
        for name in ("a", "b", "c"):
            await running.status("Pod", name, in_phase("Running"))
            await running.delete("Pod", name)
        await anyio.sleep(7)
        assert {item["metadata"]["name"] for item in await running.all("Pod")} == {"a", "b", "c"}
        await anyio.sleep(2)
        assert {item["metadata"]["name"] for item in await running.all("Pod")} == {"b"}
        await anyio.sleep(20)
        assert len(await running.all("Pod")) == 1
        await anyio.sleep(2)
        assert not await running.all("Pod")


@in_long_virtual_time
async def test_images_are_pulled_and_reported() -> None:
    async with one_node() as running:
        size = {"berth.dev/image-size": "1000Mi", "berth.dev/pull-failures": "1"}
        await running.create("Pod", pod("a", **size))
        await running.status("Pod", "a", restarts(0, "ContainerCreating"))
        await anyio.sleep(8)
        assert (await running.get("Pod", "a"))["status"]["phase"] == "Pending"
        why = "the annotation berth.dev/pull-failures says so"
        a = await running.status("Pod", "a", restarts(0, "ErrImagePull"))
        assert a["status"]["containerStatuses"][0]["state"]["waiting"]["message"] == why
        a = await running.status("Pod", "a", restarts(0, "ImagePullBackOff"))
        waiting = a["status"]["containerStatuses"][0]["state"]["waiting"]
        assert waiting["message"] == f'Back-off pulling image "x": ErrImagePull: {why}'
        await running.status("Pod", "a", in_phase("Running"))
        events = await events_of_pods(running)
        assert {each["involvedObject"]["fieldPath"] for each in events} == {"spec.containers{c}"}
        took = "in 10s (10s including waiting). Image size: 1048576000 bytes."
        assert sorted(f"{each['reason']}: {each['message']}" for each in events) == [
            'BackOff: Back-off pulling image "x"',
            "Created: Container created",
            "Failed: Error: ErrImagePull",
            "Failed: Error: ImagePullBackOff",
            f'Failed: Failed to pull image "x": {why}',
            f'Pulled: Successfully pulled image "x" {took}',
            'Pulling: Pulling image "x"',
            "Started: Container started",
        ]
        node = await running.status("Node", "node-1", lambda status: bool(status.get("images")))
        assert node["status"]["images"] == [{"names": ["x"], "sizeBytes": 1000 << 20}]
        await running.create("Pod", pod("b", **{"berth.dev/image-size": "1000Mi"}))
        await running.status("Pod", "b", in_phase("Running"), seconds=2)
        present = 'Container image "x" already present on machine and can be accessed by the pod'
        await running.until_all("Event", lambda all_: present in {e["message"] for e in all_})


@in_virtual_time
async def test_an_init_container_waits_for_its_image_first() -> None:
    async with one_node() as running:
        failing = pod("a", **{"berth.dev/image-size": "100Mi", "berth.dev/pull-failures": "1"})
        failing["spec"]["initContainers"] = [{"name": "i", "image": "y"}]
        await running.create("Pod", failing)
        seen = []
        for _ in range(12):
            await anyio.sleep(1)
            status = (await running.get("Pod", "a"))["status"]
            (init,), (main,) = status["initContainerStatuses"], status["containerStatuses"]
            reasons = [each["state"].get("waiting", {}).get("reason") for each in (init, main)]
            if reasons not in seen:
                seen.append(reasons)
        initializing = "PodInitializing"
        assert seen == [
            [initializing, initializing],
            ["ErrImagePull", initializing],
            ["ImagePullBackOff", initializing],
        ]
        await running.status("Pod", "a", in_phase("Running"))


History = list[tuple[int, str, str]]


async def follow(seen: History) -> None:
    """Notes the phases of pods with random delays, second by second."""
    delay = "pod-complete.stage.kwok.x-k8s.io"
    async with one_node() as running:
        for number in range(10):
            jitter = {f"{delay}/delay": "1s", f"{delay}/jitter-delay": "50s"}
            await running.create("Pod", pod(f"p{number}", **jitter))
        for second in range(60):
            pods = await running.by_name("Pod")
            seen += [(second, name, pods[name]["status"]["phase"]) for name in sorted(pods)]
            await anyio.sleep(1)


@pytest.mark.full("long")
def test_the_same_seed_gives_the_same_history() -> None:
    first: History = []
    second: History = []
    in_virtual_time(partial(follow, first))()
    in_virtual_time(partial(follow, second))()
    assert {phase for _, _, phase in first} >= {"Running", "Succeeded"}
    ends = {name: moment for moment, name, phase in reversed(first) if phase == "Succeeded"}
    assert len(set(ends.values())) > 5
    assert first == second


@in_virtual_time
async def test_a_deleted_mirror_pod_has_not_ended() -> None:
    async with one_node() as running:
        await running.create("Pod", pod("a", **{"kubernetes.io/config.mirror": "1"}))
        await running.create("Pod", pod("b"))
        for name in ("a", "b"):
            finalizers = {"metadata": {"finalizers": ["example.com/kept"]}}
            await running.status("Pod", name, in_phase("Running"))
            await running.patch("Pod", name, finalizers)
            await running.delete("Pod", name)
        await running.status("Pod", "b", in_phase("Succeeded"))
        assert (await running.get("Pod", "a"))["status"]["phase"] == "Running"
        killed = [e for e in await running.all("Event") if e["reason"] == "Killing"]
        assert [event["involvedObject"]["name"] for event in killed] == ["b"]
