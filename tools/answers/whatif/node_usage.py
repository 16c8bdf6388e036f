"""How much of each node pods request, before and after the steps of a what-if."""

from __future__ import annotations

import msgspec
import numpy as np

from berth.actors.scheduling.kube.quantity import MAX_INT64
from berth.actors.scheduling.model.snapshot import Snapshot

_MOST = MAX_INT64 // 100


class Fullness(msgspec.Struct, frozen=True, gc=False):
    """The percentages of a node's cpu and memory that pods request, and the number of its pods."""

    cpu: int
    memory: int
    pods: int


class NodeChange(msgspec.Struct, frozen=True, gc=False):
    """The usage of a node before and after the steps; null where the node does not exist."""

    node: str
    before: Fullness | None
    after: Fullness | None


def unchanged(snapshot: Snapshot) -> dict[str, NodeChange]:
    """Returns all nodes by name, without changes."""
    names = sorted(snapshot.columns.row_of)
    return {
        name: NodeChange(name, full, full)
        for name, full in zip(names, _fullness_of(snapshot, names), strict=True)
    }


def changed(
    before: dict[str, NodeChange],
    names: dict[str, None],
    snapshot: Snapshot,
    *,
    every_node: bool = True,
) -> list[NodeChange]:
    """Returns the nodes that have changed, or with `every_node` all nodes, sorted by name. Only
    nodes of these names can have changed.
    """
    present = [name for name in names if name in snapshot.columns.row_of]
    after = dict(zip(present, _fullness_of(snapshot, present), strict=True))
    changes: dict[str, NodeChange] = {}
    for name in names:
        old = before.get(name)
        if old is not None or name in after:
            changes[name] = NodeChange(name, None if old is None else old.before, after.get(name))
    if not every_node:
        return [changes[name] for name in sorted(changes) if _differs(changes[name])]
    all_ = {**before, **changes}
    return [all_[name] for name in sorted(all_)] if len(all_) > len(before) else list(all_.values())


def _differs(change: NodeChange) -> bool:
    return change.before != change.after


def _fullness_of(snapshot: Snapshot, names: list[str]) -> list[Fullness]:
    columns = snapshot.columns
    rows = np.array([columns.row_of[name] for name in names], dtype=np.int64)
    cpu, memory = (
        100 * np.minimum(columns.requested(of)[rows], _MOST) // np.maximum(allocatable, 1)
        for of in ("cpu", "memory")
        for allocatable in [columns.allocatable(of)[rows]]
    )
    return list(map(Fullness, cpu.tolist(), memory.tolist(), columns.pods[rows].tolist()))
