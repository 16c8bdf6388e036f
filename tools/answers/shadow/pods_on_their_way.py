"""The pods on their way to a node. Pure.

Before a scheduler prepares the volumes or devices of a pod, or waits on Permit, it announces the
node (`nominatedNodeName`, KEP 5278): the binding may take minutes. Preemption nominates the pod to
a node by the same field, and says in the same write why the attempt failed.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from berth.actors.messages.cache import (
    AssignedPodAdded,
    AssignedPodDeleted,
    AssignedPodUpdated,
    AssumedPodDeleted,
    CacheMessage,
)
from berth.actors.messages.queue import (
    PendingPodAdded,
    PendingPodUpdated,
    PodNoLongerPending,
    QueueMessage,
)
from berth.actors.scheduling.kube.core import Pod, PodCondition

Message = CacheMessage | QueueMessage


class AnnouncedPods:
    """The pods with an announced node, as they will be bound, by uid."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        # The latest condition that came with a nomination, by uid.
        self._nominations: dict[str, PodCondition] = {}

    def placed(self, message: Message) -> Iterator[Message]:
        """Yields messages in place of one, such that a pod is on its node from the announcement on.

        The binding is then an update, and the pod is deleted if the binding fails.
        """
        match message:
            case PendingPodAdded(pod):
                self._note_nomination(None, pod)
                node = "" if _condition(pod) else pod.status.nominated_node_name
                yield from self._announce(pod, node, PendingPodAdded(_without_node(pod, node)))
            case PendingPodUpdated(old, pod):
                self._note_nomination(old, pod)
                node = self._announced_node(old, pod)
                before = self._pods.get(pod.metadata.uid)
                if before is not None and node == before.spec.node_name:
                    after = self._pods[pod.metadata.uid] = _pod_on(pod, node)
                    yield AssignedPodUpdated(before, after)
                    return
                updated = PendingPodUpdated(old, _without_node(pod, node))
                yield from self._announce(pod, node, updated)
            case AssignedPodAdded(pod):
                before = self._pods.pop(pod.metadata.uid, None)
                if before is not None and before.spec.node_name == pod.spec.node_name:
                    yield AssignedPodUpdated(before, pod)
                    return
                if before is not None:
                    yield AssignedPodDeleted(before)
                yield message
            case AssumedPodDeleted(pod):
                before = self._pods.pop(pod.metadata.uid, None)
                if before is not None:
                    yield AssignedPodDeleted(before)
                yield message
            case PodNoLongerPending(pod):
                self._nominations.pop(pod.metadata.uid, None)
                yield message
            case _:
                yield message

    def _announce(self, pod: Pod, node: str, message: Message) -> Iterator[Message]:
        before = self._pods.pop(pod.metadata.uid, None)
        if before is not None:
            yield AssignedPodDeleted(before)
        yield message
        if node:
            placed = self._pods[pod.metadata.uid] = _pod_on(pod, node)
            yield AssignedPodAdded(placed)

    def _note_nomination(self, old: Pod | None, pod: Pod) -> None:
        condition = _condition(pod)
        if condition is None or not pod.status.nominated_node_name:
            return
        if old is None or condition != _condition(old):
            self._nominations[pod.metadata.uid] = condition

    def _announced_node(self, old: Pod, pod: Pod) -> str:
        """Returns the node that is announced for a pod, "" if none is. A nomination comes with the
        condition that the attempt failed, an announcement leaves the condition as it was. So does
        another nomination, if the attempt failed for the same reasons as at the one before.
        """
        node = pod.status.nominated_node_name
        before = self._pods.get(pod.metadata.uid)
        was = old.status.nominated_node_name if before is None else ""
        if node == was or pod.metadata.deletion_timestamp is not None:
            return ""
        condition = _condition(pod)
        if condition is not None and condition == self._nominations.get(pod.metadata.uid):
            return ""
        return node if _condition(old) == condition else ""


def _condition(pod: Pod) -> PodCondition | None:
    conditions = pod.status.conditions
    return next((c for c in conditions if c.type == "PodScheduled" and c.status == "False"), None)


def _pod_on(pod: Pod, node: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=node))


def _without_node(pod: Pod, announced: str) -> Pod:
    """Returns the pod as it was decided on: without the announced node, which the decision
    chose.
    """
    if not announced:
        return pod
    return replace(pod, status=replace(pod.status, nominated_node_name=""))
