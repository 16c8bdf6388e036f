"""Kubeconfigs: which file is read, how several are merged, and the errors in one line."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth.actors.client.credentials import ANONYMOUS, KubeconfigError, TokenFile
from berth.actors.client.kubeconfig import load
from berth.tools.cluster.apiserver.kubeconfig import kubeconfig
from tests.kit.cases import documents
from tests.kit.certificates import Authority
from tests.kit.clock import VirtualClock

V1 = "client.authentication.k8s.io/v1"


def document(cluster: Any = None, user: Any = None, **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "c",
                "cluster": {"server": "https://host:6443"} if cluster is None else cluster,
            }
        ],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        **fields,
    }


def written(folder: Path, content: Any, name: str = "config") -> str:
    path = folder / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


async def shown(*arguments: Any, **options: Any) -> str:
    return (await load(*arguments, **options).credentials.proof()).authorization


def plugin(**fields: Any) -> dict[str, Any]:
    return {"exec": {"apiVersion": V1, "command": "sh", "interactiveMode": "Never", **fields}}


HOSTILE: list[tuple[Any, str]] = [
    *(
        (document(**fields), text)
        for fields, text in documents(r"""
{clusters: {}} => config: clusters: Expected `array`, got `object`
{clusters: null} =>
    config: contexts\[x\].cluster: expected the name of a cluster, but none is defined, got 'c'
{clusters: [{}]} => config: clusters\[0\]: Object missing required field `name`
{users: [{name: v}]} => config: contexts\[x\].user: expected one of v, got 'u'
{users: [{name: u}, {name: u}]} => config: users: expected each name once, got 'u' twice
{current-context: y} => config: current-context: expected one of x, got 'y'
{cluster: {server: 6443}} => config: clusters\[0\].cluster.server: Expected `str`, got `int`
{cluster: {}} => config: clusters\[c\].server: expected a URL such as https://host:6443, got ''
{cluster: {server: 'host:6443'}} => clusters\[c\].server: expected a URL .*, got 'host:6443'
{cluster: {server: 'ftp://host'}} => clusters\[c\].server: expected a URL
{cluster: {server: 'https://host:port'}} => clusters\[c\].server: expected a URL
{cluster: {server: 'https://[::1'}} => clusters\[c\].server: expected a URL
{cluster: {server: 'https://'}} => clusters\[c\].server: expected a URL
{cluster: {server: 'https://h', proxy-url: 'socks5://h:1'}} =>
    clusters\[c\].proxy-url: expected a URL
{cluster: {server: 'https://h', certificate-authority-data: '***'}} =>
    clusters\[c\].certificate-authority-data: expected PEM in base64
{cluster: {server: 'https://h', certificate-authority-data: bm8gY2VydGlmaWNhdGU=}} =>
    clusters\[c\].certificate-authority-data: expected certificates in PEM
{cluster: {server: 'https://h', certificate-authority: absent.crt}} =>
    clusters\[c\].certificate-authority: .*absent.crt cannot be read: No such file or directory
{cluster: {server: 'https://h', certificate-authority: .}} =>
    clusters\[c\].certificate-authority: .* cannot be read: Is a directory
{cluster: {server: 'https://h', certificate-authority-data: bm8gY2VydGlmaWNhdGU=,
  insecure-skip-tls-verify: true}} =>
    clusters\[c\].certificate-authority-data: expected none where insecure-skip-tls-verify is true
{user: {client-certificate-data: bm8gY2VydGlmaWNhdGU=}} =>
    users\[u\].client-key: expected both the certificate and its key, got only the certificate
{user: {client-key-data: bm8gY2VydGlmaWNhdGU=}} =>
    users\[u\].client-certificate: expected both the certificate and its key, got only the key
{user: {client-certificate-data: bm8gY2VydGlmaWNhdGU=, client-key-data: bm8gY2VydGlmaWNhdGU=}} =>
    users\[u\].client-certificate-data and client-key: expected a certificate and its unencrypted
    private key
{user: {token: 7}} => users\[0\].user.token: Expected `str`, got `int`
{user: {token: t, username: n}} => users\[u\].token: expected either a token or username
{user: {tokenFile: absent}} =>
    users\[u\].tokenFile: .*absent: expected a file with a token, got none
{user: {auth-provider: {name: gcp}}} => users\[u\].auth-provider: no longer part of Kubernetes
{user: {as: root}} => users\[u\].as: expected none, impersonation is not supported
{user: {exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: sh, interactiveMode:
  Never}}} =>
    users\[u\].exec.apiVersion: expected client.authentication.k8s.io/v1 or .*, got '.*v1alpha1'
{user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: null}}} =>
    users\[u\].exec.interactiveMode: expected Never or IfAvailable
{user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Always}}}
    => users\[u\].exec.interactiveMode: .*, got 'Always'
{user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: '', interactiveMode: Never}}}
    => users\[u\].exec.command: expected a command that can be run, got ''
{user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: ./config, interactiveMode:
    Never}}} => users\[u\].exec.command: .*, got './config'
{user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never,
    env: [{name: A}]}}} => users\[0\].user.exec.env\[0\]: Object missing .* `value`
