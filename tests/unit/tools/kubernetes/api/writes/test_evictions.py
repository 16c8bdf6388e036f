"""The eviction subresource: which pods may go, what it takes from a budget, how it refuses."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.http import Response
from berth.tools.kubernetes.api.requests.media_types import MERGE
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.requests.request_bodies import DeleteOptions
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.evictions import EVICTION, MOST_DISRUPTED, PODS
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document

BUDGETS, NAMESPACES = BY_KIND["policy/v1", "PodDisruptionBudget"], BY_KIND["v1", "Namespace"]
NS = "default"
READY = {"type": "Ready", "status": "True"}


def pod(api: Api, name: str, *, phase: str = "Running", ready: bool = True) -> Document:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    metadata = {"name": name, "labels": {"app": "x"}}
    api.create(PODS, NS, {"metadata": metadata, "spec": spec})
    api.bind(NS, name, {"target": {"kind": "Node", "name": "n1"}})
    status = {"phase": phase, "conditions": [READY] if ready else []}
    return api.patch(PODS, NS, name, {"status": status}, MERGE, "status").document


def budget(api: Api, name: str, allowed: int, /, **status: Any) -> None:
    """Creates a budget over the pods; `status` has fields in place of those that allow."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    api.create(BUDGETS, NS, {"metadata": {"name": name}, "spec": spec})
    healthy = {"desiredHealthy": 1, "currentHealthy": 1 + allowed}
    counts = {"disruptionsAllowed": allowed, "observedGeneration": 1, **healthy}
    api.patch(BUDGETS, NS, name, {"status": {**counts, **status}}, MERGE, "status")


def evict(api: Api, name: str, **options: Any) -> None:
    body: Document = {"metadata": {"name": name}}
    api.evict(NS, name, {**body, "deleteOptions": options} if options else body)


def refused(api: Api, name: str, **options: Any) -> RefusedError:
    with pytest.raises(RefusedError) as refusal:
        evict(api, name, **options)
    return refusal.value


def condition(api: Api, name: str) -> Document | None:
    conditions = api.store.get(PODS, NS, name)["status"]["conditions"]
    return next((c for c in conditions if c["type"] == "DisruptionTarget"), None)


def is_there(api: Api, name: str) -> bool:
    document = api.store.find(PODS, NS, name)
    return document is not None and "deletionTimestamp" not in document["metadata"]


def test_an_eviction_takes_a_permission_and_sets_a_condition(api: Api) -> None:
    for name in "abc":
        pod(api, name)
    budget(api, "x", 2)
    evict(api, "a")
    told = condition(api, "a")
    assert told is not None
    assert (told["reason"], told["message"]) == ("EvictionByEvictionAPI", "Eviction API: evicting")
    assert not is_there(api, "a")
    status = api.store.get(BUDGETS, NS, "x")["status"]
    assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (1, ["a"])
    assert "conditions" not in status
    evict(api, "b")
    (left,) = api.store.get(BUDGETS, NS, "x")["status"]["conditions"]
    assert (left["status"], left["reason"]) == ("False", "InsufficientPods")
    assert (left["message"], left["observedGeneration"]) == ("", 1)
    assert refused(api, "c").code == 429
    assert is_there(api, "c")
    assert condition(api, "c") is None


def told(api: Api, name: str) -> str:
    return str(api.store.get(PODS, NS, name)["metadata"].get("annotations", {}).get(EVICTION, ""))


def test_the_numbers_of_an_eviction_are_kept(api: Api) -> None:
    for name in "abc":
        pod(api, name)
    pod(api, "pending", phase="Pending")
    pod(api, "sick", ready=False)
    evict(api, "c")
    assert told(api, "c") == "no budget covers it"
    budget(api, "x", 1)
    evict(api, "a")
    numbers = "the budget x had 2 healthy pods, needed 1; its allowed disruptions fell from 1 to 0"
    assert told(api, "a") == numbers
    evict(api, "a")  # it is being deleted already
    assert told(api, "a") == numbers
    assert refused(api, "b").code == 429
    assert told(api, "b") == ""
    evict(api, "pending")
    assert told(api, "pending") == "no budget protects a pod that is pending"
    evict(api, "sick")
    assert told(api, "sick") == (
        "the budget x had 2 healthy pods, needed 1, and its policy IfHealthyBudget let a pod that "
        "was not ready go without a permission"
    )


