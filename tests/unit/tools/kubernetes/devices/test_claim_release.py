"""Claims that nobody uses any more: reservations, allocations and finalizers are removed."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from berth.actors.scheduling.kube.devices import FINALIZER, ResourceClaim
from berth.tools.kubernetes.devices.claim_release import ClaimRelease
from berth.tools.kubernetes.objects.structs import Pod
from berth.tools.kubernetes.objects.writes import Again, Delete, Patch, Write
from tests.kit.documents import Document
from tests.unit.tools.kubernetes.devices.objects import LATER, NOW, claim, consumer, owned, pod


def decide(
    controller: ClaimRelease,
    of: ResourceClaim,
    *pods: Pod,
    gone: Collection[str] = (),
    now: datetime = NOW,
) -> list[Write]:
    by_name = {pod.metadata.name: pod for pod in pods}
    return controller.reconcile(of, by_name.get, lambda uid: uid in gone, now)


def changed(writes: list[Write]) -> Document:
    """Returns the body of the only write, and checks that it cannot undo somebody else's write."""
    (write,) = writes
    assert isinstance(write, Patch)
    body = {**write.body, "metadata": {**write.body["metadata"]}}
    assert body["metadata"].pop("resourceVersion") == "1"
    return body


def test_pods_that_are_gone_replaced_or_finished_lose_their_reservation() -> None:
    runs, ended = pod("runs", on="n1"), pod("ended", phase="Failed")
    unbound = pod("unbound", deletionTimestamp=LATER)
    going = pod("going", on="n1", deletionTimestamp=LATER)
    gone, replaced = pod("gone"), pod("replaced")
    others = ({"apiGroup": "x", "resource": "y", "uid": "z"},)
    users = runs, ended, unbound, going, gone, replaced
    subject = claim("c", *users, others=others, allocated=True)
    present = runs, ended, unbound, going, pod("replaced", uid="new")
    body = changed(decide(ClaimRelease(), subject, *present, gone=["uid-gone"]))
    left = body["status"]["reservedFor"]
    assert [user["uid"] for user in left] == ["uid-runs", "uid-going", "z"]
    assert "allocation" not in body["status"]


def test_the_last_reservation_takes_the_allocation_and_then_the_finalizer_along() -> None:
    controller, user = ClaimRelease(), pod("p", phase="Succeeded")
    body = changed(decide(controller, claim("c", user, allocated=True), user))
    assert body == {"metadata": {}, "status": {"reservedFor": None, "allocation": None}}
    freed = claim("c", finalizers=["other", FINALIZER])
    assert changed(decide(controller, freed, user)) == {"metadata": {"finalizers": ["other"]}}
    assert decide(controller, claim("c", finalizers=["other"]), user) == []


def test_a_claim_that_nobody_has_used_keeps_its_allocation_and_its_finalizer() -> None:
    controller = ClaimRelease()
    assert decide(controller, claim("c", allocated=True)) == []
    # the scheduler sets the finalizer before the allocation
    assert decide(controller, claim("c", finalizers=[FINALIZER])) == []


def test_a_claim_that_is_allocated_again_keeps_its_finalizer() -> None:
    controller, user = ClaimRelease(), pod("p", phase="Succeeded")
    assert decide(controller, claim("c", user, allocated=True), user)
    other = pod("other")
    assert decide(controller, claim("c", other, allocated=True), user, other) == []
    assert decide(controller, claim("c", finalizers=[FINALIZER]), user, other) == []


def test_an_allocation_without_the_finalizer_belongs_to_somebody_else() -> None:
    user = pod("p", phase="Succeeded")
    subject = claim("c", user, allocated=True, finalizers=[])
    body = changed(decide(ClaimRelease(), subject, user))
    assert body == {"metadata": {}, "status": {"reservedFor": None}}


def test_a_deleted_claim_is_freed_once_nobody_uses_it() -> None:
    controller, user = ClaimRelease(), pod("p", on="n1")
    doomed: Document = {"deletionTimestamp": LATER}
    assert decide(controller, claim("c", user, allocated=True, **doomed), user) == []
    body = changed(decide(controller, claim("c", allocated=True, **doomed)))
    assert body == {"metadata": {}, "status": {"allocation": None}}
    body = changed(decide(controller, claim("c", finalizers=[FINALIZER], **doomed)))
    assert body == {"metadata": {"finalizers": []}}


def test_the_claim_of_a_finished_or_replaced_pod_is_deleted() -> None:
    controller, user = ClaimRelease(), pod("p", on="n1")
    own = owned(claim("c"), user)
    assert decide(controller, own, user) == []
    for owner in (pod("p", phase="Failed"), pod("p", uid="new")):
        (write,) = decide(controller, own, owner)
        assert isinstance(write, Delete)
        assert (write.name, write.uid) == ("c", "uid-c")
    # the garbage collector deletes the claim of a pod that is gone
    assert decide(controller, own) == []
    going = owned(claim("c", deletionTimestamp=LATER), user)
    assert decide(controller, going, pod("p", phase="Failed")) == []
    assert decide(controller, claim("c"), pod("p", phase="Failed")) == []


def test_a_pod_that_nobody_has_heard_of_may_be_new() -> None:
    controller, user = ClaimRelease(), pod("p")
    subject = claim("c", user, allocated=True)
    (write,) = decide(controller, subject)
    assert isinstance(write, Again)
    assert 0 < write.seconds <= 2
    assert decide(controller, subject, user, now=NOW + timedelta(seconds=1)) == []
    assert isinstance(decide(controller, subject, now=NOW + timedelta(seconds=2))[0], Again)
    body = changed(decide(controller, subject, now=NOW + timedelta(seconds=4)))
    assert body["status"] == {"reservedFor": None, "allocation": None}


def test_one_pod_may_be_missing_while_another_is_gone() -> None:
    new, gone = pod("new"), pod("gone")
    subject = claim("c", new, gone, allocated=True)
    patch, again = decide(ClaimRelease(), subject, gone=["uid-gone"])
    assert isinstance(patch, Patch)
    assert patch.body["status"] == {"reservedFor": [consumer(new)]}
    assert isinstance(again, Again)
