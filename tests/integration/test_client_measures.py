"""rest_client_*: what the client measures of its requests."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from aiohttp import web

from berth.actors.client.measures import MOST_NOTES, ClientMeasures, HostMeasures, Note
from berth.actors.client.rest import ApiError, Client, Connection, ConnectionFailedError
from berth.actors.telemetry.measures import Counter, Histogram, Registry
from tests.integration.test_client import HastyClock, served


def answering(*statuses: int) -> AbstractAsyncContextManager[str]:
    """Runs a server that answers with these statuses, one after the other; yields its URL."""
    coming = iter(statuses)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        return web.Response(status=next(coming), body=b"{}", headers={"Retry-After": "3"})

    return served(answer)


async def values_of(registry: Registry) -> dict[str, Any]:
    """Returns the labels but the host, and the value, or the number and the sum of a histogram."""
    await registry.refresh()
    values: dict[str, Any] = {}
    for family in registry.families():
        for labels, child in family.children():
            name = " ".join([family.name.removeprefix("rest_client_"), *labels[:-1]])
            match child:
                case Histogram():
                    values[name] = (child.read().count, child.read().sum)
                case Counter():
                    values[name] = child.value
    return values


async def test_a_request_counts_once_and_its_retries_apart() -> None:
    registry = Registry()
    measures = ClientMeasures(registry)
    async with answering(429, 503, 200) as url:
        client = Client(Connection(url), clock=HastyClock(), measures=measures)
        async with client:
            await client.call("PUT", "/x", dict, {"a": 1})
    assert await values_of(registry) == {
        "rate_limiter_duration_seconds PUT": (3, 0),
        "request_duration_seconds PUT": (1, 6),
        "request_retries_total 429 PUT": 1,
        "request_retries_total 503 PUT": 1,
        "request_size_bytes PUT": (3, 21),
        "requests_total 200 PUT": 1,
        "response_size_bytes PUT": (1, 2),
    }


async def test_a_refused_request_counts_with_its_status() -> None:
    registry = Registry()
    measures = ClientMeasures(registry)
    async with answering(404) as url, Client(Connection(url), measures=measures) as client:
        with pytest.raises(ApiError):
            await client.call("GET", "/x", dict)
    values = await values_of(registry)
    assert values["requests_total 404 GET"] == 1
    assert values["request_size_bytes GET"] == (1, 0)
    assert values["request_duration_seconds GET"][0] == 1


async def test_a_watch_counts_as_a_request_but_takes_no_time() -> None:
    registry = Registry()
    measures = ClientMeasures(registry)
    async with (
        answering(200) as url,
        Client(Connection(url), measures=measures) as client,
        await client.open("/api/v1/pods?watch=1") as response,
    ):
        await response.read()
    assert await values_of(registry) == {
        "rate_limiter_duration_seconds GET": (1, 0),
        "requests_total 200 GET": 1,
    }


async def test_a_request_without_an_answer_counts_as_an_error() -> None:
    registry = Registry()
    measures = ClientMeasures(registry)
    async with Client(Connection("http://127.0.0.1:1"), measures=measures) as client:
        with pytest.raises(ConnectionFailedError):
            await client.call("POST", "/x", dict, {})
    assert (await values_of(registry))["requests_total <error> POST"] == 1


async def test_waits_for_the_rate_limit_are_measured_and_the_host_is_the_servers() -> None:
    registry = Registry()
    measures = ClientMeasures(registry)
    async with answering(200, 200) as url:
        client = Client(Connection(url), clock=HastyClock(), qps=0.5, burst=1, measures=measures)
        async with client, client.with_own_connections() as other:
            await client.call("DELETE", "/x", dict)
            await other.call("DELETE", "/x", dict)
    assert (await values_of(registry))["rate_limiter_duration_seconds DELETE"] == (2, 2)
    hosts = {labels[-1] for family in registry.families() for labels, _ in family.children()}
    assert hosts == {url.removeprefix("http://")}


async def test_many_requests_are_counted_without_a_reading_in_between() -> None:
    registry = Registry()
    host = HostMeasures(ClientMeasures(registry), "api:6443")
    for _ in range(MOST_NOTES * 2 + 1):
        host.waited("POST", 0.5)
        host.ended(Note("POST", 201, 3, 2, 0.25))
    total = MOST_NOTES * 2 + 1
    assert await values_of(registry) == {
        "rate_limiter_duration_seconds POST": (total, total / 2),
        "request_duration_seconds POST": (total, total / 4),
        "request_size_bytes POST": (total, total * 3),
        "requests_total 201 POST": total,
        "response_size_bytes POST": (total, total * 2),
    }
