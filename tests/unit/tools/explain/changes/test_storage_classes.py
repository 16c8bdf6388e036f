"""Claims without a class, for which a default StorageClass would do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.changes import fits_after, suggested
from tests.kit.daemon import node, pod

Document = dict[str, Any]
LATE = "WaitForFirstConsumer"


def claim(name: str, **spec: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        },
    }


def storage_class(name: str, mode: str) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "csi.example.com",
        "volumeBindingMode": mode,
    }


def using(*names: str) -> Document:
    document = pod("web", "1")
    document["spec"]["volumes"] = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names
    ]
    return document


@pytest.mark.parametrize(
    ("objects", "sentence"),
    [
        ([claim("data")], "Add a default StorageClass, which the claim data then gets"),
        (
            [claim("data"), claim("log")],
            "Add a default StorageClass, which the claims data, log then get",
        ),
        (
            [claim("data"), storage_class("fast", LATE)],
            "Make fast the default StorageClass, which the claim data then gets",
        ),
        (
            [claim("data"), storage_class("fast", "Immediate")],
            "Make fast the default StorageClass, which the claim data then gets",
        ),
    ],
)
def test_a_default_class_would_do(objects: list[Document], sentence: str) -> None:
    claims = [each["metadata"]["name"] for each in objects if "Claim" in each["kind"]]
    pending, cluster = using(*claims), [node("n1"), *objects]
    changes = suggested(cluster, pending)
    assert changes is not None
    assert changes[0].sentence == f"{sentence}: it fits on n1."
    assert fits_after(changes[0], cluster, pending) == ["n1"]


@pytest.mark.parametrize(
    "objects", [[claim("data", storageClassName="")], [claim("data", storageClassName="gone")]]
)
def test_a_claim_that_names_its_class_does_not_get_the_default_one(objects: list[Document]) -> None:
    changes = suggested([node("n1"), *objects], using("data"))
    assert changes is not None
    assert [change.kind for change in changes] == ["volume"]
