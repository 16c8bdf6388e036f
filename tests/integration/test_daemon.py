"""Processes of `berth run` against a process of `berth apiserver`: killed, stopped, cut off and
misused.

The lease terms are 3 s, 2 s and 0.5 s. The API server's watch and the Scheduled events show that
each pod is bound once. No scheduler may even have tried to bind a pod that had a node.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from aiohttp import ClientSession

from berth.actors.client.rest import Client, Connection
from berth.actors.client.watch import ObjectChanged, ObjectDeleted, ObjectsListed, Reflector
from berth.actors.runtime.clock import SystemClock
from berth.actors.scheduling.kube.core import Pod
from tests.kit.messages import no_room
from tests.kit.processes import POLL_SECONDS, Berth, berth, free_port
from tests.kit.serving import OPEN

Document = dict[str, Any]

LEASE_SECONDS = 3.0
ELECTION = (
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
)
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
PODS = "/api/v1/namespaces/default/pods"
LEADS = "Successfully acquired lease"


class Cluster:
    """An API server's process, processes of schedulers, and a watch that records all nodes of each
    pod.
    """

    def __init__(self, folder: Path, api: Berth, url: str, client: Client) -> None:
        self.folder = folder
        self.api = api
        self.url = url
        self.client = client
        self.nodes_of: dict[str, list[str]] = {}
        self.schedulers: list[Berth] = []

    async def follow(self) -> None:
        async for told in Reflector(self.client, PODS, Pod, SystemClock(), Random(0)).changes():
            match told:
                case ObjectsListed(items):
                    for item in items:
                        self._note(item)
                case ObjectChanged(item):
                    self._note(item)
                case ObjectDeleted():
                    pass

    def _note(self, pod: Pod) -> None:
        had = self.nodes_of.setdefault(pod.metadata.name, [])
        if pod.spec.node_name and had[-1:] != [pod.spec.node_name]:
            had.append(pod.spec.node_name)

    @asynccontextmanager
    async def scheduler(self, *flags: str) -> AsyncIterator[Berth]:
        async with berth(
            self.folder,
            "run",
            f"--master={self.url}",
            "--secure-port=0",
            "--logging-format=json",
            "--v=2",
            *ELECTION,
            *flags,
        ) as one:
            self.schedulers.append(one)
            yield one

    async def node(self, name: str, cpu: str = "1000", pods: str = "2000") -> None:
        allocatable = {"cpu": cpu, "memory": "1000Gi", "pods": pods}
        await self.client.call(
            "POST",
            "/api/v1/nodes",
            dict,
            {"metadata": {"name": name}, "status": {"allocatable": allocatable}},
        )

    async def pod(self, name: str, cpu: str = "100m") -> None:
        container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
        document = {"metadata": {"name": name}, "spec": {"containers": [container]}}
        await self.client.call("POST", PODS, dict, document)

    async def burst(self, prefix: str, count: int) -> None:
        async with anyio.create_task_group() as group:
            for i in range(count):
                group.start_soon(self.pod, f"{prefix}-{i}")

    async def until(self, holds: Callable[[], bool]) -> None:
        with anyio.fail_after(60):
            while not holds():
                await anyio.sleep(POLL_SECONDS)

    async def bound(self, *names: str) -> None:
        """Waits until these pods have nodes; without names, all pods."""
        await self.until(lambda: all(self.nodes_of.get(name) for name in names or self.nodes_of))

    async def lease(self) -> Document:
        """The spec of the schedulers' lease."""
        found: Document = (await self.client.call("GET", LEASE, dict))["spec"]
        return found

    async def events(self, reason: str, namespace: str = "default") -> list[Document]:
        listed = await self.client.call("GET", f"/api/v1/namespaces/{namespace}/events", dict)
        return [item for item in listed["items"] if item["reason"] == reason]

    async def scheduled(self, name: str) -> Document | None:
        """The PodScheduled condition of a pod."""
        pod = await self.client.call("GET", f"{PODS}/{name}", dict)
        conditions = pod["status"].get("conditions", [])
        return next((found for found in conditions if found["type"] == "PodScheduled"), None)

    def assert_bound_once(self, pods: int) -> None:
        assert Counter(map(len, self.nodes_of.values())) == {1: pods}
        for scheduler in self.schedulers:
            assert "Traceback" not in scheduler.output
            assert "already assigned" not in scheduler.output


