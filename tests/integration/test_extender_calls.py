"""The calls to extenders alone: TLS, certificates, and the verb preempt, which other tests do not
reach.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest
from aiohttp import web

from berth.actors.client.extender.calls import Extenders
from berth.actors.scheduling.framework.questions import Victims
from berth.actors.scheduling.framework.status import Code, Status
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.config.load import ConfigError
from berth.config.types import Duration, Extender, ExtenderManagedResource, ExtenderTLSConfig
from tests.kit import documents
from tests.kit.certificates import Authority
from tests.kit.extender import (
    FAILURES,
    Answer,
    Body,
    SmallExtender,
    hang,
    internal_error,
    small_extender,
)
from tests.kit.snapshots import snapshot_of

POD = msgspec.convert({"metadata": {"name": "p", "namespace": "ns", "uid": "uid-p"}}, Pod)
SOON = Duration(0.3)


def snapshot() -> Snapshot:
    """Returns nodes a and b with pods a0, a1, b0, b1."""
    pods = [
        documents.pod(name, node=name[0], namespace="ns", uid=f"uid-{name}")
        for name in ("a0", "a1", "b0", "b1")
    ]
    return snapshot_of([documents.node("a"), documents.node("b"), *pods], set())


# ---------------------------------------------------------------------------------------------- TLS


async def kept(*extenders: Extender) -> list[str] | Status:
    """Returns the nodes that these extenders leave of all nodes, or the error."""
    view = snapshot().all()
    async with Extenders(extenders) as asking:
        answer = await asking.filter(POD, view)
    return (
        answer if isinstance(answer, Status) else [view.columns.names[row] for row in answer.rows]
    )


def only_a(_: Body) -> Any:
    return {"Nodes": {"items": [{"metadata": {"name": "a"}}]}}


def pem(authority: Authority, name: str) -> bytes:
    return authority.text(name).encode()


async def test_an_extender_is_verified_by_its_authority_and_name(authority: Authority) -> None:
    by_file = ExtenderTLSConfig(ca_file=authority.path("ca.crt"))
    by_data = ExtenderTLSConfig(ca_data=pem(authority, "ca.crt"), ca_file="/goes/unread")
    named = ExtenderTLSConfig(ca_file=authority.path("ca.crt"), server_name="berth.example")
    anyone = ExtenderTLSConfig(insecure=True)
    async with small_extender({"filter": only_a}, authority.server("server")) as extender:
        for tls in (by_file, by_data, anyone):
            assert await kept(Extender(extender.url, "filter", tls_config=tls)) == ["a"]
            assert await kept(
                Extender(extender.url.replace("https", "HTTPS"), "filter", tls_config=tls)
            ) == ["a"]
        assert await kept(Extender(extender.url, "filter", enable_https=True)) == ["a"]
        for distrusting in (None, ExtenderTLSConfig(), named):
            refused = await kept(Extender(extender.url, "filter", tls_config=distrusting))
            assert isinstance(refused, Status)
            assert "certificate verify failed" in refused.message
        calls = len(extender.calls)
    assert calls == 7
    async with small_extender({"filter": only_a}, authority.server("named")) as extender:
        assert await kept(Extender(extender.url, "filter", tls_config=named)) == ["a"]
        refused = await kept(
            Extender(extender.url, "filter", tls_config=by_file, enable_https=True)
        )
        assert isinstance(refused, Status)
        assert "certificate is not valid for '127.0.0.1'" in refused.message


async def test_an_extender_is_trusted_if_the_machine_trusts_its_authority(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", authority.path("ca.crt"))
    async with small_extender({"filter": only_a}, authority.server("server")) as extender:
        assert await kept(Extender(extender.url, "filter")) == ["a"]


async def test_a_client_certificate_is_presented(authority: Authority) -> None:
    ca = authority.path("ca.crt")
    files = ExtenderTLSConfig(
        ca_file=ca, cert_file=authority.path("client.crt"), key_file=authority.path("client.key")
    )
    data = ExtenderTLSConfig(
        ca_file=ca, cert_data=pem(authority, "client.crt"), key_data=pem(authority, "client.key")
    )
    async with small_extender(
        {"filter": only_a}, authority.server("server", asks_clients=True)
    ) as extender:
        for tls in (files, data):
            assert await kept(Extender(extender.url, "filter", tls_config=tls)) == ["a"]
        refused = await kept(
            Extender(extender.url, "filter", tls_config=ExtenderTLSConfig(ca_file=ca))
        )
        assert isinstance(refused, Status)
        assert len(extender.calls) == 2


@pytest.mark.parametrize(
    ("tls", "problem"),
    [
        (
            ExtenderTLSConfig(ca_file="/nowhere"),
            r"extenders\[1\].tlsConfig.caFile: /nowhere cannot be read: No such",
        ),
        (
            ExtenderTLSConfig(ca_data=b"ca"),
            r"extenders\[1\].tlsConfig.caData, caFile: expected certificates in PEM",
        ),
        (
            ExtenderTLSConfig(ca_data=b"\xff"),
            r"extenders\[1\].tlsConfig.caData, caFile: expected certificates in PEM",
        ),
        (
            ExtenderTLSConfig(cert_file="/nowhere"),
            r"extenders\[1\].tlsConfig.certFile: /nowhere cannot be read",
        ),
        (
            ExtenderTLSConfig(cert_data=b"c", key_data=b"k"),
            r"extenders\[1\].tlsConfig: expected a client certificate",
        ),
    ],
)
def test_a_tls_file_that_cannot_be_used_is_named(tls: ExtenderTLSConfig, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Extenders([Extender("http://h", ignorable=True), Extender("https://h", tls_config=tls)])


def test_a_certificate_without_its_key_is_named(authority: Authority) -> None:
    half = ExtenderTLSConfig(cert_file=authority.path("client.crt"))
    with pytest.raises(
        ConfigError, match=r"extenders\[0\].tlsConfig: expected a client certificate and its key"
    ):
        Extenders([Extender("https://h", tls_config=half)])


def zeros(size: int) -> bytes:
    """Returns this many zero bytes, compressed."""
    compressor = zlib.compressobj(wbits=31)
    parts = [compressor.compress(bytes(1 << 20)) for _ in range(size >> 20)]
    return b"".join([*parts, compressor.flush()])


async def endless(_: Body) -> Any:
    """Answers with spaces until the connection ends."""
    payload = b" " * (1 << 18)

    async def forever() -> AsyncIterator[bytes]:
        while True:
            yield payload
            await anyio.lowlevel.checkpoint()

    return web.Response(body=forever())


@pytest.mark.parametrize("answer", ["compressed", "endless"])
async def test_an_answer_of_any_size_is_read_up_to_a_limit(answer: str) -> None:
    def compressed(_: Body) -> Any:
        return web.Response(body=zeros(64 << 20), headers={"Content-Encoding": "gzip"})

    answers = {"compressed": compressed, "endless": endless}
    async with small_extender({"filter": answers[answer]}) as extender:
        result = await kept(Extender(extender.url, "filter", http_timeout=Duration(60)))
    assert isinstance(result, Status)
    assert "an answer of more than 167" in result.message  # 16 MiB and twice the request


async def test_an_unknown_host_is_an_error_of_the_extender() -> None:
    refused = await kept(Extender(f"http://{'a' * 70}.invalid", "filter"))
    assert isinstance(refused, Status)
    assert refused.code is Code.ERROR


# ------------------------------------------------------------------------------------------ preempt


def preempting(extender: SmallExtender, **fields: Any) -> Extender:
    return Extender(
        extender.url, preempt_verb="preempt", http_timeout=SOON, node_cache_capable=True, **fields
    )


async def preempted(
    *extenders: Extender, pod: Pod = POD, **candidates: list[str]
) -> dict[str, tuple[list[str], int]] | Status:
    """Returns the candidates (node=victims) that these extenders leave, by node, or the error."""
    view = snapshot()
    infos = {
        info.pod.metadata.name: info
        for row in view.columns.row_of.values()
        if (node := view.columns.infos[row]) is not None
        for info in node.pods.values()
    }
    victims = {
        node: Victims(tuple(infos[name] for name in names), 1) for node, names in candidates.items()
    }
    async with Extenders(extenders) as asking:
        answer = await asking.preempt(pod, victims, view)
    if isinstance(answer, Status):
        return answer
    return {
        node: ([info.pod.metadata.name for info in left.pods], left.pdb_violations)
        for node, left in answer.items()
    }


def leave(**victims: list[str]) -> Answer:
    """Answers preempt with these victims by node, and no violated budget."""

    def answer(_: Body) -> Any:
        return {
            "NodeNameToMetaVictims": {
                n: {"Pods": [{"UID": f"uid-{p}"} for p in v]} for n, v in victims.items()
            }
        }

    return answer


async def test_each_extender_reduces_the_candidates_that_are_left() -> None:
    async with (
        small_extender({"preempt": leave(a=["a0"], b=["b1", "b0"])}) as x,
        small_extender({"preempt": leave(b=["b0"])}) as y,
    ):
        whole = Extender(y.url, preempt_verb="preempt")
        assert await preempted(preempting(x), whole, a=["a0", "a1"], b=["b0"]) == {"b": (["b0"], 0)}
        (first,), (second,) = x.bodies("preempt"), y.bodies("preempt")
    assert first["Pod"]["metadata"]["uid"] == second["Pod"]["metadata"]["uid"] == "uid-p"
    assert first["NodeNameToVictims"] is None
    assert first["NodeNameToMetaVictims"]["a"] == {
        "Pods": [{"UID": "uid-a0"}, {"UID": "uid-a1"}],
        "NumPDBViolations": 1,
    }
    assert second["NodeNameToMetaVictims"] is None
    sent = second["NodeNameToVictims"]["b"]["Pods"]
    assert [(victim["metadata"]["name"], victim["spec"]["nodeName"]) for victim in sent] == [
        ("b1", "b"),
        ("b0", "b"),
    ]


async def test_without_candidates_no_extender_is_asked() -> None:
    async with (
        small_extender({"preempt": leave()}) as x,
        small_extender({"preempt": internal_error}) as y,
    ):
        assert await preempted(preempting(x)) == {}
        assert not x.calls
        assert await preempted(preempting(x), preempting(y), a=["a0"]) == {}
        assert not y.calls
        other = preempting(y, managed_resources=(ExtenderManagedResource("example.com/gpu"),))
        assert await preempted(other, a=["a0"]) == {"a": (["a0"], 1)}


PREEMPT_FAILURES = {
    **FAILURES,
    "unknown node": (leave(z=["a0"]), 'nodeinfo not found for node name "z"'),
    "unknown pod": (leave(a=["b0"]), "claims to preempt pod"),
}


@pytest.mark.parametrize("failure", PREEMPT_FAILURES)
@pytest.mark.parametrize("ignorable", [True, False])
async def test_a_preempt_call_that_fails(failure: str, ignorable: bool) -> None:
    answer, problem = PREEMPT_FAILURES[failure]
    async with (
        small_extender({"preempt": answer}) as bad,
        small_extender({"preempt": leave(a=["a1"])}) as good,
    ):
        result = await preempted(
            preempting(bad, ignorable=ignorable), preempting(good), a=["a0"], b=["b0"]
        )
    if ignorable:
        assert result == {"a": (["a1"], 0)}
    else:
        assert isinstance(result, Status)
        assert (result.code, result.plugin) == (Code.ERROR, "Extender")
        assert problem in result.message


async def test_a_victim_that_is_deleted_during_the_call_remains_a_victim() -> None:
    view = snapshot()
    node = view.columns.infos[view.columns.row_of["a"]]
    assert node is not None
    victim = PodInfo(node.pods["ns/a0"].pod)

    def thinking(_: Body) -> Any:
        node.remove_pod("ns/a0")
        return leave(a=["a0"])({})

    async with (
        small_extender({"preempt": thinking}) as extender,
        Extenders([preempting(extender)]) as asking,
    ):
        left = await asking.preempt(POD, {"a": Victims((victim,))}, view)
    assert left == {"a": Victims((victim,))}


# ----------------------------------------------------------------------------------- many at a time


@pytest.mark.full("long")
async def test_calls_that_hang_do_not_block_other_calls() -> None:
    """There are more calls at a time than an HTTP client's pool usually allows."""
    async with small_extender({"bind": hang}) as extender:
        slow = Extender(extender.url, bind_verb="bind", http_timeout=Duration(20))
        async with Extenders([slow]) as asking, anyio.create_task_group() as group:
            for _ in range(150):
                group.start_soon(asking.bind, POD, "a")
            with anyio.fail_after(10):
                while len(extender.calls) < 150:
                    await anyio.sleep(0.01)
            group.cancel_scope.cancel()


def test_the_file_of_a_client_certificate_is_not_left_behind(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tls = ExtenderTLSConfig(
        cert_data=pem(authority, "client.crt"), key_data=pem(authority, "client.key")
    )
    Extenders([Extender("https://h", tls_config=tls)])
    assert not list(tmp_path.iterdir())
