"""A kubeconfig says the same to berth as to the Python client of Kubernetes."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import kubernetes.client
import kubernetes.config
import msgspec
import pytest

from berth.actors.client.kubeconfig import load
from tests.kit.certificates import Authority

pytestmark = pytest.mark.full("asks another program")


def kubeconfig(cluster: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
    other = {"name": "other", "cluster": {"server": "http://other:1"}}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [
            {"name": "other", "context": {"cluster": "other", "user": "u"}},
            {"name": "c", "context": {"cluster": "k", "user": "u"}},
        ],
        "clusters": [other, {"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }


async def authorization(path: Path, context: str) -> tuple[str, str]:
    """Returns the address, and the header that berth sends."""
    connection = load(str(path), context)
    return connection.server, (await connection.credentials.proof()).authorization


@pytest.mark.parametrize("context", ["", "other"])
@pytest.mark.parametrize(
    "user",
    [
        {},
        {"token": "t0"},
        {"tokenFile": "token"},
        {"username": "a", "password": "b:c"},
    ],
)
async def test_address_and_credentials(
    tmp_path: Path, authority: Authority, user: dict[str, str], context: str
) -> None:
    (tmp_path / "token").write_text("from-file\n")
    ca = base64.b64encode((authority.folder / "ca.crt").read_bytes()).decode()
    cluster = {"server": "https://k.example:6443", "certificate-authority-data": ca}
    path = tmp_path / "config"
    path.write_bytes(msgspec.json.encode(kubeconfig(cluster, user)))
    theirs = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(str(path), context or None, theirs)
    server, header = await authorization(path, context)
    assert server == theirs.host
    proof = theirs.auth_settings().get("BearerToken")
    assert header == (str(proof["value"]).strip() if proof else "")
