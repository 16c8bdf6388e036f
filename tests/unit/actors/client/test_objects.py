"""ApiObjects: the requests that plugins' calls become, and what refusals come back as."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

import anyio
import pytest

from berth.actors.client.objects import ApiObjects
from berth.actors.client.rest import ApiError, ConnectionFailedError, DeposedError
from berth.actors.scheduling.framework.status import SUCCESS, Code, NotFound, Status
from berth.actors.scheduling.kube.meta import Object, ObjectMeta
from berth.plugin import (
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    WatchedKind,
)
from tests.kit.clock import VirtualClock

T = TypeVar("T")


class Widget(Object, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()


WIDGETS = WatchedKind("example.com/v1", "Widget", "/apis/example.com/v1/widgets", Widget)


class Server:
    """A server that answers every request with an empty object, or fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.requests: list[tuple[object, ...]] = []

    def _answer(self, answer: type[T], *request: object) -> T:
        self.requests.append(request)
        if self.failure is not None:
            raise self.failure
        return answer()

    async def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: object | None = None,
        content_type: str = "",
    ) -> T:
        return self._answer(answer, method, path, body)

    async def patch(self, path: str, body: object, answer: type[T], kind: str = "strategic") -> T:
        return self._answer(answer, "PATCH", path, body, kind)

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        self._answer(object, "BIND", namespace, name, uid, node)


Call = Callable[[ApiObjects], Awaitable[Any]]
CORE, STORAGE = "/api/v1", "/apis/storage.k8s.io/v1"
CLAIMS = f"{CORE}/namespaces/ns/persistentvolumeclaims"
CALLS: list[tuple[Call, tuple[object, ...]]] = [
    (lambda api: api.get(Node, "a"), ("GET", f"{CORE}/nodes/a", None)),
    (lambda api: api.get(PersistentVolumeClaim, "c", "ns"), ("GET", f"{CLAIMS}/c", None)),
    (
        lambda api: api.get(StorageClass, "a/b c"),
        ("GET", f"{STORAGE}/storageclasses/a%2Fb%20c", None),
    ),
    (
        lambda api: api.create(PersistentVolumeClaim, {"metadata": {"name": "c"}}, "ns"),
        (
            "POST",
            CLAIMS,
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}},
        ),
    ),
    (
        lambda api: api.update(PersistentVolume, "v", {"spec": {}}),
        (
            "PUT",
            f"{CORE}/persistentvolumes/v",
            {"apiVersion": "v1", "kind": "PersistentVolume", "spec": {}},
        ),
    ),
    (
        lambda api: api.update(PersistentVolumeClaim, "c", {}, "ns", "status"),
        ("PUT", f"{CLAIMS}/c/status", {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}),
    ),
    (
        lambda api: api.delete(PersistentVolumeClaim, "c", "ns", "u"),
        (
            "DELETE",
            f"{CLAIMS}/c",
            {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u"}},
        ),
    ),
    (
        lambda api: api.delete(StorageClass, "fast"),
        ("DELETE", f"{STORAGE}/storageclasses/fast", {"apiVersion": "v1", "kind": "DeleteOptions"}),
    ),
    (
        lambda api: api.patch(PersistentVolume, "v", {"metadata": {"resourceVersion": "7"}}),
        ("PATCH", f"{CORE}/persistentvolumes/v", {"metadata": {"resourceVersion": "7"}}, "merge"),
    ),
    (
        lambda api: api.patch(Widget, "w", {}, "ns", "status"),
        ("PATCH", "/apis/example.com/v1/namespaces/ns/widgets/w/status", {}, "merge"),
    ),
    (
        lambda api: api.create(Widget, {"metadata": {"name": "w"}}),
        (
            "POST",
            "/apis/example.com/v1/widgets",
            {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}},
        ),
    ),
]


def connected(server: Server) -> ApiObjects:
    api = ApiObjects(server, VirtualClock(), Random(1))
    api.add_kinds([WIDGETS])
    return api


@pytest.mark.parametrize(("call", "request_"), CALLS, ids=range(len(CALLS)))
async def test_requests(call: Call, request_: tuple[object, ...]) -> None:
    server = Server()
    answer = await call(connected(server))
    assert server.requests == [request_]
    assert answer is SUCCESS if request_[0] == "DELETE" else not isinstance(answer, Status)


