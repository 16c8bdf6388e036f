"""Kubeconfigs: where the API server is, how to trust it, and who we are.

Mirrors client-go's clientcmd: several files in $KUBECONFIG are merged (the first to name a thing wins), paths are
relative to the file that names them. Whatever is wrong is one line that names the file and the field.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import yaml

from actors.client.credentials import (
    EXEC_VERSIONS,
    Credentials,
    ExecConfig,
    ExecPlugin,
    Fixed,
    TokenFile,
    basic,
    bearer,
)
from actors.client.rest import Connection

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class KubeconfigError(ValueError):
    """A kubeconfig cannot be used; the message names the file, the field and what was expected."""


class Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class User(msgspec.Struct, frozen=True, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: ExecConfig | None = None
    auth_provider: dict[str, Any] | None = None


class Context(msgspec.Struct, frozen=True):
    cluster: str = ""
    user: str = ""


class Named(msgspec.Struct, frozen=True, kw_only=True):
    name: str


class NamedCluster(Named, frozen=True, kw_only=True):
    cluster: Cluster = Cluster()


class NamedUser(Named, frozen=True, kw_only=True):
    user: User = User()


class NamedContext(Named, frozen=True, kw_only=True):
    context: Context = Context()


class _File(msgspec.Struct, frozen=True, rename="kebab"):
    clusters: tuple[NamedCluster, ...] | None = ()
    users: tuple[NamedUser, ...] | None = ()
    contexts: tuple[NamedContext, ...] | None = ()
    current_context: str = ""


def load_kubeconfig(path: str = "", *, master: str = "", context: str = "") -> Connection:
    """The connection of a kubeconfig's current context, or of another one; `master` overrides its server.

    Without a path, the files of $KUBECONFIG, or ~/.kube/config. Raises KubeconfigError.
    """
    named = [path] if path else [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    paths = [Path(part).expanduser() for part in named] or [Path.home() / ".kube" / "config"]
    there = paths if path else [part for part in paths if part.exists()]
    if not there:
        raise KubeconfigError(f"kubeconfig {paths[0]}: there is no such file")
    files = [(part, _read(part)) for part in there]
    chosen = context or next((file.current_context for _, file in files if file.current_context), "")
    if not chosen:
        raise KubeconfigError(f"kubeconfig {paths[0]}: current-context: expected the name of a context")
    where, found = _find(files, "contexts", chosen, "current-context")
    cluster_file, cluster = _find(files, "clusters", found.context.cluster, f"contexts[{chosen}].context.cluster")
    user_file, user = where, NamedUser(name="")
    if found.context.user:
        user_file, user = _find(files, "users", found.context.user, f"contexts[{chosen}].context.user")
    return _connection(cluster_file, cluster, user_file, user, master)


def in_cluster(folder: Path = SERVICE_ACCOUNT) -> Connection:
    """The connection of a pod of the cluster: its service account's token and certificate authority.

    Raises KubeconfigError where no pod runs.
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "")
    token = folder / "token"
    if not host or not port or not token.exists():
        raise KubeconfigError("no API server given: expected --kubeconfig, --master, or to run in a pod of the cluster")
    address = f"[{host}]" if ":" in host else host
    try:
        tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    except OSError as problem:
        raise KubeconfigError(f"{folder / 'ca.crt'}: expected certificates in PEM: {problem}") from None
    return Connection(f"https://{address}:{port}", tls, TokenFile(token))


