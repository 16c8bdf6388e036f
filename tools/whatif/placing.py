"""Places the pending pods of the tried cluster, as the scheduler would one after another."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from itertools import count
from random import Random

import msgspec

from berth.actors.scheduling.decision.outcome import Choice, Unfit
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.framework.post_filter import Nomination
from berth.actors.scheduling.framework.status import Code
from berth.actors.scheduling.kube.core import FINISHED

from ..explain.source import SourceError
from .documents import Document, Documents, Place

MOST_PREEMPTIONS = 8  # of a pod in a step
CONTROLLERS = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Job")
_OF_OURS = re.compile(r"-new-\d+$")


class Placed(msgspec.Struct, frozen=True):
    """A pod (namespace/name) that got a node in a step; step 0 is before all steps."""

    pod: str
    workload: str
    node: str
    step: int


class Evicted(msgspec.Struct, frozen=True):
    """A pod that left its node in a step, and its replacement, "" if its controller makes none."""

    pod: str
    node: str
    reason: str
    replacement: str
    step: int


class Placing:
    """The queue of the pending pods, and what has happened to pods. Ties are broken by `seed`."""

    def __init__(self, documents: Documents, seed: int) -> None:
        self._documents = documents
        self._rng = Random(seed)
        self._numbers = count()
        self._pending: dict[Place, int] = {}
        self._named: Counter[tuple[str, str]] = Counter()
        self._workloads: dict[Place, str] = {}
        self.placed: dict[Place, Placed] = {}
        self.evicted: list[Evicted] = []
        self.step = 0
        self.configured()
        waiting = [(p, d) for p, d in documents.every("Pod") if is_pending(d)]
        for place, _ in sorted(
            waiting, key=lambda pair: (pair[1]["metadata"].get("creationTimestamp") or "", pair[0])
        ):
            self._pending[place] = next(self._numbers)

    def configured(self) -> None:
        """Starts anew with the configuration of the documents, as a new scheduler does."""
        configuration = self._documents.configuration
        self._scheduler = Scheduler(self._rng, configuration.percentage_of_nodes_to_score or 0)

    @property
    def pending(self) -> list[Place]:
        return list(self._pending)

    def workload_of(self, place: Place) -> str:
        """Returns the workload of a pod, such as "deployment default/web"; the pod without one."""
        if place in self._workloads:
            return self._workloads[place]
        owner = controller_of(self._documents.at(place))
        return f"{owner['kind']} {place[1]}/{owner['name']}" if owner else f"{place[1]}/{place[2]}"

    def add(self, pod: Document, workload: str = "") -> Place:
        """Adds a pod, pending unless it has a node."""
        place = self._documents.put(pod)
        if workload:
            self._workloads[place] = workload
        if is_pending(pod):
            self._pending[place] = next(self._numbers)
        return place

    def delete(self, place: Place) -> None:
        self._documents.remove(place)
        self._pending.pop(place, None)
        self.placed.pop(place, None)

    def evict(self, place: Place, reason: str) -> None:
        """Takes a pod from its node. Its controller makes another one, if it has one."""
        pod = self._documents.at(place)
        workload = self.workload_of(place)
        named = place in self._workloads
        self.delete(place)
        replacement = ""
        owner = controller_of(pod)
        if owner is not None and owner["kind"] in CONTROLLERS:
            new = self._another(pod, owner["kind"])
            added = self.add(new, workload if named else "")
            replacement = f"{added[1]}/{added[2]}"
        name, node = f"{place[1]}/{place[2]}", pod["spec"].get("nodeName", "")
        self.evicted.append(Evicted(name, node, reason, replacement, self.step))

    def new_name(self, base: str, namespace: str) -> str:
        """Returns a name for a new pod, such as "web-new-1", that no pod has had."""
        while True:
            self._named[base, namespace] += 1
            name = f"{base}new-{self._named[base, namespace]}"
            if self._documents.document("Pod", name, namespace) is None:
                return name

    def _another(self, pod: Document, kind: str) -> Document:
        metadata, spec = dict(pod["metadata"]), dict(pod["spec"])
        spec.pop("nodeName", None)
        metadata.pop("deletionTimestamp", None)
        if kind != "StatefulSet":
            base = metadata.get("generateName") or f"{_OF_OURS.sub('', metadata['name'])}-"
            metadata["name"] = self.new_name(base, metadata["namespace"])
        metadata["uid"] = f"{metadata['namespace']}/{metadata['name']}/{next(self._numbers)}"
        return {**pod, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}

    # ----------------------------------------------------------------------------------- deciding

    def settle(self) -> None:
        """Tries the pending pods until no more can be placed."""
        preemptions: Counter[Place] = Counter()
        changed = True
        while changed:
            changed = False
            heap = [(self._turn(place, n), place) for place, n in self._pending.items()]
            heapq.heapify(heap)
            while heap:
                _, place = heapq.heappop(heap)
                before = len(self.evicted)
                nomination = self._try(place)
                changed = changed or place not in self._pending
                if nomination is None or preemptions[place] == MOST_PREEMPTIONS:
                    continue
                preemptions[place] += 1
                self._preempt(place, nomination)
                changed = changed or len(self.evicted) > before
                number = self._pending[place] = next(self._numbers)
                heapq.heappush(heap, (self._turn(place, number), place))

    def _turn(self, place: Place, number: int) -> tuple[int, int]:
        return -(self._documents.at(place)["spec"].get("priority") or 0), number

    def _try(self, place: Place) -> Nomination | None:
        """Places a pod if it fits. Returns the nomination if preemption helps instead."""
        pod = self._documents.at(place)
        if pod["spec"].get("schedulingGates") or pod["metadata"].get("deletionTimestamp"):
            return None
        try:
            attempt = self._documents.attempt(place)
        except SourceError:  # It belongs to another scheduler.
            return None
        info, profile = attempt.info, attempt.profile
        outcome = self._scheduler.schedule(profile, info, attempt.snapshot)
        if isinstance(outcome, Unfit):
            return outcome.nomination
        if isinstance(outcome, Choice) and profile.reserve(outcome.state, info, outcome.node).ok:
            status, _ = profile.permit(outcome.state, info, outcome.node)
            if not status.ok and status.code is not Code.WAIT:
                profile.unreserve(outcome.state, info, outcome.node)
                return None
            self._documents.put({**pod, "spec": {**pod["spec"], "nodeName": outcome.node}})
            del self._pending[place]
            workload = self.workload_of(place)
            self.placed[place] = Placed(info.key, workload, outcome.node, self.step)
        return None

    def _preempt(self, place: Place, nomination: Nomination) -> None:
        for victim in nomination.victims:
            namespace, _, name = victim.key.partition("/")
            self.evict(("Pod", namespace, name), f"preempted by {place[1]}/{place[2]}")
        for displaced in nomination.displaced:
            namespace, _, name = displaced.key.partition("/")
            self._documents.unnominate(("Pod", namespace, name))
        pod = self._documents.at(place)
        status = {**(pod.get("status") or {}), "nominatedNodeName": nomination.node}
        self._documents.put({**pod, "status": status})


def is_pending(pod: Document) -> bool:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    return not spec.get("nodeName") and status.get("phase") not in FINISHED


def controller_of(pod: Document) -> Document | None:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)
