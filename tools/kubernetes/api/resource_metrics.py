"""The group metrics.k8s.io: the usage of nodes and pods, in the form of metrics-server.

The kubelets of the toy cluster are asked at each request; a server without them does not serve the
group. A pod or node of which they have no sample is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from .requests.selectors import Matches
from .store import Store
from .types.api_documents import Document, RefusedError, StoredObject
from .types.resources import BY_KIND, Kind

PODS, NODES = BY_KIND["v1", "Pod"], BY_KIND["v1", "Node"]


class Kubelets(Protocol):
    """The source of metrics: the fields of a PodMetrics or NodeMetrics, without its metadata.

    Returns None for a pod or a node without a sample.
    """

    def pod_metrics(self, pod: Document, node: Document) -> Document | None: ...

    def node_metrics(self, node: Document, pods: Iterable[Document]) -> Document | None: ...


def metrics_in(
    kubelets: Kubelets,
    store: Store,
    kind: Kind,
    namespace: str = "",
    matches: Matches | None = None,
) -> list[StoredObject]:
    """Returns the metrics of the matching nodes, or of the matching pods of a namespace."""
    all_ = store.list(_measured_by(kind), namespace)
    chosen = [stored for stored in all_ if matches is None or matches(stored.document)]
    return _samples(kubelets, store, kind, chosen)


def metrics_of(
    kubelets: Kubelets, store: Store, kind: Kind, namespace: str, name: str
) -> StoredObject:
    """Returns the metrics of a pod or node. Raises RefusedError with 404 if there are none."""
    of = _measured_by(kind)
    if store.find(of, namespace, name) is not None:
        for sample in _samples(kubelets, store, kind, [store.stored(of, namespace, name)]):
            return sample
    place = f"{namespace}/{name}" if namespace else name
    details = {"name": place, "group": kind.group, "kind": kind.plural}
    raise RefusedError(
        404, "NotFound", f'{kind.kind.lower()}.{kind.group} "{place}" not found', details
    )


def _measured_by(kind: Kind) -> Kind:
    """Returns the kind of the objects that a kind of metrics measures."""
    return PODS if kind.kind == "PodMetrics" else NODES


def _samples(
    kubelets: Kubelets, store: Store, kind: Kind, chosen: list[StoredObject]
) -> list[StoredObject]:
    metrics: list[StoredObject] = []
    now = store.outside.now()
    if kind.kind == "PodMetrics":
        for stored in chosen:
            node = store.find(NODES, "", stored.document["spec"].get("nodeName", ""))
            if node is not None:
                sample = kubelets.pod_metrics(stored.document, node)
                metrics += _metrics(kind, stored, sample, now)
        return metrics
    pods: dict[str, list[Document]] = {each.document["metadata"]["name"]: [] for each in chosen}
    for pod in store.list(PODS):
        if (place := pod.document["spec"].get("nodeName")) in pods:
            pods[place].append(pod.document)
    for stored in chosen:
        on_it = pods[stored.document["metadata"]["name"]]
        metrics += _metrics(kind, stored, kubelets.node_metrics(stored.document, on_it), now)
    return metrics


def _metrics(kind: Kind, of: StoredObject, sample: Document | None, now: str) -> list[StoredObject]:
    if sample is None:
        return []
    has = of.document["metadata"]
    metadata = {field: has[field] for field in ("name", "namespace", "labels") if field in has}
    head = {"apiVersion": kind.api_version, "kind": kind.kind}
    document = {**head, "metadata": {**metadata, "creationTimestamp": now}, **sample}
    return [StoredObject(document, of.revision)]