PLAIN = "x needs 1 healthy pods and has 1 currently"
NOT = "x does not allow evicting pods currently"
SYNC_FAILED = {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed"}


@pytest.mark.parametrize(
    ("status", "code", "why", "after"),
    [
        ({}, 429, PLAIN, None),
        ({"currentHealthy": 0, "desiredHealthy": 0}, 429, "x needs 0 healthy pods and has 0", None),
        ({"currentHealthy": 3}, 429, NOT, None),
        ({"conditions": [{**SYNC_FAILED, "message": "no scale"}]}, 429,
         f"{NOT} because it failed sync: no scale", None),
        ({"conditions": [{**SYNC_FAILED, "message": ""}]}, 429, PLAIN, None),
        ({"currentHealthy": 3, "conditions": [{**SYNC_FAILED, "reason": "Odd", "message": "m"}]},
         429, f"{NOT} (Odd): m", None),
        ({"disruptionsAllowed": 1, "observedGeneration": 0}, 429,
         "x is still being processed by the server.", 10),
        ({"disruptionsAllowed": -1, "observedGeneration": 0}, 429, "still being processed", 10),
    ],
)  # fmt: skip
def test_a_refusal_names_the_budget_and_its_reason(
    api: Api, status: Document, code: int, why: str, after: int | None
) -> None:
    pod(api, "a")
    budget(api, "x", 0, **status)
    refusal = refused(api, "a")
    assert (refusal.code, refusal.reason) == (code, "TooManyRequests")
    assert str(refusal) == "Cannot evict pod as it would violate the pod's disruption budget."
    assert refusal.details is not None
    (cause,) = refusal.details["causes"]
    assert cause["reason"] == "DisruptionBudget"
    assert why in cause["message"]
    assert refusal.details.get("retryAfterSeconds") == after
    assert is_there(api, "a")
    assert condition(api, "a") is None


@pytest.mark.parametrize("more", [0, 1])
def test_a_budget_counts_a_limited_number_of_unseen_evictions(api: Api, more: int) -> None:
    pod(api, "a")
    unseen = {f"p{number}": "2026-01-01T00:00:00Z" for number in range(MOST_DISRUPTED + more)}
    budget(api, "x", 5, disruptedPods=unseen)
    if not more:
        evict(api, "a")
        assert not is_there(api, "a")
        return
    refusal = refused(api, "a")
    assert (refusal.code, refusal.reason) == (403, "Forbidden")
    assert "DisruptedPods map too big" in str(refusal)


def test_a_negative_number_of_disruptions_is_refused_for_good(api: Api) -> None:
    pod(api, "a")
    budget(api, "x", -1)
    refusal = refused(api, "a")
    assert refusal.code == 403
    assert str(refusal) == (
        'poddisruptionbudget.policy "x" is forbidden: pdb disruptions allowed is negative'
    )


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_pods_that_do_not_run_go_whatever_their_budgets_say(api: Api, phase: str) -> None:
    pod(api, "a", phase=phase)
    budget(api, "x", 0)
    budget(api, "y", 0)
    evict(api, "a", gracePeriodSeconds=0)
    assert api.store.find(PODS, NS, "a") is None


def test_a_terminating_pod_is_marked_and_its_grace_only_shortened(api: Api) -> None:
    pod(api, "a")
    budget(api, "x", 0)
    api.delete(PODS, NS, "a", DeleteOptions(grace_period_seconds=50))
    evict(api, "a")
    assert condition(api, "a") is not None
    for requested, grace in ((60, 50), (20, 20)):
        evict(api, "a", gracePeriodSeconds=requested)
        metadata = api.store.get(PODS, NS, "a")["metadata"]
        assert metadata["deletionGracePeriodSeconds"] == grace


@pytest.mark.parametrize(
    ("policy", "healthy", "desired", "goes"),
    [
        (None, 1, 1, True),
        (None, 0, 1, False),
        (None, 0, 0, False),
        ("IfHealthyBudget", 2, 1, True),
        ("IfHealthyBudget", 0, 1, False),
        ("AlwaysAllow", 0, 1, True),
        ("AlwaysAllow", 0, 0, True),
    ],
)
def test_an_unhealthy_pod_goes_without_a_permission_if_the_policy_lets_it(
    api: Api, policy: str | None, healthy: int, desired: int, goes: bool
) -> None:
    pod(api, "a", ready=False)
    budget(api, "x", 0, currentHealthy=healthy, desiredHealthy=desired)
    if policy is not None:
        change = {"spec": {"unhealthyPodEvictionPolicy": policy}}
        version = api.store.get(BUDGETS, NS, "x")["metadata"]["resourceVersion"]
        api.patch(BUDGETS, NS, "x", {**change, "metadata": {"resourceVersion": version}}, MERGE, "")
        api.patch(BUDGETS, NS, "x", {"status": {"observedGeneration": 2}}, MERGE, "status")
    before = api.store.get(BUDGETS, NS, "x")
    if goes:
        evict(api, "a")
    else:
        assert refused(api, "a").code == 429
    assert is_there(api, "a") == (not goes)
    assert api.store.get(BUDGETS, NS, "x") == before, "no permission was needed"


def test_an_unhealthy_pod_uses_a_permission_if_the_policy_does_not_let_it_go(api: Api) -> None:
    pod(api, "a", ready=False)
    budget(api, "x", 1, currentHealthy=0, desiredHealthy=0)
    evict(api, "a")
    assert api.store.get(BUDGETS, NS, "x")["status"]["disruptionsAllowed"] == 0


def test_preconditions_decide_before_the_pod_is_touched(api: Api) -> None:
    metadata = pod(api, "a")["metadata"]
    for wrong, name in (({"uid": "other"}, "UID"), ({"resourceVersion": "1"}, "ResourceVersion")):
        before = api.store.get(PODS, NS, "a")
        refusal = refused(api, "a", preconditions=wrong)
        assert (refusal.code, refusal.reason) == (409, "Conflict")
        assert f"the {name} in the precondition" in str(refusal)
        assert api.store.get(PODS, NS, "a") == before
    right = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    evict(api, "a", preconditions=right, gracePeriodSeconds=7)
    assert api.store.get(PODS, NS, "a")["metadata"]["deletionGracePeriodSeconds"] == 7


def test_a_negative_grace_period_is_a_second(api: Api) -> None:
    pod(api, "a")
    evict(api, "a", gracePeriodSeconds=-4)
    assert api.store.get(PODS, NS, "a")["metadata"]["deletionGracePeriodSeconds"] == 1


def test_the_eviction_must_name_its_pod_and_the_pod_must_exist(api: Api) -> None:
    pod(api, "a")
    for body in ({}, {"metadata": {"name": "b"}}):
        with pytest.raises(RefusedError, match="does not match name in Eviction") as refusal:
            api.evict(NS, "a", body)
        assert refusal.value.code == 400
    assert refused(api, "none").code == 404


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ({"apiVersion": "policy/v2"}, "does not match the expected API version (policy/v1)"),
        ({"kind": "Pod"}, "not a Eviction object"),
        ({"metadata": {"name": "a", "namespace": "other"}}, "does not match the namespace sent"),
    ],
)
def test_a_body_that_is_no_eviction_of_the_pod(api: Api, head: Document, why: str) -> None:
    pod(api, "a")
    with pytest.raises(RefusedError) as refusal:
        api.evict(NS, "a", {"metadata": {"name": "a"}, **head})
    assert refusal.value.code == 400
    assert why in str(refusal.value)


