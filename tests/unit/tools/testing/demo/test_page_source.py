"""The page's source in a toy cluster."""

from __future__ import annotations

from typing import Any

import anyio
from anyio import wait_all_tasks_blocked

from berth.actors.attempt.attempts_page import AttemptsPage, RecordedAttempt, Rejection
from berth.actors.messages.queue import Place, StoryStep
from berth.config.feature_gates import DEFAULTS
from berth.config.load import from_mapping
from berth.tools.answers.explain.decision import Decision
from berth.tools.answers.feed.feed_source import Change, NodeGone, PodGone
from berth.tools.answers.feed.rows import NodeRow, PodRow
from berth.tools.answers.feed.watched_rows import PAUSE_EVERY
from berth.tools.cluster.controllers.embedded_access import EmbeddedAccess
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.testing.demo.page_source import NODES, EmbeddedSource
from tests.kit.page import QUIET, FilledSource
from tests.kit.stores import fresh_store

NAMESPACES = "/api/v1/namespaces"
PODS = "/api/v1/namespaces/default/pods"
BIG: dict[str, Any] = {
    "metadata": {"name": "big"},
    "spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"disk": "fast"}},
}


def source_of(access: EmbeddedAccess) -> EmbeddedSource:
    return EmbeddedSource(access, FilledSource().glance, recorded, from_mapping(None), DEFAULTS)


async def recorded(key: str) -> AttemptsPage:
    """Returns two attempts; an event woke the pod for the second one."""
    rejections = (Rejection("NodeAffinity", "Unschedulable", ("no match",), ("node-1", "node-2")),)
    attempts = tuple(
        RecordedAttempt(key, "", "", number, at, 0.001, 1.0, "unschedulable", rejections=rejections)
        for number, at in ((1, 10.0), (2, 20.0))
    )
    steps = (
        StoryStep(9.0, Place.ACTIVE, "PodAdd"),
        StoryStep(15.0, Place.ACTIVE, "NodeAdd", "NodeAffinity"),
    )
    return AttemptsPage(0.0, 10.0, attempts, steps)


async def test_nodes_come_before_pods_and_all_are_followed() -> None:
    access = EmbeddedAccess(fresh_store())
    await access.call("POST", NAMESPACES, dict, {"metadata": {"name": "default"}})
    await access.call("POST", PODS, dict, BIG)
    for number in range(1, PAUSE_EVERY + 2):
        await access.call("POST", NODES, dict, hollow_node(number))
    changes: list[Change] = []
    async with anyio.create_task_group() as group:
        group.start_soon(source_of(access).follow, changes.append)
        await wait_all_tasks_blocked()
        assert [type(change) for change in changes] == [NodeRow] * (PAUSE_EVERY + 1) + [PodRow]
        await access.call("DELETE", f"{NODES}/node-1", dict)
        await access.call("DELETE", f"{PODS}/big?gracePeriodSeconds=0", dict)
        await wait_all_tasks_blocked()
        assert set(changes[-2:]) == {NodeGone("node-1"), PodGone("default/big")}
        group.cancel_scope.cancel()


async def test_a_pod_s_story_has_the_verdict_of_each_node() -> None:
    access = EmbeddedAccess(fresh_store())
    await access.call("POST", NAMESPACES, dict, {"metadata": {"name": "default"}})
    for number in (1, 2):
        await access.call("POST", NODES, dict, hollow_node(number))
    await access.call("POST", PODS, dict, BIG)
    source = source_of(access)
    story = await source.story("default", "big")
    assert story is not None
    assert story.phase == "Pending"
    assert story.sentence.startswith("stays pending: of 2 nodes, 2 do not have ")
    assert isinstance(story.decision, Decision)
    assert {verdict.plugin for verdict in story.decision.filter.values()} == {"NodeAffinity"}
    woken = [(attempt.number, attempt.woken_by) for attempt in story.attempts]
    assert woken == [(2, "NodeAdd (NodeAffinity)"), (1, "PodAdd")]
    assert [reason.nodes for reason in story.attempts[0].reasons] == [2]
    assert story.changes is not None
    first = story.changes[0]
    assert (first.who, first.sentence) == (
        "owner",
        "Drop disk=fast from the node selector: it fits on node-1, node-2.",
    )
    assert await source.story("default", "none") is None
    assert await source.glance() == QUIET
