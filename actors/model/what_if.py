"""What if: a node's row as it would be with some pods more or fewer, for as long as a question is asked about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from actors.model.pod_info import PodInfo
from actors.model.snapshot import Snapshot


class Supposition:
    """One node of a snapshot, with pods that come and go only in thought. Every rule sees them while it lasts."""

    def __init__(self, snapshot: Snapshot, row: int) -> None:
        info = snapshot.columns.infos[row]
        assert info is not None, row
        self.info = info
        self._columns = snapshot.columns
        self._added: dict[str, PodInfo] = {}
        self._removed: dict[str, PodInfo] = {}

    def add(self, pod: PodInfo) -> None:
        self.info.add_pod(pod)
        if self._removed.pop(pod.key, None) is None:
            self._added[pod.key] = pod
        self._columns.refresh(self.info)

    def remove(self, pod: PodInfo) -> None:
        self.info.remove_pod(pod.key)
        if self._added.pop(pod.key, None) is None:
            self._removed[pod.key] = pod
        self._columns.refresh(self.info)

    def undo(self) -> None:
        for key in self._added:
            self.info.remove_pod(key)
        for pod in self._removed.values():
            self.info.add_pod(pod)
        self._columns.refresh(self.info)


@contextmanager
def supposing(snapshot: Snapshot, row: int, added: Sequence[PodInfo] = ()) -> Iterator[Supposition]:
    """Suppose that these pods run on a row; what is supposed is undone at the end."""
    supposition = Supposition(snapshot, row)
    try:
        for pod in added:
            supposition.add(pod)
        yield supposition
    finally:
        supposition.undo()
