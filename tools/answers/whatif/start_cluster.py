"""The cluster that a what-if starts from: a live one, files, or both."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import anyio

from berth.actors.scheduling.kube.kinds import WatchedKind

from ...kubernetes.api.types.resources import KINDS
from ..explain.cluster_source import ADMITTING, Live, connection_to, from_cluster, from_manifests
from ..explain.pod_claims import TEMPLATES
from ..manifests.manifests import STRICT, Reading
from .tried_documents import Document
from .workload_pods import KINDS as WORKLOADS

# What a what-if reads besides what a decision reads.
BESIDES = (
    *ADMITTING,
    TEMPLATES,
    *(k for k in KINDS if k.kind in WORKLOADS and k.stored_as is None),
)


def cluster_of(
    paths: Collection[Path],
    live: Live,
    kinds: Collection[WatchedKind],
    reading: Reading = STRICT,
) -> list[Document]:
    """Returns the objects of files on top of the objects of a live cluster. The cluster is read if
    one is named, or if there are no files.

    `kinds` are the kinds that plugins declare. Raises SourceError, KubeconfigError or
    ConnectionFailedError.
    """
    cluster: list[Document] = []
    if live.is_named or not paths:
        connection = connection_to(live)
        cluster = anyio.run(from_cluster, connection, kinds, BESIDES)
    return from_manifests(paths, kinds, cluster, reading) if paths else cluster
