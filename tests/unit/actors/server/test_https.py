"""Connections: TLS with certificates that change, certificates of clients, and clients that are
slow or send what is no request.
"""

from __future__ import annotations

import asyncio
import ssl
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import anyio
import pytest
from cryptography import x509

from berth.actors.runtime.clock import SystemClock
from berth.actors.server import https
from berth.actors.server.authentication import Authenticator
from berth.actors.server.authorization import Authorizer, OpenPaths
from berth.actors.server.https import HttpsServer, Respond, listen
from berth.actors.server.lookup import ClientAuthorities
from berth.actors.server.metrics.access import AccessMeasures
from berth.actors.server.request import Answer, Request, text
from berth.actors.server.reviews import AccessReviews, TokenReviews
from berth.actors.server.self_signed import keep_pair, make_pair
from berth.actors.server.site import Site
from berth.actors.server.tls import ServingContexts, ServingError
from berth.actors.telemetry.measures import Registry
from berth.config.options import Authentication, NamedCertificate, SecureServing
from tests.kit.certificates import Authority
from tests.kit.logs import capture_logs
from tests.kit.reviewer import Reviewer
from tests.kit.tasks import beside

CLIENT = "extendedKeyUsage=clientAuth"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authorities = Authority(tmp_path_factory.mktemp("authority"))
    authorities.issue("server", "IP:127.0.0.1", "DNS:localhost")
    authorities.issue("other", "DNS:other.example", "DNS:*.wild.example")
    authorities.sign("jane", CLIENT)
    authorities.sign_itself("proxies")
    authorities.sign("front", CLIENT, by="proxies")
    authorities.sign("impostor", CLIENT, by="proxies")
    authorities.sign_itself("stranger", CLIENT)
    return authorities


async def whole_path(request: Request) -> Answer:
    return text(f"{request.method} {request.path} {dict(request.query)}")


@asynccontextmanager
async def served(
    serving: SecureServing, authentication: Authentication | None = None
) -> AsyncIterator[tuple[int, Reviewer]]:
    """Yields the port and the API server that is asked. With `authentication` everybody but
    anonymous may see /page; without it anonymous may.
    """
    reviewer, clock = Reviewer(), SystemClock()
    reviewer.rights |= {("system:authenticated", "/page")}
    if authentication is None:
        reviewer.rights |= {("system:unauthenticated", "/page")}
    authorities = ClientAuthorities(
        authentication or Authentication(skip_lookup=True), clock, reachable=True
    )
    measures = AccessMeasures(Registry())
    tokens = TokenReviews(reviewer, clock, Random(1), 0.0, measures)
    access = AccessReviews(reviewer, clock, Random(1), 0.0, 0.0, measures)
    site = Site(
        Authenticator(authorities.current, tokens, clock.wall, measures),
        Authorizer(OpenPaths(()), access),
        {"/page": whole_path},
        measures,
    )
    async with (
        serving_with(serving, site.respond, authorities.certificates) as port,
        anyio.create_task_group() as group,
    ):
        group.start_soon(authorities.follow, reviewer)
        yield port, reviewer
        group.cancel_scope.cancel()


@asynccontextmanager
async def serving_with(
    serving: SecureServing, respond: Respond, authorities: Callable[[], Sequence[bytes]] = tuple
) -> AsyncIterator[int]:
    """Yields the port of a server that answers with `respond`."""
    contexts = ServingContexts(serving, authorities)
    with listen("127.0.0.1", 0, share_port=False) as listener:
        async with beside(HttpsServer(listener, contexts, respond).run):
            yield listener.getsockname()[1]


def trusting(
    authority: Authority | None = None, client: str = "", version: ssl.TLSVersion | None = None
) -> ssl.SSLContext:
    """Returns a client's context, with a certificate if `client` names one. Trusts everybody
    without an authority.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if authority is None or client:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context.load_verify_locations(authority.path("ca.crt"))
    if client:
        assert authority is not None
        context.load_cert_chain(authority.path(f"{client}.crt"), authority.path(f"{client}.key"))
    if version is not None:
        context.maximum_version = version
    return context


async def ask(
    port: int,
    tls: ssl.SSLContext,
    *headers: str,
    name: str = "localhost",
    target: str = "/page",
    method: str = "GET",
) -> tuple[int, str]:
    """Returns the status and the body. Raises OSError if the connection or its handshake fails."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name)
    try:
        lines = "".join(f"{header}\r\n" for header in headers)
        request = f"{method} {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{lines}\r\n"
        writer.write(request.encode(errors="surrogateescape"))
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        if not head:
            raise ConnectionResetError
        return int(head.split()[1]), body
    finally:
        writer.transport.abort()


