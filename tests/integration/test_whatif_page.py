"""What-ifs on the port of a running scheduler, about the cluster as it sees it."""

from __future__ import annotations

import os
import signal
from typing import Any

import aiohttp
import anyio
import msgspec
import pytest

from berth.config.load import from_mapping
from berth.tools.answers.terminal.feature_gates import gates_from
from berth.tools.answers.whatif.answer_worker import answer
from berth.tools.answers.whatif.question import Question
from berth.tools.answers.whatif.tried_documents import Documents
from tests.kit.daemon import daemon, node, pod
from tests.kit.documents import Document
from tests.kit.serving import open_to_all, url_of
from tests.kit.whatif_workers import leave, workers

pytestmark = pytest.mark.full("processes")


async def ask(session: aiohttp.ClientSession, url: str, *steps: Any) -> tuple[int, Document]:
    question = {"steps": steps, "seed": 3}
    async with session.post(f"{url}/whatif", json=question, ssl=False) as response:
        return response.status, await response.json()


async def answered(session: aiohttp.ClientSession, url: str, *steps: Any) -> Document:
    """Returns the answer of a new process; the end of the old one may have to be noticed first."""
    with anyio.fail_after(20):
        while (again := await ask(session, url, *steps))[0] != 200:
            assert again[1]["problem"].endswith("ask again")
    return again[1]


async def test_the_scheduler_answers_what_ifs_about_its_own_cluster() -> None:
    options = open_to_all()
    url = url_of(options)
    documents = [node("node-1"), node("node-2"), pod("web-1", "3"), pod("big", "8")]
    async with daemon(options=options) as running, aiohttp.ClientSession() as session:
        running.put_node("node-1")
        running.put_pod("web-1", "3")
        running.put_pod("big", "8")
        await running.advance(3)
        status, first = await ask(session, url, "add 1 like node-1", "drain node-1")
        assert status == 200
        assert (first["placed"], first["evicted"][0]["pod"]) == ([], "default/web-1")
        assert [of["pods"] for of in first["pending"]] == [["default/big"]]

        (worker,) = workers()
        running.put_node("node-2")
        running.put_pod("small", "2")
        running.api.delete("/api/v1/pods", "default/big")
        await running.advance(3)
        bound = {
            of["metadata"]["name"]: of for of in running.api.documents("/api/v1/pods").values()
        }
        assert bound["small"]["spec"]["nodeName"] == "node-2"
        status, second = await ask(session, url, "drain node-2")
        own = Documents(
            [
                *documents[:2],
                {**bound["web-1"], "apiVersion": "v1", "kind": "Pod"},
                {**bound["small"], "apiVersion": "v1", "kind": "Pod"},
            ],
            from_mapping(None),
            gates_from(()),
        )
        expected = answer(own, Question(["drain node-2"], seed=3))
        assert second == msgspec.to_builtins(expected)
        assert workers() == [worker]

        assert await ask(session, url, "drain node-9") == (
            400,
            {"field": "steps[0]", "problem": "Node node-9 does not exist"},
        )
        async with session.get(f"{url}/whatif/schema", ssl=False) as schema:
            assert (await schema.json())["title"] == "berth whatif"
        async with session.get(f"{url}/whatif", ssl=False) as response:
            assert (response.status, response.headers["Allow"]) == (405, "POST")

        async with session.get(f"{url}/ui/pods/default/small", ssl=False) as response:
            story = await response.json()
        assert (story["key"], story["node"], story["events"]) == ("default/small", "node-2", None)
        assert story["decision"]["hosts"] == ["node-2"]
        assert [each["conclusion"] for each in story["attempts"]]
        async with session.get(f"{url}/ui/pods/default/none", ssl=False) as response:
            assert response.status == 404
        assert workers() == [worker]

        leave(worker, 4 << 20)
        status, refusal = await ask(session, url, {"apply": [{}] * 250_000})
        assert status == 503
        assert refusal["problem"] == "the answer takes too much memory: ask for less"
        assert await ask(session, url, "drain node-2") == (200, second)
        (worker,) = workers()
        os.kill(worker, signal.SIGKILL)
        assert await answered(session, url, "drain node-2") == second
        assert workers() != [worker]
    assert workers() == []
