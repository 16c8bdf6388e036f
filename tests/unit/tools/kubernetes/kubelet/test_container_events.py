"""The events about containers, and how many of them are written."""

from __future__ import annotations

from berth.tools.kubernetes.kubelet.container_events import (
    EVENTS_A_SECOND,
    MOST_AT_ONCE,
    Allowance,
    starts,
    stops,
)
from tests.kit.documents import Document

RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
WAITING = {"waiting": {"reason": "CrashLoopBackOff"}}


def status(state: Document, restarts: int = 0, init: Document | None = None) -> Document:
    def one(name: str, state: Document) -> Document:
        return {"name": name, "image": "x", "state": state, "restartCount": restarts}

    statuses: Document = {"containerStatuses": [one("c", state)]}
    return statuses if init is None else statuses | {"initContainerStatuses": [one("i", init)]}


def told(before: Document, after: Document, *pulled: str) -> list[str]:
    events = starts({"status": before}, after, pulled)
    return [f"{event.reason} {event.field}" for event in events]


def test_a_container_that_starts_has_three_events() -> None:
    assert told({}, status(RUNNING)) == [
        "Pulled spec.containers{c}",
        "Created spec.containers{c}",
        "Started spec.containers{c}",
    ]
    assert told({}, status(RUNNING), "spec.containers{c}") == [
        "Created spec.containers{c}",
        "Started spec.containers{c}",
    ]


def test_only_containers_in_another_run_have_events() -> None:
    assert told(status(RUNNING), status(RUNNING)) == []
    assert told({}, status(WAITING)) == []
    assert told(status(RUNNING), status(WAITING)) == []
    assert len(told(status(RUNNING), status(RUNNING, restarts=1))) == 3
    assert told(status(WAITING, init=RUNNING), status(WAITING, init=RUNNING)) == []
    assert told({}, status(WAITING, init=RUNNING))[0] == "Pulled spec.initContainers{i}"


def test_containers_that_run_are_stopped_sidecars_last() -> None:
    killed = [event.field for event in stops({"status": status(RUNNING, init=RUNNING)})]
    assert killed == ["spec.containers{c}", "spec.initContainers{i}"]
    assert list(stops({"status": status(WAITING)})) == []
    assert list(stops({})) == []


def test_events_beyond_the_allowance_are_lost() -> None:
    allowance = Allowance()
    assert all(allowance.take(1000.0) for _ in range(MOST_AT_ONCE))
    assert not allowance.take(1000.0)
    taken = sum(allowance.take(1001.0) for _ in range(MOST_AT_ONCE))
    assert taken == EVENTS_A_SECOND
    assert sum(allowance.take(9999.0) for _ in range(2 * MOST_AT_ONCE)) == MOST_AT_ONCE