async def name_of(port: int, name: str) -> str:
    """Returns the common name of the certificate that is shown to whoever asks for this name."""
    _, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=trusting(), server_hostname=name
    )
    raw = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return x509.load_der_x509_certificate(raw).subject.rfc4514_string()


def files(authority: Authority, name: str = "server", **fields: object) -> SecureServing:
    pair = {"tls_cert_file": f"{name}.crt", "tls_private_key_file": f"{name}.key"}
    return SecureServing(**{k: authority.path(v) for k, v in pair.items()}, **fields)  # type: ignore[arg-type]


async def test_a_certificate_of_a_file_is_verified_and_followed(
    authority: Authority, tmp_path: Path
) -> None:
    for end in ("crt", "key"):
        (tmp_path / f"tls.{end}").write_text(authority.text(f"server.{end}"))
    serving = SecureServing(
        tls_cert_file=str(tmp_path / "tls.crt"), tls_private_key_file=str(tmp_path / "tls.key")
    )
    async with served(serving) as (port, _):
        assert (await ask(port, trusting(authority)))[0] == 200
        with capture_logs() as logs:
            (tmp_path / "tls.crt").write_text(authority.text("other.crt"))
            assert await name_of(port, "localhost") == "CN=server"  # its key is not there yet
            assert [line["event"] for line in logs] == ["new certificates are not used"]
            (tmp_path / "tls.key").write_text(authority.text("other.key"))
            assert await name_of(port, "localhost") == "CN=other"


async def test_the_name_that_a_client_asks_for_chooses_the_certificate(
    authority: Authority,
) -> None:
    pair = authority.path("other.crt"), authority.path("other.key")
    named = NamedCertificate(authority.path("jane.crt"), authority.path("jane.key"), ("*.ex.com",))
    serving = files(authority, tls_sni_cert_key=(NamedCertificate(*pair), named))
    async with served(serving) as (port, _):
        for name, shown in (
            ("localhost", "server"),
            ("other.example", "other"),
            ("a.wild.example", "other"),
            ("a.b.wild.example", "server"),
            ("x.ex.com", "jane"),
        ):
            assert await name_of(port, name) == f"CN={shown}", name


async def test_a_certificate_with_a_name_of_an_unknown_kind_is_used_for_none(
    authority: Authority,
) -> None:
    authority.sign("odd", "subjectAltName=DER:3002a300")  # an x400Address
    pair = NamedCertificate(authority.path("odd.crt"), authority.path("odd.key"))
    async with served(files(authority, tls_sni_cert_key=(pair,))) as (port, _):
        assert await name_of(port, "a") == "CN=server"


async def test_without_a_certificate_one_is_made(tmp_path: Path) -> None:
    async with served(SecureServing("127.0.0.1")) as (port, _):
        assert (await ask(port, trusting()))[0] == 200
    folder = tmp_path / "certs"
    serving = SecureServing("10.1.2.3", cert_dir=str(folder))
    async with served(serving) as (port, _):
        tls = ssl.create_default_context(cafile=str(folder / "kube-scheduler.crt"))
        for name in ("localhost", "127.0.0.1", "10.1.2.3"):
            assert (await ask(port, tls, name=name))[0] == 200
    for name in ("crt", "key"):
        mode = (folder / f"kube-scheduler.{name}").stat().st_mode
        assert stat.S_IMODE(mode) == 0o600
    before = (folder / "kube-scheduler.crt").read_text()
    async with served(serving):
        assert (folder / "kube-scheduler.crt").read_text() == before


