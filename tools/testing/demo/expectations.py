"""What a demo waits for: pods that have not started, and workloads that lack pods.

A wait moves if something is due that can end it: a kubelet acts on a pod at a known time, or a job
creates a pod anew after a while. Once the cluster is still and no wait moves, none will end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from ...answers.explain.pinned_pods import claims_without_node, node_without_volume
from ...kubernetes.api.types.api_documents import key_of

Document = dict[str, Any]
# Kinds that are only looked up.
STORAGE = ("PersistentVolumeClaim", "StorageClass", "VolumeAttachment")
IsDue = Callable[[str], bool]  # whether the kubelet of a pod acts on it, by the pod's uid


class Wait(msgspec.Struct, frozen=True):
    """An event that has not happened yet, as a sentence. It `moves` if something that can end it is
    due.
    """

    text: str
    moves: bool


class Expectations:
    """The objects that tell what will happen to pods, each in its latest version."""

    def __init__(self) -> None:
        self._pods: dict[str, Document] = {}  # by uid
        self._storage: dict[str, Document] = {}  # by uid
        self._nodes: dict[str, None] = {}  # names
        self._short: dict[str, tuple[str, Document]] = {}  # workloads that lack pods, by uid

    def put(self, kind: str, document: Document) -> None:
        """Stores a new version of an object."""
        uid = document["metadata"]["uid"]
        match kind:
            case "Pod":
                self._pods[uid] = {**document, "kind": "Pod"}
            case "Node":
                self._nodes[document["metadata"]["name"]] = None
            case _ if kind in STORAGE:
                self._storage[uid] = {**document, "kind": kind}
            case "ResourceClaim":
                pass
            case _ if _lacks_pods(kind, document):
                self._short[uid] = kind, document
            case _:
                self._short.pop(uid, None)

    def remove(self, kind: str, document: Document) -> None:
        uid = document["metadata"]["uid"]
        if kind == "Node":
            self._nodes.pop(document["metadata"]["name"], None)
        for held in (self._pods, self._storage, self._short):
            held.pop(uid, None)

    @property
    def are_short(self) -> bool:
        """True if workloads lack pods."""
        return bool(self._short)

    def without_volume(self, undecided: Iterable[str]) -> int:
        """Returns how many of these pods cannot be bound, because nothing makes a volume for a
        claim.
        """
        pods = (self._pods[uid] for uid in undecided)
        return sum(
            not pod["spec"].get("nodeName") and bool(self._claim_without_volume(pod))
            for pod in pods
        )

    def without_node(self, undecided: Iterable[str]) -> int:
        """Returns how many of these pods are not bound."""
        return sum(not self._pods[uid]["spec"].get("nodeName") for uid in undecided)

    def waits(self, undecided: Iterable[str], is_due: IsDue) -> Iterator[Wait]:
        """Yields the pods and workloads that the demo waits for. `undecided` are the uids of pods
        that neither run nor are known not to fit.
        """
        for uid in undecided:
            pod = self._pods[uid]
            name, node = key_of(pod), pod["spec"].get("nodeName", "")
            yield Wait(f"pod {name} {self._state(pod, node)}", is_due(uid))
        for kind, document in self._short.values():
            yield self._workload_wait(kind, document, is_due)

    def _state(self, pod: Document, node: str) -> str:
        if not node:
            unmade = self._claim_without_volume(pod)
            return unmade or "has no node, and its scheduler has not said why"
        if node not in self._nodes:
            return f"is bound to {node}, which does not exist"
        late = claims_without_node(pod, [*self._storage.values(), *self._pods.values()])
        return late[0] if late else self._missing_claim(pod) or f"does not start on {node}"

    def _claim_without_volume(self, pod: Document) -> str:
        """Returns in words which claim gets no volume on its selected node, or ""."""
        for name, claim in self._claims_of(pod):
            chosen = "" if claim is None else node_without_volume(claim)
            if chosen:
                return (
                    f"is not bound to {chosen} before its claim {name} has a volume: none is made, "
                    "as the claim has a selector"
                )
        return ""

    def _missing_claim(self, pod: Document) -> str:
        """Returns in words which claim keeps a pod from starting; "" if all are bound."""
        for name, claim in self._claims_of(pod):
            if claim is None:
                return f"waits for its claim {name}, which does not exist"
            if _phase(claim) != "Bound":
                return f"waits for its claim {name}, which is not bound"
        return ""

    def _claims_of(self, pod: Document) -> Iterator[tuple[str, Document | None]]:
        """Yields the names of the claims that a pod's volumes name, with those that exist."""
        namespace = pod["metadata"]["namespace"]
        claims = {
            of["metadata"]["name"]: of
            for of in self._storage.values()
            if of["kind"] == "PersistentVolumeClaim" and of["metadata"]["namespace"] == namespace
        }
        for volume in pod["spec"].get("volumes") or ():
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if name:
                yield name, claims.get(name)

    def _workload_wait(self, kind: str, document: Document, is_due: IsDue) -> Wait:
        status, key = document.get("status") or {}, key_of(document)
        asked, there = _desired_pods(kind, document), _pods_of_status(kind, document)
        text = f"{kind} {key} has {there} of {asked} pods"
        if kind == "Job":
            ours = [uid for uid, pod in self._pods.items() if _is_owned(pod, document)]
            retries = bool(status.get("failed")) and not status.get("active")
            return Wait(text, retries or any(map(is_due, ours)))
        if kind == "StatefulSet":
            pods = {key_of(pod): uid for uid, pod in self._pods.items() if _is_owned(pod, document)}
            first = (document["spec"].get("ordinals") or {}).get("start", 0)
            for ordinal in range(first, first + asked):
                name = f"{key}-{ordinal}"
                if name not in pods or not _is_ready(self._pods[pods[name]]):
                    moves = name in pods and is_due(pods[name])
                    waits = f": the next is created once {name} is ready" if name in pods else ""
                    return Wait(f"{text}{waits}", moves)
        why = next((c["message"] for c in status.get("conditions") or () if _is_failure(c)), "")
        return Wait(f"{text}: {why}" if why else text, moves=False)


