"""The kubeconfig that leads kubectl to the embedded API server."""

from __future__ import annotations

import msgspec


def kubeconfig(url: str) -> str:
    """A kubeconfig, in JSON, which is YAML too, for an API server without authentication."""
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