@asynccontextmanager
async def cluster(folder: Path, *, watched: bool = True) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(berth(folder, "apiserver", f"--data={folder}/data"))
        url = (await api.says("API server at ")).split()[-1]
        client = await stack.enter_async_context(Client(Connection(url)))
        running = Cluster(folder, api, url, client)
        group = await stack.enter_async_context(anyio.create_task_group())
        if watched:
            group.start_soon(running.follow)
        yield running
        group.cancel_scope.cancel()


async def leader_of(first: Berth, second: Berth) -> tuple[Berth, Berth]:
    """Waits for a leader. Returns the leader and the standby."""
    with anyio.fail_after(20):
        while not (first.count(LEADS) or second.count(LEADS)):
            await anyio.sleep(POLL_SECONDS)
    return (first, second) if first.count(LEADS) else (second, first)


@asynccontextmanager
async def restarted(running: Cluster) -> AsyncIterator[Berth]:
    """Runs the API server again, on the same port and with the same objects."""
    port = running.url.rsplit(":", 1)[1]
    async with berth(
        running.folder, "apiserver", f"--port={port}", f"--data={running.folder}/data"
    ) as api:
        await api.says("API server at ")
        yield api


async def test_a_killed_leader_is_succeeded_when_its_lease_has_expired(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path) as running,
        running.scheduler() as first,
        running.scheduler() as second,
    ):
        leader, standby = await leader_of(first, second)
        await running.node("n")
        await running.pod("before")
        await running.bound("before")
        renewals: set[str] = set()
        with anyio.fail_after(20):
            while len(renewals) < 3:
                renewals.add((await running.lease())["renewTime"])
                await anyio.sleep(POLL_SECONDS)
        assert not standby.count(LEADS)
        assert not standby.attempts("scheduled")
        leader.send(signal.SIGKILL)
        await leader.end()
        left = await running.lease()
        await running.pod("after")
        await running.bound("before", "after")
        await standby.says(LEADS)
        taken = await running.lease()
        # The times in the lease: a slow machine can only increase their difference.
        acquired, renewed = map(datetime.fromisoformat, (taken["acquireTime"], left["renewTime"]))
        assert acquired - renewed >= timedelta(seconds=LEASE_SECONDS)
        assert taken["leaseTransitions"] == 1
        running.assert_bound_once(2)


async def test_a_leader_killed_in_a_burst_leaves_no_pod_behind_and_binds_none_twice(
    tmp_path: Path,
) -> None:
    fast = ("--kube-api-qps=5000", "--kube-api-burst=5000")
    async with (
        cluster(tmp_path) as running,
        running.scheduler(*fast) as first,
        running.scheduler(*fast) as second,
    ):
        leader, standby = await leader_of(first, second)
        await running.node("a")
        await running.node("b")
        async with anyio.create_task_group() as group:
            group.start_soon(running.burst, "p", 500)
            await running.until(lambda: sum(map(bool, running.nodes_of.values())) >= 50)
            leader.send(signal.SIGKILL)
            await leader.end()
        await running.until(lambda: len(running.nodes_of) == 500)
        await running.bound()
        by_leader, by_standby = leader.attempts("scheduled"), standby.attempts("scheduled")
        assert by_standby, "the leader was killed after it had bound every pod"
        assert not set(by_leader) & set(by_standby)
        assert max(Counter(by_leader + by_standby).values()) == 1
        running.assert_bound_once(500)
        told = Counter(
            event["involvedObject"]["name"] for event in await running.events("Scheduled")
        )
        assert max(told.values()) == 1