def _lacks_pods(kind: str, document: Document) -> bool:
    """True if a workload that nobody owns has fewer pods than it asks for, or its controller has
    not seen it yet.
    """
    if document["metadata"].get("ownerReferences"):
        return False
    if kind == "Job":
        conditions = (document.get("status") or {}).get("conditions") or ()
        over = any(c["status"] == "True" for c in conditions)
        return not over and _pods_of_status(kind, document) < _desired_pods(kind, document)
    observed = (document.get("status") or {}).get("observedGeneration", 0)
    is_seen = observed >= document["metadata"].get("generation", 1)
    return not is_seen or _pods_of_status(kind, document) < _desired_pods(kind, document)


def _desired_pods(kind: str, document: Document) -> int:
    spec, status = document.get("spec") or {}, document.get("status") or {}
    match kind:
        case "DaemonSet":
            number = status.get("desiredNumberScheduled", 0)
        case "Job":
            number = spec.get("completions") or 0
        case _:
            number = spec.get("replicas", 1)
    return int(number)


def _pods_of_status(kind: str, document: Document) -> int:
    status = document.get("status") or {}
    match kind:
        case "DaemonSet":
            number = status.get("currentNumberScheduled", 0)
        case "Job":
            number = status.get("succeeded", 0) + status.get("active", 0)
        case _:
            number = status.get("replicas", 0)
    return int(number)


def _phase(claim: Document) -> str:
    return str((claim.get("status") or {}).get("phase", "Pending"))


def _is_owned(pod: Document, owner: Document) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(of["uid"] == owner["metadata"]["uid"] for of in owners)


def _is_ready(pod: Document) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _is_failure(condition: Document) -> bool:
    kinds = ("ReplicaFailure", "FailedCreate")
    return condition["type"] in kinds and condition["status"] == "True"
