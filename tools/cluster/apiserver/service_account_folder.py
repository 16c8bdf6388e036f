"""The folder that a pod finds at /var/run/secrets/kubernetes.io/serviceaccount, for a program that
runs outside of a cluster and looks for one inside (in-cluster configuration).
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from ...kubernetes.api.access.tokens import ACCOUNTS, issued_token
from ...kubernetes.api.store import Store
from ...kubernetes.api.writes.registry import Api

PLACE = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_SECONDS = 365 * 24 * 3600  # nobody renews the token, as kubelets do


def write_folder(store: Store, folder: Path, namespace: str, name: str) -> None:
    """Writes the token of a service account, its namespace and the authority's certificate. The
    account is created if there is none.

    Raises OSError, and RefusedError if the namespace does not exist.
    """
    if store.find(ACCOUNTS, namespace, name) is None:
        Api(store).create(ACCOUNTS, namespace, {"metadata": {"name": name}})
    account = store.get(ACCOUNTS, namespace, name)
    issued = issued_token(store, account, {"spec": {"expirationSeconds": TOKEN_SECONDS}})
    folder.mkdir(parents=True, exist_ok=True)
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(issued["status"]["token"])
    (folder / "ca.crt").write_text(store.root_certificate)
    (folder / "namespace").write_text(namespace)


def environment(url: str) -> str:
    """Returns the environment of a program that is to use the server at this URL."""
    address = urlsplit(url)
    return (
        f"KUBERNETES_SERVICE_HOST={address.hostname} KUBERNETES_SERVICE_PORT={address.port or 443}"
    )
