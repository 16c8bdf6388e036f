"""What the API server stores of ordinary manifests is valid by the JSON schemas that are made from
Kubernetes' OpenAPI description.
"""

from __future__ import annotations

import kubernetes_validate
import pytest

from berth.tools.answers.manifests.manifests import Manifest, read
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.manifest_folders import FOLDERS, NAMESPACE, names
from tests.kit.stores import fresh_store

pytestmark = pytest.mark.full("asks another program")


NAMESPACES = BY_KIND["v1", "Namespace"]


def manifests() -> list[Manifest]:
    return [each for name in names() for each in read([FOLDERS / name]).objects]


@pytest.mark.parametrize("manifest", manifests(), ids=lambda each: each.where.rpartition("/")[2])
def test_a_stored_object_is_valid(manifest: Manifest) -> None:
    store, kind = fresh_store(), manifest.kind
    api = Api(store)
    api.seed()
    document = {"apiVersion": kind.api_version, "kind": kind.kind, **manifest.document}
    kubernetes_validate.validate(document, "1.36", strict=True)
    namespace = document["metadata"].get("namespace", NAMESPACE) if kind.namespaced else ""
    if namespace and store.find(NAMESPACES, "", namespace) is None:
        api.create(NAMESPACES, "", {"metadata": {"name": namespace}})
    stored = api.create(kind, namespace, manifest.document).document
    stored = {"apiVersion": kind.api_version, "kind": kind.kind, **stored}
    kubernetes_validate.validate(stored, "1.36", strict=True)
