"""The page's source in a toy cluster."""

from __future__ import annotations

from typing import Any

from berth.actors.attempt.flights import AttemptsPage, RecordedAttempt, Rejection
from berth.actors.messages.queue import Place, StoryStep
from berth.config.feature_gates import DEFAULTS
from berth.config.load import from_mapping
from berth.tools.apiserver.store import Store
from berth.tools.explain.decision import Decision
from berth.tools.hollow.embedded import Embedded
from berth.tools.hollow.kubelet.nodes import hollow_node
from berth.tools.page.embedded import NODES, EmbeddedSource
from berth.tools.page.source import NodeGone
from tests.kit.page import QUIET, FilledSource

NAMESPACES = "/api/v1/namespaces"
PODS = "/api/v1/namespaces/default/pods"
BIG: dict[str, Any] = {
    "metadata": {"name": "big"},
    "spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"disk": "fast"}},
}


def source_of(access: Embedded) -> EmbeddedSource:
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


async def test_nodes_are_listed_and_followed() -> None:
    access = Embedded(Store())
    await access.call("POST", NODES, dict, hollow_node(1))
    changes = source_of(access).nodes()
    first = await anext(changes)
    assert getattr(first, "name", "") == "node-1"
    await access.call("DELETE", f"{NODES}/node-1", dict)
    assert await anext(changes) == NodeGone("node-1")
    await changes.aclose()


async def test_a_pod_s_story_has_the_verdict_of_each_node() -> None:
    access = Embedded(Store())
    await access.call("POST", NAMESPACES, dict, {"metadata": {"name": "default"}})
    for number in (1, 2):
        await access.call("POST", NODES, dict, hollow_node(number))
    await access.call("POST", PODS, dict, BIG)
    source = source_of(access)
    story = await source.story("default", "big")
    assert story is not None
    assert story.phase == "Pending"
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
