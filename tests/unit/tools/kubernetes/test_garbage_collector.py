"""The decisions of the garbage collector about owners and dependents."""

from __future__ import annotations

from typing import Any

import pytest

from berth.actors.scheduling.kube.meta import HasMetadata
from berth.tools.kubernetes import garbage_collector
from berth.tools.kubernetes.object_index import ObjectChange, ObjectIndex
from berth.tools.kubernetes.objects.documents import reference_to
from berth.tools.kubernetes.objects.structs import TYPES, Document, Pod, ReplicaSet, read
from berth.tools.kubernetes.objects.writes import Delete, Look, Patch, Write

THEN = "2025-12-31T23:59:50Z"
WAITING = {"finalizers": ["foregroundDeletion"], "deletionTimestamp": THEN}
ORPHANING = {"finalizers": ["orphan"], "deletionTimestamp": THEN}


def obj(kind: type[Any], name: str, *owners: HasMetadata, **metadata: Any) -> Any:
    references = [reference_to(owner) for owner in owners]
    place = {"name": name, "namespace": "n", "uid": f"uid-{name}", "resourceVersion": "1"}
    return read({"metadata": {**place, "ownerReferences": references, **metadata}}, kind)


def cluster_of(*objects: HasMetadata) -> ObjectIndex:
    """Returns a cluster in which these objects are the only ones."""
    cluster = ObjectIndex()
    for kind in TYPES.values():
        cluster.replace(kind, [each for each in objects if type(each) is kind])
    return cluster


def collected(subject: HasMetadata, *others: HasMetadata) -> list[Write]:
    return garbage_collector.reconcile(cluster_of(subject, *others), subject)


def owners_after(write: Write) -> list[str]:
    assert isinstance(write, Patch)
    return [reference["name"] for reference in write.body["metadata"]["ownerReferences"]]


A, B = obj(ReplicaSet, "a"), obj(ReplicaSet, "b")
A_WAITS = obj(ReplicaSet, "a", **WAITING)


@pytest.mark.parametrize(
    ("there", "expected"),
    [((A, B), []), ((A_WAITS, B), ["b"]), ((A_WAITS,), None), ((), None), ((A,), ["a"])],
)
def test_a_dependent_stays_as_long_as_an_owner_is_solid(
    there: tuple[ReplicaSet, ...], expected: list[str] | None
) -> None:
    dependent, cluster = obj(Pod, "p", A, B), cluster_of(A, B)
    for owner in (A, B):
        if owner.metadata.uid not in {each.metadata.uid for each in there}:
            cluster.remove(owner)
    for each in there:
        if each is A_WAITS:
            cluster.put(obj(ReplicaSet, "a", **WAITING, resourceVersion="2"))
    writes = garbage_collector.reconcile(cluster, dependent)
    if expected is None:
        assert writes == [Delete("Pod", "n", "p", "uid-p")]
    else:
        assert [owners_after(write) for write in writes] == ([expected] if expected else [])


def test_an_owner_that_was_never_seen_is_looked_for() -> None:
    dependent = obj(Pod, "p", A)
    cluster = cluster_of(obj(ReplicaSet, "a", uid="another"), dependent)
    look = Look("ReplicaSet", "n", "a", "uid-a")
    assert garbage_collector.reconcile(cluster, dependent) == [look]
    cluster.note_absent(look.kind, look.namespace, look.name, look.uid)
    assert garbage_collector.reconcile(cluster, dependent) == [Delete("Pod", "n", "p", "uid-p")]
    assert not cluster.is_gone("uid-a"), "it may exist under another name"


def test_owners_of_unfamiliar_kinds_count_as_solid() -> None:
    reference = {"apiVersion": "example.com/v1", "kind": "Pod", "name": "a", "uid": "u"}
    assert collected(obj(Pod, "p", ownerReferences=[reference])) == []


def blocks(name: str, *, block: bool = True, **metadata: Any) -> Pod:
    reference = {**reference_to(A), "blockOwnerDeletion": block}
    pod: Pod = obj(Pod, name, ownerReferences=[reference], **metadata)
    return pod


def finalizers_after(writes: list[Write]) -> list[Document]:
    return [write.body["metadata"] for write in writes if isinstance(write, Patch)]


@pytest.mark.parametrize(
    ("dependents", "goes"),
    [
        ([], True),
        ([blocks("p")], False),
        ([blocks("p", deletionTimestamp=THEN)], False),
        ([blocks("p", block=False)], True),
    ],
)
def test_an_owner_in_the_foreground_waits_for_those_that_block(
    dependents: list[Pod], goes: bool
) -> None:
    writes = finalizers_after(collected(A_WAITS, *dependents))
    assert writes == ([{"finalizers": [], "resourceVersion": "1"}] if goes else [])


def test_a_dependent_with_dependents_is_deleted_in_the_foreground_too() -> None:
    middle = obj(ReplicaSet, "m", A)
    foreground = Delete("ReplicaSet", "n", "m", "uid-m", propagation="Foreground")
    assert collected(middle, A_WAITS, obj(Pod, "p", middle)) == [foreground]
    unblock, last = collected(middle, A_WAITS, obj(ReplicaSet, "c", middle, **WAITING))
    assert last == foreground
    assert isinstance(unblock, Patch)
    (reference,) = unblock.body["metadata"]["ownerReferences"]
    assert reference["blockOwnerDeletion"] is False, "a cycle would never end"


@pytest.mark.parametrize(
    ("finalizers", "policy"),
    [([], "Background"), (["orphan"], "Orphan"), (["foregroundDeletion"], "Foreground")],
)
def test_the_finalizers_of_a_dependent_decide_how_it_is_deleted(
    finalizers: list[str], policy: str
) -> None:
    (write,) = collected(obj(Pod, "p", A, finalizers=finalizers), A_WAITS)
    assert write == Delete("Pod", "n", "p", "uid-p", propagation=policy)


def test_an_orphaning_owner_goes_once_nothing_refers_to_it() -> None:
    owner = obj(ReplicaSet, "a", **ORPHANING)
    writes = collected(owner, obj(Pod, "p", A, B), obj(Pod, "q", A))
    assert [owners_after(write) for write in writes] == [["b"], []]
    assert finalizers_after(collected(owner)) == [{"finalizers": [], "resourceVersion": "1"}]


def test_a_change_touches_only_what_it_may_decide() -> None:
    dependents = [obj(Pod, f"p{i}", A) for i in range(3)]
    cluster = cluster_of(A_WAITS, *dependents)

    def touched(before: HasMetadata | None, after: HasMetadata | None) -> list[str]:
        change = ObjectChange(before, after)
        return [each.metadata.name for each in garbage_collector.touched(cluster, change)]

    assert touched(A, A_WAITS) == ["a", "p0", "p1", "p2"]
    assert touched(A_WAITS, A_WAITS) == ["a"], "the dependents are being deleted already"
    assert touched(dependents[0], None) == ["a"]
    assert touched(A_WAITS, None) == ["p0", "p1", "p2"]
    assert [
        *garbage_collector.touched(cluster_of(A), ObjectChange(dependents[0], dependents[0]))
    ] == []
