"""The pods of a demo's cluster and their nodes, as the demo shows them. The cost of a change does
not grow with the cluster.

Objects go in one by one, as a watch tells of them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice
from typing import Any

import msgspec

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.meta import key
from berth.actors.scheduling.kube.quantity import milli_value
from berth.actors.scheduling.kube.reading import Reader

from ...kubernetes.api.types.api_documents import key_of
from ...kubernetes.devices.device_claims import device_claims

Document = dict[str, Any]
DEFAULT_SCHEDULER = "default-scheduler"
ZONE = "topology.kubernetes.io/zone"
# The message of a pod that waits for the drivers of its devices.
NEGOTIATES = "waiting for resource driver"
RATE_SECONDS = 2.0  # the time over which a rate is measured
FULLEST = 3
_RESOURCES = ("cpu", "memory")
# The workloads that say how many pods they will have. A ReplicaSet of a Deployment counts once.
_REPLICATED = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
_FAILED = "Failed"
_FINISHED = ("Succeeded", _FAILED)
_CONTAINERS = ("initContainerStatuses", "containerStatuses")
_POD = Reader(Pod)


class Row(msgspec.Struct, frozen=True):
    """A pod. `sentence` says in the words of `berth explain` why it is pending, `message` in those
    of Kubernetes why it is pending or failed.
    """

    namespace: str
    name: str
    node: str
    phase: str
    message: str
    sentence: str = ""

    @property
    def why(self) -> str:
        return self.sentence or self.message

    @property
    def is_decided(self) -> bool:
        """True if the pod runs, or is known not to fit."""
        if self.phase != "Pending":
            return True
        return bool(self.message) and not self.node and NEGOTIATES not in self.message


class NodeUse(msgspec.Struct, frozen=True):
    """The pods of a node, and the share of its resources that they request, in percent."""

    name: str
    pods: int
    percent: dict[str, float]


class Summary(msgspec.Struct, frozen=True):
    """How a demo ended. `seconds` is the time from the start of the cluster to the last decision,
    `percent` the share of all nodes' resources that the pods request, `missing` what has not
    happened: sentences about workloads that lack pods, and pods that have a node and do not start.
    A pod that failed is neither placed nor pending.
    """

    pods: list[Row]
    placed: int
    pending: int
    seconds: float
    zones: dict[str, int]
    fullest: list[NodeUse]
    percent: dict[str, float]
    missing: list[str] = []
    failed: int = 0


class Placements:
    """The pods, nodes, claims and workloads of a cluster. `now` is in seconds since its start."""

    def __init__(self, schedulers: Collection[str] = (DEFAULT_SCHEDULER,)) -> None:
        self._schedulers = schedulers
        self.nodes: dict[str, Document] = {}  # by name
        self.pods_on: Counter[str] = Counter()
        self.changed = 0.0  # when a row changed last
        self._rows: dict[str, Row] = {}  # by uid
        self._unplaced: dict[str, None] = {}  # uids
        self._failed: dict[str, None] = {}  # uids
        self._undecided: set[str] = set()
        self._requests: dict[str, tuple[str, Counter[str]]] = {}  # node and amounts, by uid
        self._used: dict[str, Counter[str]] = {}  # by node
        self._with_claims: dict[str, Document] = {}  # pods by uid
        self._claims: set[str] = set()
        self._replicas: dict[str, int] = {}  # of workloads by uid
        self._unexpected: set[str] = set()  # pods of which no workload says how many there are
        self._unexpanded: set[str] = set()  # workloads that controllers have not acted on
        self._history: deque[tuple[float, int]] = deque()

    def __len__(self) -> int:
        """Returns the number of pods."""
        return len(self._rows)

    @property
    def placed(self) -> int:
        return len(self._rows) - len(self._unplaced) - len(self._failed)

    @property
    def failed(self) -> int:
        return len(self._failed)

    @property
    def unschedulable(self) -> int:
        return sum(uid not in self._undecided for uid in self._unplaced)

    @property
    def undecided(self) -> Collection[str]:
        """The uids of the pods that neither run nor are known not to fit."""
        return self._undecided

    @property
    def total(self) -> int:
        """The expected number of pods, as far as workloads state it."""
        return max(len(self._rows), len(self._unexpected) + sum(self._replicas.values()))

    @property
    def is_decided(self) -> bool:
        """True once every pod is placed or known not to fit, and workloads have all their pods."""
        return not self._undecided and not self._unexpanded

    def rows(self) -> Iterator[Row]:
        """Yields the pods; pending ones come first, then those that failed."""
        others = self._unplaced | self._failed
        placed = (row for uid, row in self._rows.items() if uid not in others)
        return chain((self._rows[uid] for uid in others), placed)

    def rate(self, now: float) -> float:
        """Returns how many pods per second were placed lately."""
        while len(self._history) > 1 and self._history[0][0] < now - RATE_SECONDS:
            self._history.popleft()
        self._history.append((now, self.placed))
        since, before = self._history[0]
        return (self.placed - before) / (now - since) if now > since else 0.0

    def put(self, kind: str, document: Document, now: float) -> None:
        """Stores a new version of an object."""
        metadata = document["metadata"]
        match kind:
            case "Node":
                self.nodes[metadata["name"]] = document
            case "Pod":
                self._put_pod(metadata["uid"], document, now)
            case "ResourceClaim":
                self._claims.add(key_of(document))
                self._read_lacking(now)
            case _:
                self._put_workload(kind, document)

    def remove(self, kind: str, document: Document, now: float) -> None:
        metadata = document["metadata"]
        uid = metadata["uid"]
        match kind:
            case "Node":
                self.nodes.pop(metadata["name"], None)
            case "Pod":
                self._release_requests(uid)
                self._with_claims.pop(uid, None)
                self._unplaced.pop(uid, None)
                self._failed.pop(uid, None)
                self._undecided.discard(uid)
                self._unexpected.discard(uid)
                if self._rows.pop(uid, None) is not None:
                    self.changed = now
            case "ResourceClaim":
                self._claims.discard(key_of(document))
                self._read_lacking(now)
            case _:
                self._replicas.pop(uid, None)
                self._unexpanded.discard(uid)

    def _put_pod(self, uid: str, pod: Document, now: float) -> None:
        if pod["spec"].get("resourceClaims"):
            self._with_claims[uid] = pod
        row = _row(pod, self._claims, self._schedulers)
        if row == self._rows.get(uid):
            return
        self.changed = now
        self._rows[uid] = row
        failed = row.phase == _FAILED
        _set_membership(self._failed, uid, has=failed)
        _set_membership(self._unplaced, uid, has=not (row.node or failed))
        (self._undecided.discard if row.is_decided else self._undecided.add)(uid)
        owners = pod["metadata"].get("ownerReferences") or ()
        if not any(owner["kind"] in _REPLICATED for owner in owners):
            self._unexpected.add(uid)
        if row.phase in _FINISHED:
            self._release_requests(uid)
        elif row.node and uid not in self._requests:
            self._use(uid, row.node, pod)

    def _use(self, uid: str, node: str, pod: Document) -> None:
        amounts: Counter[str] = Counter()
        for container in pod["spec"]["containers"]:
            requests = (container.get("resources") or {}).get("requests") or {}
            for resource in _RESOURCES:
                amounts[resource] += milli_value(str(requests.get(resource, "0")))
        self._requests[uid] = node, amounts
        self._used.setdefault(node, Counter()).update(amounts)
        self.pods_on[node] += 1

    def _release_requests(self, uid: str) -> None:
        node, amounts = self._requests.pop(uid, ("", Counter()))
        if node:
            self._used[node].subtract(amounts)
            self.pods_on[node] -= 1

    def _read_lacking(self, now: float) -> None:
        """Reads the pods with claims again, after a change of claims."""
        for uid, pod in self._with_claims.items():
            if not pod["spec"].get("nodeName"):
                self._put_pod(uid, pod, now)

    def _put_workload(self, kind: str, document: Document) -> None:
        metadata = document["metadata"]
        uid = metadata["uid"]
        if kind in _REPLICATED and not metadata.get("ownerReferences"):
            self._replicas[uid] = document["spec"].get("replicas", 1)
        expanded = _is_expanded(kind, document)
        (self._unexpanded.discard if expanded else self._unexpanded.add)(uid)

    def summary(self, missing: Iterable[str] = ()) -> Summary:
        zones: Counter[str] = Counter()
        for name, count in self.pods_on.items():
            zone = self.zone_of(name)
            if zone and count:
                zones[zone] += count
        names = sorted(
            self.nodes, key=lambda name: (-max(self._requested_percent(name).values()), name)
        )
        fullest = [
            NodeUse(name, self.pods_on[name], self._requested_percent(name))
            for name in islice(names, FULLEST)
            if self.pods_on[name]
        ]
        whole: Counter[str] = Counter()
        for amounts in self._used.values():
            whole.update(amounts)
        capacity = {r: sum(_allocatable(n, r) for n in self.nodes.values()) for r in _RESOURCES}
        percent = {r: _percent(whole[r], capacity[r]) for r in _RESOURCES}
        rows, pending = list(self.rows()), len(self._unplaced)
        return Summary(
            rows,
            self.placed,
            pending,
            self.changed,
            dict(sorted(zones.items())),
            fullest,
            percent,
            list(missing),
            self.failed,
        )

    def zone_of(self, node: str) -> str:
        metadata = self.nodes.get(node, {}).get("metadata") or {}
        zone: str = (metadata.get("labels") or {}).get(ZONE, "")
        return zone

    def _requested_percent(self, name: str) -> dict[str, float]:
        used, node = self._used.get(name, Counter[str]()), self.nodes[name]
        return {r: _percent(used[r], _allocatable(node, r)) for r in _RESOURCES}


def _set_membership(uids: dict[str, None], uid: str, *, has: bool) -> None:
    """Adds a uid, or removes it. A uid that is already there keeps its position."""
    if has:
        uids.setdefault(uid)
    else:
        uids.pop(uid, None)


def _allocatable(node: Document, resource: str) -> int:
    amounts = (node.get("status") or {}).get("allocatable") or {}
    return milli_value(str(amounts.get(resource, "0")))


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0


def _row(pod: Document, claims: set[str], schedulers: Collection[str]) -> Row:
    """Returns a pod as a row, with a message that says why it is pending or failed.

    `claims` are the ResourceClaims that exist. The scheduler does not try a pod if one of its
    claims is missing, and writes nothing about it, nor about pods of other schedulers.
    """
    node = pod["spec"].get("nodeName", "")
    why = ""
    if pod["status"]["phase"] == _FAILED:
        why = _failure(pod["status"])
    elif not node:
        conditions = pod["status"].get("conditions", ())
        why = next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")
        scheduler = pod["spec"].get("schedulerName", DEFAULT_SCHEDULER)
        if not why and scheduler not in schedulers:
            why = f"left alone: it is for the scheduler {scheduler}"
        elif not why and pod["spec"].get("resourceClaims"):
            why = _missing_claim(_POD.convert(pod), claims)
    metadata = pod["metadata"]
    return Row(metadata["namespace"], metadata["name"], node, pod["status"]["phase"], why)


def _failure(status: Document) -> str:
    """Returns what a kubelet says of a pod that failed, or of the container that failed."""
    said = [part for part in (status.get("reason"), status.get("message")) if part]
    if not said:
        containers = (status.get(of) or () for of in _CONTAINERS)
        for of in chain.from_iterable(containers):
            ended = (of.get("state") or {}).get("terminated") or {}
            if ended.get("exitCode"):
                why = ended.get("reason", "Error")
                said = [f"container {of['name']}: {why}, exit code {ended['exitCode']}"]
    return ": ".join(said)


def _missing_claim(pod: Pod, claims: set[str]) -> str:
    """Returns the first claim that the pod lacks, in the words of the scheduler's log; "" if
    none.
    """
    for entry in device_claims(pod):
        if entry.claim == "":
            return f'pod "{key(pod)}": ResourceClaim not created yet'
        named = f"{pod.metadata.namespace}/{entry.claim}"
        if entry.claim is not None and named not in claims:
            return f'could not find ResourceClaim "{named}"'
    return ""


def _is_expanded(kind: str, document: Document) -> bool:
    """True once controllers have acted on a workload as it is now, and a job is over."""
    status = document.get("status") or {}
    if kind == "Job":
        done = any(c["status"] == "True" for c in status.get("conditions") or ())
        return done or status.get("active", 0) != 0
    generation: int = document["metadata"].get("generation", 1)
    observed: int = status.get("observedGeneration", 0)
    return observed >= generation
