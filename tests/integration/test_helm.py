"""Helm's own engine installs, upgrades, rolls back and uninstalls charts in a served cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from helm_python import Config, HelmError, HelmNotFoundError

from berth.testing import ServedCluster
from tests.kit.documents import Document

GROUPS = {
    **dict.fromkeys(("configmaps", "secrets", "services"), "api/v1"),
    "deployments": "apis/apps/v1",
    "jobs": "apis/batch/v1",
    "ingresses": "apis/networking.k8s.io/v1",
    "boats": "apis/sea.example.com/v1",
}
CHARTS = Path(__file__).parent / "charts"
WAITED: dict[str, Any] = {"wait": "watcher", "timeout": 60}

pytestmark = pytest.mark.full("waits")


@pytest.fixture(scope="module")
def served() -> Iterator[ServedCluster]:
    with ServedCluster(nodes=2) as served:
        yield served


@pytest.fixture
def helm(served: ServedCluster) -> Iterator[Config]:
    with Config(kubeconfig_path=served.kubeconfig, namespace="shop") as config:
        yield config


def read(served: ServedCluster, kind: str, name: str = "") -> Document:
    """Returns an object, or the list of all, of the release's namespace."""
    url = f"{served.url}/{GROUPS[kind]}/namespaces/shop/{kind}"
    with urlopen(f"{url}/{name}" if name else url, timeout=30) as answer:
        document: Document = json.load(answer)
        return document


def names(served: ServedCluster, kind: str) -> list[str]:
    return [each["metadata"]["name"] for each in read(served, kind)["items"]]


def states(helm: Config, name: str) -> list[tuple[int, str]]:
    return [(each["revision"], each["status"]) for each in helm.history(name)]


def test_a_release_of_a_deployment(helm: Config, served: ServedCluster) -> None:
    shop = CHARTS / "shop"
    first = helm.install(shop, "shop", {"replicas": 3}, create_namespace=True, **WAITED)
    assert (first["revision"], first["status"]) == (1, "deployed")
    assert read(served, "deployments", "shop")["status"]["readyReplicas"] == 3
    assert read(served, "configmaps", "shop")["data"] == {"color": "blue"}
    assert read(served, "secrets", "sh.helm.release.v1.shop.v1")["type"] == "helm.sh/release.v1"
    with pytest.raises(HelmError, match="cannot reuse a name that is still in use"):
        helm.install(shop, "shop")

    new = {"image": "nginx:2", "settings": {"color": None, "size": "1"}}
    assert helm.upgrade(shop, "shop", new, **WAITED)["revision"] == 2
    deployment = read(served, "deployments", "shop")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:2"
    assert deployment["status"]["updatedReplicas"] == deployment["status"]["replicas"] == 2
    assert read(served, "configmaps", "shop")["data"] == {"size": "1"}
    with pytest.raises(HelmError, match=r"spec\.replicas: Invalid value: -1"):
        helm.upgrade(shop, "shop", {"replicas": -1})

    helm.rollback("shop", version=1, **WAITED)
    assert read(served, "deployments", "shop")["spec"]["replicas"] == 3
    assert read(served, "configmaps", "shop")["data"] == {"color": "blue"}
    assert states(helm, "shop") == [
        (1, "superseded"),
        (2, "superseded"),
        (3, "failed"),
        (4, "deployed"),
    ]
    assert helm.get_values("shop") == {"replicas": 3}
    assert [each["name"] for each in helm.list()] == ["shop"]

    helm.uninstall("shop", **WAITED)
    assert "shop" not in names(served, "deployments")
    assert names(served, "secrets") == []
    with pytest.raises(HelmNotFoundError):
        helm.status("shop")


def test_a_release_with_an_ingress(helm: Config, served: ServedCluster) -> None:
    front = CHARTS / "front"
    shown = helm.install(front, "front", create_namespace=True, dry_run="server")
    assert "ingressClassName: front" in shown["manifest"]
    helm.install(front, "front", create_namespace=True)
    assert read(served, "ingresses", "front")["spec"]["rules"][0]["host"] == "shop.example.com"
    helm.upgrade(front, "front", {"host": "www.example.com"})
    ingress = read(served, "ingresses", "front")
    assert ingress["spec"]["rules"][0]["host"] == "www.example.com"
    assert ingress["spec"]["tls"] == [{"hosts": ["www.example.com"], "secretName": "cert"}]
    helm.rollback("front")
    assert read(served, "ingresses", "front")["spec"]["rules"][0]["host"] == "shop.example.com"
    helm.uninstall("front")
    assert (names(served, "ingresses"), names(served, "services")) == ([], [])


def test_a_release_with_a_kind_of_its_own_and_a_hook(helm: Config, served: ServedCluster) -> None:
    crew = CHARTS / "crew"
    helm.install(crew, "crew", create_namespace=True, **WAITED)
    assert read(served, "boats", "crew")["spec"] == {"sailors": 3, "sail": "white"}
    first = read(served, "jobs", "crew-before")
    assert first["status"]["succeeded"] == 1
    helm.upgrade(crew, "crew", {"sailors": 5}, **WAITED)
    assert read(served, "boats", "crew")["spec"]["sailors"] == 5
    assert read(served, "jobs", "crew-before")["metadata"]["uid"] != first["metadata"]["uid"]
    helm.rollback("crew", **WAITED)
    assert read(served, "boats", "crew")["spec"]["sailors"] == 3
    helm.uninstall("crew", **WAITED)
    assert "crew" not in names(served, "boats")
