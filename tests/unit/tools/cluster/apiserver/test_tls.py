"""HTTPS: the authority's certificates, and the users in clients' certificates."""

from __future__ import annotations

import asyncio
import ssl
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from berth.actors.client.kubeconfig import load
from berth.actors.client.rest import Client, ConnectionFailedError
from berth.tools.cluster.apiserver.app import serve
from berth.tools.cluster.apiserver.authority import Authority
from berth.tools.cluster.apiserver.kubeconfig import ClientIdentity, kubeconfig
from berth.tools.cluster.apiserver.server_options import ServerOptions, Tls
from berth.tools.kubernetes.api.access.tokens import issued_token
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.stores import fresh_store

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def prepared(store: Store, *, secure: bool = False, folder: Path | None = None) -> Tls:
    options = ServerOptions(tls=True, secure=secure, certificates=folder)
    tls = options.prepare(store, ["berth.example"])
    assert tls is not None
    return tls


@pytest.fixture
def store() -> Store:
    return fresh_store()


@pytest.fixture
async def server(store: Store) -> AsyncIterator[tuple[str, Tls]]:
    tls = prepared(store)
    async with serve(store=store, tls=tls.context) as url:
        yield url, tls


async def user_of(url: str, identity: ClientIdentity, folder: Path) -> dict[str, object]:
    """Returns the user as which the server knows the owner of a kubeconfig."""
    file = folder / "config"
    file.write_text(kubeconfig(url, identity))
    async with Client(load(str(file))) as client:
        answer = await client.call("POST", REVIEW, dict, {})
    info: dict[str, object] = answer["status"]["userInfo"]
    return info


async def test_a_client_certificate_names_the_user_and_the_groups(
    server: tuple[str, Tls], tmp_path: Path
) -> None:
    url, tls = server
    assert url.startswith("https://127.0.0.1:")
    assert await user_of(url, tls.administrator(), tmp_path) == {
        "username": "kubernetes-admin",
        "groups": ["system:masters", "system:authenticated"],
    }
    assert await user_of(url, tls.identity("jürgen", ["dev", "ops"]), tmp_path) == {
        "username": "jürgen",
        "groups": ["dev", "ops", "system:authenticated"],
    }


async def test_the_certificate_has_the_names_of_the_server(server: tuple[str, Tls]) -> None:
    url, tls = server
    context = ssl.create_default_context(cadata=tls.certificate)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    assert url
    port = int(url.rpartition(":")[2])
    async with aiohttp.ClientSession() as session:
        for name in ("127.0.0.1", "localhost"):
            address = f"https://{name}:{port}/healthz"
            async with session.get(address, ssl=context) as answer:
                assert await answer.text() == "ok"


async def test_a_foreign_certificate_is_refused(server: tuple[str, Tls], tmp_path: Path) -> None:
    url, tls = server
    other = Authority(datetime.now(UTC)).client("mallory", ["system:masters"])
    identity = ClientIdentity(tls.certificate, other.certificate, other.key)
    with pytest.raises(ConnectionFailedError):
        await user_of(url, identity, tmp_path)


async def test_a_kept_authority_knows_the_certificates_of_earlier_runs(
    store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "pki"
    earlier = prepared(store, secure=True, folder=folder).administrator()
    assert store.token_signer is not None
    (key,) = store.token_signer.public_keys()
    tls = prepared(store, secure=True, folder=folder)
    assert store.token_signer.public_keys() == [key]
    assert store.root_certificate == tls.certificate == earlier.authority
    async with serve(store=store, tls=tls.context) as url:
        assert (await user_of(url, earlier, tmp_path))["username"] == "kubernetes-admin"


async def test_a_program_finds_the_cluster_that_it_expects_to_be_in(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "account"
    options = ServerOptions(account_folder=folder, account=("kube-system", "operator"))
    tls = options.prepare(store)
    assert tls is not None
    async with serve(store=store, tls=tls.context) as url:
        options.write_account(store, url)
        said = capsys.readouterr().err
        assert said.startswith("in-cluster configuration: KUBERNETES_SERVICE_HOST=127.0.0.1 ")
        environ = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": url.rpartition(":")[2],
        }
        connection = load(None, environ=environ, folder=folder)
        async with Client(connection) as client:
            answer = await client.call("POST", REVIEW, dict, {})
    assert answer["status"]["userInfo"]["username"] == "system:serviceaccount:kube-system:operator"
    assert (folder / "namespace").read_text() == "kube-system"


def test_stored_certificates_are_those_of_the_present_authority(store: Store) -> None:
    for _ in range(2):
        certificate = prepared(store).certificate
        Api(store).seed()
        roots = [
            stored.document["data"]
            for stored in store.list(BY_KIND["v1", "ConfigMap"])
            if stored.document["metadata"]["name"] == "kube-root-ca.crt"
        ]
        assert roots == [{"ca.crt": certificate}] * 4
        name = "extension-apiserver-authentication"
        held = store.get(BY_KIND["v1", "ConfigMap"], "kube-system", name)["data"]
        assert held["client-ca-file"] == held["requestheader-client-ca-file"] == certificate
        assert held["requestheader-username-headers"] == '["X-Remote-User"]'


async def test_a_bad_request_over_tls_is_answered(server: tuple[str, Tls]) -> None:
    url, tls = server
    context = ssl.create_default_context(cadata=tls.certificate)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", int(url.rpartition(":")[2]), ssl=context
    )
    writer.write(b"nonsense\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 400")
    writer.close()


def test_certificates_hold_for_a_year() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    certificate = Authority(now)._certificate
    assert certificate.not_valid_after_utc == now + timedelta(days=365)


async def test_a_token_can_be_checked_with_the_public_key(store: Store, tmp_path: Path) -> None:
    tls = prepared(store, secure=True)
    Api(store).seed()
    account = store.get(BY_KIND["v1", "ServiceAccount"], "default", "default")
    token = issued_token(store, account, {})["status"]["token"]
    context = ssl.create_default_context(cadata=tls.certificate)
    headers = {"Authorization": f"Bearer {token}", "Accept": "*/*"}
    async with serve(store=store, tls=tls.context) as url, aiohttp.ClientSession() as session:
        place = url.replace("127.0.0.1", "localhost")
        async with session.get(f"{place}/openid/v1/jwks", ssl=context, headers=headers) as answer:
            (key,) = (await answer.json(content_type=None))["keys"]
        who = f"{place}/apis/authentication.k8s.io/v1/selfsubjectreviews"
        async with session.post(who, ssl=context, headers=headers, json={}) as answer:
            user = (await answer.json())["status"]["userInfo"]["username"]
    assert user == "system:serviceaccount:default:default"
    numbers = [int.from_bytes(urlsafe_b64decode(key[name] + "==")) for name in ("e", "n")]
    signed, _, signature = token.rpartition(".")
    public = rsa.RSAPublicNumbers(*numbers).public_key()
    octets = urlsafe_b64decode(signature + "==")
    public.verify(octets, signed.encode(), padding.PKCS1v15(), hashes.SHA256())
