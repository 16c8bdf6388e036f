"""The server of a running scheduler: it answers while the scheduler stands still, its health
follows the process, and it asks API servers over HTTP.
"""

from __future__ import annotations

import http.client
import re
import ssl
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import anyio
import msgspec
import pytest

from berth.actors.client.credentials import KubeconfigError
from berth.actors.client.rest import ApiError
from berth.actors.server.actor import delegates
from berth.actors.server.lookup import LookupFailedError
from berth.actors.server.tls import ServingError
from berth.config.options import Authentication, Authorization, Options, SecureServing
from berth.tools.cluster.apiserver.http import Response, listen
from berth.tools.kubernetes.api.requests.request import HttpRequest
from tests.kit.certificates import Authority
from tests.kit.daemon import daemon
from tests.kit.logs import capture_logs
from tests.kit.processes import free_port
from tests.kit.reviewer import Reviewer
from tests.kit.serving import kubeconfig, open_to_all, url_of


async def ask(
    options: Options, path: str, session: aiohttp.ClientSession, token: str = ""
) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with session.get(url_of(options) + path, headers=headers, ssl=False) as response:
        return response.status, await response.text()


def ask_from_a_thread(port: int, path: str) -> tuple[int, str]:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=tls)
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


@pytest.mark.full
async def test_health_is_served_while_the_scheduler_stands_still() -> None:
    options = msgspec.structs.replace(open_to_all(), liveness_stall=0.3)
    assert options.serving is not None
    port = options.serving.secure_port

    def while_it_stands_still() -> list[tuple[int, str]]:
        time.sleep(0.7)
        return [ask_from_a_thread(port, path) for path in ("/livez", "/livez/ping", "/readyz")]

    async with daemon(options=options), aiohttp.ClientSession() as session:
        with ThreadPoolExecutor(1) as other:
            future = other.submit(while_it_stands_still)
            answers = future.result()  # blocks the event loop
        live, by_name, ready = answers
        assert live[0] == by_name[0] == 500
        assert live[1].startswith("[-]ping failed: the event loop has stood still for")
        assert re.search(r" s at \S+\.py:\d+\n", live[1])
        assert by_name[1].startswith("internal server error: the event loop has stood still for")
        assert ready == (200, "ok")
        await anyio.sleep(0.3)
        assert await ask(options, "/livez", session) == (200, "ok")


async def test_every_page_is_served() -> None:
    options = msgspec.structs.replace(open_to_all(), flags={"v": "2"})
    async with daemon(options=options) as running, aiohttp.ClientSession() as session:
        running.put_node("n")
        running.put_pod("p")
        await running.advance(2)
        for path, words in (
            ("/healthz?verbose", "[+]ping ok\nhealthz check passed\n"),
            ("/livez?verbose", "[+]ping ok\nlivez check passed\n"),
            ("/readyz?verbose", "[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n"),
            ("/metrics", "berth_unreadable_objects"),
            ("/metrics/slis", 'kubernetes_healthcheck{name="shutdown",type="readyz"} 1\n'),
            ("/configz", '{"componentconfig":{'),
            ("/configz", '{"name":"TaintToleration","weight":3}'),
            ("/configz", '"minCandidateNodesAbsolute":100'),
            ("/flagz", "v:2\n"),
            ("/statusz", "Paths:  /configz /debug /flagz /healthz /livez /metrics /readyz\n"),
            ("/debug/cache", '"key":"default/p"'),
            ("/debug/queue", '{"pods":[]}'),
            ("/ui", "<title>berth</title>"),
            ("/ui/offers", '"asks":false'),
        ):
            status, body = await ask(options, path, session)
            assert (status, words in body) == (200, True), (path, body)
        for path in (
            "/",
            "/nothere",
            "/debug/",
            "/debug/none",
            "/debug/pods/a",
            "/healthz/shutdown",
            "/ui/none.js",
            "/ui/pods/default/none",
            "/ui/nodes/n/drain",
        ):
            assert await ask(options, path, session) == (404, "404 page not found\n"), path
        async with session.get(f"{url_of(options)}/configz", ssl=False) as response:
            assert response.headers["Cache-Control"] == "no-cache, private"
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert response.headers["Content-Type"] == "application/json"
        async with session.post(f"{url_of(options)}/debug/cache", ssl=False) as response:
            assert response.status == 405


@asynccontextmanager
async def delegating(folder: Path, reviewer: Reviewer) -> AsyncIterator[Options]:
    """Yields options that delegate to an API server."""

    def answer(request: HttpRequest) -> Response:
        try:
            return Response(
                msgspec.json.encode(reviewer.answered(request.method, request.path, request.body))
            )
        except ApiError as refused:
            return Response(msgspec.json.encode({"message": str(refused)}), refused.code)

    file = folder / "kubeconfig"
    async with listen(answer) as url:
        file.write_text(kubeconfig(url))
        yield Options(
            serving=SecureServing("127.0.0.1", free_port()),
            authentication=Authentication(kubeconfig=str(file)),
            authorization=Authorization(kubeconfig=str(file)),
        )


async def test_an_api_server_is_asked_who_may(tmp_path: Path) -> None:
    reviewer = Reviewer()
    reviewer.add("good", "prometheus")
    reviewer.add("other", "somebody")
    reviewer.rights.add(("prometheus", "/metrics"))
    async with (
        delegating(tmp_path, reviewer) as options,
        daemon(options=options),
        aiohttp.ClientSession() as session,
    ):
        for path, token, status in (
            ("/livez", "", 200),
            ("/metrics", "", 401),
            ("/metrics", "good", 200),
            ("/metrics", "other", 403),
            ("/configz", "good", 403),
            ("/livez", "wrong", 401),
        ):
            assert (await ask(options, path, session, token))[0] == status, (path, token)


