"""Tries the steps of a what-if one after another, and tells the result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from operator import itemgetter
from typing import Protocol

from msgspec.structs import replace

from berth.actors.scheduling.decision.registry import RegistryError
from berth.actors.scheduling.model.pod_template import PodTemplate
from berth.config.load import ConfigError
from berth.config.types import KubeSchedulerConfiguration

from ...kubernetes.api.types.api_documents import Place, place_of
from ...kubernetes.api.writes.evictions import stays_in_drain
from ..explain.asks.node_asks import asks_of
from ..explain.cause import Cause
from ..explain.cluster_source import SourceError, completed_objects, empty_store
from ..explain.decider import decided
from ..explain.decision_report import conclusion, sentence_of
from ..explain.on_node import on_node
from ..explain.pinned_pods import waits_for_volume
from ..explain.pod_claims import without_template
from ..explain.reasons.cause_search import cause_of, standing_causes
from ..explain.reasons.pod_causes import PodCauses, message_causes
from ..explain.subject import standing
from ..manifests.manifests import STRICT, Findings, Manifest, Reading
from .conclusion import (
    WAITING,
    Kept,
    LeftAlone,
    Pending,
    RefusedEviction,
    Result,
    Returned,
    WithoutPods,
    concluded,
    harm,
)
from .node_usage import changed
from .placement import Evicted, Placing
from .steps import StepError
from .tried_budgets import budgets_against_eviction
from .tried_documents import Document, Documents
from .workload_pods import KINDS, first_pod, reconcile

MOST_EXPLAINED = 300  # decisions about pods that stay pending
SCRATCH_LOST = (
    ", and the data of the pod's emptyDir goes: kubectl refuses that without --delete-emptydir-data"
)


class TriedStep(Protocol):
    def change(self, trial: Trial) -> None:
        """Changes the cluster. Raises SourceError, ConfigError or RegistryError."""
        ...


def result_of(
    documents: Documents,
    steps: Sequence[TriedStep],
    seed: int = 0,
    namespace: str = "default",
    until: float = inf,
    *,
    every_node: bool = True,
    reading: Reading = STRICT,
) -> Result:
    """Returns the result of steps, which change the documents.

    Before them, the pending pods are placed as they would be without the steps. `until` is a time
    of time.monotonic. Unless `every_node`, the result has only the nodes that change. Raises
    StepError, SourceError, or TooLongError.
    """
    trial = Trial(documents, Placing(documents, seed, until), namespace, reading)
    placing = trial.placing
    try:
        trial.create_first_pods()
        before = placing.settle_first()
        without_pods = trial.without_pods()
        documents.touched.clear()
        for number, step in enumerate(steps, 1):
            placing.check()
            placing.step = number
            try:
                step.change(trial)
            except (SourceError, ConfigError, RegistryError) as problem:
                raise StepError(number, problem) from None
            placing.settle()
            while trial.drain_on():
                placing.settle()
        nodes = changed(before, documents.touched, documents.snapshot(), every_node=every_node)
        pending = pending_of(documents, placing, steps=bool(steps))
    finally:
        placing.unreserve()
    placed, lost = list(placing.placed.values()), placing.lost
    left = _left_alone(documents, placing)
    evicted = _with_nodes(placing)
    deleted, kept = placing.deleted, trial.kept()
    refused = list(placing.refused.values())
    words = harm(pending, lost, refused, steps=bool(steps))
    waiting = sum(bool(of.waits_for) for of in placed)
    counts = {
        "placed": len(placed) - waiting,
        WAITING: waiting,
        "evicted": len(evicted),
        "deleted": len(deleted),
    }
    return Result(
        concluded(words, [*pending, *refused], left, counts, any_pods=any(documents.every("Pod"))),
        bool(words),
        not (pending or words or waiting or refused),
        placed,
        pending,
        lost,
        evicted,
        deleted,
        nodes,
        kept,
        trial.returned(),
        left,
        without_pods,
        refused,
        trial.refused_evictions,
    )


def _with_nodes(placing: Placing) -> list[Evicted]:
    """Returns the evicted pods with the nodes of their replacements."""
    nodes = {of.pod: of.node for of in placing.placed.values()}
    return [replace(of, to=nodes.get(of.replacement, "")) for of in placing.evicted]


class Trial:
    """A trial in progress, with the pods that its drains have listed."""

    def __init__(
        self, documents: Documents, placing: Placing, namespace: str, reading: Reading
    ) -> None:
        self.documents = documents
        self.placing = placing
        self.reading = reading
        self.namespace = namespace
        self.refused_evictions: list[RefusedEviction] = []
        self.drained: dict[str, dict[Place, str]] = {}  # node: uids of the pods to evict
        self._first_pods: list[tuple[Place, int, Place | None]] = []

    def create_first_pods(self) -> None:
        """Creates one pod of each workload that asks for pods and has none."""
        without = self.documents.without_pods()
        store = self.documents.classes() if without else empty_store()
        for workload, asks in without.items():
            pod = first_pod(self.documents, self.placing, workload, store)
            self._first_pods.append((workload, asks, pod))

    def without_pods(self) -> list[WithoutPods]:
        """Returns the workloads of which a pod was created, once those were tried."""
        placed, without = self.placing.placed, []
        for (kind, namespace, name), asks, pod in self._first_pods:
            node = placed[pod].node if pod is not None and pod in placed else ""
            pod_name = "" if pod is None else f"{pod[1]}/{pod[2]}"
            without.append(WithoutPods(f"{kind} {namespace}/{name}", asks, pod_name, node))
        return without

    def drain_on(self) -> bool:
        """Evicts the listed pods of drains that may be evicted now. Returns True if a pod was
        evicted.
        """
        before = len(self.placing.evicted)
        for name, place in list(self._to_drain()):
            if not budgets_against_eviction(self.documents, place):
                lost = SCRATCH_LOST if _has_scratch(self.documents.at(place)) else ""
                self.placing.evict(place, f"{name} is drained{lost}")
        return len(self.placing.evicted) > before

    def kept(self) -> list[Kept]:
        """Returns the pods that drains wait for."""
        return [
            Kept(f"{place[1]}/{place[2]}", name, budgets_against_eviction(self.documents, place))
            for name, place in self._to_drain()
        ]

    def returned(self) -> list[Returned]:
        """Returns the pods that came to a node after its drain began."""
        return [
            Returned(f"{place[1]}/{place[2]}", name)
            for name, listed in self.drained.items()
            for place, uid in self._drainable(name).items()
            if listed.get(place) != uid
        ]

    def _to_drain(self) -> Iterator[tuple[str, Place]]:
        """Yields the pods that drains have listed and that are still on their nodes."""
        for name, listed in self.drained.items():
            if listed:
                present = self._drainable(name)
                yield from ((name, at) for at, uid in listed.items() if present.get(at) == uid)

    def _drainable(self, name: str) -> dict[Place, str]:
        """Returns the uids of the pods on a node, without those that every node has."""
        uids = {}
        for place in self.pods_on(name):
            self.placing.check()
            pod = self.documents.at(place)
            if not stays_in_drain(pod):
                uids[place] = pod["metadata"].get("uid", "")
        return uids

    def node(self, name: str) -> Document:
        return self.documents.at(("Node", "", name))

    def pods_on(self, name: str) -> list[Place]:
        return sorted(self.documents.pods_on(name))

    def drain(self, name: str) -> None:
        """Lists the pods of a node that have to leave, and evicts those that may be evicted now."""
        self.drained[name] = self._drainable(name)
        self.drain_on()

    def evict(self, place: Place) -> None:
        """Evicts a pod, or notes that disruption budgets refuse it. Nobody asks again later."""
        budgets = budgets_against_eviction(self.documents, place)
        if not budgets:
            self.placing.evict(place, "evicted", node_stays=True)
            return
        name, node = f"{place[1]}/{place[2]}", self.documents.at(place)["spec"]["nodeName"]
        cause = cause_of("", f"eviction is refused (429) by {', '.join(budgets)}")
        refusal = RefusedEviction(name, node, budgets, self.placing.step, cause)
        self.refused_evictions.append(refusal)

    def configure(self, configuration: KubeSchedulerConfiguration) -> None:
        """Decides by another configuration from now on."""
        self.documents.configure(configuration)
        self.placing.configured()


def apply(
    documents: Documents,
    placing: Placing,
    manifests: Iterable[Manifest],
    findings: Findings = STRICT.findings,
) -> None:
    """Creates or replaces objects as a user writes them, and the pods of workloads. What is wrong
    with them goes to the findings. Raises SourceError if they are strict.
    """
    store = documents.classes()
    workloads: list[Place] = []

    def is_taken(place: Place) -> bool:
        return documents.document(place[0], place[2], place[1]) is not None

    for full in completed_objects(manifests, store, findings, is_taken):
        place = place_of(full)
        before = documents.document(place[0], place[2], place[1])
        if before is not None and place[0] == "Pod":
            _refuse(f"Pod {place[1]}/{place[2]} exists already", findings)
            continue
        if before is not None:
            full["metadata"] = {**full["metadata"], "uid": before["metadata"].get("uid")}
        if place[0] == "Pod":
            placing.add(full)
        else:
            documents.put(full)
        if place[0] in KINDS:
            workloads.append(place)
        elif place[0] == "CronJob" and place in documents.without_pods():
            first_pod(documents, placing, place, store)
    for place in workloads:
        reconcile(documents, placing, place, store)


def _refuse(problem: str, findings: Findings) -> None:
    if findings.strict:
        raise SourceError(problem)
    findings.problem(problem)


def _left_alone(documents: Documents, placing: Placing) -> list[LeftAlone]:
    pods: dict[str, list[str]] = {}
    for _, namespace, name in placing.pending:
        pod = documents.at(("Pod", namespace, name))
        scheduler = pod["spec"].get("schedulerName", "")
        if scheduler not in documents.schedulers:
            pods.setdefault(scheduler, []).append(f"{namespace}/{name}")
    return [LeftAlone(scheduler, names) for scheduler, names in sorted(pods.items())]


def pending_of(documents: Documents, placing: Placing, *, steps: bool = False) -> list[Pending]:
    """Returns the pods that stay pending; without `steps`, none of them counts as pending before.

    Pods of one template share a decision; the pods of a StatefulSet are decided on one by one. Of
    more than MOST_EXPLAINED decisions, the others have the scheduler's message as their reason.
    """
    groups: dict[tuple[bool, str, int, PodTemplate], list[Place]] = {}
    for place in placing.pending:
        placing.check()
        try:
            rejected = placing.rejected.by_place.get(place)
            info = documents.attempt(place).info if rejected is None else rejected.info
        except SourceError:  # It belongs to another scheduler.
            continue
        before = steps and placing.waited(place)
        key = before, placing.workload_of(place), info.priority, info.template
        groups.setdefault(key, []).append(place)
    # Those that are newly pending come first.
    explained = set(sorted(groups, key=itemgetter(0))[:MOST_EXPLAINED])
    pending: dict[tuple[str, str, bool], Pending] = {}
    for key, places in groups.items():
        placing.check()
        before, workload = key[:2]
        rejected = placing.rejected.by_place.get(places[0])
        if rejected is None or key in explained:
            reason, causes = _reason(documents, places[0])
        else:
            reason = f"stays pending: {rejected.message}"
            causes = message_causes(rejected.message)
        of = Pending(workload, [], reason, before, causes)
        pods = [f"{namespace}/{name}" for _, namespace, name in places]
        pending.setdefault((workload, reason, before), of).pods.extend(pods)
    return list(pending.values())


def _has_scratch(pod: Document) -> bool:
    return any("emptyDir" in volume for volume in pod["spec"].get("volumes") or ())


def _reason(documents: Documents, place: Place) -> tuple[str, list[Cause]]:
    """Returns why a pod stays pending, in words and for programs."""
    attempt = documents.attempt(place)
    pod = documents.at(place)
    if unmade := documents.unmade(place):
        reason = waits_for_volume(unmade)
        return reason, standing_causes([reason])
    reasons = [*standing(pod), *attempt.held]
    if attempt.info.pod.spec.scheduling_gates or attempt.held:
        return "; ".join(reasons), standing_causes(reasons)
    missing = without_template(pod, documents.document)
    explained = decided(attempt)
    asks = asks_of(attempt.info, attempt.snapshot, explained.decision)
    there = on_node(attempt, explained.outcome)
    parts = conclusion(explained, asks, there, now=not (reasons or missing))
    causes = PodCauses(attempt, explained.decision).of_pod((*reasons, *missing), there)
    return sentence_of(missing, "".join(parts)), causes