async def test_a_binding() -> None:
    server = Server()
    assert await connected(server).bind("ns", "p", "u", "a") is SUCCESS
    assert server.requests == [("BIND", "ns", "p", "u", "a")]


@pytest.mark.parametrize(
    "failure",
    [
        ApiError(409, "Conflict", "the object has been modified"),
        ApiError(404, "NotFound", 'persistentvolumes "v" not found'),
        ConnectionFailedError("the connection was lost"),
        DeposedError("the lease ran out"),
    ],
)
@pytest.mark.parametrize(
    "call", [*(call for call, _ in CALLS), lambda api: api.bind("ns", "p", "u", "a")]
)
async def test_refusals_are_statuses(call: Call, failure: Exception) -> None:
    answer = await call(connected(Server(failure)))
    assert (answer.code, answer.message) == (Code.ERROR, str(failure))


async def test_a_kind_that_nobody_declares() -> None:
    with pytest.raises(TypeError, match="a kind that a plugin may look up, got <class"):
        await ApiObjects(Server(), VirtualClock(), Random(1)).get(Widget, "w")


async def test_an_object_that_is_not_there_differs_from_one_that_cannot_be_read() -> None:
    for failure, expected in (
        (ApiError(404, "NotFound", "not found"), NotFound),
        (ApiError(403, "Forbidden", "no"), Status),
        (ConnectionFailedError("lost"), Status),
    ):
        answer = await connected(Server(failure)).get(Node, "a")
        assert type(answer) is expected


@pytest.mark.parametrize(
    ("failure", "sent"),
    [
        (ApiError(409, "Conflict", "is already assigned"), 4),
        (ApiError(500, "InternalError", "it broke"), 4),
        (ApiError(503, "ServiceUnavailable", "later"), 4),
        (ApiError(404, "NotFound", "gone"), 1),
        (ApiError(403, "Forbidden", "no"), 1),
        (ApiError(429, "TooManyRequests", "later"), 1),
        (ApiError(504, "Timeout", "it may be bound"), 1),
        (ConnectionFailedError("no answer"), 1),
        (DeposedError("the lease ran out"), 1),
    ],
)
@pytest.mark.parametrize("retries", [True, False])
async def test_a_binding_is_sent_again_after_a_transient_failure(
    failure: Exception, sent: int, retries: bool
) -> None:
    """As kube-scheduler since 1.37: DefaultBackoff and Retriable of pkg/scheduler/util/utils.go."""
    clock, server = VirtualClock(), Server(failure)
    api = ApiObjects(server, clock, Random(1), retries_binding=retries)
    answers: list[Status] = []

    async def bind() -> None:
        answers.append(await api.bind("ns", "p", "u", "a"))

    async with anyio.create_task_group() as group:
        group.start_soon(bind)
        await clock.advance(1.0)
    assert len(server.requests) == (sent if retries else 1)
    assert [(answer.code, answer.message) for answer in answers] == [(Code.ERROR, str(failure))]


async def test_a_binding_that_succeeds_the_second_time_is_a_success() -> None:
    clock = VirtualClock()
    server = Server(ApiError(503, "ServiceUnavailable", "later"))
    api = ApiObjects(server, clock, Random(1), retries_binding=True)
    answers: list[Status] = []

    async def bind() -> None:
        answers.append(await api.bind("ns", "p", "u", "a"))

    async with anyio.create_task_group() as group:
        group.start_soon(bind)
        await clock.advance(0.005)
        server.failure = None
        await clock.advance(1.0)
    assert answers == [SUCCESS]
    assert len(server.requests) == 2


async def test_only_patches_of_a_pods_status_are_sent_again() -> None:
    clock = VirtualClock()
    server = Server(ApiError(503, "ServiceUnavailable", "later"))
    api = ApiObjects(server, clock, Random(1))
    answers: list[object] = []

    async def patch(subresource: str) -> None:
        answers.append(await api.patch(Pod, "p", {}, "ns", subresource))

    async with anyio.create_task_group() as group:
        group.start_soon(patch, "")
        await clock.advance(1.0)
        assert len(server.requests) == 1
        group.start_soon(patch, "status")
        await clock.advance(0.01)
        server.failure = None
        await clock.advance(1.0)
    assert len(server.requests) == 3
    assert [isinstance(answer, Status) for answer in answers] == [True, False]
