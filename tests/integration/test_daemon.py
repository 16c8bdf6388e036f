"""Processes of `berth run`: killed, stopped, cut off from their API server and misused."""

from __future__ import annotations

import json
import signal
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import ClientSession

from tests.kit.daemons import LEADS, LEASE_SECONDS, LONG, daemons
from tests.kit.messages import no_room
from tests.kit.processes import POLL_SECONDS, free_port
from tests.kit.serving import OPEN

pytestmark = pytest.mark.full


async def test_a_leader_killed_in_a_burst_is_succeeded_when_its_lease_has_expired(
    tmp_path: Path,
) -> None:
    """No pod is left behind, and none is bound twice."""
    fast = ("--kube-api-qps=5000", "--kube-api-burst=5000")
    async with (
        daemons(tmp_path) as running,
        running.scheduler(*fast) as first,
        running.scheduler(*fast) as second,
    ):
        leader, standby = await running.leader_of(first, second)
        await running.node("a")
        await running.node("b")
        renewals: set[str] = set()
        with anyio.fail_after(20):
            while len(renewals) < 3:
                renewals.add((await running.lease())["renewTime"])
                await anyio.sleep(POLL_SECONDS)
        assert not standby.count(LEADS)
        async with anyio.create_task_group() as group:
            group.start_soon(running.burst, "p", 300)
            await running.wait(lambda: sum(map(bool, running.nodes_of.values())) >= 50)
            leader.send(signal.SIGKILL)
            await leader.end()
        left = await running.lease()
        await running.all_bound(300)
        taken = await running.lease()
        # The times in the lease: a slow machine can only increase their difference.
        acquired, renewed = map(datetime.fromisoformat, (taken["acquireTime"], left["renewTime"]))
        assert acquired - renewed >= timedelta(seconds=LEASE_SECONDS)
        assert taken["leaseTransitions"] == 1
        by_leader, by_standby = leader.attempts("scheduled"), standby.attempts("scheduled")
        assert by_standby, "the leader was killed after it had bound every pod"
        assert not set(by_leader) & set(by_standby)
        assert max(Counter(by_leader + by_standby).values()) == 1
        told = Counter(
            event["involvedObject"]["name"] for event in await running.events("Scheduled")
        )
        assert max(told.values()) == 1


async def test_a_stopped_leader_gives_the_lease_back(tmp_path: Path) -> None:
    # So long that the standby cannot have waited for the lease to expire.
    long = ("--leader-elect-lease-duration=1h", "--leader-elect-renew-deadline=30m")
    async with (
        daemons(tmp_path) as running,
        running.scheduler(*long) as first,
        running.scheduler(*long) as second,
    ):
        leader, standby = await running.leader_of(first, second)
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
    async with daemons(tmp_path) as running, running.scheduler() as leader:
        await leader.says(LEADS)
        await running.stop_server()
        assert await leader.end() == 1
        assert leader.output.splitlines()[-1] == "Error: lease kube-system/kube-scheduler was lost"
        assert "Traceback" not in leader.output
        assert leader.count("lease not written") == 1


async def test_no_pod_is_lost_when_the_api_server_restarts(tmp_path: Path) -> None:
    async with daemons(tmp_path) as running, running.scheduler("--leader-elect=false") as scheduler:
        await running.node("n", cpu="100")
        await running.pod("too-big", cpu="101")
        await running.burst("before", 20)
        await running.bound(*(f"before-{i}" for i in range(20)))
        await running.wait(lambda: scheduler.count("too-big") > 0)
        message = no_room(1, "1 Insufficient cpu")
        await running.stop_server()
        await running.start_server()
        await running.burst("after", 20)
        await running.node("large")
        await running.all_bound(41)
        assert running.nodes_of["too-big"] == ["large"]
        await running.wait(
            lambda: scheduler.count("watch interrupted") == scheduler.count("watch resumed")
        )
        lines = [line for line in scheduler.output.splitlines() if '"name":"too-big"' in line]
        first, *_, last = map(json.loads, lines)
        fixed = ("msg", "v", "result", "node", "attempt", "err")
        assert [[record.get(key) for key in fixed] for record in (first, last)] == [
            ["Unable to schedule pod; no fit; waiting", 2, "unschedulable", None, 1, message],
            ["Successfully bound pod to node", 2, "scheduled", "large", last["attempt"], None],
        ]
        assert first["seconds"] > 0


async def test_a_scheduler_waits_for_its_api_server_and_serves_its_pages_meanwhile(
    tmp_path: Path,
) -> None:
    async with daemons(tmp_path) as running, ClientSession() as session:
        await running.node("n")
        await running.pod("p")
        await running.stop_server()
        at = f"https://127.0.0.1:{free_port()}"
        flags = ("--bind-address=127.0.0.1", f"--secure-port={at.rsplit(':', 1)[1]}", OPEN)
        async with running.scheduler("--v=4", *flags, *LONG) as scheduler:

            async def get(path: str) -> tuple[int, str]:
                async with session.get(at + path, ssl=False) as response:
                    return response.status, await response.text()

            await scheduler.says("Serving securely on")
            assert await get("/healthz") == (200, "ok")
            assert await get("/livez?verbose") == (200, "[+]ping ok\nlivez check passed\n")
            status, text = await get("/readyz")
            assert (status, "[-]sched-handler-sync failed" in text) == (500, True)

            def tries() -> list[dict[str, Any]]:
                lines = map(json.loads, scheduler.output.splitlines())
                failed = [line for line in lines if line["msg"] == "watch interrupted"]
                return [line for line in failed if line["path"] == "/api/v1/pods"]

            await running.wait(lambda: len(tries()) >= 2)
            assert {line["err"] for line in tries()} == {f"{running.url}: Connection refused"}
            levels = [line["v"] for line in tries()]
            assert levels == [0] + [4] * (len(levels) - 1), "one warning for a kind"
            await running.start_server()
            await running.bound("p")
            assert await get("/readyz") == (200, "ok")
            await running.wait(lambda: "default/p" in scheduler.attempts("scheduled"))
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
            assert served["leaderElection"]["leaseDuration"] == "8s"
            assert (await get("/"))[0] == 404
            async with running.scheduler(*flags) as second:
                assert await second.end() == 1
                line = second.output.splitlines()[-1]
                assert line.startswith("Error: cannot start: ")
                assert "address already in use" in line
