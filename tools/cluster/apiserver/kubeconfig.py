"""A kubeconfig that points kubectl at the embedded API server."""

from __future__ import annotations

import msgspec


def kubeconfig(url: str) -> str:
    """Returns a kubeconfig for an API server without authentication, in JSON (which is YAML)."""
    named = {"name": "berth"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{**named, "cluster": {"server": url}}],
        "users": [{**named, "user": {}}],
        "contexts": [{**named, "context": {"cluster": "berth", "user": "berth"}}],
        "current-context": "berth",
    }
    return msgspec.json.format(msgspec.json.encode(document)).decode() + "\n"
