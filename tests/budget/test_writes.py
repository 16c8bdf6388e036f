"""What a write over HTTP costs an API server, in calls: a pod that is created, and its status.

The bounds are a tenth above what was measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from berth.tools.cluster.apiserver.app import Server
from berth.tools.kubernetes.api.requests.field_managers import SERVER
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.call_counts import calls_of
from tests.kit.stores import fresh_store

PODS = "/api/v1/namespaces/default/pods"
MANY = 100
MOST_TO_CREATE, MOST_TO_WRITE_STATUS = 437, 549
REQUESTS = {"cpu": "100m", "memory": "128Mi"}
CONTAINER = {"name": "c", "image": "example.com/app:v1", "resources": {"requests": REQUESTS}}
TIME = "2026-01-01T00:00:00Z"


def creation(number: int) -> HttpRequest:
    metadata = {"name": f"p{number}", "labels": {"app": "web"}}
    return request("POST", PODS, {"metadata": metadata, "spec": {"containers": [CONTAINER]}})


def status(number: int) -> HttpRequest:
    ip = f"10.0.0.{number}"
    container = {"name": "c", "ready": True, "restartCount": 0, "image": "i", "imageID": ""}
    written = {
        "phase": "Running",
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": TIME}],
        "containerStatuses": [{**container, "state": {"running": {"startedAt": TIME}}}],
    }
    return request("PATCH", f"{PODS}/p{number}/status", {"status": written})


def request(method: str, path: str, document: dict[str, Any]) -> HttpRequest:
    form = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
    headers = {"host": "127.0.0.1", "content-type": form, "user-agent": "kubelet/v1.36"}
    return HttpRequest(method, path, {}, headers, msgspec.json.encode(document))


def calls_each(server: Server, made: Callable[[int], HttpRequest]) -> float:
    """Returns the calls for a request, without those of the first few, which fill caches."""
    requests = [made(number) for number in range(MANY + 10)]
    answers: list[Any] = [server.answer(each) for each in requests[:10]]
    calls = calls_of(lambda: answers.extend(server.answer(each) for each in requests[10:]))
    assert {each.status for each in answers} <= {200, 201}
    return calls / MANY


def test_writes_cost_few_calls() -> None:
    store = fresh_store()
    Api(store, manager=SERVER).seed()
    server = Server(store)
    assert calls_each(server, creation) <= MOST_TO_CREATE
    assert calls_each(server, status) <= MOST_TO_WRITE_STATUS
