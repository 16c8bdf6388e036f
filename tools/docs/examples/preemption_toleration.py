"""Preemption that asks the victims' PriorityClass first.

In place of DefaultPreemption: pods of a class may be safe from preemptors below a priority, for
some time after they were placed or for ever. The annotations are those of PreemptionToleration of
scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
import numpy as np

from berth.plugin import (
    PAUSE,
    SUCCESS,
    FailedAttempt,
    Nomination,
    ObjectMeta,
    Pod,
    PodInfo,
    PostFiltered,
    PostFilterPlugin,
    Steps,
    WatchedKind,
    supposing,
    unschedulable,
)

MINIMUM = "preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority"
SECONDS = "preemption-toleration.scheduling.x-k8s.io/toleration-seconds"
ENOUGH = 100  # candidates, of which the best is taken
TURN = 10  # nodes, between two pauses, of which a search may have 10,000
Rank = tuple[int, int, int]


class PriorityClass(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    value: int = 0


CLASSES = WatchedKind(
    "scheduling.k8s.io/v1",
    "PriorityClass",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    PriorityClass,
)


class PreemptionToleration(PostFilterPlugin):
    """Evicts pods of lower priority whose class does not tolerate it at the time."""

    name = "PreemptionToleration"
    lookups = (CLASSES,)

    def post_filter(self, attempt: FailedAttempt) -> Steps[PostFiltered]:
        if attempt.info.pod.spec.preemption_policy == "Never":
            return PostFiltered(unschedulable("the pod may not preempt others"))
        if self.waits_for_victims(attempt):
            return PostFiltered(unschedulable("the victims of an earlier attempt are not gone yet"))
        candidates: list[tuple[Rank, int, list[PodInfo]]] = []
        for number, row in enumerate(attempt.potential.tolist()):
            victims = self.victims_on(attempt, row)
            if victims:
                candidates.append((rank(victims), row, victims))
            if len(candidates) == ENOUGH:
                break
            if number % TURN == 0:
                yield PAUSE  # another task may have a turn
        if not candidates:
            return PostFiltered(unschedulable("no pods that tolerate no preemption make room"))
        _, row, victims = min(candidates, key=lambda candidate: candidate[:2])
        node = attempt.snapshot.columns.names[row]
        return PostFiltered(SUCCESS, nomination=Nomination(node, tuple(victims)))

    def waits_for_victims(self, attempt: FailedAttempt) -> bool:
        """True if the pod's nominated node has pods of lower priority that terminate."""
        node = attempt.snapshot.info(attempt.info.pod.status.nominated_node_name)
        return node is not None and any(
            pod.priority < attempt.info.priority and pod.pod.metadata.deletion_timestamp
            for pod in node.pods.values()
        )

    def victims_on(self, attempt: FailedAttempt, row: int) -> list[PodInfo]:
        """Returns the pods of a node that have to go, or none if that is not enough."""
        node = attempt.snapshot.columns.infos[row]
        rows, victims = np.array([row]), list[PodInfo]()
        pods = (
            [] if node is None else [pod for pod in node.pods.values() if self.may_go(attempt, pod)]
        )
        if not pods:
            return victims
        with supposing(attempt.snapshot, attempt.seen_by) as supposition:
            for pod in pods:
                supposition.remove(row, pod)
            supposition.settle()
            if not attempt.supposed(rows).feasible()[0]:
                return victims
            for pod in sorted(pods, key=lambda each: each.priority, reverse=True):
                supposition.add(row, pod)  # it stays, if the pod fits beside it
                supposition.settle()
                if not attempt.supposed(rows).feasible()[0]:
                    supposition.remove(row, pod)
                    victims.append(pod)
        return victims

    def may_go(self, attempt: FailedAttempt, victim: PodInfo) -> bool:
        if victim.priority >= attempt.info.priority:
            return False
        name = victim.pod.spec.priority_class_name
        found = attempt.snapshot.objects.get(PriorityClass, name)
        if found is None:
            return True
        annotations = found.metadata.annotations
        try:
            seconds = int(annotations.get(SECONDS, "0"))
            minimum = int(annotations.get(MINIMUM, found.value + 1))
        except ValueError:
            return True  # a class that nobody can read tolerates nothing
        if seconds == 0 or attempt.info.priority >= minimum:
            return True
        since = placed_at(victim.pod)
        if seconds < 0 or since is None:
            return False
        return since + timedelta(seconds=seconds) <= self.handle.wall()


def rank(victims: Sequence[PodInfo]) -> Rank:
    """Returns what is better if it is less: a low highest priority, low ones, few pods."""
    priorities = [victim.priority for victim in victims]
    return max(priorities), sum(priorities), len(priorities)


def placed_at(pod: Pod) -> datetime | None:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True":
            time = condition.last_transition_time
            return datetime.fromisoformat(time) if time else None
    return None
