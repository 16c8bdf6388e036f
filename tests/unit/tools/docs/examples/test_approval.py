"""Approval: pods of a team run once an HTTP service says that they may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from berth.testing import Cluster, FakeHandle, check_plugin, pod, run_virtually
from berth.tools.docs.examples.approval import (
    Approval,
    ApprovalAnswer,
    ApprovalQuestion,
    ServiceError,
)

TEAM = "example.com/team"
YES, NO = ApprovalAnswer(allowed=True), ApprovalAnswer(allowed=False, reason="no budget")
Document = dict[str, Any]


class Service:
    """Answers after `seconds`, or with None not at all."""

    def __init__(self) -> None:
        self.answer: ApprovalAnswer | None = YES
        self.seconds = 0.5
        self.asked: list[str] = []


services = [Service()]  # the last one is that of the story that is played


class Asking(Approval):
    """The plugin, with the last one of `services` in place of HTTP."""

    async def answer(self, question: ApprovalQuestion) -> ApprovalAnswer:
        service = services[-1]
        service.asked.append(question.team)
        await asyncio.sleep(service.seconds)
        if service.answer is None:
            raise ServiceError("no answer in 2 s")
        return service.answer


def of(team: str, name: str, **more: Any) -> Document:
    return pod(name, cpu=1, labels={TEAM: team}, **more)


def played(story: Callable[[Cluster], Awaitable[None]], *objects: Document, **args: Any) -> None:
    services.append(Service())
    settings = {"Approval": {"url": "http://approval", **args}}

    async def whole() -> None:
        async with Cluster(*objects, nodes=2, plugins=[Asking], args=settings) as cluster:
            await story(cluster)

    run_virtually(whole)


def test_a_pod_runs_when_the_service_has_answered_and_others_do_not_wait() -> None:
    async def story(cluster: Cluster) -> None:
        service = services[-1]
        service.seconds = 5
        await cluster.add(of("red", "a"), pod("alone"))
        await cluster.run_for(1)
        assert cluster.pod("alone").placed_on()
        assert cluster.pod("a").pending_because("waits for the approval service")
        await cluster.run_for(5)
        assert cluster.pod("a").placed_on()

    played(story)


def test_pods_with_one_question_share_the_answer_for_a_while() -> None:
    async def story(cluster: Cluster) -> None:
        service = services[-1]
        for number in range(5):
            await cluster.add(of("red", f"a{number}"))
            await cluster.run_for(10)
        assert cluster.pods().placed_on()
        assert service.asked == ["red"]
        await cluster.run_for(20)
        await cluster.add(of("red", "late"))
        await cluster.run_for(2)
        assert cluster.pod("late").placed_on()
        assert service.asked == ["red", "red"]

    played(story)


def test_a_refused_pod_runs_once_the_service_says_otherwise() -> None:
    async def story(cluster: Cluster) -> None:
        service = services[-1]
        service.answer = NO
        await cluster.add(of("red", "a"))
        await cluster.run_for("10m")
        assert cluster.pod("a").pending_because("not approved: no budget")
        assert len(service.asked) == 10
        service.answer = ApprovalAnswer(allowed=True, nodes=("node-2",))
        await cluster.run_for(63)
        assert cluster.pod("a").placed_on("node-2")
        await cluster.run_for("10m")
        assert len(service.asked) == 11  # Nobody waits.

    played(story)


def test_pods_wait_while_the_service_is_down_and_it_is_asked_less_and_less() -> None:
    async def story(cluster: Cluster) -> None:
        service = services[-1]
        service.answer = None
        await cluster.add(of("red", "a"), pod("alone"))
        await cluster.run_for("10m")
        assert cluster.pod("alone").placed_on()
        assert cluster.pod("a").pending_because("the approval service is down: no answer in 2 s")
        assert len(service.asked) < 20
        service.answer = YES
        await cluster.run_for(63)
        assert cluster.pod("a").placed_on()

    played(story)


async def test_the_service_may_be_down_for_days() -> None:
    services.append(Service())
    services[-1].answer, services[-1].seconds = None, 0
    handle = FakeHandle(plugin=Asking)
    plugin = Asking({"url": "http://approval"}, handle)
    for _ in range(2_000):
        await plugin._ask(ApprovalQuestion("default", "red"))
    assert [line["event"] for line in handle.lines] == ["no approval"]


def test_pods_are_placed_without_the_service_if_so_configured() -> None:
    async def story(cluster: Cluster) -> None:
        service = services[-1]
        service.answer = None
        await cluster.add(of("red", "a"))
        await cluster.run_for(2)
        assert cluster.pod("a").placed_on()

    played(story, failurePolicy="Ignore")


def test_pods_that_wait_at_the_start_need_one_attempt() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.run_for(2)
        assert cluster.pod("a").placed_on()
        assert len(cluster.calls("Approval", "pre_filter")) == 1

    played(story, of("red", "a"))


def test_a_pod_that_is_gone_is_not_asked_about() -> None:
    async def story(cluster: Cluster) -> None:
        service = services[-1]
        service.answer = NO
        await cluster.add(of("red", "a"))
        await cluster.run_for(5)
        await cluster.delete("Pod", "a")
        await cluster.run_for("10m")
        assert len(service.asked) == 1

    played(story)


class Scope:
    """Runs nothing: the test asks itself."""

    def run(self, work: Callable[[], Awaitable[object]], *, leading: bool = False) -> None: ...

    def every(self, seconds: float, work: Callable[[], Any], *, leading: bool = False) -> None: ...

    async def sleep(self, seconds: float) -> None: ...


@asynccontextmanager
async def served(handler: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


async def over_http(
    handler: Callable[[web.Request], Awaitable[web.Response]], timeout: float = 5.0
) -> ApprovalAnswer | str:
    """Returns the answer, or the reason why there is none."""
    async with served(handler) as url:
        plugin = Approval({"url": url, "timeoutSeconds": timeout}, FakeHandle(plugin=Approval))
        await plugin.start(Scope())
        try:
            return await plugin.answer(ApprovalQuestion("default", "red"))
        except ServiceError as problem:
            return str(problem)
        finally:
            await plugin.close()


async def right(request: web.Request) -> web.Response:
    assert await request.json() == {"namespace": "default", "team": "red"}
    return web.json_response({"allowed": True, "nodes": ["a"]})


async def wrong(_: web.Request) -> web.Response:
    return web.json_response({"allowed": "perhaps"})


async def broken(_: web.Request) -> web.Response:
    return web.Response(status=503)


async def slow(_: web.Request) -> web.Response:
    await asyncio.sleep(30)
    return web.Response()


@pytest.mark.parametrize(
    ("handler", "seconds", "expected"),
    [
        (right, 5.0, ApprovalAnswer(allowed=True, nodes=("a",))),
        (wrong, 5.0, "Expected `bool`, got `str` - at `$.allowed`"),
        (broken, 5.0, "it answered 503"),
        (slow, 0.05, "no answer in 0.05 s"),
    ],
)
def test_over_http(handler: Any, seconds: float, expected: ApprovalAnswer | str) -> None:
    assert asyncio.run(over_http(handler, seconds)) == expected


def test_nobody_listens() -> None:
    async def story() -> None:
        plugin = Approval({"url": "http://127.0.0.1:1/"}, FakeHandle(plugin=Approval))
        await plugin.start(Scope())
        with pytest.raises(ServiceError, match="Cannot connect"):
            await plugin.answer(ApprovalQuestion("default", "red"))
        await plugin.close()

    asyncio.run(story())


def test_its_contracts() -> None:
    check_plugin(Approval, {"url": "http://127.0.0.1:1/"}, pods=[of("red", "a")], examples=5)
