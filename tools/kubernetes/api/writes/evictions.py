"""The eviction subresource: deletes a pod only if the PodDisruptionBudget over it allows that.

Mirrors Kubernetes' API-initiated eviction. Pods that are pending, finished or being deleted may
always go. The permission is taken out of the budget's status before the pod is deleted, and nothing
else happens in between, so two evictions cannot use the same one.
"""

from __future__ import annotations

from ..requests.request_bodies import Eviction, converted
from ..rules.fields import selects
from ..store import Store
from ..types.api_documents import Document, RefusedError, controller_in
from ..types.resources import BY_KIND
from .pod_conditions import with_condition

PODS = BY_KIND["v1", "Pod"]
BUDGETS = BY_KIND["policy/v1", "PodDisruptionBudget"]
API_VERSIONS = ("policy/v1", "policy/v1beta1")
# The seconds after which a client may ask again while the budget's controller is behind.
RETRY_SECONDS = 10
# A budget with more evictions than this that its controller has not seen yet allows no other.
MOST_DISRUPTED = 2000
ALLOWED = "DisruptionAllowed"
EVICTION = "berth.dev/eviction"  # the annotation with who evicted a pod, and its budget then
FORBIDS = "Cannot evict pod as it would violate the pod's disruption budget."


def read_eviction(document: Document) -> Eviction:
    """Returns the eviction in a body. Raises RefusedError with 400."""
    eviction = converted(document, Eviction)
    if eviction.api_version not in API_VERSIONS:
        message = (
            f"the API version in the data ({eviction.api_version}) "
            "does not match the expected API version (policy/v1)"
        )
        raise RefusedError(400, "BadRequest", message)
    if eviction.kind != "Eviction":
        raise RefusedError(400, "BadRequest", f"not a Eviction object: {eviction.kind}")
    return eviction


def take_permission(store: Store, pod: Document) -> str:
    """Takes the permission to evict this pod from its budget, if one protects it.

    Returns why the pod may go, with the numbers of the budget at that moment. Raises RefusedError:
    429 if the budget forbids it, 403 if its status is out of bounds, 500 if several budgets cover
    the pod.
    """
    if _needs_no_permission(pod):
        return f"no budget protects a pod that is {_state(pod)}"
    budgets = _budgets_of(store, pod)
    if not budgets:
        return "no budget covers it"
    if len(budgets) > 1:
        message = (
            "This pod has more than one PodDisruptionBudget, "
            "which the eviction subresource does not support."
        )
        raise RefusedError(500, "InternalError", message)
    budget, policy = budgets[0], budgets[0]["spec"].get("unhealthyPodEvictionPolicy")
    status = budget.get("status") or {}
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if not _ready(pod) and lets_unhealthy_go(budget, healthy, desired):
        return (
            f"the budget {_budget_numbers(budget)}, and its policy {policy or 'IfHealthyBudget'} "
            "let a pod that was not ready go without a permission"
        )
    _check_status(budget)
    status = _after_eviction(budget["status"], pod, store.outside.now())
    store.update(BUDGETS, {**budget, "status": status})
    left = status["disruptionsAllowed"]
    numbers = _budget_numbers(budget)
    return f"the budget {numbers}; its allowed disruptions fell from {left + 1} to {left}"


def stays_in_drain(pod: Document) -> bool:
    """True for a pod that a drain leaves alone, because its controller would recreate it on the
    node.
    """
    return (controller_in(pod) or {}).get("kind") in ("DaemonSet", "Node")


def mark_disrupted(store: Store, pod: Document, message: str) -> None:
    """Sets the condition DisruptionTarget, which gives eviction as the reason for the deletion.

    The annotation EVICTION keeps the words about the first eviction.
    """
    why = ("EvictionByEvictionAPI", "Eviction API: evicting")
    status = with_condition(pod["status"], "DisruptionTarget", "True", store.outside.now(), *why)
    metadata: Document = pod["metadata"]
    if "deletionTimestamp" not in metadata:
        annotations = {**(metadata.get("annotations") or {}), EVICTION: message}
        metadata = {**metadata, "annotations": annotations}
    store.update(PODS, {**pod, "metadata": metadata, "status": status})


