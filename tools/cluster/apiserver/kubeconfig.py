"""A kubeconfig that points kubectl at the embedded API server."""

from __future__ import annotations

import base64
from typing import Any

import msgspec


class ClientIdentity(msgspec.Struct, frozen=True):
    """What a client trusts, and what it shows, in PEM."""

    authority: str
    certificate: str
    key: str


def kubeconfig(url: str, identity: ClientIdentity | None = None) -> str:
    """Returns a kubeconfig in JSON (which is YAML). Without an identity, it is for an API server
    without authentication.
    """
    named = {"name": "berth"}
    cluster: dict[str, Any] = {"server": url}
    user: dict[str, Any] = {}
    if identity is not None:
        cluster["certificate-authority-data"] = _base64(identity.authority)
        user["client-certificate-data"] = _base64(identity.certificate)
        user["client-key-data"] = _base64(identity.key)
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{**named, "cluster": cluster}],
        "users": [{**named, "user": user}],
        "contexts": [{**named, "context": {"cluster": "berth", "user": "berth"}}],
        "current-context": "berth",
    }
    return msgspec.json.format(msgspec.json.encode(document)).decode() + "\n"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
