"""`berth debug`, against a running scheduler and against one that has lost objects."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any

import anyio
import msgspec
import pytest
from aiohttp import ClientSession
from click.testing import CliRunner

from berth.actors.binding.state import PodsInBinding
from berth.actors.cache.actor import CacheActor
from berth.actors.cache.debugger import CacheDebugger
from berth.actors.cache.state import CacheState
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages.cache import NodeDump
from berth.actors.messages.comparison import Difference
from berth.actors.messages.queue import ListQueued, PendingPodAdded, QueueMessage
from berth.actors.queue.actor import QueueActor
from berth.actors.queue.queues import QueueRules
from berth.actors.queue.state import QueueState
from berth.actors.runtime.ask import ask
from berth.actors.runtime.clock import SystemClock
from berth.actors.runtime.mailbox import Mailbox
from berth.actors.scheduling.kube.core import PodSpec
from berth.actors.scheduling.kube.meta import ObjectMeta
from berth.actors.scheduling.kube.reading import UnreadableObject
from berth.actors.server.actor import PageSources, ServerActor
from berth.actors.server.debug import SLICE, Debug, QueuePage
from berth.actors.server.health import Health
from berth.actors.telemetry.logs import configure_logs
from berth.actors.telemetry.measures import Registry
from berth.config.options import Options
from berth.plugin import SUCCESS, Node, Pod, PodInfo
from berth.tools.views.commands.debug import debug
from tests.kit.clock import VirtualClock
from tests.kit.cluster import Cluster, cluster
from tests.kit.documents import Document, node, pod
from tests.kit.instruments import unread
from tests.kit.processes import free_port
from tests.kit.serving import open_to_all, url_of
from tests.kit.tasks import started


class DebugResult:
    """The output and the exit code of `berth debug`."""

    def __init__(self, code: int, output: str) -> None:
        self.code = code
        self.output = output

    @property
    def document(self) -> Document:
        document: Document = json.loads(self.output)
        return document


async def ask_debug(server: str, *arguments: str) -> DebugResult:
    flags = [f"--server={server}", "--insecure-skip-tls-verify", *arguments]
    # The scheduler runs in this process, and must not write to the command's output.
    configure_logs(quiet=True)
    result = await anyio.to_thread.run_sync(partial(CliRunner().invoke, debug, flags))
    return DebugResult(result.exit_code, result.output)


async def refused(running: Cluster, name: str) -> None:
    await running.status("Pod", name, lambda status: bool(status.get("conditions")))


@pytest.mark.full("long")
async def test_a_running_scheduler_shows_its_state() -> None:
    options = open_to_all()
    server = url_of(options)
    async with cluster() as running:
        await running.schedule(options=options)
        await running.create("Node", node("n", "2"))
        await running.create("Pod", pod("fits", "100m"))
        await running.create("Pod", pod("big", "4"))
        await running.node_of("fits")
        await refused(running, "big")
        told = await ask_debug(server, "-o", "json")
        assert told.code == 0, told.output
        parts = {"cache", "comparison", "plugins", "queue", "waiting", "unreadable"}
        assert told.document.keys() == parts
        (dump,) = told.document["cache"]["nodes"]
        expected = ("n", 100, 2000)
        assert (dump["name"], dump["requested"]["cpu"], dump["allocatable"]["cpu"]) == expected
        assert [(pod["key"], pod["assumed"]) for pod in dump["pods"]] == [("default/fits", False)]
        assert told.document["comparison"] == {"differences": []}
        assert told.document["waiting"] == {"pods": []}
        (big,) = told.document["queue"]["pods"]
        assert (big["key"], big["place"], big["attempts"]) == ("default/big", "unschedulable", 1)
        assert big["rejectedBy"] == ["NodeResourcesFit"]
        assert 0 <= big["backoffLeft"] <= 2
        moves = [(step["queue"], step["event"]) for step in big["story"]]
        assert moves == [
            ("active", "UnschedulablePodAdd"),
            ("unschedulable", "ScheduleAttemptFailure"),
        ]

        await running.create("Node", node("large", "8"))
        await running.node_of("big")
        story = await ask_debug(server, "--pod=big", "-o", "json")
        assert story.code == 0, story.output
        woken = story.document["story"][2]
        assert (woken["event"], woken["plugin"]) == ("NodeAdd", "NodeResourcesFit")
        assert story.document["queued"] is None

        await running.create("Pod", pod("bigger", "40"))
        await refused(running, "bigger")
        for_people = (await ask_debug(server)).output
        for text in (
            "2 nodes in the cache",
            "No difference",
            "1 pod in the queue",
            "0 pods waiting on Permit",
        ):
            assert text in for_people
        assert "NodeResourcesFit" in (await ask_debug(server, "--pod=default/bigger")).output
        none = await ask_debug(server, "--pod=nobody")
        assert (none.code, none.output) == (
            2,
            (
                f"Error: {server}: 404 default/nobody: not in the queue, and no story of it is "
                "remembered\n"
            ),
        )


async def test_a_scheduler_that_does_not_answer_is_not_a_difference() -> None:
    told = await ask_debug(f"https://127.0.0.1:{free_port()}", "comparison")
    assert told.code == 2
    assert re.fullmatch(r"Error: https://127.0.0.1:\d+: Connection refused\n", told.output)


def serving(options: Options, debug: Debug) -> Callable[..., Coroutine[Any, Any, None]]:
    """Returns a server that shows these debug pages."""
    assert options.serving is not None
    shown = PageSources(Health({"livez": ()}), {}, dict, debug, Registry())
    return ServerActor(options.serving, options, shown, Random(1)).run


@asynccontextmanager
async def forgetful() -> AsyncIterator[tuple[str, Mailbox[QueueMessage]]]:
    """Runs a scheduler that has missed a node and two pods, one of which waits on Permit. Yields
    its address and its queue.
    """
    spec = PodSpec(scheduler_name="ours")
    names = {f"ns/{name}": ObjectMeta(namespace="ns", name=name, uid=name) for name in ("p", "q")}
    told_nodes = {"n0": Node(metadata=ObjectMeta(name="n0"))}
    told_pods = {key: Pod(metadata=metadata, spec=spec) for key, metadata in names.items()}
    clock, waiting = VirtualClock(), PodsInBinding()
    waiting.wait(PodInfo(told_pods["ns/q"]), "n0", {"Gang": 60.0}, clock.now())
    mailboxes = Mailboxes()
    debugger = CacheDebugger(
        mailboxes, lambda: told_nodes, lambda: told_pods, {"ours"}, clock, waiting.statistics
    )
    rules = QueueRules(lambda info, at: (-info.priority, at), lambda _: SUCCESS, {})
    options = open_to_all()
    odd = UnreadableObject("Node", "n1", "uid-1", "status.allocatable[cpu]: expected a quantity")
    debug = Debug(
        debugger.nodes,
        debugger.compare,
        mailboxes.queue,
        lambda: waiting.dump(clock.now()),
        clock,
        lambda: [odd],
    )
    async with started(
        serving(options, debug),
        CacheActor(mailboxes, CacheState()).run,
        QueueActor(mailboxes, QueueState(rules), clock, unread(clock)).run,
    ):
        yield url_of(options), mailboxes.queue
    mailboxes.close()


async def test_a_server_without_a_scheme_is_refused() -> None:
    result = await ask_debug("127.0.0.1:10251", "queue")
    assert result.code == 2
    assert "--server: expected a URL" in result.output


@pytest.mark.full("long")
async def test_differences_are_printed_and_set_the_exit_code() -> None:
    async with forgetful() as (server, _):
        told = await ask_debug(server, "comparison", "waiting", "unreadable", "-o", "json")
        assert told.code == 1
        assert told.document["comparison"]["differences"] == [
            {"what": "missed", "kind": "Node", "key": "n0"},
            {"what": "missed", "kind": "PendingPod", "key": "ns/p"},
            {"what": "missed", "kind": "PendingPod", "key": "ns/q"},
        ]
        (waiting,) = told.document["waiting"]["pods"]
        assert (waiting["key"], waiting["node"]) == ("ns/q", "n0")
        assert waiting["waitsFor"] == {"Gang": 60.0}
        (odd,) = told.document["unreadable"]["objects"]
        assert (odd["kind"], odd["key"], odd["uid"]) == ("Node", "n1", "uid-1")
        for_people = await ask_debug(server)
        assert for_people.code == 1
        for text in (
            "0 nodes in the cache",
            "3 differences",
            "0 pods in the queue",
            "1 pod waiting on Permit",
            "Gang",
        ):
            assert text in for_people.output
        for text in ("1 object that cannot be read", "uid-1", "status.allocatable[cpu]"):
            assert text in for_people.output


async def test_a_long_queue_is_read_in_parts() -> None:
    async with forgetful() as (server, queue), ClientSession() as session:
        pods = [
            Pod(metadata=ObjectMeta(namespace="ns", name=f"p{i}", uid=str(i)))
            for i in range(2 * SLICE + 1)
        ]
        for told in pods:
            queue.tell(PendingPodAdded(told))
        async with session.get(f"{server}/debug/queue", ssl=False) as response:
            page = msgspec.json.decode(await response.read(), type=QueuePage)
        assert [(pod.key, pod.place) for pod in page.pods] == [
            (f"ns/p{i}", "active") for i in range(len(pods))
        ]
        assert page.pods[0].story[0].at == VirtualClock().wall().timestamp()


async def test_a_page_whose_actor_has_stopped_is_503() -> None:
    queue: Mailbox[QueueMessage] = Mailbox("queue")
    queue.close()

    async def no_nodes() -> AsyncGenerator[tuple[NodeDump, ...], None]:
        await ask(queue, ListQueued)
        yield ()

    async def compare() -> tuple[Difference, ...]:
        await ask(queue, ListQueued)
        return ()

    options = open_to_all()
    debug = Debug(no_nodes, compare, queue, tuple, SystemClock())
    async with anyio.create_task_group() as group, ClientSession() as session:
        await group.start(serving(options, debug))
        for path in ("cache", "comparison", "queue", "pods/ns/p"):
            async with session.get(f"{url_of(options)}/debug/{path}", ssl=False) as response:
                assert (response.status, await response.text()) == (503, "no answer: queue\n"), path
        group.cancel_scope.cancel()
