"""Preemptions against the embedded API server: which victims go, which stay, and what can fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, TypeVar

import anyio
import msgspec
import pytest

from berth.actors.attempt.ending import Attempts
from berth.actors.binding.actor import BindingActor
from berth.actors.binding.state import PodsInBinding
from berth.actors.client.extender.calls import Extenders
from berth.actors.client.objects import ApiObjects
from berth.actors.client.rest import ApiError, Client, Connection, ConnectionFailedError
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages.cache import CacheMessage, Unnominate
from berth.actors.messages.preemption import Preempt, PreemptionMessage, SendPatches
from berth.actors.messages.queue import (
    IsHeld,
    NextPod,
    PendingPodAdded,
    PodNoLongerPending,
)
from berth.actors.messages.recorder import RecorderMessage, RecordEvent, SetNominatedNode
from berth.actors.preemption.actor import PreemptionActor
from berth.actors.preemption.state import disruption_patch
from berth.actors.queue.actor import QueueActor
from berth.actors.queue.queues import QueueRules
from berth.actors.queue.state import QueueState
from berth.actors.runtime.ask import ask
from berth.actors.runtime.mailbox import Mailbox
from berth.actors.scheduling.framework.post_filter import Deletion, Patch
from berth.actors.scheduling.framework.status import SUCCESS
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.meta import ObjectMeta
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.tools.cluster.apiserver.app import serve
from tests.kit import documents
from tests.kit.clock import VirtualClock
from tests.kit.documents import Document
from tests.kit.inbox import Inbox
from tests.kit.instruments import unread
from tests.kit.logs import capture_logs
from tests.kit.queue import place_of, rejected
from tests.kit.tasks import started

T = TypeVar("T")
PODS = "/api/v1/namespaces/default/pods"
HOLD = 7


class Watched(Client):
    """Notes every write. `faults` are raised in place of writes, by method and end of the path;
    `moments` are faults that each happen once.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.written: list[str] = []
        self.faults: dict[tuple[str, str], Exception] = {}
        self.moments: dict[tuple[str, str], list[Exception]] = {}
        self.hangs = False

    async def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: object | None = None,
        content_type: str = "application/json",
    ) -> T:
        if method in ("PATCH", "DELETE"):
            name = path.removeprefix(f"{PODS}/")
            self.written.append(f"{method} {name}")
            if self.hangs:
                await anyio.sleep_forever()
            if self.moments.get((method, name)):
                raise self.moments[method, name].pop(0)
            if (method, name) in self.faults:
                raise self.faults[method, name]
        return await super().call(method, path, answer, body, content_type)


class Room:
    """The preemptor is held in a real queue. The cache and the recorder are inboxes."""

    def __init__(self, client: Watched) -> None:
        self.client = client
        self.clock = VirtualClock()
        self.in_binding = PodsInBinding()
        self.cache: Inbox[CacheMessage] = Inbox("cache")
        self.recorder: Inbox[RecorderMessage] = Inbox("recorder")
        self.mailboxes = Mailboxes(cache=self.cache, recorder=self.recorder)
        self.queue, self.preemption = self.mailboxes.queue, self.mailboxes.preemption
        self.queue_state = QueueState(QueueRules(lambda info, at: (at,), lambda pod: SUCCESS, {}))

    async def create(self, name: str, **spec: Any) -> PodInfo:
        body = documents.pod(name, **{"terminationGracePeriodSeconds": 0, **spec})
        return PodInfo(await self.client.call("POST", PODS, Pod, body))

    async def victim(self, name: str, **spec: Any) -> PodInfo:
        """Returns a pod that terminates for ever once it is deleted, because of a finalizer."""
        return await self.create(
            name, nodeName="n", metadata={"finalizers": ["berth.dev/stays"]}, **spec
        )

    async def get(self, name: str) -> Document | None:
        listed = await self.client.call("GET", PODS, dict)
        return next((item for item in listed["items"] if item["metadata"]["name"] == name), None)

    async def held(self, pod: Pod, hold: int = HOLD, node: str | None = None) -> PodInfo:
        """Puts a pod in the queue, after an attempt that failed; nominated to `node`, if any."""
        if hold != HOLD:  # One of lower priority than the preemptor's.
            pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=-1))
        self.queue.tell(PendingPodAdded(pod))
        queued = await ask(self.queue, NextPod)
        self.queue.tell(rejected(queued, "NodeResourcesFit", node=node, hold=hold))
        return queued.info

    async def ended(self, info: PodInfo) -> str:
        """Waits until the preemptor is no longer held, and returns its place in the queue."""
        with anyio.fail_after(10):
            held = True
            while held:
                held = await ask(self.queue, lambda reply: IsHeld(reply, info.key, info.uid, HOLD))
                await anyio.sleep(0.005)
                await self.clock.advance(0.02)
        return place_of(self.queue_state, info.key)

    async def make(self, *victims: PodInfo, displaced: tuple[PodInfo, ...] = ()) -> str:
        """Makes room for a new pod, and returns its place in the queue when that has ended."""
        preemptor = await self.held((await self.create("preemptor")).pod)
        self.preemption.tell(Preempt(preemptor, "n", HOLD, victims, displaced))
        return await self.ended(preemptor)

    def preempted(self) -> list[str]:
        """Returns the names in the events so far, which are taken out."""
        events = self.recorder.take()
        assert all(
            isinstance(message, RecordEvent) and message.reason == "Preempted" for message in events
        )
        return sorted(
            message.regarding.name for message in events if isinstance(message, RecordEvent)
        )