@pytest.mark.parametrize("version", ["policy/v1", "policy/v1beta1"])
def test_both_versions_of_an_eviction_are_read(api: Api, version: str) -> None:
    pod(api, "a")
    api.evict(NS, "a", {"apiVersion": version, "kind": "Eviction", "metadata": {"name": "a"}})
    assert not is_there(api, "a")


def test_no_eviction_in_a_namespace_that_ends(api: Api) -> None:
    api.create(NAMESPACES, "", {"metadata": {"name": "n"}})
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n1"}
    api.create(PODS, "n", {"metadata": {"name": "a"}, "spec": spec})
    api.delete(NAMESPACES, "", "n", DeleteOptions())
    with pytest.raises(RefusedError, match="is being terminated") as refusal:
        api.evict("n", "a", {"metadata": {"name": "a"}})
    assert refusal.value.code == 403
    assert refusal.value.details is not None
    assert refusal.value.details["causes"][0]["reason"] == "NamespaceTerminating"


def test_several_budgets_over_a_pod_are_an_error(api: Api) -> None:
    pod(api, "a")
    budget(api, "x", 1)
    budget(api, "y", 1)
    refusal = refused(api, "a")
    assert refusal.code == 500
    assert "more than one PodDisruptionBudget" in str(refusal)
    assert is_there(api, "a")


