"""The events about a pod, and a pod with a near name, at an API server that is asked over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

import pytest

from berth.tools.answers.debug.debug_client import DebugTarget
from berth.tools.answers.debug.latest_events import MOST, EventNow, events_about, near_pod
from tests.kit.documents import Document
from tests.kit.serving import kubeconfig
from tests.kit.thread_server import in_thread


class _Lists(BaseHTTPRequestHandler):
    """Answers every request with the same items, or refuses it if there are none."""

    items: ClassVar[list[Document]] = []
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(unquote(self.path))
        self.send_response(200 if self.items else 403)
        self.end_headers()
        self.wfile.write(json.dumps({"items": self.items}).encode())

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> type[_Lists]:
    monkeypatch.setattr(_Lists, "items", [])
    monkeypatch.setattr(_Lists, "asked", [])
    return _Lists


@pytest.fixture
def target(lists: type[_Lists], tmp_path: Path) -> Iterator[DebugTarget]:
    with in_thread(HTTPServer(("127.0.0.1", 0), lists)) as address:
        config = tmp_path / "config"
        config.write_text(kubeconfig(f"http://{address}"))
        yield DebugTarget("https://s", False, "", str(config), "", None, False)


def event(minute: int, reason: str = "Failed", **fields: object) -> Document:
    return {"eventTime": f"2026-01-01T00:{minute:02}:00.000000Z", "reason": reason, **fields}


def test_the_last_events_come_in_order_whatever_has_their_time(
    lists: type[_Lists], target: DebugTarget
) -> None:
    series = {"lastObservedTime": "2026-01-01T00:40:00.123456Z"}
    old = {"eventTime": None, "deprecatedLastTimestamp": "2026-01-01T00:30:00Z"}
    oldest = {"eventTime": None, "metadata": {"creationTimestamp": "2026-01-01T00:20:00Z"}}
    lists.items = [
        event(1, "Again", series=series, reportingInstance="b-1", reportingController="b"),
        event(1, "Old", **old, deprecatedSource={"component": "kubelet"}, note="n"),
        event(1, "Oldest", **oldest, reportingController="b"),
        *(event(minute) for minute in range(MOST)),
    ]
    *others, oldest_now, old_now, again = events_about("ns/p", "u", target)
    assert len(others) + 3 == MOST
    assert oldest_now == EventNow("2026-01-01T00:20:00Z", "Oldest", "b", "")
    assert old_now == EventNow("2026-01-01T00:30:00Z", "Old", "kubelet", "n")
    assert again == EventNow("2026-01-01T00:40:00Z", "Again", "b-1", "")
    chosen = "regarding.kind=Pod,regarding.name=p,regarding.uid=u"
    path = "/apis/events.k8s.io/v1/namespaces/ns/events"
    assert lists.asked == [f"{path}?fieldSelector={chosen}"]


def test_a_pod_of_a_near_name_is_suggested(lists: type[_Lists], target: DebugTarget) -> None:
    lists.items = [{"metadata": {"name": name}} for name in ("web-1", "db-0")]
    assert near_pod("ns/web1", target) == ", did you mean web-1?"
    assert near_pod("ns/cache", target) == ""


def test_who_may_not_list_sees_nothing(lists: type[_Lists], target: DebugTarget) -> None:
    assert events_about("ns/p", "", target) == []
    assert near_pod("ns/p", target) == ""
