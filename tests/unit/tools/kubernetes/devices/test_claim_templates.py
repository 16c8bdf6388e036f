"""Claims that are made from templates, and reservations for pods on a node."""

from __future__ import annotations

from berth.actors.scheduling.kube.claims import controller_uid
from berth.actors.scheduling.kube.devices import ResourceClaim
from berth.tools.kubernetes.devices.claim_templates import ClaimTemplates
from berth.tools.kubernetes.objects.structs import Pod, ResourceClaimTemplate, read
from berth.tools.kubernetes.objects.writes import Create, Patch, Write
from tests.unit.tools.kubernetes.devices.objects import (
    LATER,
    NOW,
    claim,
    from_template,
    named,
    owned,
    pod,
    template,
)


def decide(
    user: Pod,
    *claims: ResourceClaim,
    templates: tuple[ResourceClaimTemplate, ...] = (template(),),
    controller: ClaimTemplates | None = None,
) -> list[Write]:
    by_name = {claim.metadata.name: claim for claim in claims}
    own = [claim for claim in claims if controller_uid(claim) == user.metadata.uid]
    sources = {template.metadata.name: template for template in templates}
    controller = controller or ClaimTemplates()
    return controller.reconcile(user, own, by_name.get, sources.get, NOW)


def test_a_pod_owns_the_claim_that_is_made_for_it() -> None:
    labelled = template(labels={"a": "b"}, annotations={"c": "d"})
    (write,) = decide(pod("p", from_template("gpu")), templates=(labelled,))
    assert isinstance(write, Create)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    assert write.document["metadata"] == {
        "generateName": "p-gpu-",
        "namespace": "n",
        "labels": {"a": "b"},
        "annotations": {"c": "d", "resource.kubernetes.io/pod-claim-name": "gpu"},
        "ownerReferences": [owner],
    }
    assert write.document["spec"] == template().spec.spec


def test_both_parts_of_a_long_name_are_shortened() -> None:
    (write,) = decide(pod("p" * 60, from_template("g" * 40)))
    assert isinstance(write, Create)
    assert write.document["metadata"]["generateName"] == "p" * 33 + "-" + "g" * 22


def test_the_name_of_the_claim_is_recorded_beside_those_recorded_before() -> None:
    user = pod("p", from_template("a"), from_template("b"), made_claims={"a": "p-a-1"})
    claims = owned(claim("p-a-1"), user, "a"), owned(claim("p-b-2"), user, "b")
    (write,) = decide(user, *claims)
    assert isinstance(write, Patch)
    assert (write.kind, write.name, write.subresource) == ("Pod", "p", "status")
    assert write.body == {
        "metadata": {"uid": "uid-p"},
        "status": {
            "resourceClaimStatuses": [
                {"name": "a", "resourceClaimName": "p-a-1"},
                {"name": "b", "resourceClaimName": "p-b-2"},
            ]
        },
    }
    assert decide(pod("p", from_template("a"), made_claims={"a": "p-a-1"}), claims[0]) == []


def test_a_claim_that_is_gone_or_belongs_to_another_pod_is_made_again() -> None:
    user = pod("p", from_template(), made_claims={"gpu": "p-gpu-1"})
    stranger = owned(claim("p-gpu-1"), pod("other"))
    for claims in ((), (stranger,)):
        (write,) = decide(user, *claims)
        assert isinstance(write, Create)


def test_a_pod_that_ends_or_has_ended_gets_no_claim() -> None:
    assert decide(pod("p", from_template(), deletionTimestamp=LATER)) == []
    assert decide(pod("p", from_template(), phase="Succeeded")) == []
    assert decide(pod("p", named(claim="missing"))) == []


def test_a_missing_template_is_reported_once() -> None:
    controller, user = ClaimTemplates(), pod("p", from_template(template="gone"))
    (write,) = decide(user, controller=controller)
    assert isinstance(write, Create)
    assert write.document["reason"] == "FailedResourceClaimCreation"
    assert write.document["message"] == (
        'PodResourceClaim gpu: resource claim template "gone": '
        'resourceclaimtemplate.resource.k8s.io "gone" not found'
    )
    assert decide(user, controller=controller) == []
    controller.forget("n/p")
    assert len(decide(user, controller=controller)) == 1


def test_an_allocated_claim_is_reserved_for_a_pod_on_a_node() -> None:
    first, second = pod("first"), pod("second", named(), on="n1")
    (write,) = decide(second, claim("c", first, allocated=True))
    assert isinstance(write, Patch)
    assert write.body["metadata"] == {"resourceVersion": "1"}
    assert [user["uid"] for user in write.body["status"]["reservedFor"]] == [
        "uid-first",
        "uid-second",
    ]
    assert list(write.body["status"]) == ["reservedFor"]
    # the scheduler reserves the claims of the pods that it places
    assert decide(pod("second", named()), claim("c", allocated=True)) == []
    assert decide(second, claim("c")) == []
    assert decide(second, claim("c", second, allocated=True)) == []


def test_the_claim_of_another_pod_is_not_reserved() -> None:
    user = pod("p", from_template(), on="n1", made_claims={"gpu": "c"})
    stranger = owned(claim("c", allocated=True), pod("other"))
    assert all(isinstance(write, Create) for write in decide(user, stranger))


def test_odd_pods_are_tolerated() -> None:
    assert decide(pod("p", {})) == []
    assert decide(read({"spec": {"resourceClaims": None}, "status": None}, Pod)) == []
