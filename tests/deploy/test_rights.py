"""The rights that config/deploy grants: how they are decided, and what they are a part of."""

from __future__ import annotations

import pytest

from berth.actors.client.rest import ApiError
from berth.actors.client.rights import needed
from berth.actors.scheduling.kube.kinds import BY_KIND
from berth.config.types import LeaderElectionConfiguration
from tests.kit.rbac import Attributes, Authorizer, attributes_of, implied
from tests.kit.rights import ACCOUNT, NAMESPACE, Rights, shipped

PODS, CLAIMS = "/api/v1/namespaces/shop/pods", "/apis/resource.k8s.io/v1/namespaces/shop"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
READ, READ_UPDATE = ("get", "list", "watch"), ("get", "list", "watch", "update", "patch")

# system:kube-scheduler with system:volume-scheduler and the role in kube-system, in Kubernetes 1.36
KUBE_SCHEDULER: dict[str, dict[str, tuple[str, ...]]] = {
    "": {
        "bindings": ("create",),
        "events": ("create", "patch", "update"),
        "namespaces": READ,
        "nodes": READ,
        "persistentvolumeclaims": READ_UPDATE,
        "persistentvolumes": READ_UPDATE,
        "pods": (*READ, "delete"),
        "pods/binding": ("create",),
        "pods/finalizers": ("update",),
        "pods/status": ("patch", "update"),
        "replicationcontrollers": READ,
        "services": READ,
    },
    "apps": {"replicasets": READ, "statefulsets": READ},
    "coordination.k8s.io": {"leases": (*READ, "create", "update")},
    "events.k8s.io": {"events": ("create", "patch", "update")},
    "policy": {"poddisruptionbudgets": READ},
    "resource.k8s.io": {
        "deviceclasses": READ,
        "devicetaintrules": READ,
        "resourceclaims": (*READ_UPDATE, "create", "delete"),
        "resourceclaims/binding": ("update", "patch"),
        "resourceclaims/status": READ_UPDATE,
        "resourceslices": READ,
    },
    "storage.k8s.io": {
        "csidrivers": READ,
        "csinodes": READ,
        "csistoragecapacities": READ,
        "storageclasses": READ,
        "volumeattachments": READ,
    },
}
# Kubernetes has not had these kinds since 1.32; the component "negotiation" alone grants them.
REMOVED = ("podschedulingcontexts", "resourceclasses")


@pytest.mark.parametrize(
    ("method", "url", "attributes"),
    [
        ("GET", PODS, Attributes("list", "", "pods", "shop")),
        ("GET", f"{PODS}?watch=true", Attributes("watch", "", "pods", "shop")),
        ("GET", f"{PODS}/web", Attributes("get", "", "pods", "shop", "web")),
        ("POST", f"{PODS}/web/binding", Attributes("create", "", "pods/binding", "shop", "web")),
        ("DELETE", PODS, Attributes("deletecollection", "", "pods", "shop")),
        ("GET", "/api/v1/nodes?watch=1&x=y", Attributes("watch", "", "nodes")),
        (
            "GET",
            "/api/v1/namespaces/kube-system/configmaps?fieldSelector=metadata.name%3Dca",
            Attributes("list", "", "configmaps", "kube-system", "ca"),
        ),
        ("GET", "/api/v1/namespaces/shop", Attributes("get", "", "namespaces", "shop", "shop")),
        (
            "PUT",
            "/api/v1/namespaces/shop/status",
            Attributes("update", "", "namespaces/status", "shop", "shop"),
        ),
        (
            "PATCH",
            f"{CLAIMS}/resourceclaims/gpu/status",
            Attributes("patch", "resource.k8s.io", "resourceclaims/status", "shop", "gpu"),
        ),
        ("HEAD", "/apis/events.k8s.io/v1", Attributes("get", path="/apis/events.k8s.io/v1")),
        ("GET", "/metrics", Attributes("get", path="/metrics")),
    ],
    ids=str,
)
def test_a_request_has_the_attributes_that_the_api_server_gives_it(
    method: str, url: str, attributes: Attributes
) -> None:
    assert attributes_of(method, url) == attributes


@pytest.fixture
def rights() -> Rights:
    return Rights(Authorizer(shipped(), NAMESPACE, ACCOUNT))


def test_a_request_that_is_allowed_counts_as_used(rights: Rights) -> None:
    before = rights.unused()
    rights.check("GET", "/api/v1/pods")
    (used,) = rights.used
    assert (used.role, used.verb, used.resource) == ("berth", "list", "pods")
    assert [right for right in before if right != used] == rights.unused()


@pytest.mark.parametrize(
    ("method", "url", "message"),
    [
        (
            "PUT",
            f"{PODS}/web",
            (
                'pods "web" is forbidden: User "system:serviceaccount:kube-system:berth" cannot '
                'update resource "pods" in API group "" in the namespace "shop"'
            ),
        ),
        (
            "GET",
            "/apis/storage.k8s.io/v1/storageclasses/fast",
            (
                'storageclasses.storage.k8s.io "fast" is forbidden: User '
                '"system:serviceaccount:kube-system:berth" cannot get resource "storageclasses" '
                'in API group "storage.k8s.io" at the cluster scope'
            ),
        ),
    ],
)
def test_a_refusal_has_the_words_of_the_api_server(
    method: str, url: str, message: str, rights: Rights
) -> None:
    with pytest.raises(ApiError) as refused:
        rights.check(method, url)
    assert (refused.value.code, str(refused.value)) == (403, message)
    assert len(rights.refused) == 1


def test_only_the_lease_of_the_election_may_be_changed(rights: Rights) -> None:
    rights.check("POST", LEASES)
    rights.check("PUT", f"{LEASES}/kube-scheduler")
    with pytest.raises(ApiError):
        rights.check("PUT", f"{LEASES}/kube-controller-manager")
    with pytest.raises(ApiError):
        rights.check("POST", LEASES.replace("kube-system", "shop"))


def test_bodies_ask_for_further_rights() -> None:
    (binding,) = implied(
        attributes_of("PATCH", f"{CLAIMS}/resourceclaims/gpu/status"), {"status": {"allocation": 1}}
    )
    assert (binding.verb, binding.resource) == ("patch", "resourceclaims/binding")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "blockOwnerDeletion": True}
    (finalizers,) = implied(
        attributes_of("POST", f"{CLAIMS}/resourceclaims"),
        {"metadata": {"ownerReferences": [owner]}},
    )
    assert finalizers == Attributes("update", "", "pods/finalizers", "shop", "web")


def test_no_right_is_granted_that_kube_scheduler_does_not_have() -> None:
    authorizer = Authorizer(shipped(), NAMESPACE, ACCOUNT)
    beyond = [
        right
        for right in authorizer.shipped
        if right.verb not in KUBE_SCHEDULER.get(right.group, {}).get(right.resource, ())
        and right.resource not in REMOVED
    ]
    assert beyond == []
    assert len(set(authorizer.shipped)) == len(authorizer.shipped), "a right is granted twice"


def test_what_berth_misses_at_the_start_is_granted() -> None:
    paths = [kind.path for kind in BY_KIND.values()]
    authorizer = Authorizer(shipped(), NAMESPACE, ACCOUNT)
    granted = {(right.group, right.resource, right.verb) for right in authorizer.shipped}
    checked = {
        (right.group, right.resource, right.verb)
        for right in needed(paths, LeaderElectionConfiguration())
    }
    assert checked <= granted