async def test_a_stopped_leader_gives_the_lease_back(tmp_path: Path) -> None:
    # So long that the standby cannot have waited for the lease to expire.
    long = ("--leader-elect-lease-duration=1h", "--leader-elect-renew-deadline=30m")
    async with (
        cluster(tmp_path) as running,
        running.scheduler(*long) as first,
        running.scheduler(*long) as second,
    ):
        leader, standby = await leader_of(first, second)
        await running.node("n")
        await running.pod("before")
        await running.bound("before")
        await running.pod("late")
        leader.send(signal.SIGTERM)
        assert await leader.end() == 0
        await standby.says(LEADS)
        await running.pod("after")
        await running.bound("before", "late", "after")
        running.assert_bound_once(3)
        told = [
            event["message"].split(" ", 1)[1]
            for event in await running.events("LeaderElection", "kube-system")
        ]
        assert told == ["became leader", "stopped leading", "became leader"]
        # The leader wrote its events before it ended.
        assert {event["involvedObject"]["name"] for event in await running.events("Scheduled")} >= {
            "before"
        }


async def test_a_leader_without_an_api_server_ends_when_its_lease_is_lost(tmp_path: Path) -> None:
    async with cluster(tmp_path, watched=False) as running, running.scheduler() as leader:
        await leader.says(LEADS)
        await running.api.kill()
        assert await leader.end() == 1
        assert leader.output.splitlines()[-1] == "Error: lease kube-system/kube-scheduler was lost"
        assert "Traceback" not in leader.output
        assert leader.count("lease not written") == 1