def test_an_expired_certificate_is_made_anew(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    crt, _ = keep_pair(tmp_path, "", now - timedelta(days=366))
    before = crt.read_text()
    assert keep_pair(tmp_path, "", now)[0].read_text() != before
    pem, _ = make_pair("::1", now, host="node-1")
    names = (
        x509.load_pem_x509_certificate(pem)
        .extensions.get_extension_for_class(x509.SubjectAlternativeName)
        .value
    )
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "node-1"]
    addresses = names.get_values_for_type(x509.IPAddress)
    assert list(map(str, addresses)) == ["127.0.0.1", "::1"]


class KilledError(Exception):
    pass


@pytest.mark.parametrize("files_before", ["none", "expired"])
@pytest.mark.parametrize("replaced", [0, 1])
def test_a_pair_that_was_written_by_half_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files_before: str, replaced: int
) -> None:
    now, replace, calls = datetime.now(UTC), Path.replace, list[Path]()
    if files_before == "expired":
        keep_pair(tmp_path, "", now - timedelta(days=366))

    def killed(self: Path, target: Path) -> Path:
        if len(calls) == replaced:
            raise KilledError
        calls.append(target)
        return replace(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", killed)
        with pytest.raises(KilledError):
            keep_pair(tmp_path, "", now)
    serve(keep_pair(tmp_path, "", now))


def serve(pair: tuple[Path, Path]) -> None:
    """Raises ssl.SSLError if the files do not belong together."""
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*pair)


@pytest.mark.parametrize("broken", ["another", "torn"])
def test_a_certificate_of_its_own_with_another_key_is_made_anew(
    tmp_path: Path, broken: str
) -> None:
    now = datetime.now(UTC)
    _, key = keep_pair(tmp_path, "", now)
    key.write_bytes(make_pair("", now)[1] if broken == "another" else key.read_bytes()[:50])
    serve(keep_pair(tmp_path, "", now))