def _read(path: Path) -> _File:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise KubeconfigError(f"kubeconfig {path}: cannot be read: {problem.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise KubeconfigError(f"kubeconfig {path}: no valid YAML: {' '.join(str(problem).split())}") from None
    if not isinstance(document, Mapping) or document.get("kind", "Config") != "Config":
        raise KubeconfigError(f"kubeconfig {path}: expected an object of kind Config")
    try:
        return msgspec.convert(document, _File)
    except msgspec.ValidationError as invalid:
        text, separator, field = str(invalid).partition(" - at `$.")
        place = f"{field.rstrip('`')}: " if separator else ""
        raise KubeconfigError(f"kubeconfig {path}: {place}{text}") from None


def _find(files: list[tuple[Path, _File]], part: str, name: str, asked_by: str) -> tuple[Path, Any]:
    """The first file that has this cluster, user or context, and what it says of it."""
    for path, file in files:
        for entry in getattr(file, part) or ():
            if entry.name == name:
                return path, entry
    raise KubeconfigError(f"kubeconfig {files[0][0]}: {asked_by}: {name!r} is not among the {part}")


def _connection(cluster_file: Path, cluster: NamedCluster, user_file: Path, user: NamedUser, master: str) -> Connection:
    server = master or cluster.cluster.server
    where = f"kubeconfig {cluster_file}: clusters[{cluster.name}].cluster"
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise KubeconfigError(f"{where}.server: expected a URL such as https://host:6443, got {server!r}")
    if cluster.cluster.proxy_url and urlsplit(cluster.cluster.proxy_url).scheme not in ("http", "https"):
        raise KubeconfigError(f"{where}.proxy-url: expected an http or https URL, got {cluster.cluster.proxy_url!r}")
    tls = None
    if parts.scheme == "https":
        tls = _trust(cluster_file, cluster, where)
        _identify(tls, user_file, user)
    credentials = _credentials(user_file, user, cluster)
    return Connection(server, tls, credentials, cluster.cluster.tls_server_name, cluster.cluster.proxy_url)


def _trust(path: Path, cluster: NamedCluster, where: str) -> ssl.SSLContext:
    """TLS that trusts the cluster's certificate authority, or nobody's word if it says so."""
    spec = cluster.cluster
    if spec.insecure_skip_tls_verify:
        tls = ssl.create_default_context()
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
        return tls
    if spec.certificate_authority_data:
        pem = _decoded(spec.certificate_authority_data, f"{where}.certificate-authority-data")
        field = "certificate-authority-data"
    elif spec.certificate_authority:
        field = "certificate-authority"
        pem = _contents(path.parent / Path(spec.certificate_authority).expanduser(), f"{where}.{field}")
    else:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=pem.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError, ValueError):
        raise KubeconfigError(f"{where}.{field}: expected certificates in PEM") from None


def _identify(tls: ssl.SSLContext, path: Path, user: NamedUser) -> None:
    """Load the user's certificate and key, if it has them."""
    spec, where = user.user, f"kubeconfig {path}: users[{user.name}].user"
    parts = []
    for field, data, file in (
        ("client-certificate", spec.client_certificate_data, spec.client_certificate),
        ("client-key", spec.client_key_data, spec.client_key),
    ):
        if data:
            parts.append(_decoded(data, f"{where}.{field}-data"))
        elif file:
            parts.append(_contents(path.parent / Path(file).expanduser(), f"{where}.{field}"))
    if not parts:
        return
    if len(parts) == 1:
        raise KubeconfigError(f"{where}: expected a client certificate and a client key, or neither")
    with tempfile.NamedTemporaryFile(suffix=".pem") as pair:  # readable by us alone; ssl reads nothing but files
        pair.write(b"\n".join(parts))
        pair.flush()
        try:
            tls.load_cert_chain(pair.name)
        except (ssl.SSLError, ValueError):
            raise KubeconfigError(
                f"{where}.client-certificate, client-key: expected a certificate and its key, in PEM"
            ) from None


def _credentials(path: Path, user: NamedUser, cluster: NamedCluster) -> Credentials:
    spec, where = user.user, f"kubeconfig {path}: users[{user.name}].user"
    if spec.auth_provider is not None:
        raise KubeconfigError(f"{where}.auth-provider: no longer supported by Kubernetes; expected exec or a token")
    if spec.exec is not None:
        if spec.exec.api_version not in EXEC_VERSIONS:
            expected = " or ".join(EXEC_VERSIONS)
            raise KubeconfigError(f"{where}.exec.apiVersion: expected {expected}, got {spec.exec.api_version!r}")
        if spec.exec.interactive_mode == "Always":
            raise KubeconfigError(f"{where}.exec.interactiveMode: Always cannot be had from a daemon")
        info = {
            "server": cluster.cluster.server,
            "certificate-authority-data": cluster.cluster.certificate_authority_data,
            "insecure-skip-tls-verify": cluster.cluster.insecure_skip_tls_verify,
            "tls-server-name": cluster.cluster.tls_server_name,
        }
        return ExecPlugin(spec.exec, {key: value for key, value in info.items() if value}, path.parent)
    if spec.token_file:
        return TokenFile(path.parent / Path(spec.token_file).expanduser())
    if spec.token:
        return bearer(spec.token)
    if spec.username:
        return basic(spec.username, spec.password)
    return Fixed()


def _decoded(text: str, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise KubeconfigError(f"{where}: expected base64") from None


def _contents(path: Path, where: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise KubeconfigError(f"{where}: {path}: cannot be read: {problem.strerror}") from None
