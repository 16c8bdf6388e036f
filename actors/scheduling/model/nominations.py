"""Nominations: the pending pods to which preemption promised a node.

They count on that node as if they ran there. Mirrors kube-scheduler's nominator. A pod is nominated
to one node at most.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from .change_log import ChangeLog
from .pod_info import PodInfo


class Nominations:
    """The nominated pods; `changes` logs the nodes on which nominations were added or removed."""

    def __init__(self) -> None:
        self.changes: ChangeLog[str] = ChangeLog()
        self._on: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._on)

    def put(self, info: PodInfo, node: str) -> None:
        """Nominates a pod to a node, in place of any other node.

        A pod that is nominated to the node already keeps its position among the others there.
        """
        if self._node_of.get(info.key) != node:
            self.drop(info.key)
        self._on.setdefault(node, {})[info.key] = info
        self._node_of[info.key] = node
        self.changes.add(node)

    def drop(self, key: str, uid: str = "") -> None:
        """Removes the nomination of the pod with this key (namespace/name) and any given uid."""
        node = self._node_of.get(key)
        if node is None or (uid and self._on[node][key].uid != uid):
            return
        self.changes.add(node)
        del self._node_of[key], self._on[node][key]
        if not self._on[node]:
            del self._on[node]

    def node_of(self, key: str) -> str:
        """Returns the node to which a pod is nominated, or ""."""
        return self._node_of.get(key, "")

    def on(self, node: str) -> Iterable[PodInfo]:
        """Returns the pods nominated to a node."""
        return self._on.get(node, {}).values()

    def nodes(self) -> Collection[str]:
        """Returns the nodes to which at least one pod is nominated."""
        return self._on.keys()

    def ahead_of(self, info: PodInfo, node: str) -> list[PodInfo]:
        """Returns the other pods nominated to a node for which a pod must leave room.

        These are the pods with its priority or a higher one. One case differs from kube-scheduler:
        if the pod itself is nominated to the node, pods of its priority that were nominated later
        do not count. They would make it search, and preempt, on other nodes in vain.
        """
        on = self._on.get(node)
        if on is None:
            return []
        ahead, min_priority = [], info.priority
        for pod in on.values():
            if pod.uid == info.uid and pod.key == info.key:
                min_priority += 1
            elif pod.priority >= min_priority:
                ahead.append(pod)
        return ahead
