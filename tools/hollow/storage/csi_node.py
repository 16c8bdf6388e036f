"""Gives each node a CSINode with the hollow driver, as a kubelet would once a driver registers.

A CSINode that exists is never changed: its drivers and limits are edited with kubectl.
"""

from __future__ import annotations

from ..documents import Document, deleting, name_of, reference_to
from ..volumes import HOLLOW_DRIVER
from ..writes import Create, Write

TOPOLOGY_KEYS = ("topology.kubernetes.io/zone",)
MOST_VOLUMES = 128


def reconcile(node: Document, csi_node: Document | None) -> list[Write]:
    if csi_node is not None or deleting(node):
        return []
    owner = {
        field: value
        for field, value in reference_to(node).items()
        if field in ("apiVersion", "kind", "name", "uid")
    }
    driver = {
        "name": HOLLOW_DRIVER,
        "nodeID": name_of(node),
        "topologyKeys": list(TOPOLOGY_KEYS),
        "allocatable": {"count": MOST_VOLUMES},
    }
    document = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name_of(node), "ownerReferences": [owner]},
        "spec": {"drivers": [driver]},
    }
    return [Create("CSINode", document)]
