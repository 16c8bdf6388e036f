"""The pages of a scheduler, fetched over HTTP; failures are told in words."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote

import anyio
import click
import pytest

from berth.tools.debug import asking
from berth.tools.debug.asking import NoAnswerError, Target


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        code, _, text = self.path.removeprefix("/").partition("/")
        self.send_response(int(code))
        self.end_headers()
        self.wfile.write(unquote(text).encode())

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Pages) as pages:
        thread = Thread(target=pages.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{pages.server_port}"
        pages.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _no_kubeconfig(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "connection_of", lambda *_: None)


def target(server: str) -> Target:
    return Target(
        server=server,
        leader=False,
        lease="",
        kubeconfig=None,
        context="",
        certificate_authority=None,
        insecure=False,
    )


def fetch(server: str, *paths: str) -> list[bytes]:
    fetch_all: Any = asking._fetch
    with asking.failures_in_words(server):
        return list(anyio.run(fetch_all, target(server), [*paths]))


def test_the_bodies_come_in_the_order_of_the_paths(server: str) -> None:
    assert fetch(server, "/200/one", "/200/two") == [b"one", b"two"]


def test_an_unknown_user_is_told_what_the_scheduler_needs(server: str) -> None:
    with pytest.raises(NoAnswerError) as refused:
        fetch(server, "/401/Unauthorized")
    text = refused.value.format_message()
    assert text.startswith(f"{server}: 401 Unauthorized: expected a kubeconfig with credentials")
    assert "--authorization-always-allow-paths=" in text


def test_the_message_of_a_status_is_shown(server: str) -> None:
    with pytest.raises(NoAnswerError, match=r"403 not you$"):
        fetch(server, '/403/{"kind":"Status","message":"not you"}')


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(NoAnswerError, match=r"^http://127\.0\.0\.1:1: "):
        fetch("http://127.0.0.1:1", "/200/one")


def test_only_https_is_accepted() -> None:
    with pytest.raises(click.UsageError, match="expected a URL such as https://"):
        target("http://a").fetch(["/"])
