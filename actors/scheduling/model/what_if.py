"""What-if questions: adds pods to nodes and removes pods from nodes for a while, then undoes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .node_info import NodeInfo
from .pod_info import PodInfo
from .pod_template import HostPort
from .snapshot import Snapshot


class Supposition:
    """Hypothetical additions and removals of pods, which all rules see from `settle` until `undo`.

    They are not logged as changes: after `undo`, everything remembered about a row is still true.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._columns = snapshot.columns
        self._added: dict[tuple[int, str], PodInfo] = {}
        self._removed: dict[tuple[int, str], PodInfo] = {}
        # For each row ever touched: the keys of its pods, and the ports that an outer supposition
        # freed.
        self._before: dict[int, tuple[list[str], set[HostPort]]] = {}
        self._touched: dict[int, None] = {}

    def add(self, row: int, pod: PodInfo) -> None:
        info = self._touch(row)
        info.add_pod(pod)
        info.freed_ports.difference_update(pod.template.host_ports)
        self._suppose_claims(pod, 1)
        if self._removed.pop((row, pod.key), None) is None:
            self._added[row, pod.key] = pod
        elif pod.group.terminating:
            self._columns.counts.removed_terminating.remove((row, pod))

    def remove(self, row: int, pod: PodInfo) -> None:
        info = self._touch(row)
        info.remove_pod(pod.key)
        info.freed_ports.update(pod.template.host_ports)
        self._suppose_claims(pod, -1)
        if self._added.pop((row, pod.key), None) is None:
            self._removed[row, pod.key] = pod
            if pod.group.terminating:
                self._columns.counts.removed_terminating.append((row, pod))

    def _suppose_claims(self, pod: PodInfo, sign: int) -> None:
        supposed = self._columns.counts.supposed_claims
        for name in pod.claims:
            supposed[name] += sign
            if not supposed[name]:
                del supposed[name]

    def settle(self) -> None:
        """Rewrites the rows that were touched since the last call."""
        for row in self._touched:
            self._columns.write_pods(row)
        self._touched.clear()

    def undo(self) -> None:
        for (row, _), pod in list(self._added.items()):
            self.remove(row, pod)
        for (row, _), pod in list(self._removed.items()):
            self.add(row, pod)
        for row, (keys, freed_ports) in self._before.items():
            info = self._touch(row)
            info.freed_ports = freed_ports
            info.pods = {key: info.pods[key] for key in keys}
        self.settle()

    def _touch(self, row: int) -> NodeInfo:
        info = self._columns.infos[row]
        assert info is not None, row
        if row not in self._before:
            self._before[row] = (list(info.pods), info.freed_ports.copy())
        self._touched[row] = None
        return info


@contextmanager
def supposing(snapshot: Snapshot) -> Iterator[Supposition]:
    """Gives a Supposition to the block, and undoes it at the end."""
    supposition = Supposition(snapshot)
    try:
        yield supposition
    finally:
        supposition.undo()
