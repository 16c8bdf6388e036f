"""Disruption budgets: no pod is evicted without the permission of its budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...kubernetes.api.store import StoreEvent
from ...kubernetes.api.types.resources import BY_KIND, Kind
from .held_once import Report

Document = dict[str, Any]
BUDGETS, PODS = BY_KIND["policy/v1", "PodDisruptionBudget"], BY_KIND["v1", "Pod"]
EVICTED = "EvictionByEvictionAPI"


class BudgetsKept:
    """Watches the writes of budgets and pods. An eviction takes its permission first: the budget
    names the pod among the disrupted ones, and allows one disruption less.

    Budgets select by labels alone here, as those of a scenario do. Preemption may break budgets.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._budgets: dict[tuple[str, str], Document] = {}

    def note(self, kind: Kind, event: StoreEvent) -> None:
        """Takes a write into account."""
        if kind is BUDGETS:
            self._note_budget(event)
        elif kind is PODS and event.before is not None:
            before, after = event.before.document, event.after.document
            if _is_evicted(after) and not _is_evicted(before) and _needs_permission(before):
                self._check(before)

    def _note_budget(self, event: StoreEvent) -> None:
        budget = event.after.document
        key = budget["metadata"]["namespace"], budget["metadata"]["name"]
        if event.type == "DELETED":
            self._budgets.pop(key, None)
            return
        self._budgets[key] = budget
        allowed = (budget.get("status") or {}).get("disruptionsAllowed", 0)
        if allowed < 0:
            self._report("budget broken", f"{key[1]} allows {allowed} disruptions")

    def _check(self, pod: Document) -> None:
        metadata = pod["metadata"]
        for (namespace, name), budget in self._budgets.items():
            if namespace == metadata["namespace"] and _covers(budget, metadata.get("labels") or {}):
                disrupted = (budget.get("status") or {}).get("disruptedPods") or {}
                if metadata["name"] not in disrupted:
                    text = f"{metadata['name']} is evicted, and {name} has not permitted it"
                    self._report("budget broken", text)


def _covers(budget: Document, labels: Mapping[str, str]) -> bool:
    wanted = (budget["spec"].get("selector") or {}).get("matchLabels") or {}
    return bool(wanted) and wanted.items() <= labels.items()


def _is_evicted(pod: Document) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("reason") == EVICTED for each in conditions)


def _needs_permission(pod: Document) -> bool:
    """True for a pod that runs and is ready: others may go without a permission."""
    status = pod.get("status") or {}
    ready = any(
        each["type"] == "Ready" and each["status"] == "True"
        for each in status.get("conditions") or ()
    )
    ending = "deletionTimestamp" in pod["metadata"]
    return ready and status.get("phase") == "Running" and not ending
