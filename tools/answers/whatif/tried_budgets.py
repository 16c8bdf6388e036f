"""The PodDisruptionBudgets of the tried cluster: those that forbid the eviction of a pod.

The numbers of a budget are counted as its controller would count them after each step.
"""

from __future__ import annotations

from typing import cast

import msgspec

from berth.actors.scheduling.kube.labels import selector_or_nothing

from ...kubernetes.api.types.api_documents import Place
from ...kubernetes.api.writes.evictions import lets_unhealthy_go
from ...kubernetes.disruption.budgets import UncountableError, expectation
from ...kubernetes.objects.properties import deleting, is_ready
from ...kubernetes.objects.structs import TYPES, Pod, PodDisruptionBudget, Replicated, read
from ..explain.cluster_source import SourceError
from .tried_documents import Document, Documents

KIND = "PodDisruptionBudget"
_NOT_RUNNING = ("Pending", "Succeeded", "Failed")


def budgets_against_eviction(documents: Documents, place: Place) -> list[str]:
    """Returns the names of the budgets that forbid the eviction of a pod now; none if it may be
    evicted.

    If several budgets cover a pod, it is never evicted. No budget counts a pod that does not run.
    """
    pod = documents.pod(place)
    if deleting(pod) or not pod.spec.node_name or pod.status.phase in _NOT_RUNNING:
        return []
    documents_of = [d for (_, namespace, _), d in documents.every(KIND) if namespace == place[1]]
    budgets = [document for document in documents_of if _selects(_read(document), pod)]
    if len(budgets) == 1 and _allows_eviction(documents, budgets[0], pod):
        return []
    return [document["metadata"]["name"] for document in budgets]


def _read(document: Document) -> PodDisruptionBudget:
    try:
        return read(document, PodDisruptionBudget)
    except msgspec.ValidationError as invalid:
        raise SourceError(f"{KIND} {document['metadata']['name']}: {invalid}") from None


def _selects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    return selector_or_nothing(budget.spec.selector).matches(pod.metadata.labels)


def _allows_eviction(documents: Documents, document: Document, pod: Pod) -> bool:
    budget, namespace = _read(document), pod.metadata.namespace

    def find(kind: str, where: str, name: str) -> Replicated | None:
        workload = documents.document(kind, name, where)
        return None if workload is None else cast("Replicated", read(workload, TYPES[kind]))

    in_namespace = (place for place, _ in documents.every("Pod") if place[1] == namespace)
    pods = [each for each in map(documents.pod, in_namespace) if _selects(budget, each)]
    try:
        counts = expectation(budget.spec, pods, find)
    except UncountableError:
        return False
    healthy = sum(is_ready(each) and not deleting(each) for each in pods)
    if not is_ready(pod) and lets_unhealthy_go(document, healthy, counts.desired):
        return True
    return counts.expected > 0 and healthy > counts.desired