METHODS = ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")


async def test_the_page_is_for_those_who_may_and_changes_nothing(tmp_path: Path) -> None:
    reviewer = Reviewer()
    reviewer.add("viewer", "viewer")
    reviewer.add("other", "somebody")
    reviewer.add("admin", "admin", "system:masters")
    shown = ("/ui", "/ui/", "/ui/app.js", "/ui/offers", "/ui/pods/default/p")
    reviewer.rights |= {("viewer", path) for path in shown}
    async with (
        delegating(tmp_path, reviewer) as options,
        daemon(options=options) as running,
        aiohttp.ClientSession() as session,
    ):
        running.put_node("n")
        running.put_pod("p")
        await running.advance(2)
        for path in (*shown, "/ui/feed"):
            for token, status in (("", 401), ("wrong", 401), ("other", 403)):
                assert (await ask(options, path, session, token))[0] == status, (path, token)
        for path in shown:
            assert (await ask(options, path, session, "viewer"))[0] == 200, path
        assert (await ask(options, "/ui/feed", session, "viewer"))[0] == 403
        story = msgspec.json.decode((await ask(options, shown[-1], session, "viewer"))[1])
        assert (story["node"], story["attempts"][0]["result"]) == ("n", "placed")
        for path in (*shown, "/ui/feed", "/ui/nodes/n/drain", "/ui/whatif"):
            for method in METHODS:
                headers = {"Authorization": "Bearer admin"}
                async with session.request(
                    method, url_of(options) + path, headers=headers, ssl=False
                ) as response:
                    assert response.status == 405, (method, path)
        async with session.get(f"{url_of(options)}/ui/", ssl=False, headers=headers) as response:
            assert "script-src 'self'" in response.headers["Content-Security-Policy"]


@pytest.mark.full("waits for a connection to end")
async def test_the_page_s_feed_has_nodes_pods_and_a_glance() -> None:
    options = open_to_all()
    async with daemon(options=options) as running, aiohttp.ClientSession() as session:
        running.put_node("<b>")
        running.put_pod("p")
        await running.advance(2)
        told = b""
        async with session.get(f"{url_of(options)}/ui/feed", ssl=False) as response:
            assert response.content_type == "text/event-stream"
            with anyio.fail_after(5):
                while not (b"event: glance" in told and b'["default/p","<b>"' in told):
                    told += await response.content.readany()
        assert told.startswith(b"event: begin\n")


async def test_a_lookup_that_must_not_fail_ends_the_process(tmp_path: Path) -> None:
    async with delegating(tmp_path, Reviewer()) as options:
        strict = msgspec.structs.replace(options.authentication, tolerate_lookup_failure=False)
        options = msgspec.structs.replace(options, authentication=strict)
        with pytest.raises(ExceptionGroup) as failure:
            async with daemon(options=options):
                await anyio.sleep(10)
        (cause,) = failure.value.exceptions
        assert isinstance(cause, LookupFailedError)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (Options(authentication=Authentication(kubeconfig="/none")), KubeconfigError),
        (Options(authentication=Authentication(client_ca_file="/none")), OSError),
        (Options(authorization=Authorization(always_allow_paths=("/a*b",))), ServingError),
    ],
)
async def test_settings_that_cannot_be_used_end_the_process(
    options: Options, error: type[Exception]
) -> None:
    serving = SecureServing("127.0.0.1", free_port())
    with pytest.raises(ExceptionGroup) as failure:
        async with daemon(options=msgspec.structs.replace(options, serving=serving)):
            await anyio.sleep(10)
    assert isinstance(failure.value.exceptions[0], error)


def test_a_pod_delegates_to_its_own_cluster(tmp_path: Path, authority: Authority) -> None:
    plain = Authentication(), Authorization()
    assert delegates(*plain, {}, tmp_path) == (None, None)
    inside = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert delegates(*plain, inside, tmp_path) == (None, None)  # no service account
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text(authority.text("ca.crt"))
    asked = delegates(*plain, inside, tmp_path)
    assert [each and each.server for each in asked] == ["https://10.0.0.1:443"] * 2
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig("http://127.0.0.1:1"))
    result = delegates(Authentication(kubeconfig=str(file)), Authorization(), {}, tmp_path)
    assert result.authentication is not None
    assert (result.authentication.server, result.authorization) == ("http://127.0.0.1:1", None)


async def test_port_zero_serves_nothing() -> None:
    async with daemon(options=Options(serving=SecureServing(secure_port=0))) as running:
        assert running.started.is_set()


@pytest.mark.parametrize("open_paths", [("/livez",), ("/*",)])
async def test_a_server_that_cannot_ask_who_may_warns_unless_everybody_may(
    open_paths: tuple[str, ...],
) -> None:
    serving = SecureServing("127.0.0.1", free_port())
    options = Options(serving=serving, authorization=Authorization(always_allow_paths=open_paths))
    with capture_logs() as logs:
        async with daemon(options=options):
            pass
    warned = any("authorization-kubeconfig" in line["event"] for line in logs)
    assert warned == (open_paths != ("/*",))
