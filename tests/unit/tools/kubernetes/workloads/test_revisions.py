"""The revisions of daemon sets and stateful sets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.tools.kubernetes.objects.documents import reference_to
from berth.tools.kubernetes.objects.structs import (
    ControllerRevision,
    DaemonSet,
    Document,
    Pod,
    StatefulSet,
    read,
)
from berth.tools.kubernetes.objects.writes import Create, Delete, Patch, Write
from berth.tools.kubernetes.workloads.revisions import (
    HASH,
    delete_old_revisions,
    empty_history,
    record,
)
from berth.tools.kubernetes.workloads.stateful_set import pod_creation

KINDS = pytest.mark.parametrize("kind", [DaemonSet, StatefulSet])
Owner = DaemonSet | StatefulSet


def owner_of(kind: type[Any], image: str, status: Document | None = None, /, **spec: Any) -> Any:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"image": image}]}}
    selected = {"selector": {"matchLabels": {"app": "x"}}, "template": template, **spec}
    metadata = {"name": "w", "namespace": "n", "uid": "u", "annotations": {"why": image}}
    return read({"metadata": metadata, "spec": selected, "status": status or {}}, kind)


def revision_of(owner: Owner, number: int, image: str) -> ControllerRevision:
    """Returns the revision that was made when the owner had this image."""
    before = owner_of(type(owner), image)
    create = creations(record(before, [], lambda name: False)[1])[0]
    return read({**create, "revision": number}, ControllerRevision)


def creations(writes: list[Write]) -> list[Document]:
    return [write.document for write in writes if isinstance(write, Create)]


@KINDS
def test_the_first_revision_has_the_template_and_the_number_1(kind: type[Owner]) -> None:
    owner = owner_of(kind, "a")
    history, writes = record(owner, [], lambda name: False)
    (document,) = creations(writes)
    assert document["metadata"] == {
        "name": f"w-{history.hash}",
        "namespace": "n",
        "labels": {"app": "x", HASH: history.hash},
        "annotations": {"why": "a"},
        "ownerReferences": [reference_to(owner)],
    }
    assert document["revision"] == 1
    assert document["data"]["spec"]["template"] == {**owner.spec.template, "$patch": "replace"}
    assert record(owner, [revision_of(owner, 1, "a")], lambda name: True) == (history, [])


@KINDS
def test_a_template_that_returns_gets_a_new_number(kind: type[Owner]) -> None:
    owner = owner_of(kind, "a")
    revisions = [revision_of(owner, 2, "b"), revision_of(owner, 1, "a")]
    history, (write,) = record(owner, revisions, lambda name: True)
    assert isinstance(write, Patch)
    assert (write.name, write.body["revision"]) == (history.name, 3)
    assert [each.metadata.name for each in history.old] == [revisions[0].metadata.name]
    new = creations(record(owner_of(kind, "c"), revisions, lambda name: False)[1])
    assert [document["revision"] for document in new] == [3]


@KINDS
def test_a_name_that_is_taken_counts_as_a_collision(kind: type[Owner]) -> None:
    owner = owner_of(kind, "a")
    taken = empty_history(owner).name
    history, writes = record(owner, [], lambda name: name == taken)
    assert (history.collisions, len(creations(writes))) == (1, 1)
    assert history.name != taken
    later = owner_of(kind, "a", {"collisionCount": 1})
    assert record(later, [], lambda name: False)[0].name == history.name


def pod(revision: str) -> Pod:
    return read({"metadata": {"name": "p", "labels": {HASH: revision}}}, Pod)


def test_the_oldest_revisions_without_pods_go() -> None:
    for kind, gone in ((DaemonSet, ["b", "c"]), (StatefulSet, ["b"])):
        owner = owner_of(kind, "e", revisionHistoryLimit=2)
        old = {image: revision_of(owner, i, image) for i, image in enumerate("abcd")}
        history, _ = record(owner, old.values(), lambda name: False)
        metadata = old["a"].metadata
        mark = metadata.labels[HASH] if kind is DaemonSet else metadata.name
        writes = delete_old_revisions(owner, history, [pod(mark)])
        names = [write.name for write in writes if isinstance(write, Delete)]
        assert names == [old[image].metadata.name for image in gone]
        assert delete_old_revisions(owner_of(kind, "e"), history, []) == []


def test_the_current_revision_of_a_stateful_set_stays() -> None:
    owner = owner_of(StatefulSet, "b", revisionHistoryLimit=0)
    old = revision_of(owner, 1, "a")
    history, _ = record(owner, [old], lambda name: False)
    status = {"currentRevision": old.metadata.name}
    assert len(delete_old_revisions(owner, history, [])) == 1
    assert (
        delete_old_revisions(
            owner_of(StatefulSet, "b", status, revisionHistoryLimit=0), history, []
        )
        == []
    )


def test_a_pod_below_the_partition_has_the_current_template() -> None:
    old = revision_of(owner_of(StatefulSet, "b"), 1, "a")
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    owner = owner_of(
        StatefulSet,
        "b",
        {"currentRevision": old.metadata.name},
        updateStrategy=strategy,
        ordinals={"start": 1},
    )
    history, _ = record(owner, [old], lambda name: False)
    made_of = {
        ordinal: (pod["spec"]["containers"][0]["image"], pod["metadata"]["labels"][HASH])
        for ordinal in (1, 2, 3)
        for pod in creations(pod_creation(owner, ordinal, {}, history))
    }
    before, after = ("a", old.metadata.name), ("b", history.name)
    assert made_of == {1: before, 2: before, 3: after}


@KINDS
def test_a_template_that_says_the_same_in_other_words_has_its_revision(kind: type[Owner]) -> None:
    first = revision_of(owner_of(kind, "a"), 1, "a")
    owner = owner_of(kind, "a")
    template = owner.spec.template
    metadata = {**template["metadata"], "annotations": {}}
    words = {**template, "metadata": metadata, "spec": {**template["spec"], "nodeSelector": {}}}
    owner = msgspec.structs.replace(owner, spec=msgspec.structs.replace(owner.spec, template=words))
    history, writes = record(owner, [first], lambda name: False)
    assert (history.name, writes) == (first.metadata.name, [])
