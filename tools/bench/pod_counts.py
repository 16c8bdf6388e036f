"""Counts pods by namespace, labels and state as changes arrive, so that waiting only reads sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.meta import ObjectMeta, own

Labels = tuple[tuple[str, str], ...]
PodName = tuple[str, str]
_labels = own(ObjectMeta, "labels")


class Tally(msgspec.Struct):
    """The number of pods of a namespace with the same labels, by state.

    `attempted` pods are gated, or still pending after an attempt.
    """

    bound: int = 0
    attempted: int = 0
    untried: int = 0

    def add(self, state: str, by: int) -> None:
        setattr(self, state, getattr(self, state) + by)


class _TrackedPod(msgspec.Struct):
    """The last state of a pod; `raw_labels` are its labels as they came, `labels` those sorted."""

    raw_labels: Mapping[str, str]
    labels: Labels
    state: str
    tally: Tally


class PodTracker:
    """A count of pods. Calls `on_bound` for each bound pod; `ever_bound` counts by namespace."""

    def __init__(self) -> None:
        self._pods: dict[PodName, _TrackedPod] = {}
        self._tallies: dict[tuple[str, Labels], Tally] = {}
        self._messages: dict[PodName, str] = {}
        self.on_bound: list[Callable[[Pod], None]] = []
        self.ever_bound: Counter[str] = Counter()

    def changed(self, pod: Pod) -> None:
        metadata = pod.metadata
        name = (metadata.namespace, metadata.name)
        state = (
            "bound"
            if pod.spec.node_name
            else "attempted"
            if self._is_attempted(name, pod)
            else "untried"
        )
        seen = self._pods.get(name)
        before = "" if seen is None else seen.state
        labels = _labels(metadata)
        if seen is not None and seen.raw_labels == labels:
            if before == state:
                return
            seen.tally.add(before, -1)
            seen.tally.add(state, 1)
            seen.state = state
        else:
            if seen is not None:
                self._uncount(name[0], seen)
            self._pods[name] = self._counted(name[0], labels, state)
        if state == "bound" and before != "bound":
            self.ever_bound[name[0]] += 1
            self._messages.pop(name, None)
            for callback in self.on_bound:
                callback(pod)

    def listed(self, pods: Sequence[Pod]) -> None:
        """Takes a list of all pods; those that it has not are gone."""
        there = {(pod.metadata.namespace, pod.metadata.name) for pod in pods}
        for name in self._pods.keys() - there:
            self._forget(name)
        for pod in pods:
            self.changed(pod)

    def deleted(self, pod: Pod) -> None:
        self._forget((pod.metadata.namespace, pod.metadata.name))

    def _forget(self, name: PodName) -> None:
        seen = self._pods.pop(name, None)
        self._messages.pop(name, None)
        if seen is not None:
            self._uncount(name[0], seen)

    def tally(self, namespace: str, selector: Mapping[str, str]) -> Tally:
        total = Tally()
        for (where, labels), each in self._tallies.items():
            if where == namespace and selects(selector, dict(labels)):
                total.bound += each.bound
                total.attempted += each.attempted
                total.untried += each.untried
        return total

    def names(self, namespace: str, selector: Mapping[str, str]) -> list[str]:
        return [
            name
            for (where, name), seen in self._pods.items()
            if where == namespace and selects(selector, dict(seen.labels))
        ]

    def why(self, namespaces: Sequence[str]) -> str:
        """Returns the most frequent message among the waiting pods of the namespaces."""
        messages = Counter(
            message for (where, _), message in self._messages.items() if where in namespaces
        )
        return messages.most_common(1)[0][0] if messages else "none of them was tried"

    def _is_attempted(self, name: PodName, pod: Pod) -> bool:
        for condition in pod.status.conditions:
            if (
                condition.type == "PodScheduled"
                and condition.status == "False"
                and condition.reason != "SchedulingGated"
            ):
                self._messages[name] = condition.message or condition.reason
                return True
        return bool(pod.spec.scheduling_gates)

    def _counted(self, namespace: str, raw_labels: Mapping[str, str], state: str) -> _TrackedPod:
        labels = tuple(sorted(raw_labels.items())) if raw_labels else ()
        tally = self._tallies.get((namespace, labels))
        if tally is None:
            tally = self._tallies[namespace, labels] = Tally()
        tally.add(state, 1)
        return _TrackedPod(raw_labels, labels, state, tally)

    def _uncount(self, namespace: str, seen: _TrackedPod) -> None:
        tally = seen.tally
        tally.add(seen.state, -1)
        if not (tally.bound or tally.attempted or tally.untried):
            del self._tallies[namespace, seen.labels]


def selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())
