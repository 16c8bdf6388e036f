"""Turns a kubeconfig into a connection: finds the files, and interprets their cluster and user.

If several files define a name, the first one counts, as in kubectl. A field that cannot be used
raises KubeconfigError.
"""

from __future__ import annotations

import base64
import os
import shutil
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from ..runtime.clock import Clock
from .credentials import (
    ANONYMOUS,
    Credentials,
    FixedCredentials,
    KubeconfigError,
    Proof,
    TokenFile,
    bearer,
    reason,
)
from .exec_plugin import API_VERSIONS, ExecPlugin
from .in_cluster import SERVICE_ACCOUNT, in_cluster
from .kubeconfig_file import Cluster, Entry, Exec, MergedConfig, User, merged
from .rest import SYSTEM_CLOCK, Connection
from .tls import client_context, show_certificate

EXEC_EXTENSION = "client.authentication.k8s.io/exec"


def load(
    path: str | None,
    context: str = "",
    master: str = "",
    *,
    home: bool = False,
    clock: Clock = SYSTEM_CLOCK,
    environ: Mapping[str, str] = os.environ,
    folder: Path = SERVICE_ACCOUNT,
    option: str = "--kubeconfig",
) -> Connection:
    """Returns the connection that the arguments and the environment describe.

    The first of these that exists is used: the file at `path`; if `home`, the files of $KUBECONFIG
    or ~/.kube/config, as in kubectl; `master` alone; the pod's own cluster, whose service account
    is in `folder`. `context` replaces current-context, and `master` (a URL) replaces the cluster's
    server. `option` is what names the `path`, for the error. It reads files, so call it before the
    event loop runs. Raises KubeconfigError.
    """
    if master:
        _url(master, "--master")
    paths = [Path(path)] if path else []
    if not paths and home:
        paths = [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
        default = Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
        if not paths and default.exists():
            paths = [default]
    if paths:
        return _connection(
            merged(paths, may_be_missing=not path and len(paths) > 1),
            context,
            master,
            clock,
            environ,
        )
    if context:
        raise KubeconfigError(f"no kubeconfig: expected one that has the context {context!r}")
    return Connection(master) if master else in_cluster(environ, clock, folder, option)


def _connection(
    files: MergedConfig, name: str, master: str, clock: Clock, environ: Mapping[str, str]
) -> Connection:
    context = files.context(name)
    unnamed = Entry(context.file, context.field, "", Cluster())
    cluster = unnamed if master and not context.value.cluster else files.cluster(context)
    user = files.user(context) if context.value.user else None
    server = master or cluster.value.server or ""
    if not master:
        _url(server, cluster.at("server"))
    proxy = cluster.value.proxy_url or None
    if proxy:
        _url(proxy, cluster.at("proxy-url"))
    secure = urlsplit(server).scheme == "https"
    trust = _trust(cluster) if secure else None
    tls = trust() if trust else None
    if user is not None and tls is not None:
        _show_own_certificate(user, tls)
    credentials = (
        ANONYMOUS if user is None else _credentials(user, cluster, server, trust, clock, environ)
    )
    # tls-server-name is for the cluster's own server; `master` has another name.
    server_name = None if master else cluster.value.tls_server_name or None
    return Connection(server, tls, credentials, server_name if secure else None, proxy)


def _trust(cluster: Entry[Cluster]) -> Callable[[], ssl.SSLContext]:
    """Returns a function that creates TLS contexts which verify this cluster's server."""
    fields = cluster.value
    field, pem = _pem(cluster, "certificate-authority")
    insecure = bool(fields.insecure_skip_tls_verify)
    if pem and insecure:
        raise KubeconfigError(f"{field}: expected none where insecure-skip-tls-verify is true")
    trust = partial(client_context, pem or None, insecure=insecure)
    try:
        trust()
    except ValueError as problem:
        raise KubeconfigError(f"{field}: {problem}") from None
    return trust


def _show_own_certificate(user: Entry[User], tls: ssl.SSLContext) -> None:
    field, certificate = _pem(user, "client-certificate")
    key_field, key = _pem(user, "client-key")
    if bool(certificate) != bool(key):
        raise KubeconfigError(
            f"{key_field if certificate else field}: expected both the certificate and its key,"
            f" got only the {'certificate' if certificate else 'key'}"
        )
    if certificate:
        try:
            show_certificate(tls, certificate, key)
        except ValueError as problem:
            raise KubeconfigError(f"{field} and client-key: {problem}") from None


def _pem(entry: Entry[Cluster] | Entry[User], name: str) -> tuple[str, bytes]:
    """Returns the PEM of a field, and the path of the field that has it.

    The field with data counts before the one with a file. The PEM is empty if neither is set.
    """
    attribute = name.replace("-", "_")
    data: str | None = getattr(entry.value, f"{attribute}_data")
    path: str | None = getattr(entry.value, attribute)
    if data:
        field = entry.at(f"{name}-data")
        try:
            decoded = base64.b64decode("".join(data.split()), validate=True)
        except ValueError:
            raise KubeconfigError(f"{field}: expected PEM in base64, got something else") from None
    elif path:
        field = f"{entry.at(name)}: {entry.beside(path)}"
        try:
            decoded = entry.beside(path).read_bytes()
        except (OSError, ValueError) as problem:
            raise KubeconfigError(f"{field} cannot be read: {reason(problem)}") from None
    else:
        return entry.at(name), b""
    if not decoded.strip():
        raise KubeconfigError(f"{field}: expected PEM, got nothing")
    return field, decoded


def _credentials(
    user: Entry[User],
    cluster: Entry[Cluster],
    server: str,
    trust: Callable[[], ssl.SSLContext] | None,
    clock: Clock,
    environ: Mapping[str, str],
) -> Credentials:
    """Returns the credentials: a token before a password, before a command, as in client-go."""
    fields = user.value
    if fields.auth_provider is not None:
        raise KubeconfigError(
            f"{user.at('auth-provider')}: no longer part of Kubernetes; expected exec in its place"
        )
    if fields.as_ or fields.as_uid or fields.as_groups or fields.as_user_extra:
        raise KubeconfigError(f"{user.at('as')}: expected none, impersonation is not supported")
    if fields.token_file:
        path = user.beside(fields.token_file)
        if not path.is_file() and not fields.token:
            raise KubeconfigError(
                f"{user.at('tokenFile')}: {path}: expected a file with a token, got none"
            )
        return TokenFile(path, clock, user.at("tokenFile"), fields.token or "")
    if fields.token:
        if fields.username:
            raise KubeconfigError(
                f"{user.at('token')}: expected either a token or username and password, got both"
            )
        return FixedCredentials(bearer(fields.token, user.at("token")))
    if fields.username:
        pair = f"{fields.username}:{fields.password or ''}".encode()
        return FixedCredentials(Proof(f"Basic {base64.b64encode(pair).decode()}"))
    if fields.exec is not None:
        return _plugin(user, fields.exec, cluster, server, trust, clock, environ)
    return ANONYMOUS


def _plugin(
    user: Entry[User],
    fields: Exec,
    cluster: Entry[Cluster],
    server: str,
    trust: Callable[[], ssl.SSLContext] | None,
    clock: Clock,
    environ: Mapping[str, str],
) -> ExecPlugin:
    where = user.at("exec")
    if fields.api_version not in API_VERSIONS:
        raise KubeconfigError(
            f"{where}.apiVersion: expected {' or '.join(API_VERSIONS)}, got {fields.api_version!r}"
        )
    modes = (
        ("Never", "IfAvailable")
        if fields.api_version == API_VERSIONS[0]
        else ("Never", "IfAvailable", "", None)
    )
    if fields.interactive_mode not in modes:
        mode = fields.interactive_mode
        raise KubeconfigError(
            f"{where}.interactiveMode: expected Never or IfAvailable, as there is no terminal, got "
            f"{mode!r}"
        )
    command = fields.command or ""
    # A command with a slash is relative to the kubeconfig; any other is looked up in $PATH.
    named = str(user.beside(command)) if os.sep in command else command
    program = shutil.which(named, path=environ.get("PATH")) if command else None
    if program is None:
        hint = f" ({' '.join(fields.install_hint.split())})" if fields.install_hint else ""
        raise KubeconfigError(
            f"{where}.command: expected a command that can be run, got {command!r}{hint}"
        )
    spec: dict[str, object] = {"interactive": False}
    if fields.provide_cluster_info:
        spec["cluster"] = _cluster_info(cluster, server)
    info = {"kind": "ExecCredential", "apiVersion": fields.api_version, "spec": spec}
    variables = {variable.name: variable.value for variable in fields.env or ()}
    environment = {
        **environ,
        **variables,
        "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
    }
    return ExecPlugin(
        where, fields.api_version, (program, *(fields.args or ())), environment, trust, clock
    )


def _cluster_info(cluster: Entry[Cluster], server: str) -> dict[str, object]:
    """Returns the cluster as a plugin gets it: with the certificate authority always as data."""
    fields = cluster.value
    _, pem = _pem(cluster, "certificate-authority")
    extensions = {extension.name: extension.extension for extension in fields.extensions or ()}
    info = {
        "server": server,
        "tls-server-name": fields.tls_server_name,
        "insecure-skip-tls-verify": fields.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(pem).decode(),
        "proxy-url": fields.proxy_url,
        "config": extensions.get(EXEC_EXTENSION),
    }
    return {name: value for name, value in info.items() if value}


def _url(text: str, where: str) -> None:
    try:
        parts = urlsplit(text)
        fits = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
            and not parts.query + parts.fragment
        )
    except ValueError:  # a port that is not a number, a bracket that does not close
        fits = False
    if not fits or not text.isprintable() or " " in text:
        raise KubeconfigError(f"{where}: expected a URL such as https://host:6443, got {text!r}")
