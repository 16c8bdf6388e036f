"""Creates what a demo needs before its cluster starts: nodes, the objects of manifests, and the
objects that these require.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anyio.lowlevel

from berth.actors.client.rest import ApiError
from berth.actors.scheduling.kube.annotations import DEFAULT_CLASS

from ...answers.manifests.manifests import Findings, Manifest, shown_name
from ...cluster.controllers.embedded_access import EmbeddedAccess
from ...kubernetes.api.types.resources import BY_KIND, Kind
from ...kubernetes.kubelet.hollow_nodes import hollow_node
from ...kubernetes.storage.pod_volumes import HOLLOW_DRIVER

Document = dict[str, Any]
NODES, NAMESPACES, PODS = BY_KIND["v1", "Node"], BY_KIND["v1", "Namespace"], BY_KIND["v1", "Pod"]
STORAGE_CLASSES = BY_KIND["storage.k8s.io/v1", "StorageClass"]
# Other objects refer to these, so they are created first.
FIRST = (
    "Namespace",
    "CustomResourceDefinition",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
    "DeviceClass",
    "ResourceClass",
    "Node",
)
# The class of claims that name none, as toy clusters of other makers have one.
STANDARD: Document = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {
        "name": "standard",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": HOLLOW_DRIVER,
    "volumeBindingMode": "WaitForFirstConsumer",
}
CONFLICT = 409


async def create(
    access: EmbeddedAccess,
    nodes: int,
    manifests: Iterable[Manifest],
    findings: Findings,
    others: Iterable[Document] = (),
) -> None:
    """Creates this number of hollow nodes and the objects; `others` are of kinds that these define.
    What the API server refuses goes to the findings. Raises ManifestError if they are strict.
    """
    ordered = sorted(manifests, key=lambda of: (of.kind.kind not in FIRST, of.kind == PODS))
    named = {of.document["metadata"].get("name") for of in ordered if of.kind == NODES}
    for number in range(1, nodes + 1):
        node = hollow_node(number)
        if node["metadata"]["name"] not in named:
            await _apply(access, NODES, node)

    async def apply(manifests: Iterable[Manifest]) -> None:
        for kind, document, where in manifests:
            try:
                await _apply(access, kind, document)
            except ApiError as refused:
                findings.problem(f"{where}, {shown_name(document)}: {refused}")

    await apply(of for of in ordered if of.kind.kind in FIRST)
    of_kinds = ((access.kind_of(each["apiVersion"], each["kind"]), each) for each in others)
    await apply(Manifest(kind, each, "custom resources") for kind, each in of_kinds if kind)
    await apply(of for of in ordered if of.kind.kind not in FIRST)


def standard_class(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Returns the standard class, unless the manifests have it or another default class."""
    classes = [of.document["metadata"] for of in manifests if of.kind == STORAGE_CLASSES]
    names = {of.get("name") for of in classes}
    annotations = [of.get("annotations") or {} for of in classes]
    has_default = any(of.get(key) == "true" for of in annotations for key in DEFAULT_CLASS)
    if has_default or STANDARD["metadata"]["name"] in names:
        return []
    return [Manifest(STORAGE_CLASSES, STANDARD, "standard")]


def needs_class(document: Any) -> bool:
    """True if an object is a claim without a storage class, or has a template of one."""
    if isinstance(document, list):
        return any(map(needs_class, document))
    if not isinstance(document, dict):
        return False
    claims = [document] if document.get("kind") == "PersistentVolumeClaim" else []
    claims += document.get("volumeClaimTemplates") or ()
    claims += filter(None, [document.get("volumeClaimTemplate")])
    specs = [claim.get("spec") or {} for claim in claims]
    lacks_one = any(spec.get("storageClassName") is None for spec in specs)
    return lacks_one or any(map(needs_class, document.values()))


async def _apply(access: EmbeddedAccess, kind: Kind, document: Document) -> None:
    """Creates an object and, if necessary, its namespace. An object of every cluster is updated
    instead, as by `kubectl apply`.
    """
    metadata = document["metadata"]
    namespace = metadata.get("namespace") or "default"
    await anyio.lowlevel.checkpoint()  # a signal is heeded in between
    if kind.namespaced and namespace != "default":
        await _ensure_namespace(access, namespace)
    try:
        await access.call("POST", kind.path(namespace), dict, document)
    except ApiError as refused:
        if refused.code != CONFLICT or not metadata.get("name"):
            raise
        path = kind.path(namespace, metadata["name"])
        there = await access.call("GET", path, dict)
        version = {"resourceVersion": there["metadata"]["resourceVersion"]}
        await access.call("PUT", path, dict, {**document, "metadata": {**metadata, **version}})


async def _ensure_namespace(access: EmbeddedAccess, name: str) -> None:
    try:
        await access.call("POST", NAMESPACES.path(), dict, {"metadata": {"name": name}})
    except ApiError as refused:
        if refused.code != CONFLICT:
            raise
