"""What the log says of one pod, at the verbosities of kube-scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.actors.telemetry.logs import configure_logs
from berth.config.options import LoggingOptions
from berth.plugin import Code, CycleState, PermitPlugin, PodInfo, Status
from tests.kit.daemon import daemon
from tests.kit.logs import capture_logs

Line = Mapping[str, Any]


class Hesitant(PermitPlugin):
    """A plugin that makes every pod wait for a second, and then rejects it."""

    name = "Hesitant"

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        return Status(Code.WAIT), 1.0


async def story(verbosity: int, cpu: str = "1", *, permit: bool = False) -> list[Line]:
    """Returns the lines about a pod without room, until one second after a node is added."""
    configure_logs(LoggingOptions(verbosity=verbosity))
    enabled = {"multiPoint": {"enabled": [{"name": "Hesitant"}] if permit else []}}
    with capture_logs() as logs:
        async with daemon({"profiles": [{"plugins": enabled}]}) as running:
            running.put_node("small", "500m")
            running.put_pod("web", cpu)
            await running.advance(2)
            running.put_node("large", "4")
            running.put_node("larger", "8")
            await running.advance(14)
    return [line for line in logs if "default/web" in line.values()]


def names(lines: Sequence[Line]) -> list[str]:
    return [str(line["event"]) for line in lines]


ENDS = ["Unable to schedule pod; no fit; waiting", "Successfully bound pod to node"]
BEGUN = "Attempting to schedule pod"
MOVED = "Pod moved to an internal scheduling queue"


async def test_by_default_a_pod_that_is_placed_has_no_line() -> None:
    assert names(await story(0)) == []


async def test_from_2_on_attempts_have_an_end_and_from_3_on_a_beginning() -> None:
    lines = await story(2)
    assert names(lines) == ENDS
    assert [line["attempt"] for line in lines] == [1, 2]
    assert (lines[1]["evaluatedNodes"], lines[1]["feasibleNodes"]) == (3, 2)
    assert names(await story(3)) == [BEGUN, ENDS[0], BEGUN, ENDS[1]]


async def test_from_4_on_every_step_is_a_line() -> None:
    lines = await story(4)
    assert names(lines) == [
        MOVED,
        BEGUN,
        "No node is left for pod",
        ENDS[0],
        MOVED,
        MOVED,
        BEGUN,
        "Pod assumed and reserved",
        "Attempting to bind pod to node",
        ENDS[1],
    ]
    assert lines[1]["profile"] == "default-scheduler"
    assert (lines[2]["nodes"], lines[2]["rejectedBy"]) == (1, {"NodeResourcesFit": 1})
    moves = [(line["queue"], line["because"]) for line in lines if line["event"] == MOVED]
    assert moves == [
        ("active", "UnschedulablePodAdd"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("active", "NodeAdd"),
    ]
    assert lines[5]["plugin"] == "NodeResourcesFit"


@pytest.mark.full("long")
async def test_a_wait_on_permit_and_its_end_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(IN_TREE, "Hesitant", Hesitant)
    lines = names(await story(4, "100m", permit=True))
    begin = lines.index("Pod assumed and reserved")
    assert lines[begin : begin + 5] == [
        "Pod assumed and reserved",
        "Pod waiting on permit",
        "Pod rejected while waiting on permit",
        "Pod unreserved and forgotten",
        ENDS[0],
    ]


async def test_preemption_is_told_from_2_on() -> None:
    configure_logs(LoggingOptions(verbosity=2))
    with capture_logs() as logs:
        async with daemon() as running:
            running.put_node("n", "1")
            running.put_pod("victim", "1")
            await running.advance(2)
            running.put_pod("web", "1", {"priority": 10})
            await running.advance(5)
    about = [line for line in logs if "default/web" in line.values()]
    assert names(about)[:3] == [
        "the target node for the preemption is determined",
        ENDS[0],
        "Preemptor Pod preempted victim Pod",
    ]
    assert (about[0]["node"], about[0]["victims"]) == ("n", 1)
    assert about[2]["victim"] == "default/victim"


async def test_at_10_all_scores_are_lines() -> None:
    lines = await story(10)
    scored = [line for line in lines if line["event"] == "Plugin scored node for pod"]
    final = [line for line in lines if line["event"] == "Calculated node's final score for pod"]
    assert {line["node"] for line in final} == {"large", "larger"}
    for line in final:
        scores = [each["score"] for each in scored if each["node"] == line["node"]]
        assert line["score"] == np.sum(scores) > 0
    assert {line["plugin"] for line in scored} >= {"NodeResourcesFit", "ImageLocality"}
