"""The pages of a scheduler, fetched over HTTP; failures are told in words."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

import anyio
import click
import pytest
from click.testing import CliRunner

from berth.tools.answers.debug import debug_client
from berth.tools.answers.debug.debug_client import DebugTarget, NoAnswerError
from berth.tools.answers.debug.user_access import connection_of
from berth.tools.views.commands.debug import debug
from tests.kit.certificates import Authority
from tests.kit.serving import kubeconfig
from tests.kit.thread_server import in_thread


class _Pages(BaseHTTPRequestHandler):
    """Answers each path of the form /STATUS/TEXT with that status and text."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        code, _, text = self.path.removeprefix("/").partition("/")
        self.send_response(int(code))
        self.end_headers()
        self.wfile.write(unquote(text).encode())

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with in_thread(HTTPServer(("127.0.0.1", 0), _Pages)) as address:
        yield f"http://{address}"


@pytest.fixture(autouse=True)
def _no_kubeconfig(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug_client, "connection_of", lambda *_: None)


def target(server: str) -> DebugTarget:
    return DebugTarget(
        server=server,
        leader=False,
        lease="",
        kubeconfig=None,
        context="",
        certificate_authority=None,
        insecure=False,
    )


def fetch(server: str, *paths: str) -> list[bytes]:
    fetch_all: Any = debug_client._fetch
    with debug_client.failures_in_words(server):
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
    for server in ("a:1", "ftp://a", "https://"):
        with pytest.raises(click.UsageError, match="expected a URL such as https://"):
            target(server).fetch(["/"])
    over_tls = "expected https, as a scheduler serves these pages over TLS alone, .*'http://a'"
    with pytest.raises(click.UsageError, match=over_tls):
        target("http://a").fetch(["/"])


def test_the_authority_of_the_schedulers_certificate_may_be_given(authority: Authority) -> None:
    pages = HTTPServer(("127.0.0.1", 0), _Pages)
    pages.socket = authority.server("server").wrap_socket(pages.socket, server_side=True)
    with in_thread(pages) as address:
        arguments = ["queue", "--server", f"https://{address}/403/no"]
        unknown = CliRunner().invoke(debug, arguments)
        known = CliRunner().invoke(
            debug, [*arguments, "--certificate-authority", authority.path("ca.crt")]
        )
    assert (unknown.exit_code, known.exit_code) == (2, 2)
    assert "give the certificate of its authority with --certificate-authority" in unknown.output
    assert known.output == f"Error: https://{address}/403/no: 403 no/debug/queue\n"


def test_the_leader_is_found_through_the_given_lease(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(kubeconfig(f"{server}/404"))
    monkeypatch.setattr(debug_client, "connection_of", connection_of)
    monkeypatch.setattr(_Pages, "asked", [])
    arguments = ["--leader", "--lease", "batch/berth", "--kubeconfig", str(tmp_path / "config")]
    assert CliRunner().invoke(debug, arguments).exit_code == 2
    leases = "apis/coordination.k8s.io/v1/namespaces/batch/leases"
    assert _Pages.asked == [f"/404/{leases}/berth"]
