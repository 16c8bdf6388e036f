"""Places the pending pods of the tried cluster, as the scheduler would one after another."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from itertools import count
from math import inf
from random import Random
from time import monotonic

import msgspec

from berth.actors.scheduling.decision.outcome import Choice, Unfit
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.framework.cycle_state import CycleState
from berth.actors.scheduling.framework.post_filter import Nomination
from berth.actors.scheduling.kube.devices import InFlightAllocation
from berth.actors.scheduling.model.pod_info import PodInfo

from ...kubernetes.api.types.api_documents import Place, controller_in, place_of
from ...kubernetes.workloads.daemon_set import spec_for_node
from ..explain.cause import Cause
from ..explain.cluster_source import SourceError
from ..explain.on_node import reserve_and_permit
from ..explain.pod_claims import lacks_claims
from ..explain.reasons.cause_search import cause_of
from . import claim_changes, memory
from .hopeless_pods import RejectedPods
from .node_usage import NodeChange, unchanged
from .tried_documents import RUNNING, Document, Documents, Settled, is_pending

MOST_PREEMPTIONS = 8  # of a pod in a step
MOST_REJECTIONS = 2  # after which a pod that waited in Permit is tried again
BETWEEN = 256  # checks of the time, of which one is of the memory too
MOST_CREATED = 100_000  # nodes and pods of a question
CONTROLLERS = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Job")
OF_NODES = ("DaemonSet", "Node")  # controllers of pods that a node has, or has no more
_CLAIMS = "resourceClaimStatuses"
_OF_OURS = re.compile(r"-new-\d+$")


class Placed(msgspec.Struct, frozen=True, rename="camel"):
    """A pod (namespace/name) that got a node in a step; step 0 is before all steps.

    It is not bound before the Permit plugins `waits_for` permit it. `untried` are those who have a
    say after that, such as "PreBind of Labels".
    """

    pod: str
    workload: str
    node: str
    step: int
    waits_for: list[str] = []
    untried: list[str] = []


class Evicted(msgspec.Struct, frozen=True):
    """A pod that left its node in a step, and its replacement; "" if its controller makes no
    replacement. The replacement has gone `to` a node in the end; "" if it has none. `cause` is the
    reason for programs.
    """

    pod: str
    node: str
    reason: str
    replacement: str
    step: int
    cause: Cause
    to: str = ""


class Lost(msgspec.Struct, frozen=True):
    """A pod (namespace/name) that left its node in a step, and that nothing makes anew. `cause` is
    the reason why it left, for programs.
    """

    pod: str
    node: str
    reason: str
    step: int
    cause: Cause


class Deleted(msgspec.Struct, frozen=True):
    """A pod that was deleted in a step, by the step itself or by a controller that scales down.

    `node` is "" if it was pending.
    """

    pod: str
    workload: str
    node: str
    step: int


class Refused(msgspec.Struct, frozen=True):
    """A workload that gets no pods since a step, as admission refuses them for a reason; step 0 is
    before all steps.
    """

    workload: str
    reason: str
    step: int


class TooLongError(Exception):
    """A question takes longer than permitted."""


class Placing:
    """The queue of the pending pods, and a record of the changes of pods.

    Ties are broken by `seed`. After `until`, a time of time.monotonic, any change raises
    TooLongError.
    """

    def __init__(self, documents: Documents, seed: int, until: float = inf) -> None:
        self._documents = documents
        self._until = until
        self._reserved: list[tuple[Profile, CycleState, PodInfo, str]] = []
        self.rejected = RejectedPods(documents)
        self._created = 0
        self._checks = 0
        self._in_flight: dict[Place, list[InFlightAllocation]] = {}
        self._seed = seed
        self._rng = Random(seed)
        self._numbers = count()
        self._late: list[tuple[Document, str]] = []  # pods that controllers create after others
        self._pending: dict[Place, int] = {}
        self._in_permit: dict[Place, tuple[PodInfo, Document]] = {}  # and the pod before that
        self._rejections: Counter[Place] = Counter()
        self._named: Counter[tuple[str, str]] = Counter()
        self._workloads: dict[Place, str] = {}
        self._waited: set[Place] = set()
        self.placed: dict[Place, Placed] = {}
        self.evicted: list[Evicted] = []
        self.lost: list[Lost] = []
        self.deleted: list[Deleted] = []
        self.refused: dict[str, Refused] = {}  # by workload
        self.step = 0
        self.configured()
        for place, _ in sorted(
            documents.pending(),
            key=lambda pair: (pair[1]["metadata"].get("creationTimestamp") or "", pair[0]),
        ):
            self._pending[place] = next(self._numbers)

    def configured(self) -> None:
        """Starts anew with the configuration of the documents, as a new scheduler does."""
        configuration = self._documents.configuration
        self._scheduler = Scheduler(self._rng, configuration.percentage_of_nodes_to_score or 0)

    def check(self) -> None:
        """Raises TooLongError if the question has used up its time, MemoryError if it has used up
        its memory.
        """
        if monotonic() > self._until:
            raise TooLongError
        self._checks += 1
        if self._checks % BETWEEN == 0:
            memory.check_memory()

    def create(self, number: int, what: str) -> None:
        """Checks the number of new nodes or pods before they are created. Raises SourceError if
        there are too many.
        """
        self._created += number
        if self._created > MOST_CREATED:
            most = f"at most {MOST_CREATED} new nodes and pods"
            raise SourceError(f"{number} {what}: expected {most} in all steps together")

    def unreserve(self) -> None:
        """Undoes the reservations of plugins for the pods that were placed."""
        for profile, state, info, node in reversed(self._reserved):
            profile.unreserve(state, info, node)
        for info, _ in self._in_permit.values():
            self._documents.waiting.forget(info.uid)

    @property
    def pending(self) -> list[Place]:
        return list(self._pending)

    def waited(self, place: Place) -> bool:
        """True if a pod was pending before the steps, or replaces such a pod."""
        return place in self._waited

    def workload_of(self, place: Place) -> str:
        """Returns the workload of a pod, such as "deployment default/web"; without a workload, the
        pod itself.
        """
        if place in self._workloads:
            return self._workloads[place]
        owner = controller_in(self._documents.at(place))
        return f"{owner['kind']} {place[1]}/{owner['name']}" if owner else f"{place[1]}/{place[2]}"

    def add(self, pod: Document, workload: str = "") -> Place:
        """Adds a pod, pending unless it has a node."""
        self.check()
        place = self._documents.put(pod)
        if workload:
            self._workloads[place] = workload
        if is_pending(pod):
            self._pending[place] = next(self._numbers)
        return place

    def refuse(self, workload: str, reason: str) -> None:
        """Notes that a workload gets no pods."""
        self.refused.setdefault(workload, Refused(workload, reason, self.step))

    def delete(self, place: Place) -> None:
        """Deletes a pod that nothing replaces."""
        node = self._documents.at(place)["spec"].get("nodeName", "")
        workload = self.workload_of(place)
        self.deleted.append(Deleted(f"{place[1]}/{place[2]}", workload, node, self.step))
        self._remove(place)

    def _remove(self, place: Place) -> None:
        if place in self._in_permit:
            info, _ = self._in_permit.pop(place)
            self._documents.waiting.forget(info.uid)
            self._undo_reservations(info.uid)
        claim_changes.release(self._documents, self._documents.remove(place))
        for allocation in self._in_flight.pop(place, ()):
            self._documents.restore(allocation)
        self._pending.pop(place, None)
        self.rejected.forget(place)
        self.placed.pop(place, None)

    def evict(self, place: Place, reason: str, *, node_stays: bool = False) -> None:
        """Removes a pod from its node. Its controller makes another pod; a DaemonSet does so only
        if the node stays as it is.
        """
        pod = self._documents.at(place)
        workload = self.workload_of(place)
        named = place in self._workloads
        waited = place in self._waited
        self._remove(place)
        replacement, cause = "", cause_of("", reason)
        owner = controller_in(pod)
        kind = owner["kind"] if owner else ""
        name, node = f"{place[1]}/{place[2]}", pod["spec"].get("nodeName", "")
        if kind in CONTROLLERS or (kind == "DaemonSet" and node_stays):
            new = self._copied_pod(pod, kind)
            if waited:
                self._waited.add(place_of(new))
            if kind == "Job":
                self._late.append((new, workload if named else ""))
            else:
                self.add(new, workload if named else "")
            replacement = f"{new['metadata']['namespace']}/{new['metadata']['name']}"
        elif kind not in OF_NODES and not pod["metadata"].get("deletionTimestamp"):
            self.lost.append(Lost(name, node, _reason_for_loss(owner, reason), self.step, cause))
        self.evicted.append(Evicted(name, node, reason, replacement, self.step, cause))

    def new_name(self, base: str, namespace: str) -> str:
        """Returns a name for a new pod, such as "web-new-1", that no pod has had."""
        while True:
            self._named[base, namespace] += 1
            name = f"{base}new-{self._named[base, namespace]}"
            if self._documents.document("Pod", name, namespace) is None:
                return name

    def _copied_pod(self, pod: Document, kind: str) -> Document:
        metadata, spec = dict(pod["metadata"]), dict(pod["spec"])
        node = spec.pop("nodeName", "")
        spec = spec_for_node(spec, node) if kind == "DaemonSet" and node else spec
        named = self._documents.document("PriorityClass", spec.get("priorityClassName", ""))
        spec |= {} if named is None else {"priority": named["value"]}
        metadata.pop("deletionTimestamp", None)
        if kind != "StatefulSet":
            base = metadata.get("generateName") or f"{_OF_OURS.sub('', metadata['name'])}-"
            metadata["name"] = self.new_name(base, metadata["namespace"])
        metadata["uid"] = f"{metadata['namespace']}/{metadata['name']}/{next(self._numbers)}"
        return {**pod, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}

    # ----------------------------------------------------------------------------------- deciding

    def settle_first(self) -> dict[str, NodeChange]:
        """Tries the pending pods before all steps, unless it is certain that none of them fits.
        Returns the nodes after that.
        """
        documents, settled = self._documents, self._documents.settled
        identity = documents.version, self._seed
        if settled is not None and (settled.version, settled.seed) == identity:
            self._rng.setstate(settled.chance)
            self.rejected = RejectedPods(documents, settled.rejected)
            self._waited = set(self._pending)
            return settled.nodes
        self.settle()
        self._waited = set(self._pending)
        nodes = unchanged(documents.snapshot())
        if not self.placed and not self.evicted:
            rejected = dict(self.rejected.by_place)
            documents.settled = Settled(*identity, self._rng.getstate(), nodes, rejected)
        return nodes

    def settle(self) -> None:
        """Tries the pending pods until no more can be placed.

        The controller of Jobs replaces pods a second after the other controllers, when the other
        pods have been tried.
        """
        self._settle()
        while self._late:
            late, self._late = self._late, []
            for pod, workload in late:
                self.add(pod, workload)
            self._settle()

    def _settle(self) -> None:
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
            changed = self._end_waits() or changed

    def _end_waits(self) -> bool:
        """Continues with the pods that Permit plugins now allow or reject. Returns True if one is
        pending again.
        """
        rejected = False
        for place, (info, pod) in list(self._in_permit.items()):
            verdict = self._documents.waiting.take(info.uid)
            if verdict is None:
                continue
            if verdict.ok:
                del self._in_permit[place]
                self.placed[place] = msgspec.structs.replace(self.placed[place], waits_for=[])
                continue
            rejected = True
            self._rejections[place] += 1
            workload = self._workloads.get(place, "")
            self._remove(place)
            self.add(pod, workload)
        return rejected

    def _undo_reservations(self, uid: str) -> None:
        """Undoes the reservations of plugins for one pod."""
        for number, (profile, state, info, node) in enumerate(self._reserved):
            if info.uid == uid:
                profile.unreserve(state, info, node)
                del self._reserved[number]
                return

    def _turn(self, place: Place, number: int) -> tuple[int, int]:
        return -(self._documents.at(place)["spec"].get("priority") or 0), number

    def _try(self, place: Place) -> Nomination | None:
        """Places a pod if it fits. Returns the nomination if preemption helps instead."""
        self.check()
        if self.rejected.is_hopeless(place) or self._rejections[place] > MOST_REJECTIONS:
            return None
        pod = self._documents.at(place)
        if pod["spec"].get("schedulingGates") or pod["metadata"].get("deletionTimestamp"):
            return None
        if lacks_claims(pod):
            claim_changes.create(self._documents, place)
            pod = self._documents.at(place)
        try:
            attempt = self._documents.attempt(place)
        except SourceError:  # It belongs to another scheduler.
            return None
        if attempt.held or self._documents.unmade(place):
            return None
        info, profile = attempt.info, attempt.profile
        outcome = self._scheduler.schedule(profile, info, attempt.snapshot)
        self.rejected.note(place, info, profile, outcome)
        if isinstance(outcome, Unfit):
            return outcome.nomination
        if isinstance(outcome, Choice):
            there = reserve_and_permit(attempt, outcome)
            if there.rejected:
                return None
            self._reserved.append((profile, outcome.state, info, outcome.node))
            spec = {**pod["spec"], "nodeName": outcome.node}
            if in_flight := claim_changes.allocate(self._documents, pod, outcome.state):
                self._in_flight[place] = in_flight
            claims = {k: v for k, v in (pod.get("status") or {}).items() if k == _CLAIMS}
            self._documents.put({**pod, "spec": spec, "status": {**RUNNING, **claims}})
            del self._pending[place]
            if there.waits_for:
                seconds = dict.fromkeys(there.waits_for, inf)
                self._documents.waiting.wait(info, outcome.node, seconds, 0.0)
                self._in_permit[place] = info, pod
            workload = self.workload_of(place)
            self.placed[place] = Placed(
                info.key, workload, outcome.node, self.step, there.waits_for, there.untried
            )
        return None

    def _preempt(self, place: Place, nomination: Nomination) -> None:
        for victim in nomination.victims:
            namespace, _, name = victim.key.partition("/")
            self.evict(
                ("Pod", namespace, name), f"preempted by {place[1]}/{place[2]}", node_stays=True
            )
        for displaced in nomination.displaced:
            namespace, _, name = displaced.key.partition("/")
            self._documents.unnominate(("Pod", namespace, name))
        pod = self._documents.at(place)
        status = {**(pod.get("status") or {}), "nominatedNodeName": nomination.node}
        self._documents.put({**pod, "status": status})


def _reason_for_loss(owner: Document | None, reason: str) -> str:
    """Returns why no controller makes another pod for one that has left its node."""
    if owner is not None:
        controller = f"{owner['kind']} {owner['name']}"
        return f"{reason}, and nobody here knows whether its controller {controller} replaces it"
    refused = ": kubectl refuses that without --force" if " is drained" in reason else ""
    return f"{reason}, and no controller makes another one{refused}"
