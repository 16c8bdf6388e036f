"""Snapshots of clusters of documents."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any

from berth.actors.scheduling.kube.kinds import WatchedKind
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.tools.answers.explain.document_cluster import DocumentCluster


def snapshot_of(
    objects: Iterable[dict[str, Any]],
    schedulers: Set[str] = frozenset({"default-scheduler"}),
    info: PodInfo | None = None,
    kinds: Iterable[WatchedKind] = (),
) -> Snapshot:
    """Returns the cluster of these objects, for a decision about the pod `info`; the rest is as in
    Cluster. Raises msgspec.ValidationError for an object of the wrong shape.
    """
    cluster = DocumentCluster(schedulers, kinds)
    for document in objects:
        cluster.put(document)
    if info is not None and info.pod.status.nominated_node_name:
        cluster.nominate(info)
    return cluster.snapshot()
