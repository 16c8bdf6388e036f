"""The eviction subresource: deletes a pod only if the PodDisruptionBudget over it allows that.

Mirrors Kubernetes' API-initiated eviction. Pods that are pending or finished may always go. The
permission is taken out of the budget's status before the pod is deleted, so two evictions cannot
use the same one.
"""

from __future__ import annotations

import msgspec

from berth.actors.scheduling.kube.labels import from_label_selector
from berth.actors.scheduling.kube.meta import LabelSelector

from .clock import now
from .conditions import with_condition
from .resources import BY_KIND
from .store import Document, RefusedError, Store

PODS = BY_KIND["v1", "Pod"]
BUDGETS = BY_KIND["policy/v1", "PodDisruptionBudget"]
RETRY_SECONDS = 10


def check_eviction(store: Store, pod: Document) -> None:
    """Takes the permission to evict this pod from its budget.

    Raises RefusedError: 429 if the budget forbids it, 500 if several budgets cover the pod.
    """
    if (
        pod["status"].get("phase") in ("Pending", "Succeeded", "Failed")
        or "deletionTimestamp" in pod["metadata"]
    ):
        return
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    budgets = [
        stored.document
        for stored in store.list(BUDGETS, namespace)
        if _covers(stored.document, pod)
    ]
    if not budgets:
        return
    if len(budgets) > 1:
        message = (
            "This pod has more than one PodDisruptionBudget, "
            "which the eviction subresource does not support."
        )
        raise RefusedError(500, "InternalError", message)
    budget = budgets[0]
    status = budget.get("status") or {}
    if not _ready(pod):
        always = budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
        healthy = status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0
        if always or healthy:
            return
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 1):
        message = "Cannot evict pod as it would violate the pod's disruption budget."
        why = (
            f"The disruption budget {budget['metadata']['name']} "
            "is still being processed by the server."
        )
        raise _too_many(message, why)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed <= 0:
        why = (
            f"The disruption budget {budget['metadata']['name']} needs "
            f"{status.get('desiredHealthy', 0)} healthy pods "
            f"and has {status.get('currentHealthy', 0)} currently"
        )
        raise _too_many("Cannot evict pod as it would violate the pod's disruption budget.", why)
    disrupted = {**(status.get("disruptedPods") or {}), name: now()}
    store.update(
        BUDGETS,
        {
            **budget,
            "status": {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted},
        },
    )


def mark_disrupted(store: Store, pod: Document) -> None:
    """Sets the condition DisruptionTarget, which gives eviction as the reason for the deletion."""
    why = ("EvictionByEvictionAPI", "Eviction API: evicting")
    store.update(
        PODS, {**pod, "status": with_condition(pod["status"], "DisruptionTarget", "True", *why)}
    )


def _covers(budget: Document, pod: Document) -> bool:
    selector = budget["spec"].get("selector")
    if selector is None:
        return False
    return from_label_selector(msgspec.convert(selector, LabelSelector)).matches(
        pod["metadata"].get("labels") or {}
    )


def _ready(pod: Document) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _too_many(message: str, why: str) -> RefusedError:
    causes = [{"reason": "DisruptionBudget", "message": why}]
    return RefusedError(
        429, "TooManyRequests", message, {"causes": causes, "retryAfterSeconds": RETRY_SECONDS}
    )
