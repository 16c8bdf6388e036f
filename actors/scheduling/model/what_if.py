"""What-if questions: pods are added to nodes and removed from them for a while, and then
restored.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .node_info import NodeInfo
from .pod_info import PodInfo
from .pod_template import HostPort, PodTemplate, Values
from .snapshot import Snapshot


class Supposition:
    """Hypothetical additions and removals of pods, which all rules see from `settle` until `undo`.

    They are not logged as changes: after `undo`, everything remembered about a row is still true.
    """

    def __init__(self, snapshot: Snapshot, seen_by: PodTemplate | None, *, only_adds: bool) -> None:
        """Makes a Supposition. `seen_by` is the template of the pod that the rules are asked about,
        if they look only at those values of other pods that it has too. With `only_adds`, the
        caller promises to remove nothing.
        """
        self._columns = snapshot.columns
        self._seen_by = seen_by
        self._only_adds = only_adds
        self._values: dict[PodTemplate, Values] = {}
        self._added: dict[tuple[int, str], PodInfo] = {}
        self._removed: dict[tuple[int, str], PodInfo] = {}
        # For each row ever touched: the keys of its pods, and the ports that an outer supposition
        # freed.
        self._before: dict[int, tuple[list[str], set[HostPort]]] = {}
        self._changes: dict[int, list[tuple[PodInfo, Values, int]]] = {}

    def add(self, row: int, pod: PodInfo) -> None:
        info, values = self._change(row, pod, 1)
        info.freed_ports.difference_update(values.ports)
        if self._removed.pop((row, pod.key), None) is None:
            self._added[row, pod.key] = pod
        elif pod.group.terminating:
            self._columns.counts.removed_terminating.remove((row, pod))

    def remove(self, row: int, pod: PodInfo) -> None:
        info, values = self._change(row, pod, -1)
        info.freed_ports.update(values.ports)
        if self._added.pop((row, pod.key), None) is None:
            self._removed[row, pod.key] = pod
            if pod.group.terminating:
                self._columns.counts.removed_terminating.append((row, pod))

    def settle(self) -> None:
        """Rewrites the rows that were changed since the last call."""
        for row, changes in self._changes.items():
            self._columns.suppose(row, changes)
        self._changes.clear()

    def undo(self) -> None:
        for (row, _), pod in list(self._added.items()):
            self.remove(row, pod)
        for (row, _), pod in list(self._removed.items()):
            self.add(row, pod)
        changed_ports: dict[int, set[HostPort]] = {}
        for row, (keys, freed_ports) in self._before.items():
            info = self._columns.infos[row]
            assert info is not None, row
            # A pod that came and went has no change to undo, but its ports were freed.
            if info.freed_ports != freed_ports:
                changed_ports[row] = info.freed_ports ^ freed_ports
            info.freed_ports = freed_ports
            info.reorder(keys)
        self.settle()
        for row, ports in changed_ports.items():
            self._columns.rewrite_ports(row, ports)

    def _change(self, row: int, pod: PodInfo, sign: int) -> tuple[NodeInfo, Values]:
        info = self._columns.infos[row]
        assert info is not None, row
        values = self._values_of(pod.template)
        if row not in self._before:
            self._before[row] = (list(info.pods), info.freed_ports.copy())
        info.suppose(pod, values, sign)
        self._changes.setdefault(row, []).append((pod, values, sign))
        if pod.template.names_claims:
            self._columns.counts.suppose_claims(pod, sign)
        return info, values

    def _values_of(self, template: PodTemplate) -> Values:
        # The values of a large pod take long to derive: the pod may need few of them.
        if self._seen_by is None or not (template.is_large or template.excess):
            return template.values
        values = self._values.get(template)
        if values is None:
            derive = template.values_if_added if self._only_adds else template.values_for
            values = self._values[template] = derive(self._seen_by)
        return values


@contextmanager
def supposing(
    snapshot: Snapshot, seen_by: PodTemplate | None = None, *, only_adds: bool = False
) -> Iterator[Supposition]:
    """Yields a Supposition for the block, and undoes it at the end."""
    supposition = Supposition(snapshot, seen_by, only_adds=only_adds)
    try:
        yield supposition
    finally:
        supposition.undo()