def _budget_numbers(budget: Document) -> str:
    """Returns the name of a budget, with the numbers of healthy and of required pods."""
    status = budget.get("status") or {}
    has, needs = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    return f"{budget['metadata']['name']} had {has} healthy pods, needed {needs}"


def _state(pod: Document) -> str:
    ending = "deletionTimestamp" in pod["metadata"]
    return "being deleted" if ending else str(pod["status"].get("phase")).lower()


def _needs_no_permission(pod: Document) -> bool:
    """True if the pod does not run or is being deleted, so that no budget counts it."""
    unprotected = pod["status"].get("phase") in ("Pending", "Succeeded", "Failed")
    return unprotected or "deletionTimestamp" in pod["metadata"]


def _budgets_of(store: Store, pod: Document) -> list[Document]:
    namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels") or {}
    budgets = (stored.document for stored in store.list(BUDGETS, namespace))
    return [budget for budget in budgets if selects(budget["spec"].get("selector"), labels)]


def _ready(pod: Document) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def lets_unhealthy_go(budget: Document, healthy: int, desired: int) -> bool:
    """True if a pod that is not ready may be evicted without the budget's permission."""
    always = budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
    return always or healthy >= desired > 0


def _check_status(budget: Document) -> None:
    """Raises RefusedError unless the budget's status is sure to allow a disruption."""
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 1):
        why = f"The disruption budget {name} is still being processed by the server."
        raise _too_many(why, RETRY_SECONDS)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise _forbidden(name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > MOST_DISRUPTED:
        why = "too many evictions not confirmed by PDB controller"
        raise _forbidden(name, f"DisruptedPods map too big - {why}")
    if allowed == 0:
        raise _too_many(_no_disruption_reason(name, status))


def _no_disruption_reason(name: str, status: Document) -> str:
    """Returns in words why a budget allows no disruption."""
    conditions = status.get("conditions") or ()
    refuses = [c for c in conditions if c["type"] == ALLOWED and c["status"] == "False"]
    reason, message = (
        (refuses[0].get("reason", ""), refuses[0].get("message", "")) if refuses else ("", "")
    )
    needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    none = f"The disruption budget {name} does not allow evicting pods currently"
    if reason == "SyncFailed" and message:
        return f"{none} because it failed sync: {message}"
    if has <= needs:
        return f"The disruption budget {name} needs {needs} healthy pods and has {has} currently"
    return f"{none} ({reason}): {message}" if message else none


def _after_eviction(status: Document, pod: Document, now: str) -> Document:
    """Returns the budget's status with one disruption less, after it was granted to the pod."""
    allowed = status["disruptionsAllowed"] - 1
    disrupted = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: now}
    after = {**status, "disruptionsAllowed": allowed, "disruptedPods": disrupted}
    if allowed:
        return after
    conditions = status.get("conditions") or ()
    before: Document = next((c for c in conditions if c["type"] == ALLOWED), {})
    since = before.get("lastTransitionTime") if before.get("status") == "False" else None
    condition = {
        "type": ALLOWED,
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "lastTransitionTime": since or now,
        "observedGeneration": status.get("observedGeneration", 0),
    }
    return {**after, "conditions": [*(c for c in conditions if c["type"] != ALLOWED), condition]}


def _too_many(why: str, retry_seconds: int = 0) -> RefusedError:
    details: Document = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    if retry_seconds:
        details["retryAfterSeconds"] = retry_seconds
    return RefusedError(429, "TooManyRequests", FORBIDS, details)


def _forbidden(name: str, why: str) -> RefusedError:
    message = f'poddisruptionbudget.policy "{name}" is forbidden: {why}'
    details = {"name": name, "group": "policy", "kind": "poddisruptionbudget"}
    return RefusedError(403, "Forbidden", message, details)
