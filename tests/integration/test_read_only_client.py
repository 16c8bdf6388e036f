"""The client of the commands that answer questions: what it sends, and what it refuses to send."""

from __future__ import annotations

import pytest
from aiohttp import web

from berth.actors.client.read_only import ReadOnlyClient, WriteRefusedError
from berth.actors.client.rest import ApiError, Connection
from tests.integration.test_client import served

PODS = "/api/v1/namespaces/default/pods"
REVIEWS = "/apis/authorization.k8s.io/v1"
WRITES = [
    ("POST", PODS),
    ("POST", f"{PODS}/p/binding"),
    ("POST", f"{PODS}/p/eviction"),
    ("POST", f"{PODS}?dryRun=All"),
    ("PUT", f"{PODS}/p"),
    ("PATCH", f"{PODS}/p/status"),
    ("DELETE", f"{PODS}/p"),
    ("DELETE", f"{REVIEWS}/selfsubjectaccessreviews"),
    ("POST", f"{PODS}/{REVIEWS}/selfsubjectaccessreviews"),
    ("POST", "/apis/reviews.example.com/v1/codereviews"),
]


@pytest.mark.parametrize(("method", "path"), WRITES)
async def test_a_write_is_not_sent(method: str, path: str) -> None:
    sent = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        sent.append(request.method)
        return web.json_response({})

    async with served(handler) as url, ReadOnlyClient(Connection(url)) as client:
        with pytest.raises(WriteRefusedError, match=f"not sent, as this only reads: {method} /"):
            await client.call(method, path, dict, {})
        async with client.with_own_connections() as other:
            with pytest.raises(WriteRefusedError):
                await other.call(method, path, dict, {})
    assert sent == []


@pytest.mark.parametrize(
    "path",
    [
        f"{REVIEWS}/selfsubjectaccessreviews",
        f"{REVIEWS}/namespaces/n/localsubjectaccessreviews",
        "/apis/authentication.k8s.io/v1/tokenreviews",
    ],
)
async def test_reads_and_reviews_are_sent(path: str) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"method": request.method})

    async with served(handler) as url, ReadOnlyClient(Connection(url)) as client:
        assert await client.call("GET", PODS, dict) == {"method": "GET"}
        assert await client.call("POST", path, dict, {}) == {"method": "POST"}


async def test_a_refusal_of_a_read_is_told_as_ever() -> None:
    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "reason": "Forbidden", "code": 403}, status=403)

    async with served(handler) as url, ReadOnlyClient(Connection(url)) as client:
        with pytest.raises(ApiError) as refused:
            await client.call("GET", PODS, dict)
    assert refused.value.code == 403