async def test_a_scheduler_waits_for_an_api_server_that_starts_late(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running:
        await running.node("n")
        await running.pod("p")
        await running.api.kill()
        async with running.scheduler("--v=4") as scheduler:
            await running.until(lambda: scheduler.count("watch interrupted") >= 2)
            lines = map(json.loads, scheduler.output.splitlines())
            tries = [line for line in lines if line["msg"] == "watch interrupted"]
            assert {line["err"] for line in tries} == {f"{running.url}: Connection refused"}
            assert [line["v"] for line in tries] == [0] + [4] * (len(tries) - 1)
            async with restarted(running):
                await running.bound("p")
                running.assert_bound_once(1)


async def test_no_pod_is_lost_when_the_api_server_restarts(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, running.scheduler("--leader-elect=false") as scheduler:
        await running.node("n", cpu="100")
        await running.pod("too-big", cpu="101")
        await running.burst("before", 20)
        await running.bound(*(f"before-{i}" for i in range(20)))
        await running.until(lambda: scheduler.count("too-big") > 0)
        await running.api.kill()
        async with restarted(running):
            await running.burst("after", 20)
            await running.node("large")
            await running.until(lambda: len(running.nodes_of) == 41)
            await running.bound()
            assert running.nodes_of["too-big"] == ["large"]
            running.assert_bound_once(41)
            await running.until(
                lambda: scheduler.count("watch interrupted") == scheduler.count("watch resumed")
            )


async def test_a_pod_without_room_gets_a_condition_and_is_placed_when_there_is_room(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as running, running.scheduler() as scheduler:
        await running.node("small", cpu="1")
        await running.pod("big", cpu="4")
        await running.pod("gone", cpu="4")
        await running.until(lambda: "default/gone" in scheduler.attempts("unschedulable"))
        await running.client.call("DELETE", f"{PODS}/gone", dict)
        message = no_room(1, "1 Insufficient cpu")
        with anyio.fail_after(10):
            while not (
                failed := await running.events("FailedScheduling")
            ) or not await running.scheduled("big"):
                await anyio.sleep(POLL_SECONDS)
        assert {(event["message"], event["type"], "series" in event) for event in failed} == {
            (message, "Warning", False)
        }
        condition = await running.scheduled("big")
        assert condition is not None
        assert (condition["status"], condition["reason"], condition["message"]) == (
            "False",
            "Unschedulable",
            message,
        )
        await running.node("large")
        await running.bound("big")
        condition = await running.scheduled("big")
        assert condition is not None
        assert condition["status"] == "True"
        assert running.nodes_of == {"big": ["large"], "gone": []}
        assert scheduler.attempts("unschedulable") == ["default/big", "default/gone"]
        story = [
            json.loads(line) for line in scheduler.output.splitlines() if '"name":"big"' in line
        ]
        fixed = ("msg", "v", "result", "node", "attempt", "err")
        assert [tuple(record.get(key) for key in fixed) for record in story] == [
            ("Unable to schedule pod; no fit; waiting", 2, "unschedulable", None, 1, message),
            ("Successfully bound pod to node", 2, "scheduled", "large", 2, None),
        ]
        assert all(record["seconds"] > 0 for record in story)


UNKNOWN_FIELD = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
paralelism: 3
"""


@pytest.mark.parametrize(
    ("content", "arguments", "says"),
    [
        ("clusters: [", ["run", "--kubeconfig=FILE"], "FILE: expected YAML"),
        (
            "",
            ["run", "--kubeconfig=FILE.none"],
            "FILE.none: cannot be read: No such file or directory",
        ),
        (
            UNKNOWN_FIELD,
            ["run", "--master=http://127.0.0.1:9", "--config=FILE"],
            "paralelism: unknown field",
        ),
        (
            "",
            ["run", "--master=http://127.0.0.1:9", "--leader-elect-renew-deadline=20s"],
            "renewDeadline",
        ),
        (
            "no journal\n",
            ["apiserver", "--data=FILE"],
            "FILE, line 1: not a write of an API server",
        ),
    ],
)
async def test_a_command_that_cannot_start_says_why_in_one_line(
    tmp_path: Path, content: str, arguments: list[str], says: str
) -> None:
    file = tmp_path / "file"
    file.write_text(content)
    async with berth(
        tmp_path, *(argument.replace("FILE", str(file)) for argument in arguments)
    ) as started:
        assert await started.end() == 1
        (line,) = started.output.splitlines()
        assert line.startswith("Error: ")
        assert says.replace("FILE", str(file)) in line


async def test_a_port_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    async with cluster(tmp_path, watched=False) as running:
        port = running.url.rsplit(":", 1)[1]
        async with berth(tmp_path, "apiserver", f"--port={port}") as second:
            assert await second.end() == 1
            (line,) = second.output.splitlines()
            assert line.startswith("Error: cannot start: ")
            assert "address already in use" in line


async def test_health_metrics_and_configuration_are_served(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, ClientSession() as session:
        await running.node("n")
        await running.pod("p")
        await running.api.kill()
        at = f"https://127.0.0.1:{free_port()}"
        flags = ("--bind-address=127.0.0.1", f"--secure-port={at.rsplit(':', 1)[1]}", OPEN)
        async with running.scheduler(*flags) as scheduler:

            async def get(path: str) -> tuple[int, str]:
                async with session.get(at + path, ssl=False) as response:
                    return response.status, await response.text()

            await scheduler.says("Serving securely on")
            assert await get("/healthz") == (200, "ok")
            assert await get("/livez?verbose") == (200, "[+]ping ok\nlivez check passed\n")
            status, text = await get("/readyz")
            assert (status, "[-]sched-handler-sync failed" in text) == (500, True)
            async with restarted(running):
                await running.bound("p")
                assert await get("/readyz") == (200, "ok")
                await running.until(lambda: "default/p" in scheduler.attempts("scheduled"))
                _, metrics = await get("/metrics")
                ended = '{profile="default-scheduler",result="scheduled"}'
                assert f"scheduler_scheduling_attempt_duration_seconds_count{ended} 1\n" in metrics
                assert 'rest_client_requests_total{code="201",host="127.0.0.1:' in metrics
                assert 'authenticated_user_requests{username="other"} ' in metrics
                assert 'scheduler_cache_size{type="nodes"} 1\n' in metrics
                assert 'scheduler_pending_pods{queue="active"} 0\n' in metrics
                assert 'berth_cache_mended_total{what="pending_pod"} 0\n' in metrics
                _, resources = await get("/metrics/resources")
                assert 'node="n",pod="p",priority="0",resource="cpu"' in resources
                _, configuration = await get("/configz")
                served = json.loads(configuration)["componentconfig"]
                assert served["leaderElection"]["leaseDuration"] == "3s"
                assert (await get("/"))[0] == 404
                async with running.scheduler(*flags) as second:
                    assert await second.end() == 1
                    line = second.output.splitlines()[-1]
                    assert line.startswith("Error: cannot start: ")
                    assert "address already in use" in line