@asynccontextmanager
async def room() -> AsyncIterator[Room]:
    async with serve() as url, anyio.create_task_group() as group:
        client = Watched(Connection(url))
        parts = Room(client)
        clock = parts.clock
        boxes = parts.mailboxes
        api = ApiObjects(client, clock, Random(1))
        attempts = Attempts(boxes, clock, unread(clock))
        binding = BindingActor(boxes, Extenders(), api, clock, parts.in_binding, attempts)
        actor = PreemptionActor(boxes, client, api, clock, Random(1), 16, attempts)
        await group.start(QueueActor(boxes, parts.queue_state, clock, unread(clock)).run)
        await group.start(binding.run)
        await group.start(actor.run)
        async with client:
            yield parts
        group.cancel_scope.cancel()
    parts.mailboxes.close()


PARKED, WOKEN, TRIED_AT_ONCE = "unschedulable", "backoff", "active"


async def test_victims_get_a_condition_an_event_and_are_deleted() -> None:
    async with room() as parts:
        assert await parts.make(await parts.victim("a"), await parts.victim("b")) == PARKED
        for name in ("a", "b"):
            victim = await parts.get(name)
            assert victim is not None
            assert "deletionTimestamp" in victim["metadata"]
            (condition,) = (
                c for c in victim["status"]["conditions"] if c["type"] == "DisruptionTarget"
            )
            assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
        assert parts.preempted() == ["a", "b"]
        assert parts.cache.take() == []


async def test_patches_are_sent_in_order_up_to_a_refusal() -> None:
    async with room() as parts:
        pods = [await parts.create(name) for name in ("a", "b", "c")]
        parts.client.faults["PATCH", "b"] = ApiError(409, "Conflict", "it has changed")
        patches = tuple(
            Patch(Pod, pod.pod.metadata.name, {"metadata": {"labels": {"freed": "yes"}}}, "default")
            for pod in pods
        )
        with capture_logs() as logs:
            parts.preemption.tell(SendPatches(pods[0], patches))
            while not logs:
                await anyio.sleep(0.005)
        assert parts.client.written == ["PATCH a", "PATCH b"]
        patched = await parts.get("a")
        assert patched is not None
        assert patched["metadata"]["labels"] == {"freed": "yes"}
        (warning,) = logs
        assert (warning["event"], warning["name"]) == ("not patched", "b")
        assert warning["error"] == "it has changed"


