"""Resizes of other pods that hold the room which a pending pod needs."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import json

from berth.tools.views.commands.explain import explain
from tests.kit.changes import fits_after, suggested
from tests.kit.daemon import node, pod
from tests.kit.documents import Document


def resized(cpu: str, allocated: str, reason: str = "", **level: Any) -> Document:
    """Returns a pod on n1 that requests so much, while the node has allocated another amount."""
    document = pod("greedy", cpu, nodeName="n1", **level)
    amounts = {"cpu": allocated}
    status = {"name": "c", "allocatedResources": amounts, "resources": {"requests": amounts}}
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    document["status"] = {
        "phase": "Running",
        "conditions": conditions if reason else [],
        "containerStatuses": [status],
    }
    return document


@pytest.mark.parametrize(
    ("greedy", "cpu", "sentence"),
    [
        (resized("5", "1", "Deferred"), "2", "Take back the deferred resize of default/greedy"),
        (resized("1", "4"), "2", "Wait until the resize of default/greedy is done"),
    ],
)
def test_the_resize_that_holds_the_room_is_named(greedy: Document, cpu: str, sentence: str) -> None:
    objects, pending = [node("n1", "4"), greedy], pod("small", cpu)
    changes = suggested(objects, pending)
    assert changes
    assert changes[0].sentence == f"{sentence}: it fits on n1."
    for change in changes:
        assert fits_after(change, objects, pending) == list(change.nodes)


@pytest.mark.parametrize("greedy", [resized("4", "4"), resized("4", "4", "Infeasible")])
def test_a_pod_without_a_resize_to_come_is_not_named(greedy: Document) -> None:
    changes = suggested([node("n1", "4"), greedy], pod("small", "2"))
    assert changes
    assert not [change for change in changes if change.kind == "resize"]


def test_a_deferred_resize_of_the_pods_own_resources() -> None:
    greedy = resized("1", "1", "Deferred", resources={"requests": {"cpu": "5"}})
    greedy["status"] |= {
        "resources": {"requests": {"cpu": "1"}},
        "allocatedResources": {"cpu": "1"},
    }
    objects, pending = [node("n1", "4"), greedy], pod("small", "2")
    changes = suggested(objects, pending)
    assert changes
    assert changes[0].kind == "resize"
    assert fits_after(changes[0], objects, pending) == ["n1"]


def test_the_first_sentence_says_how_much_the_resize_holds() -> None:
    small = pod("small", "2")
    items = [node("n1", "4"), resized("5", "1", "Deferred"), small]
    manifest = json.encode({"apiVersion": "v1", "kind": "List", "items": items}).decode()
    runner = CliRunner(env={"COLUMNS": "300"})
    told = runner.invoke(explain, ["-f", "-", "small"], input=manifest).output
    assert (
        "lacks cpu (closest: n1, 3 short, where a deferred resize of default/greedy holds 4)"
    ) in told
