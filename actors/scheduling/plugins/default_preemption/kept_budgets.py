"""The PodDisruptionBudgets as preemption needs them, read once and kept from pod to pod: a user may
have ten thousand, and each pod that fits nowhere asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping

from berth.plugin import PodDisruptionBudget, Snapshot

from .victims import Budget, Budgets, by_namespace, read_budget


class KeptBudgets:
    def __init__(self) -> None:
        self._objects: object = None  # of which cache, and which version of its budgets
        self._version = -1
        # By namespace and name: the object, and what was read.
        self._read: Mapping[tuple[str, str], tuple[PodDisruptionBudget, Budget | None]] = {}
        self._budgets: Budgets = {}

    def of(self, snapshot: Snapshot) -> Budgets:
        """Returns the budgets, as the same object as before if no budget changed. Raises
        UnlistedError.
        """
        objects = snapshot.objects
        version = objects.version(PodDisruptionBudget)
        is_same = objects is self._objects and version == self._version
        if not (is_same and objects.is_listed(PodDisruptionBudget)):
            every = objects.every(PodDisruptionBudget)
            before, read = self._read, {}
            for item in every:
                name = (item.metadata.namespace, item.metadata.name)
                kept = before.get(name)
                if kept is None or kept[0] is not item:
                    kept = (item, read_budget(item))
                read[name] = kept
            self._objects, self._version, self._read = objects, version, read
            self._budgets = by_namespace(budget for _, budget in read.values())
        return self._budgets