async def test_the_namespaces_of_the_preemptors_take_turns() -> None:
    async with room() as parts:
        parts.client.hangs = True
        pod, other = (
            PodInfo(Pod(metadata=ObjectMeta(namespace=name))) for name in ("default", "other")
        )
        for number in range(16):
            parts.preemption.tell(SendPatches(pod, (Patch(Pod, f"{number}", {}, "default"),)))
        parts.preemption.tell(SendPatches(other, (Patch(Pod, "other", {}, "default"),)))
        await anyio.wait_all_tasks_blocked()
        assert len(parts.client.written) == 16
        assert parts.client.written[1] == "PATCH other"


async def test_a_deletion_is_for_one_object_and_not_for_a_later_one_of_its_name() -> None:
    async with room() as parts:
        pods = [await parts.create(name) for name in ("a", "b")]
        wrong = Deletion(Pod, "a", "another uid", "default")
        right = Deletion(Pod, "b", pods[1].uid, "default")
        with capture_logs() as logs:
            parts.preemption.tell(SendPatches(pods[0], (right, wrong)))
            with anyio.fail_after(10):
                while not logs:
                    await anyio.sleep(0.005)
        (warning,) = logs
        assert (warning["event"], warning["name"]) == ("not deleted", "a")
        assert await parts.get("a") is not None
        gone = await parts.get("b")
        assert gone is None or "deletionTimestamp" in gone["metadata"]


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        (Patch(PodInfo, "a", {}, "default"), "TypeError: expected the type of a kind"),  # type: ignore[arg-type]
        (Patch(Pod, "a", {"metadata": object()}, "default"), "TypeError: "),
    ],
)
async def test_a_patch_that_cannot_be_sent_stops_nothing(patch: Patch, problem: str) -> None:
    async with room() as parts:
        pod = await parts.create("a")
        with capture_logs() as logs:
            parts.preemption.tell(SendPatches(pod, (patch,)))
            while not logs:
                await anyio.sleep(0.005)
        (warning,) = logs
        assert (warning["event"], warning["name"]) == ("not patched", "a")
        assert warning["error"].startswith(problem)
        parts.preemption.tell(
            SendPatches(pod, (Patch(Pod, "a", {"metadata": {"labels": {"x": "y"}}}, "default"),))
        )
        with anyio.fail_after(10):
            while (patched := await parts.get("a")) is None or not patched["metadata"].get(
                "labels"
            ):
                await anyio.sleep(0.005)


async def test_a_pod_that_is_being_deleted_is_not_evicted_again() -> None:
    async with room() as parts:
        await parts.victim("a")
        await parts.client.call("DELETE", f"{PODS}/a", dict)
        going = PodInfo(await parts.client.call("GET", f"{PODS}/a", Pod))
        parts.client.written.clear()
        assert await parts.make(going) == PARKED
        assert parts.client.written == []
        assert parts.preempted() == []


async def test_a_victim_that_waits_on_permit_is_rejected_in_memory() -> None:
    async with room() as parts:
        waiting = await parts.create("waiting")
        parts.in_binding.wait(waiting, "n", {"Permit": 60.0}, 0.0)
        assert await parts.make(waiting) == PARKED
        verdict = parts.in_binding.take(waiting.uid)
        assert verdict is not None
        assert (verdict.message, verdict.plugin) == (
            "waiting on permit for pod: preempted",
            "DefaultPreemption",
        )
        assert parts.client.written == []
        assert parts.preempted() == ["waiting"]


@pytest.mark.parametrize("turned_away", [True, False])
async def test_a_victim_whose_wait_ended_a_moment_ago_is_not_deleted(turned_away: bool) -> None:
    async with room() as parts:
        waiting = await parts.create("waiting")
        parts.in_binding.wait(waiting, "n", {"Permit": 60.0}, 0.0)
        if turned_away:
            assert parts.in_binding.reject(waiting.uid, "Permit", "no")
        else:
            assert parts.in_binding.allow(waiting.uid, "Permit")
        assert await parts.make(waiting) == PARKED
        verdict = parts.in_binding.take(waiting.uid)
        assert verdict is not None
        assert verdict.message == ("no" if turned_away else "waiting on permit for pod: preempted")
        assert parts.client.written == []


async def test_a_victim_that_is_gone_counts_as_evicted() -> None:
    async with room() as parts:
        gone = await parts.create("gone", nodeName="n")
        await parts.client.call("DELETE", f"{PODS}/gone", dict)
        assert await parts.make(gone, await parts.victim("b")) == PARKED
        assert parts.preempted() == ["b"]


