"""The group metrics.k8s.io: what nodes and pods use, in the form that metrics-server answers.

The kubelets of the toy cluster are asked at each request; a server without them does not serve the
group. A pod or node of which they have no sample is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from .clock import now
from .resources import BY_KIND, Kind
from .store import Document, RefusedError, Store, StoredObject

PODS, NODES = BY_KIND["v1", "Pod"], BY_KIND["v1", "Node"]


class Kubelets(Protocol):
    """What is asked about usage: the fields of a PodMetrics or NodeMetrics, without its metadata.

    Returns None for a pod or a node without a sample.
    """

    def pod_metrics(self, pod: Document, node: Document) -> Document | None: ...

    def node_metrics(self, node: Document, pods: Iterable[Document]) -> Document | None: ...


def listed(
    kubelets: Kubelets,
    store: Store,
    kind: Kind,
    namespace: str = "",
    after: tuple[str, str] | None = None,
) -> list[StoredObject]:
    """Returns the metrics of all pods of a namespace, or of all nodes."""
    nodes = {stored.document["metadata"]["name"]: stored for stored in store.list(NODES, "")}
    metrics: list[StoredObject] = []
    if kind.kind == "PodMetrics":
        for stored in store.list(PODS, namespace, after):
            node = nodes.get(stored.document["spec"].get("nodeName", ""))
            if node is not None:
                metrics += _metrics(
                    kind, stored, kubelets.pod_metrics(stored.document, node.document)
                )
        return metrics
    pods: dict[str, list[Document]] = {}
    for stored in store.list(PODS, ""):
        pods.setdefault(stored.document["spec"].get("nodeName", ""), []).append(stored.document)
    for stored in store.list(NODES, "", after):
        name = stored.document["metadata"]["name"]
        sample = kubelets.node_metrics(stored.document, pods.get(name, ()))
        metrics += _metrics(kind, stored, sample)
    return metrics


def get(kubelets: Kubelets, store: Store, kind: Kind, namespace: str, name: str) -> StoredObject:
    """Returns the metrics of a pod or node. Raises RefusedError with 404 if there are none."""
    for stored in listed(kubelets, store, kind, namespace):
        if stored.document["metadata"]["name"] == name:
            return stored
    place = f"{namespace}/{name}" if namespace else name
    details = {"name": place, "group": kind.group, "kind": kind.plural}
    raise RefusedError(
        404, "NotFound", f'{kind.kind.lower()}.{kind.group} "{place}" not found', details
    )


def _metrics(kind: Kind, of: StoredObject, sample: Document | None) -> list[StoredObject]:
    if sample is None:
        return []
    has = of.document["metadata"]
    metadata = {field: has[field] for field in ("name", "namespace", "labels") if field in has}
    head = {"apiVersion": kind.api_version, "kind": kind.kind}
    document = {**head, "metadata": {**metadata, "creationTimestamp": now()}, **sample}
    return [StoredObject(document, of.revision)]