""")
    ),
    ("a: [", "config: expected YAML: .* at line 1$"),
    ("\x00", "config: expected YAML"),
    ("a: !!python/object:os.system {}", "config: expected YAML: could not determine a constructor"),
    ("a: 2020-99-99", "config: expected YAML: month must be in 1..12"),
    ("[" * 500, "config: expected YAML"),
    ("", r"config: expected a kubeconfig \(kind: Config\), got NoneType"),
    ("- 1", r"config: expected a kubeconfig \(kind: Config\), got list"),
    ({"kind": "Pod"}, "config: kind: expected Config, got 'Pod'"),
    ({"apiVersion": "v2"}, "config: apiVersion: expected v1, got 'v2'"),
    ({}, "config: current-context: expected the name of a context, got none"),
    (document({"server": "https://h\nX: y"}), r"clusters\[c\].server: expected a URL"),
    (
        document(user={"token": "a\nb"}),
        r"users\[u\].token: expected a token of printable ASCII .*, got 3 characters",
    ),
    (
        document(user=plugin(command="no-such-command", installHint="get it\nsomewhere")),
        r"users\[u\].exec.command: .*, got 'no-such-command' \(get it somewhere\)",
    ),
]


@pytest.mark.parametrize(("content", "problem"), HOSTILE)
def test_an_invalid_kubeconfig_is_reported_in_one_line_with_file_and_field(
    tmp_path: Path, content: Any, problem: str
) -> None:
    path = written(tmp_path, content)
    with pytest.raises(KubeconfigError, match=problem) as raised:
        load(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("user", "problem"),
    [
        *(
            (plugin(**fields), text)
            for fields, text in documents(r"""
{args: [-c, echo no; echo first >&2; echo why >&2; exit 3]} => ended with status 3: why$
{args: [-c, kill -9 $$]} => ended with status -9$
{args: [-c, echo secret]} => expected an ExecCredential in JSON
{args: [-c, printf '\377']} => expected an ExecCredential in JSON
{args: [-c, 'echo ''{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1"}''']} =>
    missing .* `status`
{args: [-c, 'echo
  ''{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{}}''']} =>
    expected status.token or status.clientCertificateData, got neither
{args: [-c, 'echo ''{"kind":"ExecCredential","apiVersion":"v","status":{"token":"secret"}}''']} =>
    expected an ExecCredential of client.authentication.k8s.io/v1, got another kind or version
""")
        ),
        (
            plugin(
                args=[
                    "-c",
                    (
                        f"""echo '{{"kind":"ExecCredential","apiVersion":"{V1}","""
                        """"status":{"clientKeyData":"secret"}}'"""
                    ),
                ]
            ),
            "expected clientCertificateData and clientKeyData together",
        ),
        (
            {"tokenFile": "empty"},
            "tokenFile: .*empty: expected a token of printable ASCII .*, got 0 characters",
        ),
    ],
)
async def test_a_missing_credential_is_reported_in_one_line(
    tmp_path: Path, user: Any, problem: str
) -> None:
    written(tmp_path, "\n", "empty")
    path = written(tmp_path, document(user=user))
    with pytest.raises(KubeconfigError, match=problem) as raised:
        await shown(path)
    assert str(raised.value).startswith(f"{path}: users[u].")
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="absent: cannot be read: No such file or directory"):
        load(str(tmp_path / "absent"))
    with pytest.raises(
        KubeconfigError,
        match=r"\$KUBECONFIG: expected a kubeconfig, but none of these files exists: a, b",
    ):
        load(None, home=True, environ={"KUBECONFIG": os.pathsep.join("ab")})
    with pytest.raises(KubeconfigError, match="a: cannot be read: No such file or directory"):
        load(None, home=True, environ={"KUBECONFIG": "a"})


@pytest.mark.parametrize(
    ("user", "header"),
    [
        (None, ""),
        ({"token": "abc"}, "Bearer abc"),
        ({"token": "abc", "tokenFile": "token"}, "Bearer of-file"),
        ({"tokenFile": "token"}, "Bearer of-file"),
        (
            {"username": "me", "password": "pä:ss"},
            "Basic " + base64.b64encode("me:pä:ss".encode()).decode(),
        ),
        ({"token": "abc", **plugin(command="false")}, "Bearer abc"),
    ],
)
async def test_the_credentials_of_a_user(tmp_path: Path, user: Any, header: str) -> None:
    written(tmp_path, "of-file\n", "token")
    path = written(tmp_path, document(user=user))
    assert await shown(path) == header
    assert header not in repr(load(path)) or not header