@pytest.mark.parametrize(
    ("selector", "code"),
    [({}, 429), (None, 0), ({"matchLabels": {"app": "y"}}, 0),
     ({"matchExpressions": [{"key": "app", "operator": "Odd"}]}, 0),
     ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, 429)],
)  # fmt: skip
def test_an_empty_selector_covers_every_pod_and_a_missing_one_none(
    api: Api, selector: Document | None, code: int
) -> None:
    pod(api, "a")
    spec = {"minAvailable": 1, **({} if selector is None else {"selector": selector})}
    metadata = {"name": "x", "namespace": NS, "generation": 1}
    api.store.create(BUDGETS, {"metadata": metadata, "spec": spec})
    if code:
        assert refused(api, "a").code == code
    else:
        evict(api, "a")


def test_an_eviction_does_not_look_at_budgets_of_other_namespaces(api: Api) -> None:
    pod(api, "a")
    budget(api, "x", 1)
    for number in range(50):
        unreadable = {
            "metadata": {"name": "x", "namespace": f"{'a' if number % 2 else 'z'}{number}"}
        }
        api.store.create(BUDGETS, unreadable)
    evict(api, "a")
    assert not is_there(api, "a")


# -- over HTTP


def post(store: Store, body: Document, name: str = "a", **query: str) -> tuple[Response, Document]:
    request = HttpRequest(
        "POST",
        f"/api/v1/namespaces/{NS}/pods/{name}/eviction",
        query,
        {"content-type": "application/json", "host": "localhost"},
        msgspec.json.encode({"metadata": {"name": name}, **body}),
        keep=True,
    )
    answer = Server(store).answer(request)
    assert isinstance(answer, Response)
    return answer, msgspec.json.decode(answer.body)


def test_the_answer_to_an_eviction_is_a_status(api: Api) -> None:
    pod(api, "a")
    answer, status = post(api.store, {})
    assert (answer.status, status["kind"], status["status"]) == (201, "Status", "Success")


def test_only_a_budget_that_is_being_processed_asks_to_retry(api: Api) -> None:
    pod(api, "a")
    budget(api, "x", 1, observedGeneration=0)
    assert post(api.store, {})[0].retry_after == 10
    api.patch(
        BUDGETS,
        NS,
        "x",
        {"status": {"observedGeneration": 1, "disruptionsAllowed": 0}},
        MERGE,
        "status",
    )
    answer, status = post(api.store, {})
    assert (answer.status, answer.retry_after, status["reason"]) == (429, 0, "TooManyRequests")


ALL = ["All"]


@pytest.mark.parametrize(
    ("query", "options", "code", "why"),
    [
        ({"dryRun": "All"}, {}, 201, ""),
        ({}, {"dryRun": ALL}, 201, ""),
        ({"dryRun": "All"}, {"dryRun": ALL}, 201, ""),
        ({"dryRun": "All"}, {"dryRun": ["Some"]}, 500, "Non-matching dry-run options"),
        ({"dryRun": "Some"}, {}, 422, "CreateOptions.meta.k8s.io"),
        ({}, {"dryRun": ["Some"]}, 422, "DeleteOptions.meta.k8s.io"),
    ],
)  # fmt: skip
def test_a_dry_run_decides_but_stores_nothing(
    api: Api, query: dict[str, str], options: Document, code: int, why: str
) -> None:
    pod(api, "a")
    budget(api, "x", 1)
    revision = api.store.revision
    answer, status = post(api.store, {"deleteOptions": options}, **query)
    assert answer.status == code
    assert why in status.get("message", "")
    assert api.store.revision == revision
    assert is_there(api, "a")


def test_a_dry_run_is_refused_like_an_eviction(api: Api) -> None:
    pod(api, "a")
    budget(api, "x", 0)
    assert post(api.store, {}, dryRun="All")[0].status == 429
