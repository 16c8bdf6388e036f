"""The limits that CSINodes set on the number of attached volumes."""

from __future__ import annotations

from berth.plugin import CSINode

from ...model.cluster_objects import ClusterObjects


def limits_of(csi_node: CSINode) -> dict[str, int]:
    """Returns the number of volumes that a node can attach, by driver, for drivers with a limit."""
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


class Limits:
    """The names of the CSINodes that set a limit, kept up to date."""

    def __init__(self) -> None:
        self._objects: ClusterObjects | None = None
        self._version = 0
        self._limited: set[str] = set()

    def any_in(self, objects: ClusterObjects) -> bool:
        """True if a CSINode sets a limit."""
        log = objects.changes(CSINode)
        if self._objects is objects and self._version == log.version:
            return bool(self._limited)
        changed = log.since(self._version) if self._objects is objects else None
        if changed is None:
            self._limited = set()
            changed = {("", csi_node.metadata.name) for csi_node in objects.every(CSINode)}
        for _, name in changed:
            csi_node = objects.get(CSINode, name)
            if csi_node is not None and limits_of(csi_node):
                self._limited.add(name)
            else:
                self._limited.discard(name)
        self._objects, self._version = objects, log.version
        return bool(self._limited)
