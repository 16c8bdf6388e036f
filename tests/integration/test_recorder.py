"""The recorder against the embedded API server: changes to the pod by others, and outages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import TypeVar

import anyio
import anyio.lowlevel
import msgspec
import pytest

from berth.actors.client.access import Calls
from berth.actors.client.rest import ApiError, Client, Connection
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages.recorder import (
    EventType,
    RecorderMessage,
    RecordEvent,
    RefreshSeries,
    SetUnschedulable,
)
from berth.actors.recorder.actor import RecorderActor
from berth.actors.recorder.series import SeriesTracker
from berth.actors.recorder.state import RecorderState
from berth.actors.runtime.clock import SystemClock
from berth.actors.runtime.mailbox import Mailbox
from berth.actors.scheduling.kube.meta import ObjectReference
from berth.plugin import Pod
from berth.tools.cluster.apiserver.app import serve
from tests.kit.documents import Document, node
from tests.kit.fake_calls import FakeCalls
from tests.kit.logs import capture_logs
from tests.kit.stores import fresh_store
from tests.kit.tasks import started

T = TypeVar("T")
PODS = "/api/v1/namespaces/default/pods"
NODE = node("n", "8")
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
MESSAGE = "0/1 nodes are available: 1 Insufficient cpu."
EVENTS, CORE = (
    "/apis/events.k8s.io/v1/namespaces/default/events",
    "/api/v1/namespaces/default/events",
)
FAILED = RecordEvent(
    ObjectReference("v1", "Pod", "default", "p", "uid", "1"),
    EventType.WARNING,
    "FailedScheduling",
    "Scheduling",
    MESSAGE,
    "default-scheduler",
)


LEADS = RecordEvent(
    ObjectReference("coordination.k8s.io/v1", "Lease", "default", "l", "uid", "1"),
    EventType.NORMAL,
    "LeaderElection",
    "",
    "me became leader",
    "default-scheduler",
)


def outbox() -> RecorderState:
    return RecorderState(SeriesTracker("here"))


@asynccontextmanager
async def recorder(client: Calls, state: RecorderState) -> AsyncIterator[Mailbox[RecorderMessage]]:
    """Runs a recorder. At the end of the block it is stopped after it has written everything."""
    mailboxes = Mailboxes()
    actor = RecorderActor(mailboxes, state, client, SystemClock(), Random(1))
    async with started(actor.run, actor.write):
        yield mailboxes.recorder
    mailboxes.close()
    state.validate()


async def condition(client: Client) -> tuple[str, str, str]:
    pod = await client.call("GET", f"{PODS}/p", Pod)
    newest = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
    return ("", "", "") if newest is None else (newest.status, newest.reason, newest.message)


@pytest.mark.parametrize("meanwhile", ["nothing", "labelled", "bound", "replaced", "deleted"])
async def test_a_condition_is_written_to_the_pod_that_was_refused_unless_it_has_a_node(
    meanwhile: str,
) -> None:
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
        state = outbox()
        async with recorder(client, state) as mailbox:
            mailbox.tell(SetUnschedulable(refused, "Unschedulable", MESSAGE))
        assert len(state) == 0
        match meanwhile:
            case "nothing" | "labelled":
                assert await condition(client) == ("False", "Unschedulable", MESSAGE)
            case "bound":
                assert (await condition(client))[0] == "True"
            case "replaced":
                assert await condition(client) == ("", "", "")


async def listed(
    client: Client, path: str = EVENTS, times: int = 1, count: int | None = None
) -> list[Document]:
    """Waits for `times` events of which the first has this count, and returns them."""
    with anyio.fail_after(20):
        while True:
            events: list[Document] = (await client.call("GET", path, dict))["items"]
            counted = events and (events[0].get("series") or {}).get("count")
            if len(events) == times and (count is None or counted == count):
                return events
            await anyio.sleep(0.01)


async def test_equal_events_are_one_object_with_a_count_even_after_it_expired() -> None:
    async with (
        serve() as url,
        Client(Connection(url)) as client,
        recorder(client, outbox()) as mailbox,
    ):
        mailbox.tell(FAILED)
        (first,) = await listed(client)
        assert first["regarding"] == msgspec.to_builtins(FAILED.regarding)
        assert (first["note"], first["reportingInstance"]) == (MESSAGE, "default-scheduler-here")
        mailbox.tell(FAILED)
        (counted,) = await listed(client, count=2)
        expected = {**first, "metadata": None, "series": None}
        assert {**counted, "metadata": None, "series": None} == expected
        mailbox.tell(FAILED)
        await client.call("DELETE", f"{EVENTS}/{first['metadata']['name']}", dict)
        mailbox.tell(RefreshSeries())
        (again,) = await listed(client, count=3)
        assert (again["metadata"]["name"], again["eventTime"]) == (
            first["metadata"]["name"],
            first["eventTime"],
        )


class Unsettled(FakeCalls):
    """An API server on which somebody deletes each event between two requests, and creates it."""

    async def asked(self, method: str, path: str, body: object) -> object:
        if method == "PATCH":
            raise ApiError(404, "NotFound", "the event is not found")
        raise ApiError(409, "AlreadyExists", "the event already exists")


async def test_an_event_that_keeps_being_created_and_deleted_is_given_up() -> None:
    with capture_logs() as lines:
        async with recorder(Unsettled(), outbox()) as mailbox:
            mailbox.tell(FAILED)
            mailbox.tell(FAILED)
    (line,) = lines
    assert line["event"] == "event not written"


class Old(Client):
    """An API server from before Kubernetes 1.19: it has no events.k8s.io."""

    calls = 0

    async def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: object | None = None,
        content_type: str = "application/json",
    ) -> T:
        if path.startswith("/apis/events.k8s.io"):
            self.calls += 1
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return await super().call(method, path, answer, body, content_type)


async def test_an_api_server_without_the_group_gets_core_events() -> None:
    async with serve() as url:
        client = Old(Connection(url))
        async with client, recorder(client, outbox()) as mailbox:
            mailbox.tell(FAILED)
            (first,) = await listed(client, CORE)
            assert (first["message"], first["involvedObject"]["uid"]) == (MESSAGE, "uid")
            assert (first["reportingComponent"], first["action"]) == (
                "default-scheduler",
                "Scheduling",
            )
            mailbox.tell(FAILED)
            await listed(client, CORE, count=2)
        assert client.calls == 2, "more than the first event and the check for the group were sent"


async def test_an_event_in_a_deleted_namespace_is_dropped() -> None:
    elsewhere = msgspec.structs.replace(FAILED.regarding, namespace="gone")
    async with (
        serve() as url,
        Client(Connection(url)) as client,
        recorder(client, outbox()) as mailbox,
    ):
        mailbox.tell(msgspec.structs.replace(FAILED, regarding=elsewhere))
        mailbox.tell(FAILED)
        (event,) = await listed(client)
        assert event["metadata"]["namespace"] == "default"


async def test_undelivered_writes_wait_for_the_api_server() -> None:
    store, state = fresh_store(), outbox()
    async with serve(store=store) as url, Client(Connection(url)) as client:
        pod = await client.call("POST", PODS, Pod, POD)
    async with Client(Connection(url)) as client, recorder(client, state) as mailbox:
        for i in range(50):
            mailbox.tell(SetUnschedulable(pod, "Unschedulable", f"{MESSAGE} {i}"))
        assert len(state)
        async with serve(int(url.rsplit(":", 1)[1]), store=store):
            with anyio.fail_after(20):
                while (await condition(client))[2] != f"{MESSAGE} 49":
                    await anyio.sleep(0.01)


async def test_events_without_an_action_are_written_in_the_older_form() -> None:
    async with serve() as url, Client(Connection(url)) as client:
        state = outbox()
        async with recorder(client, state) as mailbox:
            mailbox.tell(LEADS)
            mailbox.tell(msgspec.structs.replace(LEADS, note="me stopped leading"))
        events = (await client.call("GET", CORE, dict))["items"]
    assert [event["message"] for event in events] == ["me became leader", "me stopped leading"]
    for event in events:
        assert event["involvedObject"]["uid"] == "uid"
        assert event["source"] == {"component": "default-scheduler"}
        assert event["reportingComponent"] == "default-scheduler"
        assert event["count"] == 1
        assert event["firstTimestamp"] == event["lastTimestamp"]
        assert "action" not in event
        assert event["eventTime"] is None
