"""What if: rows of nodes as they would be with some pods more or fewer, for as long as a question
is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.pod_template import HostPort
from berth.actors.scheduling.model.snapshot import Snapshot


class Supposition:
    """Pods that come to rows and leave them only in thought. Every rule sees them from `settle` on,
    until `undo`.

    What is undone was no change: whoever remembers a row need not look at it again.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._columns = snapshot.columns
        self._added: dict[tuple[int, str], PodInfo] = {}
        self._removed: dict[tuple[int, str], PodInfo] = {}
        # Of each row that was ever touched: the keys of its pods, and the ports that another
        # supposition freed.
        self._before: dict[int, tuple[list[str], set[HostPort]]] = {}
        self._touched: dict[int, None] = {}

    def add(self, row: int, pod: PodInfo) -> None:
        info = self._touch(row)
        info.add_pod(pod)
        info.freed_ports.difference_update(pod.host_ports)
        if self._removed.pop((row, pod.key), None) is None:
            self._added[row, pod.key] = pod
        elif pod.group.terminating:
            self._columns.counts.missed.remove((row, pod))

    def remove(self, row: int, pod: PodInfo) -> None:
        info = self._touch(row)
        info.remove_pod(pod.key)
        info.freed_ports.update(pod.host_ports)
        if self._added.pop((row, pod.key), None) is None:
            self._removed[row, pod.key] = pod
            if pod.group.terminating:
                self._columns.counts.missed.append((row, pod))

    def settle(self) -> None:
        """Write anew the rows that were touched since this was last called."""
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
    """What is supposed is undone at the end."""
    supposition = Supposition(snapshot)
    try:
        yield supposition
    finally:
        supposition.undo()
