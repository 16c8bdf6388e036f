"""Objects as the scheduler reads them, from the same few words as in tests.kit.documents."""

from __future__ import annotations

from typing import Any

import msgspec

from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from tests.kit import documents


def pod(name: str = "p", cpu: str | int = "", node: str = "", **fields: Any) -> Pod:
    """Returns a pod, by default of the namespace `ns`."""
    return msgspec.convert(documents.pod(name, cpu, node, **{"namespace": "ns", **fields}), Pod)


def pod_info(name: str = "p", cpu: str | int = "", node: str = "", **fields: Any) -> PodInfo:
    return PodInfo(pod(name, cpu, node, **fields))


def node(name: str = "n", cpu: str | int = "4", **fields: Any) -> Node:
    return msgspec.convert(documents.node(name, cpu, **fields), Node)