async def test_a_later_pod_of_a_victims_name_is_left_alone() -> None:
    async with room() as parts:
        old = await parts.create("a", nodeName="n")
        await parts.client.call("DELETE", f"{PODS}/a", dict)
        await parts.create("a", nodeName="n")
        assert await parts.make(old) == TRIED_AT_ONCE
        follower = await parts.get("a")
        assert follower is not None
        assert not [
            c for c in follower["status"].get("conditions", ()) if c["type"] == "DisruptionTarget"
        ]
        assert parts.preempted() == []


@pytest.mark.parametrize("place", [("PATCH", "a/status"), ("DELETE", "a")])
async def test_if_one_is_refused_the_last_one_stays_and_the_preemptor_tries_again_at_once(
    place: tuple[str, str],
) -> None:
    async with room() as parts:
        parts.client.faults[place] = ApiError(500, "InternalError", "it broke")
        victims = [await parts.victim(name) for name in ("a", "b", "c")]
        assert await parts.make(*victims) == TRIED_AT_ONCE
        going = [
            name
            for name in ("a", "b", "c")
            if "deletionTimestamp" in (await parts.get(name) or {})["metadata"]
        ]
        assert going in ([], ["b"]), "b is asked for beside a; c would go for nothing"
        assert parts.preempted() == going


async def test_a_refusal_that_is_over_in_a_moment_stops_no_eviction() -> None:
    async with room() as parts:
        parts.client.moments["PATCH", "a/status"] = [
            ApiError(500, "InternalError", "it broke"),
            ApiError(409, "Conflict", "it has changed"),
            ApiError(503, "ServiceUnavailable", "later"),
        ]
        assert await parts.make(await parts.victim("a")) == PARKED
        assert parts.client.written == ["PATCH a/status"] * 4 + ["DELETE a"]
        assert parts.preempted() == ["a"]


async def test_no_victim_goes_for_a_pod_that_is_gone() -> None:
    async with room() as parts:
        victim, displaced = await parts.victim("a"), await parts.create("displaced")
        preemptor = await parts.held((await parts.create("preemptor")).pod)
        parts.queue.tell(PodNoLongerPending(preemptor.pod))
        parts.preemption.tell(Preempt(preemptor, "n", HOLD, (victim,), (displaced,)))
        await anyio.wait_all_tasks_blocked()
        assert parts.client.written == []
        assert parts.preempted() == []


async def test_displaced_pods_lose_their_nominations_and_are_tried_again() -> None:
    async with room() as parts:
        await parts.create("written")
        await parts.client.patch(
            f"{PODS}/written/status", {"status": {"nominatedNodeName": "n"}}, dict
        )
        written = await parts.held(await parts.client.call("GET", f"{PODS}/written", Pod), hold=0)
        unwritten = await parts.held((await parts.create("unwritten")).pod, hold=0, node="n")
        elsewhere = await parts.held((await parts.create("elsewhere")).pod, hold=0, node="m")
        parts.cache.take()
        assert (
            await parts.make(await parts.victim("a"), displaced=(written, unwritten, elsewhere))
            == PARKED
        )
        assert parts.cache.take() == [Unnominate(i.key, i.uid) for i in (written, unwritten)]
        cleared = [order for order in parts.recorder.take() if isinstance(order, SetNominatedNode)]
        assert cleared == [SetNominatedNode(info.pod, "") for info in (written, unwritten)]
        places = [place_of(parts.queue_state, info.key) for info in (written, unwritten, elsewhere)]
        assert places == [WOKEN, WOKEN, WOKEN], "the third may use what the others gave up"


async def test_no_pod_is_displaced_if_all_victims_are_being_deleted() -> None:
    async with room() as parts:
        await parts.victim("a")
        await parts.client.call("DELETE", f"{PODS}/a", dict)
        going = PodInfo(await parts.client.call("GET", f"{PODS}/a", Pod))
        promised = await parts.held((await parts.create("promised")).pod, hold=0, node="n")
        parts.cache.take()
        assert await parts.make(going, displaced=(promised,)) == PARKED
        assert parts.cache.take() == []
        assert place_of(parts.queue_state, promised.key) == PARKED