def test_a_certificate_of_an_authority_is_left_alone(tmp_path: Path, authority: Authority) -> None:
    (tmp_path / "kube-scheduler.crt").write_text(authority.text("server.crt"))
    (tmp_path / "kube-scheduler.key").write_text("none of its keys")
    _, key = keep_pair(tmp_path, "", datetime.now(UTC))
    assert key.read_text() == "none of its keys"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"tls_min_version": "TLS12"}, "--tls-min-version: expected one of VersionTLS10"),
        (
            {"tls_cipher_suites": ("TLS_NONE",)},
            "Cipher suite TLS_NONE not supported or doesn't exist",
        ),
        ({"tls_cipher_suites": ("TLS_RSA_WITH_RC4_128_SHA",)}, "does not have RC4-SHA"),
        ({"tls_cert_file": "only.crt"}, "expected both, got only one"),
    ],
)
def test_settings_that_cannot_be_used(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(ServingError, match=problem):
        ServingContexts(SecureServing(**fields))  # type: ignore[arg-type]


async def test_versions_and_ciphers_have_their_names_in_go(authority: Authority) -> None:
    async with served(files(authority, tls_min_version="VersionTLS13")) as (port, _):
        assert (await ask(port, trusting(authority)))[0] == 200
        with pytest.raises(OSError):  # noqa: PT011 - what the client makes of an alert
            await ask(port, trusting(authority, version=ssl.TLSVersion.TLSv1_2))
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    async with served(files(authority, tls_cipher_suites=(suite,))) as (port, _):
        tls = trusting(authority, version=ssl.TLSVersion.TLSv1_2)
        _, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=tls, server_hostname="localhost"
        )
        assert writer.get_extra_info("cipher")[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"
        writer.transport.abort()


def with_files(authority: Authority) -> Authentication:
    return Authentication(
        client_ca_file=authority.path("ca.crt"),
        requestheader_client_ca_file=authority.path("proxies.crt"),
        requestheader_allowed_names=("front",),
    )


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_certificate_names_a_user(
    authority: Authority, version: ssl.TLSVersion
) -> None:
    async with served(files(authority), with_files(authority)) as (port, reviewer):
        tls = trusting(authority, "jane", version)
        assert (await ask(port, tls))[0] == 200
        assert (await ask(port, tls))[0] == 200  # perhaps with the session of the first
        spec = reviewer.specs[0]
        assert (spec["user"], spec["groups"]) == ("jane", ["system:authenticated"])
        assert (await ask(port, trusting(authority)))[0] == 401
        with pytest.raises(OSError):  # noqa: PT011 - what the client makes of an alert
            await ask(port, trusting(authority, "stranger"))


async def test_the_headers_of_a_proxy_count_only_with_its_certificate(authority: Authority) -> None:
    claims = (
        "X-Remote-User: root",
        "X-Remote-Group: a",
        "X-Remote-Group: b",
        "X-Remote-Extra-Some%20Scope: x",
    )
    async with served(files(authority), with_files(authority)) as (port, reviewer):
        assert (await ask(port, trusting(authority), *claims))[0] == 401
        assert reviewer.specs[-1]["user"] == "system:anonymous"
        assert (await ask(port, trusting(authority, "jane"), *claims))[0] == 200
        assert reviewer.specs[-1]["user"] == "jane"
        assert (await ask(port, trusting(authority, "impostor"), *claims))[0] == 401
        before = len(reviewer.specs)
        assert (await ask(port, trusting(authority, "front"), *claims))[0] == 200
        assert len(reviewer.specs) == before + 1
        spec = reviewer.specs[-1]
        assert (spec["user"], spec["groups"]) == ("root", ["a", "b", "system:authenticated"])
        assert spec["extra"] == {"some scope": ["x"]}
        # A token counts even if the certificate does not.
        reviewer.add("secret", "ann")
        token = "Authorization: Bearer secret"
        assert (await ask(port, trusting(authority, "impostor"), token))[0] == 200


async def test_authorities_are_looked_up_and_followed(authority: Authority) -> None:
    async with served(files(authority), Authentication()) as (port, reviewer):
        # Nobody is asked for a certificate before an authority is known.
        assert (await ask(port, trusting(authority, "stranger")))[0] == 401
    published = {
        "client-ca-file": authority.text("ca.crt"),
        "requestheader-client-ca-file": authority.text("proxies.crt"),
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-allowed-names": '["front"]',
    }
    clock, reviewer = SystemClock(), Reviewer()
    authorities = ClientAuthorities(Authentication(), clock, reachable=True)
    reviewer.config_map = published
    with anyio.move_on_after(0.05):
        await authorities.follow(reviewer)
    assert len(authorities.certificates()) == 2
    assert authorities.current().headers.usernames == ("X-Remote-User",)
    assert authorities.current().headers.allowed_names == ("front",)


async def test_what_is_no_request_is_refused_and_not_logged(authority: Authority) -> None:
    async with served(files(authority)) as (port, _):
        with capture_logs() as logs:
            for junk in (b"GET /page HTTP/9\r\n\r\n", b"\x00\x01secret\r\n\r\n"):
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", port, ssl=trusting(authority), server_hostname="localhost"
                )
                writer.write(junk)
                assert b"HTTP/1.1 200" not in await reader.read()
                writer.transport.abort()
            long = f"X-Long: {'x' * 2 * https.LONGEST_HEADER}"
            assert (await ask(port, trusting(authority), long))[0] == 400
            twice = ("Content-Length: 1", "Transfer-Encoding: chunked")
            assert (await ask(port, trusting(authority), *twice))[0] == 400
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /page HTTP/1.1\r\n\r\n")  # plain HTTP
            assert not (await reader.read()).startswith(b"HTTP/1.1 200")
            writer.close()
        assert "secret" not in str(logs)
        assert (await ask(port, trusting(authority)))[0] == 200


