"""The connection of a pod to its own cluster, from its environment and its service account."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..runtime.clock import Clock
from .credentials import KubeconfigError, TokenFile, reason
from .rest import Connection
from .tls import client_context

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster(
    environ: Mapping[str, str],
    clock: Clock,
    folder: Path = SERVICE_ACCOUNT,
    option: str = "--kubeconfig",
) -> Connection:
    """Returns the connection.

    Raises KubeconfigError outside a cluster, and if the service account is not mounted.
    """
    host, port = (
        environ.get("KUBERNETES_SERVICE_HOST", ""),
        environ.get("KUBERNETES_SERVICE_PORT", ""),
    )
    if not host or not port:
        raise KubeconfigError(
            f"no API server: expected {option}, --master or, as in a pod,"
            " $KUBERNETES_SERVICE_HOST and $KUBERNETES_SERVICE_PORT"
        )
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise KubeconfigError(f"$KUBERNETES_SERVICE_PORT: expected a port number, got {port!r}")
    authority, token = folder / "ca.crt", folder / "token"
    try:
        context = client_context(authority.read_bytes())
    except (OSError, ValueError) as problem:
        raise KubeconfigError(f"in-cluster authority: {authority}: {reason(problem)}") from None
    if not token.is_file():
        raise KubeconfigError(f"in-cluster token: {token}: expected a file with a token, got none")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Connection(server, context, TokenFile(token, clock, "in-cluster token"))
