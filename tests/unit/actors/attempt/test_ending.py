"""The lines that end attempts have kube-scheduler's messages."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from berth.actors.attempt.ending import Attempts
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages.binding import Placement
from berth.actors.messages.queue import Failure, QueuedPod
from berth.actors.scheduling.decision.scheduler import NO_NODES
from berth.actors.telemetry.logs import configure_logs
from berth.config.options import LoggingOptions
from berth.plugin import PodInfo
from tests.kit.clock import VirtualClock
from tests.kit.instruments import unread
from tests.kit.logs import capture_logs
from tests.kit.structs import pod

HEAD = re.compile(r"([IWEF])\d{4} \d\d:\d\d:\d\d\.\d{6} [ \d]{7} ending\.py:\d+\] ")
NO_FIT = "0/3 nodes are available: 3 Insufficient cpu."
ENDS = {"attempt": 2, "seconds": 0.003123}
UNUSED: Any = None


def end_attempts() -> None:
    """Ends an attempt in each way: with a node, with no fit, without nodes, and with an error."""
    clock = VirtualClock()
    attempts = Attempts(Mailboxes(), clock, unread(clock))
    queued = QueuedPod(PodInfo(pod("web")), attempts=2, enqueued_at=0.0)
    record: Any = SimpleNamespace(end=lambda *_: None)
    started = clock.now() - 0.00312345
    attempts.scheduled(Placement(queued, "node-3", UNUSED, UNUSED, {}, started, 3, 1))
    attempts.failed(queued, Failure("Unschedulable", NO_FIT), started, record)
    attempts.failed(queued, Failure("Unschedulable", NO_NODES), started, record)
    attempts.failed(queued, Failure("SchedulerError", "refused"), started, record, "node-3")


def text_of(line: str) -> str:
    """Returns the line with its severity, and without the rest of its head."""
    assert HEAD.match(line), line
    return HEAD.sub(r"\1 ", line)


def test_an_attempt_ends_with_kube_schedulers_message(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LoggingOptions(verbosity=2))
    end_attempts()
    end = "attempt=2 seconds=0.003123"
    assert [text_of(line) for line in capsys.readouterr().err.splitlines()] == [
        (
            'I "Successfully bound pod to node" pod="ns/web" node="node-3" evaluatedNodes=3'
            f' feasibleNodes=1 result="scheduled" {end}'
        ),
        (
            f'I "Unable to schedule pod; no fit; waiting" pod="ns/web" err="{NO_FIT}"'
            f' result="unschedulable" {end}'
        ),
        (
            'I "Unable to schedule pod; no nodes are registered to the cluster; waiting"'
            f' pod="ns/web" result="unschedulable" {end}'
        ),
        (
            'E "Error scheduling pod; retrying" err="refused" pod="ns/web" node="node-3"'
            f' result="error" {end}'
        ),
    ]


def test_json_has_the_same_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LoggingOptions("json", 2))
    end_attempts()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    for line in lines:
        assert line.pop("ts") > 1e12
        assert re.fullmatch(r"attempt/ending\.py:\d+", line.pop("caller"))
        assert line.pop("pod") == {"name": "web", "namespace": "ns"}
    assert lines == [
        {
            "msg": "Successfully bound pod to node",
            "v": 2,
            "node": "node-3",
            "evaluatedNodes": 3,
            "feasibleNodes": 1,
            "result": "scheduled",
            **ENDS,
        },
        {
            "msg": "Unable to schedule pod; no fit; waiting",
            "v": 2,
            "err": NO_FIT,
            "result": "unschedulable",
            **ENDS,
        },
        {
            "msg": "Unable to schedule pod; no nodes are registered to the cluster; waiting",
            "v": 2,
            "result": "unschedulable",
            **ENDS,
        },
        {
            "msg": "Error scheduling pod; retrying",
            "node": "node-3",
            "result": "error",
            **ENDS,
            "err": "refused",
        },
    ]


def test_below_verbosity_2_only_errors_are_shown() -> None:
    configure_logs(LoggingOptions(verbosity=1))
    with capture_logs() as lines:
        end_attempts()
    assert [(line["log_level"], line["error"]) for line in lines] == [("error", "refused")]