async def test_slow_clients_are_cut_off(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(https, "SWEEP_SECONDS", 0.02)
    monkeypatch.setattr(https, "HEAD_SECONDS", 0.05)
    monkeypatch.setattr(https, "HANDSHAKE_SECONDS", 0.2)
    async with served(files(authority)) as (port, _):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=trusting(authority), server_hostname="localhost"
        )
        writer.write(b"GET /page HTTP/1.1\r\nHost")
        with anyio.fail_after(5):
            assert await reader.read() == b""
        writer.transport.abort()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)  # no handshake
        with anyio.fail_after(5):
            assert await reader.read() == b""
        writer.transport.abort()


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def test_idle_clients_make_room_for_others(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(https, "MOST_CONNECTIONS", 4)
    monkeypatch.setattr(https, "MOST_OF_HOST", 3)
    connections: list[Ends] = []

    async def connect(host: str, *, greets: bool = True) -> asyncio.StreamReader:
        tls = {"ssl": trusting(authority), "server_hostname": "localhost"} if greets else {}
        connections.append(
            await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0), **tls)  # type: ignore[arg-type]
        )
        return connections[-1][0]

    async with served(files(authority)) as (port, _):
        polite = await connect("127.0.0.2")
        silent = await connect("127.0.0.1", greets=False)
        crowd = [await connect("127.0.0.1") for _ in range(2)]
        with anyio.fail_after(5):
            assert (await ask(port, trusting(authority)))[0] == 200
            assert await silent.read() == b""  # has waited longest of the host with the most
            await connect("127.0.0.1")
            await connect("127.0.0.3")
            assert await crowd[0].read() == b""
        assert not polite.at_eof()
        assert not crowd[1].at_eof()
        for _, writer in connections:
            writer.transport.abort()


async def test_strangers_get_a_share_of_the_open_files(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("berth.actors.process.open_files.limit", lambda: 16)
    async with served(files(authority)) as (port, _):
        crowd = [
            await asyncio.open_connection("127.0.0.1", port, local_addr=(f"127.0.0.{host}", 0))
            for host in (2, 2, 2, 3, 3, 4)
        ]
        with anyio.fail_after(5):
            assert await crowd[0][0].read() == b"", "an eighth is for one address"
            assert await crowd[1][0].read() == b"", "a quarter is for all"
            assert (await ask(port, trusting(authority)))[0] == 200
        for _, writer in crowd:
            writer.transport.abort()


async def test_clients_that_are_all_being_answered_are_not_cut_off(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(https, "MOST_CONNECTIONS", 1)
    began, go_on = anyio.Event(), anyio.Event()

    async def slow(_: Request) -> Answer:
        began.set()
        await go_on.wait()
        return text("done")

    async with serving_with(files(authority), slow) as port, anyio.create_task_group() as group:
        answers: list[tuple[int, str]] = []

        async def first() -> None:
            answers.append(await ask(port, trusting(authority)))

        group.start_soon(first)
        await began.wait()
        with pytest.raises(OSError):  # noqa: PT011 - what the client makes of a closed connection
            await ask(port, trusting(authority))
        go_on.set()
    assert answers == [(200, "done")]


async def test_the_head_of_a_page_in_parts_has_no_body(authority: Authority) -> None:
    closed = anyio.Event()

    async def parts() -> AsyncGenerator[bytes, None]:
        try:
            yield b"first"
            yield b"second"
        finally:
            closed.set()

    async def page(_: Request) -> Answer:
        return Answer(parts())

    async with serving_with(files(authority), page) as port:
        assert await ask(port, trusting(authority), method="HEAD") == (200, "")
        assert closed.is_set()
        assert (await ask(port, trusting(authority)))[0] == 200


async def test_headers_that_are_not_utf_8_are_credentials_that_are_not_good(
    authority: Authority,
) -> None:
    async with served(files(authority), with_files(authority)) as (port, reviewer):
        with capture_logs() as logs:
            token = "Authorization: Bearer \udcff"
            assert (await ask(port, trusting(authority), token))[0] == 401
            claims = "X-Remote-User: a\udcff", "X-Remote-Group: \udcfe"
            assert (await ask(port, trusting(authority, "front"), *claims))[0] == 200
        assert reviewer.specs[-1]["user"] == "a\ufffd"
        assert not [line for line in logs if line["log_level"] == "error"]


def test_a_port_in_use_is_named() -> None:
    with listen("127.0.0.1", 0, share_port=True) as first:
        port = first.getsockname()[1]
        with pytest.raises(OSError, match="already in use") as failure:
            listen("127.0.0.1", port, share_port=False)
        assert failure.value.strerror == (
            f"cannot listen on 127.0.0.1:{port}: address already in use"
        )
        with listen("127.0.0.1", port, share_port=True) as second:
            assert second.getsockname()[1] == port
