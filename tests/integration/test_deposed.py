"""A leader that is stopped or blocked until another leads writes nothing afterwards.

The schedulers are real processes. Between each of them and the API server, a proxy records its
writes. BERTH_ROUNDS sets the number of rounds of stop, take-over and resumption (1).
"""

from __future__ import annotations

import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import anyio
import pytest

from tests.kit.daemons import LEADS, LEASE, LONG, daemons
from tests.kit.processes import install
from tests.kit.proxy import Proxy

pytestmark = pytest.mark.full("waits")

ROUNDS = int(os.environ.get("BERTH_ROUNDS", "1"))
BACKLOG = 300
SLOW = ("--kube-api-qps=150", "--kube-api-burst=10")  # to keep a backlog for a while


async def test_a_resumed_leader_writes_nothing_after_another_leads(tmp_path: Path) -> None:
    rng, pods = Random(12), 0
    async with daemons(tmp_path) as running, AsyncExitStack() as stack:

        async def wrote(between: Proxy, more: int) -> None:
            """Waits for this many more writes."""
            writes = len(between.writes) + more
            await running.wait(lambda: len(between.writes) >= writes)

        await running.node("n", cpu="100000", pods="100000")
        leader, between = await stack.enter_async_context(running.candidate(*SLOW, *LONG))
        await leader.says(LEADS)
        for number in range(ROUNDS):
            heir, heirs = await stack.enter_async_context(running.candidate(*SLOW, *LONG))
            await heir.says("waiting for the lease")  # its start costs the leader processor time
            async with anyio.create_task_group() as group:
                group.start_soon(running.burst, f"p{number}", BACKLOG)
                # Each pod costs a binding and an event; stop between any two of these writes.
                await wrote(between, rng.randrange(20, BACKLOG))
                leader.send(signal.SIGSTOP)
            pods += BACKLOG
            await heir.says(LEADS)
            await wrote(heirs, 10)
            before = len(between.writes)
            leader.send(signal.SIGCONT)
            assert await leader.end() == 1
            assert between.writes[before:] == []
            leader, between = heir, heirs
        await running.all_bound(pods)


# Real seconds: the plugin must block the event loop of another process, which measures the
# lease by the machine's clock.
SLEEPY = """import os, time
from berth.plugin import SUCCESS, NodeFilterPlugin


class Sleepy(NodeFilterPlugin):
    name = "Sleepy"

    def filter_node(self, state, info, node):
        if "SLEEPY" in os.environ:
            time.sleep(float(info.pod.metadata.labels.get("sleep", "0")))
        return SUCCESS
"""
ENABLED = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Sleepy}]}}}]
"""
TERMS = (
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
)


async def test_a_plugin_that_blocks_the_scheduler_costs_the_lease_only_after_its_duration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed, configuration = tmp_path / "installed", tmp_path / "configuration.yaml"
    install(installed, "sleepy", SLEEPY, Sleepy="sleepy:Sleepy")
    configuration.write_text(ENABLED)
    # longer than it sleeps: nobody wakes the plugin
    flags = (f"--config={configuration}", "--berth-plugin-interrupt=1m", *TERMS)

    async with daemons(tmp_path) as running:

        async def sleeper(name: str, seconds: float) -> None:
            container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}
            metadata = {"name": name, "labels": {"sleep": str(seconds)}}
            document = {"metadata": metadata, "spec": {"containers": [container]}}
            await running.create("Pod", document)

        await running.node("n")
        monkeypatch.setenv("SLEEPY", "yes")
        async with running.candidate(*flags, site=installed) as (leader, between):
            await leader.says(LEADS)
            monkeypatch.delenv("SLEEPY")
            async with running.candidate(*flags, site=installed) as (heir, _):
                await sleeper("short", 3.0)  # more than the renew deadline, less than the lease
                await running.bound("short")
                assert (await running.lease()).get("leaseTransitions", 0) == 0
                assert not heir.count(LEADS)

                async with anyio.create_task_group() as group:
                    group.start_soon(
                        running.burst, "p", 100
                    )  # many bindings are under way when it falls asleep
                    await running.wait(lambda: len(between.writes) >= 50)
                    await sleeper("long", 8.0)
                await heir.says(LEADS)
                before = len(between.writes)
                assert await leader.end() == 1
                assert between.writes[before:] == []
                await running.all_bound(102)


async def test_a_leader_that_is_asked_to_stop_writes_its_events_before_it_releases_the_lease(
    tmp_path: Path,
) -> None:
    async with daemons(tmp_path) as running:
        await running.node("n")
        limits = ("--kube-api-qps=400", "--kube-api-burst=50")
        async with running.candidate(*limits, *LONG) as (leader, between):
            await leader.says(LEADS)
            async with anyio.create_task_group() as group:
                group.start_soon(running.burst, "p", 150)
                await running.wait(lambda: len(between.writes) >= 100)
                leader.send(signal.SIGTERM)
            assert await leader.end() == 0
            released = len(between.writes) - between.writes[::-1].index(f"PUT {LEASE}")
            assert not any(write.endswith("/events") for write in between.writes[released:])
            assert not (await running.lease()).get("holderIdentity")
            told = {
                f"default/{event['involvedObject']['name']}"
                for event in await running.events("Scheduled")
            }
            assert told == set(leader.attempts("scheduled"))
            _, stopped = await running.events("LeaderElection", "kube-system")
            assert stopped["message"].endswith("stopped leading")
