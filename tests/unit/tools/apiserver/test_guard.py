"""The API server's guard: a web page must not read or write through the browser that shows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from berth.tools.apiserver.app import serve
from berth.tools.apiserver.store import Store

MAPS = "/api/v1/namespaces/default/configmaps"
MADE = {"metadata": {"name": "a"}}


class Server:
    def __init__(self, url: str, session: aiohttp.ClientSession, store: Store) -> None:
        self.url = url
        self.port = int(url.rpartition(":")[2])
        self.store = store
        self._session = session

    async def call(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, Any]:
        given = {
            name.replace("_", "-"): value.replace("PORT", str(self.port))
            for name, value in headers.items()
        }
        async with self._session.request(
            method, self.url + path, json=body, headers=given
        ) as answer:
            assert answer.content_type in ("application/json", "text/plain")
            return (
                answer.status,
                await answer.json() if answer.content_type == "application/json" else None,
            )


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    store = Store()
    async with (
        serve(store=store, allowed_hosts=("berth.example", "10.0.0.9", "fd00::9")) as url,
        aiohttp.ClientSession() as session,
    ):
        yield Server(url, session, store)


OWN = [
    "127.0.0.1:PORT",
    "localhost:PORT",
    "LocalHost:PORT",
    "[::1]:PORT",
    "127.0.0.1",
    "localhost",
    "[::1]",
]
FORWARDED = ["localhost:9000", "127.0.0.1:1"]
ALLOWED = ["berth.example", "BERTH.example:PORT", "10.0.0.9:80", "[fd00::9]:80"]
FOREIGN = [
    "evil.example",
    "evil.example:PORT",
    "127.0.0.1.evil.example",
    "localhost.evil.example:PORT",
    "a.berth.example",
    "10.0.0.1:PORT",
    "[::2]:PORT",
    "[::1",
    "localhost:x",
    "localhost:PORT:PORT",
    "localhost@evil.example",
    "127.0.0.1, evil.example",
]


@pytest.mark.parametrize("host", OWN + FORWARDED + ALLOWED)
async def test_a_request_with_a_name_of_the_server_is_answered(server: Server, host: str) -> None:
    assert (await server.call("POST", MAPS, MADE, Host=host))[0] == 201
    assert (await server.call("GET", MAPS + "/a", Host=host, Origin=f"http://{host}"))[0] == 200


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", MAPS),
        ("GET", MAPS),
        ("GET", f"{MAPS}?watch=true"),
        ("GET", "/healthz"),
        ("GET", "/api"),
        ("GET", "/"),
    ],
)
async def test_a_request_with_another_host_name_is_refused(
    server: Server, method: str, path: str, host: str
) -> None:
    """Otherwise, if evil.example is made to resolve to 127.0.0.1, its pages are of the server's own
    origin.
    """
    revision = server.store.revision
    body = MADE if method == "POST" else None
    status, refusal = await server.call(method, path, body, Host=host, Origin=f"http://{host}")
    assert (status, refusal["kind"], refusal["reason"], refusal["code"]) == (
        403,
        "Status",
        "Forbidden",
        403,
    )
    assert "--allowed-host" in refusal["message"]
    assert server.store.revision == revision


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "",
        "http://localhost:3000",
        "http://127.0.0.1:PORT.evil.example",
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", MAPS),
        ("GET", MAPS),
        ("GET", f"{MAPS}?watch=true"),
        ("OPTIONS", MAPS),
        ("DELETE", MAPS),
    ],
)
async def test_a_request_of_a_page_from_another_origin_is_refused(
    server: Server, method: str, path: str, origin: str
) -> None:
    revision = server.store.revision
    body = MADE if method == "POST" else None
    status, refusal = await server.call(method, path, body, Host="127.0.0.1:PORT", Origin=origin)
    assert (status, refusal["reason"]) == (403, "Forbidden")
    assert "pages of another origin" in refusal["message"]
    assert server.store.revision == revision


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_request_of_a_page_from_this_server_is_answered(
    server: Server, scheme: str
) -> None:
    """The scheme may be https, because a proxy may add TLS."""
    status, _ = await server.call(
        "POST", MAPS, MADE, Host="berth.example", Origin=f"{scheme}://berth.example"
    )
    assert status == 201


async def test_a_request_without_a_host_is_refused(server: Server) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
    async with asyncio.timeout(30):
        answered = await reader.read()
    assert answered.startswith(b"HTTP/1.1 400 ")
    assert b"Host: expected" in answered
    writer.close()
    await writer.wait_closed()


FORMS = [
    "text/plain",
    "text/plain;charset=UTF-8",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "text/plain; application/json",
    "application/jsonp",
    "application/octet-stream",
    "application/apply-patch+yaml",
    "json",
    "*/*",
]


@pytest.mark.parametrize("how", FORMS)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", MAPS),
        ("PUT", f"{MAPS}/there"),
        ("DELETE", f"{MAPS}/there"),
        ("PATCH", f"{MAPS}/there"),
        ("POST", "/api/v1/namespaces/default/pods/p/binding"),
    ],
)
async def test_a_body_with_the_content_type_of_a_form_is_refused(
    server: Server, method: str, path: str, how: str
) -> None:
    """A browser sends a form to any site without asking that site first."""
    if method == "PATCH" and how == "application/apply-patch+yaml":
        return
    assert (await server.call("POST", MAPS, {"metadata": {"name": "there"}}))[0] == 201
    revision = server.store.revision
    status, refusal = await server.call(method, path, MADE, Content_Type=how)
    assert (status, refusal["reason"]) == (415, "UnsupportedMediaType")
    assert "expected application/" in refusal["message"]
    assert server.store.revision == revision


@pytest.mark.parametrize(
    "how", ["application/json", "Application/JSON ; charset=utf-8", "application/yaml", ""]
)
async def test_an_object_may_come_as_json_or_yaml_or_without_a_content_type(
    server: Server, how: str
) -> None:
    assert (await server.call("POST", MAPS, MADE, Content_Type=how))[0] == 201