async def test_a_deletion_without_an_answer_is_repeated() -> None:
    """The preemptor evicts no second victim meanwhile, however long that takes."""
    async with room() as parts:
        victim = await parts.victim("a")
        parts.client.faults["DELETE", "a"] = ConnectionFailedError("no answer")
        preemptor = await parts.held((await parts.create("preemptor")).pod)
        parts.preemption.tell(Preempt(preemptor, "n", HOLD, (victim,)))
        for _ in range(4):
            await anyio.wait_all_tasks_blocked()
            await parts.clock.advance(20.0)
        assert parts.client.written.count("DELETE a") >= 3
        held: bool = await ask(
            parts.queue, lambda reply: IsHeld(reply, preemptor.key, preemptor.uid, HOLD)
        )
        assert held
        parts.client.faults.clear()
        await parts.clock.advance(20.0)
        assert await parts.ended(preemptor) == PARKED
        assert parts.preempted() == ["a"]


async def test_an_older_preemption_of_the_same_pod_is_not_carried_out() -> None:
    async with room() as parts:
        victim = await parts.victim("a")
        preemptor = await parts.held((await parts.create("preemptor")).pod)
        parts.client.written.clear()
        parts.preemption.tell(Preempt(preemptor, "n", HOLD - 1, (victim,)))
        await anyio.wait_all_tasks_blocked()
        assert parts.client.written == []


async def test_no_further_victim_goes_once_the_preemptor_is_gone() -> None:
    async with room() as parts:
        victims = [await parts.victim(name) for name in "ab"]
        preemptor = await parts.held((await parts.create("preemptor")).pod)
        parts.client.faults["DELETE", "a"] = parts.client.faults["DELETE", "b"] = (
            ConnectionFailedError("no answer")
        )
        parts.preemption.tell(Preempt(preemptor, "n", HOLD, tuple(victims)))
        with anyio.fail_after(10):
            while "DELETE a" not in parts.client.written:
                await anyio.sleep(0.005)
        parts.queue.tell(PodNoLongerPending(preemptor.pod))
        parts.client.faults.clear()
        parts.client.written.clear()
        await parts.clock.advance(100.0)
        assert parts.client.written == []


async def test_a_lost_lease_ends_a_preemption_in_the_middle() -> None:
    """No write follows when the API server answers again, and no task is left running."""
    async with room() as parts:
        victims = [await parts.victim(name) for name in "abc"]
        preemptor = await parts.held((await parts.create("preemptor")).pod)
        orders: Mailbox[PreemptionMessage] = Mailbox("orders")
        boxes = msgspec.structs.replace(parts.mailboxes, preemption=orders)
        parts.client.hangs = True
        clock = VirtualClock()
        api = ApiObjects(parts.client, clock, Random(1))
        attempts = Attempts(boxes, clock, unread(clock))
        lost = PreemptionActor(boxes, parts.client, api, clock, Random(1), 16, attempts)
        async with started(lost.run):
            orders.tell(Preempt(preemptor, "n", HOLD, tuple(victims), ()))
            with anyio.fail_after(10):
                while len(parts.client.written) < 2:
                    await anyio.sleep(0.005)
        parts.client.hangs = False
        await anyio.wait_all_tasks_blocked()
        assert sorted(parts.client.written) == ["PATCH a/status", "PATCH b/status"]
        assert parts.preempted() == []
        orders.close()


def test_a_condition_that_a_victim_has_is_not_written_again() -> None:
    victim = msgspec.convert({"metadata": {"name": "a", "uid": "u"}}, Pod)
    wall = VirtualClock().wall()
    patch = disruption_patch(victim, "s", wall)
    assert patch is not None
    conditions = patch["status"]["conditions"]
    written = msgspec.convert(
        {"metadata": {"name": "a", "uid": "u"}, "status": {"conditions": conditions}}, Pod
    )
    assert disruption_patch(written, "s", wall) is None
    assert disruption_patch(written, "another", wall) is not None
