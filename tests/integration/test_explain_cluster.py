"""`berth explain` of a live cluster with nulls and with unreadable objects."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from berth.actors.client.rest import Connection
from berth.config.load import from_mapping
from berth.tools.explain.command import answer
from berth.tools.explain.decision import Decision
from berth.tools.explain.source import from_cluster
from tests.integration.test_client import served
from tests.kit.daemon import node, pod


async def test_nulls_are_absent_and_unreadable_objects_are_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fine, broken, nameless = node("fine"), node("broken"), node("nameless")
    fine["status"]["images"] = [{"names": None}]
    broken["status"]["allocatable"] = {"cpu": "plenty"}
    nameless["metadata"] = None
    asked = pod("asked", tolerations=None)
    items = {"/api/v1/nodes": [fine, broken, nameless], "/api/v1/pods": [asked]}

    async def listed(request: web.BaseRequest) -> web.StreamResponse:
        found: list[Any] | None = items.get(request.path)
        return web.json_response({"metadata": {}, "items": found})

    async with served(listed) as url:
        question = await from_cluster(Connection(url), "default", "asked", from_mapping(None))
    decision = answer(question).decision
    assert isinstance(decision, Decision)
    assert decision.hosts == ["fine"]
    told = capsys.readouterr().err
    assert (
        "a Node cannot be read and is left out: status.allocatable[cpu]: expected a quantity"
        in told
    )
    assert "a Node cannot be read and is left out: metadata.name: expected a name" in told
