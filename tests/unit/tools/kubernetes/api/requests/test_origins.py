"""The API server's guard: a web page must not read or write through the browser that shows it."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import pytest

from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.http import Response
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.stores import fresh_store

MAPS = "/api/v1/namespaces/default/configmaps"
OWN = [
    "127.0.0.1:8001",
    "localhost:8001",
    "LocalHost:8001",
    "[::1]:8001",
    "127.0.0.1",
    "localhost",
    "[::1]",
]
FORWARDED = ["localhost:9000", "127.0.0.1:1"]
ALLOWED = ["berth.example", "BERTH.example:8001", "10.0.0.9:80", "[fd00::9]:80"]
FOREIGN = [
    "evil.example",
    "evil.example:8001",
    "127.0.0.1.evil.example",
    "localhost.evil.example:8001",
    "a.berth.example",
    "10.0.0.1:8001",
    "[::2]:8001",
    "[::1",
    "localhost:x",
    "localhost:8001:8001",
    "localhost@evil.example",
    "127.0.0.1, evil.example",
]
REQUESTS = [("POST", MAPS), ("GET", MAPS), ("GET", f"{MAPS}?watch=true")]


class Page:
    """A client that sends requests as a browser would."""

    def __init__(self) -> None:
        self.store = fresh_store()
        Api(self.store).seed()
        self._server = Server(self.store, ("berth.example", "10.0.0.9", "fd00::9"))

    def call(self, method: str, target: str, name: str = "", **headers: str) -> tuple[int, Any]:
        """Sends a request with an object of this name. Returns the status and the answer; an answer
        that follows the store counts as 200.
        """
        path, _, query = target.partition("?")
        body = msgspec.json.encode({"metadata": {"name": name}}) if name else b""
        sent = {"host": "127.0.0.1:8001"} | {
            header.replace("_", "-"): value for header, value in headers.items()
        }
        queried = dict(pair.split("=") for pair in query.split("&")) if query else {}
        answer = self._server.answer(HttpRequest(method, path, queried, sent, body))
        if not isinstance(answer, Response):
            return 200, None
        return answer.status, msgspec.json.decode(answer.body)


@pytest.fixture
def page() -> Page:
    return Page()


def test_a_request_with_a_name_of_the_server_is_answered(page: Page) -> None:
    for number, host in enumerate(OWN + FORWARDED + ALLOWED):
        assert page.call("POST", MAPS, f"m{number}", host=host)[0] == 201, host
        for scheme in ("http", "https"):  # a proxy may add TLS
            read = page.call("GET", f"{MAPS}/m{number}", host=host, origin=f"{scheme}://{host}")
            assert read[0] == 200, host


def test_a_request_with_another_host_name_is_refused(page: Page) -> None:
    """Otherwise, if evil.example is made to resolve to 127.0.0.1, its pages are of the server's own
    origin.
    """
    others = [("GET", "/healthz"), ("GET", "/api"), ("GET", "/")]
    for host, (method, path) in product(FOREIGN, REQUESTS + others):
        name = "m" if method == "POST" else ""
        status, refusal = page.call(method, path, name, host=host, origin=f"http://{host}")
        said = status, refusal["kind"], refusal["reason"], refusal["code"]
        assert said == (403, "Status", "Forbidden", 403), (host, path)
        assert "--allowed-host" in refusal["message"]
    assert page.store.revision == Page().store.revision


def test_a_request_of_a_page_from_another_origin_is_refused(page: Page) -> None:
    origins = ["http://evil.example", "null", "", "http://localhost:3000"]
    origins.append("http://127.0.0.1:8001.evil.example")
    for origin, (method, path) in product(
        origins, [*REQUESTS, ("OPTIONS", MAPS), ("DELETE", MAPS)]
    ):
        status, refusal = page.call(method, path, "m" if method == "POST" else "", origin=origin)
        assert (status, refusal["reason"]) == (403, "Forbidden"), (origin, method, path)
        assert "pages of another origin" in refusal["message"]
    assert page.store.revision == Page().store.revision


def test_a_request_without_a_host_is_refused(page: Page) -> None:
    status, refusal = page.call("GET", "/healthz", host="")
    assert status == 400
    assert "Host: expected" in refusal["message"]


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


def test_a_body_with_the_content_type_of_a_form_is_refused(page: Page) -> None:
    """A browser sends a form to any site without asking that site first."""
    assert page.call("POST", MAPS, "there")[0] == 201
    revision = page.store.revision
    writes = [("POST", MAPS)] + [(method, f"{MAPS}/there") for method in ("PUT", "DELETE", "PATCH")]
    writes.append(("POST", "/api/v1/namespaces/default/pods/p/binding"))
    for media_type, (method, path) in product(FORMS, writes):
        if method != "PATCH" or media_type != "application/apply-patch+yaml":
            status, refusal = page.call(method, path, "there", content_type=media_type)
            assert (status, refusal["reason"]) == (415, "UnsupportedMediaType"), (
                method,
                media_type,
            )
            assert "media types include" in refusal["message"] or method == "PATCH"
    assert page.store.revision == revision


def test_an_object_may_come_as_json_or_yaml_or_without_a_content_type(page: Page) -> None:
    json = ["application/json", "Application/JSON ; charset=utf-8", "application/yaml", ""]
    for number, media_type in enumerate(json):
        assert page.call("POST", MAPS, f"m{number}", content_type=media_type)[0] == 201, media_type
