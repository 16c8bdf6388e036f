"""The recorder against the embedded API server: what others did to the pod meanwhile, and outages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from actors.client.rest import Client, Connection
from actors.kube.core import Pod
from actors.messages import EventType, RecorderMessage, RecordEvent, SetUnschedulable
from actors.recorder.actor import RecorderActor
from actors.recorder.state import RecorderState
from actors.runtime.clock import SystemClock
from actors.runtime.mailbox import Mailbox
from tools.apiserver.app import serve
from tools.apiserver.store import Store

Document = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
NODE = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
MESSAGE = "0/1 nodes are available: 1 Insufficient cpu."


@asynccontextmanager
async def recorder(client: Client, state: RecorderState) -> AsyncIterator[Mailbox[RecorderMessage]]:
    """A recorder; at the end of the block it is stopped, and has written what it was given."""
    mailbox: Mailbox[RecorderMessage] = Mailbox("recorder", None)
    actor = RecorderActor(mailbox, state, client, SystemClock(), Random(1))
    async with anyio.create_task_group() as group:
        await group.start(actor.run)
        await group.start(actor.write)
        yield mailbox
        while mailbox.statistics().depth:
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    mailbox.close()
    state.validate()


async def condition(client: Client) -> tuple[str, str, str]:
    pod = await client.call("GET", f"{PODS}/p", Pod)
    found = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
    return ("", "", "") if found is None else (found.status, found.reason, found.message)


@pytest.mark.parametrize("meanwhile", ["nothing", "labelled", "bound", "replaced", "deleted"])
async def test_a_condition_is_written_to_the_pod_that_was_refused_unless_it_has_a_node(meanwhile: str) -> None:
    async with serve() as url, Client(Connection(url)) as client:
        await client.call("POST", "/api/v1/nodes", dict, NODE)
        refused = await client.call("POST", PODS, Pod, POD)
        match meanwhile:
            case "labelled":
                await client.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}, dict, "merge")
            case "bound":
                await client.bind("default", "p", refused.metadata.uid, "n")
            case "replaced" | "deleted":
                await client.call("DELETE", f"{PODS}/p", dict)
        if meanwhile == "replaced":
            await client.call("POST", PODS, Pod, POD)
        state = RecorderState()
        async with recorder(client, state) as mailbox:
            await mailbox.tell(SetUnschedulable(refused, "Unschedulable", MESSAGE))
        assert len(state) == 0
        match meanwhile:
            case "nothing" | "labelled":
                assert await condition(client) == ("False", "Unschedulable", MESSAGE)
            case "bound":
                assert (await condition(client))[0] == "True"
            case "replaced":
                assert await condition(client) == ("", "", "")


async def test_equal_events_are_one_object_that_counts_even_when_it_has_expired() -> None:
    async with serve() as url, Client(Connection(url)) as client:
        events = "/api/v1/namespaces/default/events"
        subject = ("v1", "Pod", "default", "p", "uid")
        event = RecordEvent(*subject, EventType.WARNING, "FailedScheduling", "Scheduling", MESSAGE, "default-scheduler")

        async def told(times: int) -> Document:
            with anyio.fail_after(5):
                while True:
                    found = (await client.call("GET", events, dict))["items"]
                    if found and found[0]["count"] == times:
                        (one,) = found
                        return dict(one)
                    await anyio.sleep(0.01)

        async with recorder(client, RecorderState()) as mailbox:
            for times in (1, 2, 3):
                await mailbox.tell(event)
                last = await told(times)
            assert (last["message"], last["involvedObject"]["uid"]) == (MESSAGE, "uid")
            await client.call("DELETE", f"{events}/{last['metadata']['name']}", dict)
            await mailbox.tell(event)
            assert (await told(4))["metadata"]["name"] == last["metadata"]["name"]


async def test_what_cannot_be_delivered_waits_for_the_api_server() -> None:
    store, state = Store(), RecorderState()
    async with serve(store=store) as url, Client(Connection(url)) as client:
        pod = await client.call("POST", PODS, Pod, POD)
    async with Client(Connection(url)) as client, recorder(client, state) as mailbox:
        for i in range(50):
            await mailbox.tell(SetUnschedulable(pod, "Unschedulable", f"{MESSAGE} {i}"))
        with anyio.fail_after(5):
            while mailbox.statistics().received != 50 or not len(state):
                await anyio.sleep(0.01)
        async with serve(int(url.rsplit(":", 1)[1]), store=store):
            with anyio.fail_after(5):
                while (await condition(client))[2] != f"{MESSAGE} 49":
                    await anyio.sleep(0.01)
