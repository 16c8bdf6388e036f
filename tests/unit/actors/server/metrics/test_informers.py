"""What is said of the informers, as in Kubernetes 1.37's
component-base/metrics/prometheus/clientgo/fifo/metrics.go.
"""

from __future__ import annotations

import pytest

from berth.actors.scheduling.kube.kinds import NODES, PODS, WatchedKind
from berth.actors.scheduling.kube.storage import StorageClass
from berth.actors.server.metrics.informers import register_informers
from berth.actors.telemetry.measures import Registry
from tests.kit.instruments import Reader

CLASSES = WatchedKind(
    "storage.k8s.io/v1", "StorageClass", "/apis/storage.k8s.io/v1/storageclasses", StorageClass
)


@pytest.mark.parametrize(
    ("kind", "text", "labels", "number"),
    [
        (PODS, "1234", ("", "v1", "pods"), 1234),
        (NODES, "9" * 18, ("", "v1", "nodes"), 10**15 - 1),
        (CLASSES, "7000000000000001", ("storage.k8s.io", "v1", "storageclasses"), 1),
        (CLASSES, "", ("storage.k8s.io", "v1", "storageclasses"), None),
        (CLASSES, "abc", ("storage.k8s.io", "v1", "storageclasses"), None),
    ],
)
async def test_an_informer_shows_its_version(
    kind: WatchedKind, text: str, labels: tuple[str, ...], number: int | None
) -> None:
    registry = Registry()
    register_informers(registry, lambda: {kind: text})
    await registry.refresh()
    read, names = Reader(registry), ("kube-scheduler", *labels)
    shown = read.numbers("informer_store_resource_version")
    assert shown == ({} if number is None else {names: number})
    assert read.numbers("informer_queued_items") == {names: 0}
