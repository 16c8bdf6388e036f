"""The page over HTTP: its headers, its methods, and hostile names that stay data."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer, TestClient

from berth.actors.client.rest import ApiError
from berth.tools.answers.feed.feed import Board, Feed, event_of
from berth.tools.answers.feed.feed_source import Change
from berth.tools.answers.feed.story import Story
from berth.tools.answers.whatif.question import Answered
from berth.tools.answers.whatif.whatif_endpoint import WhatIfs
from berth.tools.views.page.page import PROOF_HEADER, ClusterPage
from berth.tools.views.page.page_server import LocalSite
from tests.kit.clock import VirtualClock
from tests.kit.page import FilledSource, node_of

HOSTILE = "</script><img src=x onerror=alert(1)>\r\n\r\ndata: {}"
Client = TestClient[web.BaseRequest, None]

WEIGHTS = {"default-scheduler": {"ImageLocality": 1}}


def client_of(page: ClusterPage) -> Client:
    return TestClient(RawTestServer(LocalSite(page.show).respond))


def story(name: str) -> Story:
    return Story(f"x/{name}", "", "Pending", "", 0, "", {"a": HOSTILE}, [], [])


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    source = FilledSource()
    source.stories = {"x/p": story("p"), "x/</p": story("</p")}
    async with client_of(ClusterPage(source, Feed(source, VirtualClock()))) as client:
        yield client


async def test_every_answer_has_a_strict_policy(client: Client) -> None:
    for path in ("/ui/", "/ui/app.js", "/ui/pods/x/p", "/ui/nothing.js", "/elsewhere"):
        response = await client.get(path)
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"


async def test_the_files_have_no_inline_script_or_style(client: Client) -> None:
    text = await (await client.get("/ui/")).text()
    assert "<style" not in text
    assert "style=" not in text
    assert text.count("<script") == text.count('<script type="module" src=') == 1


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_nothing_can_be_written(client: Client, method: str) -> None:
    for path in ("/ui/", "/ui/feed", "/ui/pods/x/p", "/ui/app.js"):
        assert (await client.request(method, path)).status == 405


async def test_a_node_is_changed_with_the_page_s_token_alone() -> None:
    done = []

    async def act(verb: str, node: str) -> str:
        if node == "gone":
            raise ApiError(404, "NotFound", "no such node")
        done.append((verb, node))
        return "done"

    source = FilledSource()
    page = ClusterPage(source, Feed(source, VirtualClock()), act)
    async with client_of(page) as client:
        offers = await (await client.get("/ui/offers")).json()
        assert (offers["acts"], offers["asks"]) == (True, False)
        token = {PROOF_HEADER: offers["token"]}
        for headers in ({}, {PROOF_HEADER: ""}, {PROOF_HEADER: "é"}):
            assert (await client.post("/ui/nodes/a/drain", headers=headers)).status == 403
        foreign = {**token, "Origin": "http://evil.example"}
        assert (await client.post("/ui/nodes/a/drain", headers=foreign)).status == 403
        assert (await client.post("/ui/nodes/a/format", headers=token)).status == 404
        assert (await client.post("/ui/nodes/gone/drain", headers=token)).status == 404
        assert done == []
        assert await (await client.post("/ui/nodes/a/drain", headers=token)).text() == "done"
        assert done == [("drain", "a")]


async def test_without_acts_and_asks_there_is_nothing_to_post(client: Client) -> None:
    offers = await (await client.get("/ui/offers")).json()
    assert (offers["acts"], offers["asks"], offers["weights"]) == (False, False, {})
    for path in ("/ui/nodes/a/drain", "/ui/whatif"):
        response = await client.post(path, headers={PROOF_HEADER: offers["token"]})
        assert response.status == 405


async def test_a_what_if_is_asked_with_the_page_s_token_alone() -> None:
    class Echo:
        async def ask(self, question: bytes) -> Answered:
            return Answered(200, msgspec.Raw(question))

    source = FilledSource()
    page = ClusterPage(source, Feed(source, VirtualClock()), asks=WhatIfs(Echo(), WEIGHTS))
    async with client_of(page) as client:
        offers = await (await client.get("/ui/offers")).json()
        assert (offers["asks"], offers["weights"]) == (True, WEIGHTS)
        assert (await client.post("/ui/whatif", data=b"{}")).status == 403
        token = {PROOF_HEADER: offers["token"]}
        assert await (await client.post("/ui/whatif", data=b"{}", headers=token)).text() == "{}"


async def test_a_foreign_host_or_origin_gets_nothing(client: Client) -> None:
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        assert (await client.get("/ui/feed", headers=headers)).status == 403


async def test_a_hostile_text_stays_a_string_of_json(client: Client) -> None:
    response = await client.get("/ui/pods/x/p")
    assert response.content_type == "application/json"
    assert (await response.json())["labels"] == {"a": HOSTILE}
    assert (await client.get("/ui/pods/x/%3Cscript%3E")).status == 404
    assert (await client.get("/ui/pods/x/%3C%2Fp")).status == 200
    assert (await client.get("/ui/..%2Fserver.py")).status == 404


async def test_a_hostile_name_cannot_end_its_event() -> None:
    board = Board()
    hostile: Change = node_of(HOSTILE, labels={HOSTILE: HOSTILE})
    board.put(hostile)
    lines = event_of("frame", board.take()).decode().split("\n")
    assert [line.partition(":")[0] for line in lines] == ["event", "data", "", ""]
    assert json.loads(lines[1].removeprefix("data: "))["nodes"][0][0] == HOSTILE
    assert "\r" not in lines[1]
