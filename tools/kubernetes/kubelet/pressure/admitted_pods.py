"""The pods that a kubelet has admitted, the resources they take, and the room for more."""

from __future__ import annotations

from functools import partial

from berth.actors.scheduling.kube.core import Node
from berth.actors.scheduling.kube.requests import pod_requests

from ...objects.structs import Pod
from ..resizing.resizes import Resizes
from .eviction_ranking import is_critical
from .pod_admission import Amounts, Rejection, mismatch, shortages, victims_of

_NO_VICTIMS = (
    "Unexpected error while attempting to recover from admission failure: preemption: error "
    "finding a set of pods to preempt: no set of running pods found to reclaim resources: [{}, ]"
)


def qos_of(pod: Pod) -> str:
    return pod.status.qos_class or "BestEffort"


class Room:
    """The room on a node. `pods` are the admitted pods that have not ended, by uid.

    A pod takes the resources that are allocated to it, or those of an earlier allocation that it
    still has, if these are more: of each container, or, if resizes count `at_once`, of all.
    """

    def __init__(self, resizes: Resizes, *, at_once: bool) -> None:
        self.pods: dict[str, Pod] = {}
        self._taken_by = partial(pod_requests, at_once=at_once)
        self._resizes = resizes
        self._requests: dict[str, Amounts] = {}
        self._sums: dict[str, int] = {}

    def put(self, pod: Pod, now: float) -> None:
        """Stores a version of an admitted pod."""
        uid = pod.metadata.uid
        self._resizes.put(self.pods.get(uid), pod, now)
        self.pods[uid] = pod
        if self._count(uid, self._taken_by(self._resizes.allocated(pod))):
            self._resizes.make_room(now)

    def remove(self, uid: str, now: float) -> None:
        if self.pods.pop(uid, None) is not None:
            self._count(uid, {})
            del self._requests[uid]
            self._resizes.remove(uid)
            self._resizes.make_room(now)

    def _count(self, uid: str, requests: Amounts) -> bool:
        """Updates what a pod takes. Returns True if it takes less of a resource than before."""
        before, less = self._requests.get(uid, {}), False
        if requests != before:
            for name in dict(before) | dict(requests):
                change = requests.get(name, 0) - before.get(name, 0)
                self._sums[name] = self._sums.get(name, 0) + change
                less = less or change < 0
        self._requests[uid] = requests
        return less

    def check(self, pod: Pod, node: Node) -> tuple[Rejection | None, list[Pod]]:
        """Returns why the node cannot take a pod, and otherwise the pods that it must preempt."""
        return self._check(pod, self._taken_by(pod), node)

    def check_resized(self, pod: Pod, node: Node) -> tuple[Rejection | None, list[Pod]]:
        """Checks the requests in the spec of an admitted pod, and counts them if there is room."""
        uid = pod.metadata.uid
        before = self._requests[uid]
        self._count(uid, {})
        del self.pods[uid]
        problem, victims = self._check(pod, pod_requests(pod, status=False), node)
        self.pods[uid] = pod
        self._count(uid, before if problem else self._taken_by(pod))
        return problem, victims

    def _check(self, pod: Pod, requests: Amounts, node: Node) -> tuple[Rejection | None, list[Pod]]:
        others = self.pods.values()
        lacking = shortages(requests, self._sums, len(self.pods), node)
        wrong = mismatch(pod, node, others)
        if not lacking:
            return wrong, []
        if not is_critical(pod):
            return lacking[0].rejection(), []
        if wrong is not None:
            return wrong, []
        victims = victims_of(pod, others, lacking, qos_of)
        if victims is None:
            names = ", ".join(f"(res: {s.resource}, q: {s.missing})" for s in lacking)
            return Rejection("UnexpectedAdmissionError", _NO_VICTIMS.format(names)), []
        return None, victims
