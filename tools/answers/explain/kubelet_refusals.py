"""Nodes whose kubelet would refuse a pod that the scheduler sends there: the scheduler does not
check the operating system.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from berth.actors.scheduling.model.snapshot import Snapshot

from ...kubernetes.kubelet.pressure.pod_admission import wrong_os
from ...kubernetes.objects.structs import Pod, read
from .words import listed

Document = dict[str, Any]
OS = "kubernetes.io/os"


def system_of(pod: Document) -> str:
    """Returns the operating system that a pod is made for; "" if it does not say."""
    labels = (pod.get("metadata") or {}).get("labels") or {}
    return ((pod.get("spec") or {}).get("os") or {}).get("name") or labels.get(OS) or ""


def refusals(pod: Document, nodes: Sequence[str], snapshot: Snapshot) -> list[str]:
    """Says which of these nodes would refuse the pod, by their label: sentences without their
    subject, such as "would be refused by the kubelet of n1".
    """
    if not system_of(pod):
        return []
    refusing: dict[str, list[str]] = {}
    for name in nodes:
        info = snapshot.columns.infos[snapshot.columns.row_of[name]]
        node = None if info is None else info.node
        if node is not None and OS in node.metadata.labels:
            rejection = wrong_os(read(pod, Pod), node)
            if rejection is not None:
                why = f"{rejection.reason}), as the node's system is {node.metadata.labels[OS]}"
                refusing.setdefault(why, []).append(name)
    return [
        f"would be refused by the kubelet of {listed(names)} ({why}, and the pod's {system_of(pod)}"
        for why, names in refusing.items()
    ]
