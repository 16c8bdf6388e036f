"""What must hold in every cluster, read from its writes: what no scheduler may do, whatever fails.

bound twice       a pod is bound once at most
overcommitted     no pod is bound to a node that has not the room for it
device twice      no device is allocated to two claims, unless it may be shared
volume twice      no volume is bound to two claims, and no two pods use what only one may
budget broken     no pod is evicted without the permission of its budget
without lease     a scheduler writes only while the lease names it
forgotten         a pod that fits on a node is bound within a minute once nothing fails any more,
                  and one for which preemption makes room is nominated
nomination kept   a pod is nominated only while it is pending, and to a node that may yet take it
memory kept       a scheduler knows of nothing once everything is deleted

One more is known from the clock, not from writes: time stands still while something runs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from berth.actors.leader.locks import ANNOTATION
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.quantity import milli_value, value
from berth.actors.scheduling.kube.reading import Reader
from berth.actors.scheduling.kube.requests import pod_requests

from ...kubernetes.api.store import Store, StoreEvent
from ...kubernetes.api.types.resources import BY_KIND, Kind
from ..decisions import decide_stored
from .budgets_kept import BudgetsKept
from .held_once import HeldOnce

Document = dict[str, Any]
PODS, NODES = BY_KIND["v1", "Pod"], BY_KIND["v1", "Node"]
# The objects of locks, and what the names of their kinds of lock contain.
LOCKS = {
    BY_KIND["coordination.k8s.io/v1", "Lease"]: "leases",
    BY_KIND["v1", "Endpoints"]: "endpoints",
    BY_KIND["v1", "ConfigMap"]: "configmaps",
}
# For so long a scheduler may not have seen what the one before it bound: its watch may be late.
TAKEOVER_SECONDS = 60.0
FINISHED = ("Succeeded", "Failed")
# Whoever may not preempt keeps its nomination; what ends that reason wakes no pod.
NOT_ELIGIBLE = "preemption: not eligible"
# Kinds that a decision depends on, beside the pod.
AROUND = tuple(
    kind
    for kind in map(BY_KIND.get, (
        ("v1", "Namespace"), ("v1", "Node"), ("v1", "Pod"), ("v1", "PersistentVolume"),
        ("v1", "PersistentVolumeClaim"), ("v1", "Service"), ("storage.k8s.io/v1", "StorageClass"),
        ("storage.k8s.io/v1", "CSINode"), ("storage.k8s.io/v1", "CSIDriver"),
        ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("v1", "ReplicationController"),
        ("policy/v1", "PodDisruptionBudget"), ("resource.k8s.io/v1", "ResourceClaim"),
        ("resource.k8s.io/v1", "ResourceSlice"), ("resource.k8s.io/v1", "DeviceClass"),
    ))
    if kind is not None
)  # fmt: skip


class Violation(NamedTuple):
    """A property that does not hold, at a second of the story."""

    at: float
    property: str
    text: str


class Properties:
    """Watches the writes of a cluster. `found` has the violations, oldest first."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._reader = Reader(Pod)
        self._nodes: dict[str, Document] = {}
        self._held: dict[str, tuple[str, Mapping[str, int]]] = {}  # by uid: the node, the requests
        self._used: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._bindings: Counter[str] = Counter()
        self._foreign: set[str] = set()  # nodes that somebody else bound a pod to
        self._writer = ""  # the host of the scheduler that writes
        self._bound_by: dict[str, tuple[str, float]] = {}  # by node: who bound to it last, and when
        self._holders = dict.fromkeys(LOCKS.values(), "")
        self.found: list[Violation] = []
        self._more = HeldOnce(self._report, self._vouches), BudgetsKept(self._report)

    def note(self, kind: Kind, event: StoreEvent) -> None:
        """Takes a write into account, as an observer of a Cluster."""
        if kind is PODS:
            self._note_pod(event)
        elif kind is NODES and not event.is_heartbeat:
            name = event.after.document["metadata"]["name"]
            if event.type == "DELETED":
                self._nodes.pop(name, None)
            else:
                self._nodes[name] = event.after.document
        elif kind in LOCKS and event.after.document["metadata"]["name"] == "kube-scheduler":
            document = {} if event.type == "DELETED" else event.after.document
            self._holders[LOCKS[kind]] = _holder(document)
        for held in self._more:
            held.note(kind, event)

    def binds_elsewhere(self, node: str) -> None:
        """A binding to this node is not the scheduler's: another one makes it, or it arrives after
        the scheduler has given it up. Nobody can vouch for the node any more.
        """
        self._foreign.add(node)

    def _vouches(self, node: str) -> bool:
        return node in self._nodes and node not in self._foreign

    def writes(self, host: str, lock: str) -> None:
        """A scheduler on a host writes, which must hold all that its kind of lock names."""
        self._writer = host
        for held, holder in self._holders.items():
            if held in lock and not holder.startswith(f"{host}_"):
                self._report(
                    "without lease", f"{host} writes while {held} name {holder or 'nobody'}"
                )

    def _note_pod(self, event: StoreEvent) -> None:
        document = event.after.document
        uid = document["metadata"]["uid"]
        node = document["spec"].get("nodeName") or ""
        before = (event.before.document["spec"].get("nodeName") or "") if event.before else ""
        phase = (document.get("status") or {}).get("phase")
        if event.type == "DELETED" or phase in FINISHED:
            self._release(uid)
            return
        if not node:
            return
        if node != before:
            self._bindings[uid] += 1
            name = document["metadata"]["name"]
            if self._bindings[uid] > 1:
                self._report("bound twice", f"{name} to {before or 'a node'} and to {node}")
            nominated = (document.get("status") or {}).get("nominatedNodeName") or node
            if nominated != node and event.before is not None:
                self._report("nomination kept", f"{name} to {nominated}, bound to {node}")
            self._release(uid)
            self._hold(uid, node, document)
            if event.before is not None:  # a scheduler bound it; it was not created so
                self._check_room(name, node)
                self._bound_by[node] = self._writer, self._now()

    def _hold(self, uid: str, node: str, document: Document) -> None:
        requests = {**pod_requests(self._reader.convert(document)), "pods": 1}
        self._held[uid] = node, requests
        self._used[node].update(requests)

    def _release(self, uid: str) -> None:
        held = self._held.pop(uid, None)
        if held is not None:
            self._used[held[0]].subtract(held[1])

    def _check_room(self, name: str, node: str) -> None:
        document = self._nodes.get(node, {})
        other, at = self._bound_by.get(node, (self._writer, 0.0))
        was_taken_over = other != self._writer and self._now() - at < TAKEOVER_SECONDS
        if was_taken_over or not self._vouches(node):
            return
        room = (document.get("status") or {}).get("allocatable") or {}
        for resource, used in self._used[node].items():
            read = milli_value if resource == "cpu" else value
            if used > read(str(room.get(resource, "0"))):
                amounts = f"{used} {resource} of {room.get(resource, 0)}"
                self._report("overcommitted", f"{name} on {node}: {amounts}")

    def check_end(self, store: Store, config: Document, version: str) -> None:
        """Checks at the end, a while after the last fault, that no pod is forgotten."""
        around = [each.document for kind in AROUND for each in store.list(kind)]
        for stored in list(store.list(PODS)):
            pod = stored.document
            metadata, spec = pod["metadata"], pod["spec"]
            if (
                spec.get("nodeName")
                or "deletionTimestamp" in metadata
                or spec.get("schedulingGates")
                or (pod.get("status") or {}).get("phase") in FINISHED
            ):
                continue
            others = [each for each in around if each["metadata"].get("uid") != metadata["uid"]]
            decision = decide_stored(pod, others, config, version)
            place = f"{metadata['namespace']}/{metadata['name']}"
            nominated = (pod.get("status") or {}).get("nominatedNodeName")
            if decision.node:
                self._report("forgotten", f"{place} fits on {decision.node}")
            elif decision.nominated and not nominated:
                text = f"{place} fits on {decision.nominated} without {', '.join(decision.victims)}"
                self._report("forgotten", text)
            elif (
                nominated
                and not decision.nominated
                and NOT_ELIGIBLE not in _last_message(pod)
                and not self._is_emptying(store, nominated)
            ):
                self._report("nomination kept", f"{place} to {nominated}, where it does not fit")

    def _is_emptying(self, store: Store, node: str) -> bool:
        """True if a pod on the node is being deleted."""
        return any(
            "deletionTimestamp" in stored.document["metadata"]
            for stored in store.list(PODS)
            if stored.document["spec"].get("nodeName") == node
        )

    def check_memory(self, host: str, held: Mapping[str, float]) -> None:
        """Checks what a scheduler still holds once there is nothing left."""
        for what, number in held.items():
            if number:
                self._report("memory kept", f"{host}: {what} is {number:g}")

    def _report(self, name: str, text: str) -> None:
        self.found.append(Violation(round(self._now(), 3), name, text))


def _last_message(pod: Document) -> str:
    """Returns why the last attempt did not place the pod."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    messages = (each.get("message") for each in conditions if each["type"] == "PodScheduled")
    return next(messages, None) or ""


def _holder(document: Document) -> str:
    """Returns who holds a lock: a Lease, or the record in an annotation."""
    annotations = document.get("metadata", {}).get("annotations") or {}
    record = msgspec.json.decode(annotations.get(ANNOTATION) or "{}")
    return str((document.get("spec") or record).get("holderIdentity") or "")
