"""Nominations: pending pods that preemption has promised a node, and that count there as if they
ran.

Mirrors kube-scheduler's nominator. A pod is nominated to one node at most.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from berth.actors.scheduling.model.change_log import ChangeLog
from berth.actors.scheduling.model.pod_info import PodInfo


class Nominations:
    """`changes` logs the names of the nodes that a nomination came to or left."""

    def __init__(self) -> None:
        self.changes: ChangeLog[str] = ChangeLog()
        self._on: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._on)

    def put(self, info: PodInfo, node: str) -> None:
        """Nominate a pod, wherever it was nominated before. On the same node it keeps its place
        among the others.
        """
        if self._node_of.get(info.key) != node:
            self.drop(info.key)
        self._on.setdefault(node, {})[info.key] = info
        self._node_of[info.key] = node
        self.changes.add(node)

    def drop(self, key: str, uid: str = "") -> None:
        """The pod of this key (namespace/name) is nominated no longer; with a uid, only if it is
        that very pod.
        """
        node = self._node_of.get(key)
        if node is None or (uid and self._on[node][key].uid != uid):
            return
        self.changes.add(node)
        del self._node_of[key], self._on[node][key]
        if not self._on[node]:
            del self._on[node]

    def node_of(self, key: str) -> str:
        """The node that a pod is nominated to, or ""."""
        return self._node_of.get(key, "")

    def on(self, node: str) -> Iterable[PodInfo]:
        return self._on.get(node, {}).values()

    def nodes(self) -> Collection[str]:
        """The nodes that some pod is nominated to."""
        return self._on.keys()

    def ahead_of(self, info: PodInfo, node: str) -> list[PodInfo]:
        """The pods nominated to a node that a pod must leave room for: all others of its priority
        or a higher one.

        Unlike in kube-scheduler, on the node that the pod itself has been promised those of its
        priority that were promised it later do not count: they would make it look, and preempt,
        elsewhere in vain.
        """
        on = self._on.get(node)
        if on is None:
            return []
        ahead, least = [], info.priority
        for pod in on.values():
            if pod.uid == info.uid and pod.key == info.key:
                least += 1
            elif pod.priority >= least:
                ahead.append(pod)
        return ahead