def test_the_kubeconfig_of_the_embedded_server_is_read(tmp_path: Path) -> None:
    connection = load(written(tmp_path, kubeconfig("http://127.0.0.1:1")))
    expected = ("http://127.0.0.1:1", None, ANONYMOUS)
    assert (connection.server, connection.tls, connection.credentials) == expected


async def test_of_several_files_the_first_wins(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    written(tmp_path / "sub", "beside", "token")
    first = written(
        tmp_path, document(user={"token": "first"}, clusters=None, contexts=None), "first"
    )
    second = written(
        tmp_path / "sub",
        document(
            {"server": "https://second"},
            {"token": "second"},
            users=[
                {"name": "u", "user": {"token": "second"}},
                {"name": "v", "user": {"tokenFile": "token"}},
            ],
            contexts=[
                {"name": "x", "context": {"cluster": "c", "user": "u"}},
                {"name": "y", "context": {"cluster": "c", "user": "v"}},
            ],
            **{"current-context": "y"},
        ),
    )
    environ = {"KUBECONFIG": os.pathsep.join([first, str(tmp_path / "absent"), second])}
    assert load(None, environ=environ, home=True).server == "https://second"
    assert await shown(None, environ=environ, home=True) == "Bearer first"
    assert await shown(None, "y", environ=environ, home=True) == "Bearer beside"
    with pytest.raises(KubeconfigError, match=r"contexts: expected one of x, y, got 'z'"):
        load(None, "z", environ=environ, home=True)


def test_the_source_of_the_connection(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    written(tmp_path / ".kube", document({"server": "https://home", "tls-server-name": "n"}))
    environ = {"HOME": str(tmp_path)}
    named = written(
        tmp_path,
        document({"server": "https://named", "tls-server-name": "n", "proxy-url": "http://p:1"}),
    )
    assert load(None, environ=environ, home=True).server == "https://home"
    assert load(None, environ={**environ, "KUBECONFIG": named}, home=True).server == "https://named"
    for ignored in (environ, {**environ, "KUBECONFIG": named}):
        with pytest.raises(KubeconfigError, match="no API server: expected --kubeconfig, --master"):
            load(None, environ=ignored)
    assert (
        load(None, master="http://m:1", environ={**environ, "KUBECONFIG": named}).server
        == "http://m:1"
    )
    connection = load(named, environ=environ)
    expected = ("https://named", "n", "http://p:1")
    assert (connection.server, connection.server_name, connection.proxy) == expected
    connection = load(named, master="https://m", environ=environ)
    assert (connection.server, connection.server_name) == ("https://m", None)
    with pytest.raises(
        KubeconfigError, match="--master: expected a URL such as https://host:6443, got 'm'"
    ):
        load(named, master="m")


def service_account(folder: Path, authority: Authority | None = None) -> None:
    (folder / "token").write_text("one\n")
    if authority is not None:
        (folder / "ca.crt").write_text(authority.text("ca.crt"))


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
async def test_inside_a_cluster(
    tmp_path: Path, authority: Authority, host: str, server: str
) -> None:
    service_account(tmp_path, authority)
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    connection = load(None, environ=environ, folder=tmp_path)
    assert (connection.server, await shown(None, environ=environ, folder=tmp_path)) == (
        server,
        "Bearer one",
    )


def test_an_incomplete_service_account_is_named(tmp_path: Path, authority: Authority) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(KubeconfigError, match=r"in-cluster authority: .*ca.crt: No such file"):
        load(None, environ=environ, folder=tmp_path)
    (tmp_path / "ca.crt").write_text("")
    with pytest.raises(
        KubeconfigError, match=r"in-cluster authority: .*ca.crt: expected certificates in PEM"
    ):
        load(None, environ=environ, folder=tmp_path)
    (tmp_path / "ca.crt").write_text(authority.text("ca.crt"))
    with pytest.raises(
        KubeconfigError, match=r"in-cluster token: .*token: expected a file with a token"
    ):
        load(None, environ=environ, folder=tmp_path)
    with pytest.raises(
        KubeconfigError, match=r"\$KUBERNETES_SERVICE_PORT: expected a port number, got '²'"
    ):
        load(None, environ={**environ, "KUBERNETES_SERVICE_PORT": "²"}, folder=tmp_path)


async def test_a_token_file_is_read_at_most_once_a_minute_or_when_refused(tmp_path: Path) -> None:
    clock, path = VirtualClock(), tmp_path / "token"
    path.write_text("one")
    credentials = TokenFile(path, clock, "token")
    first = await credentials.proof()
    path.write_text("two")
    await clock.advance(59.0)
    assert await credentials.proof() is first
    await clock.advance(1.0)
    second = await credentials.proof()
    assert second.authorization == "Bearer two"
    assert await credentials.renewed(second) is None
    path.write_text("three")
    third = await credentials.renewed(second)
    assert third is not None
    assert third.authorization == "Bearer three"
    path.unlink()
    await clock.advance(60.0)
    assert await credentials.proof() is third
