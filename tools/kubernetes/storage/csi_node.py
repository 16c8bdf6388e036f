"""Creates a CSINode with the hollow driver for each node, as a kubelet does when a driver
registers.

An existing CSINode is never changed: users edit its drivers and limits with kubectl.
"""

from __future__ import annotations

from berth.actors.scheduling.kube.core import Node
from berth.actors.scheduling.kube.storage import CSINode

from ..objects.documents import reference_to
from ..objects.properties import deleting
from ..objects.writes import Create, Write
from .pod_volumes import HOLLOW_DRIVER

TOPOLOGY_KEYS = ("topology.kubernetes.io/zone",)
MOST_VOLUMES = 128


def reconcile(node: Node, csi_node: CSINode | None) -> list[Write]:
    if csi_node is not None or deleting(node):
        return []
    driver = {
        "name": HOLLOW_DRIVER,
        "nodeID": node.metadata.name,
        "topologyKeys": list(TOPOLOGY_KEYS),
        "allocatable": {"count": MOST_VOLUMES},
    }
    document = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {
            "name": node.metadata.name,
            "ownerReferences": [reference_to(node, controls=False)],
        },
        "spec": {"drivers": [driver]},
    }
    return [Create("CSINode", document)]
