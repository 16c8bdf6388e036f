"""VolumeRestrictions: each rule, each message, each hint."""

from __future__ import annotations

from typing import Any

import pytest

from berth.actors.scheduling.decision.failures import PluginError
from berth.actors.scheduling.framework.events import Action, Resource
from berth.actors.scheduling.framework.status import SKIP, Code
from berth.actors.scheduling.kube.kinds import decode
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.scheduling.model.what_if import Supposition, supposing
from berth.actors.scheduling.plugins.volume_restrictions import VolumeRestrictions
from berth.plugin import PodInfo
from tests.kit.handle import NoApi
from tests.kit.hints import profile, wakes
from tests.kit.storage import answered, as_pod, claim, cluster, node, of_claim, pod, rejected
from tests.kit.structs import node as a_node

PLUGIN = VolumeRestrictions({}, NoApi())
DISK = "node(s) had no available disk"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)


def gce(name: str, read_only: bool = False) -> dict[str, Any]:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(name: str, read_only: bool = False) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(name: str, read_only: bool = False) -> dict[str, Any]:
    return {"iscsi": {"iqn": name, "readOnly": read_only}}


def rbd(
    *monitors: str, pool: str = "p", image: str = "i", read_only: bool = False
) -> dict[str, Any]:
    return {"rbd": {"monitors": [*monitors], "pool": pool, "image": image, "readOnly": read_only}}


def once(name: str, namespace: str = "ns") -> dict[str, Any]:
    return claim(name, namespace=namespace, accessModes=["ReadWriteOncePod"])


DISKS = [
    (gce("d"), gce("d"), True),
    (gce("d"), gce("e"), False),
    (gce("d", True), gce("d", True), False),
    (gce("d", True), gce("d"), True),
    (gce("d"), gce("d", True), True),
    (ebs("d"), ebs("d"), True),
    (ebs("d", True), ebs("d", True), True),
    (ebs("d"), ebs("e"), False),
    (ebs("d"), gce("d"), False),
    (iscsi("d"), iscsi("d"), True),
    (iscsi("d", True), iscsi("d", True), False),
    (iscsi("d", True), iscsi("d"), True),
    (iscsi("d"), iscsi("e"), False),
    (rbd("a", "b"), rbd("b", "c"), True),
    (rbd("a"), rbd("b"), False),
    (rbd(), rbd(), False),
    (rbd("a"), rbd("a", pool="q"), False),
    (rbd("a"), rbd("a", image="j"), False),
    (rbd("a", read_only=True), rbd("a", read_only=True), False),
    (rbd("a", read_only=True), rbd("a"), True),
]


@pytest.mark.parametrize(("new", "held", "conflict"), DISKS)
def test_disks(new: dict[str, Any], held: dict[str, Any], conflict: bool) -> None:
    snapshot = cluster(node("a"), node("b"), pod("other", {"emptyDir": {}}, held, on="b"))
    answer = answered(PLUGIN, pod("p", {"emptyDir": {}}, new), snapshot)
    assert rejected(answer) == ({"b": DISK} if conflict else {})
    assert isinstance(answer, dict)
    assert answer["b"].code == (Code.UNSCHEDULABLE if conflict else Code.SUCCESS)


@pytest.mark.parametrize(
    ("volumes", "objects"),
    [
        ([], []),
        ([{"emptyDir": {}}, {"azureDisk": {"diskURI": "d"}}], []),
        ([{"ephemeral": {}}], []),
        ([of_claim("c")], [claim("c"), pod("other", of_claim("c"), on="a")]),
        ([of_claim("c")], [once("c")]),
        ([of_claim("c")], [once("c"), pod("other", of_claim("c"), on="gone")]),
        ([of_claim("c")], [once("c"), pod("other", of_claim("c"), on="a", namespace="x")]),
    ],
)
def test_skipped(volumes: list[dict[str, Any]], objects: list[dict[str, Any]]) -> None:
    assert answered(PLUGIN, pod("p", *volumes), cluster(node("a"), *objects)) == SKIP


@pytest.mark.parametrize(
    ("name", "objects"), [("c", []), ("c", [claim("c", namespace="other")]), ("", [claim("c")])]
)
def test_a_missing_claim_rejects_the_pod(name: str, objects: list[dict[str, Any]]) -> None:
    snapshot = cluster(node("a"), *objects)
    answer = answered(PLUGIN, pod("p", gce("d"), of_claim(name)), snapshot)
    assert not isinstance(answer, dict)
    assert answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert answer.message == f'persistentvolumeclaim "{name}" not found'


def test_a_claim_for_one_pod_that_is_in_use_rejects_every_node() -> None:
    snapshot = cluster(
        node("a"), node("b"), once("c"), pod("other", gce("d"), of_claim("c"), on="b")
    )
    answer = answered(PLUGIN, pod("p", of_claim("c")), snapshot)
    assert rejected(answer) == {"a": IN_USE, "b": IN_USE}
    answer = answered(PLUGIN, pod("p", gce("d"), of_claim("c")), snapshot)
    assert rejected(answer) == {"a": IN_USE, "b": DISK}
    assert isinstance(answer, dict)
    assert {status.code for status in answer.values()} == {Code.UNSCHEDULABLE}


def test_a_filter_without_its_pre_filter_fails() -> None:
    with pytest.raises(PluginError, match="PreFilterVolumeRestrictions"):
        answered(PLUGIN, pod("p"), cluster(node("a")), pre_filter=False)


# ------------------------------------------------------------------------------------------ what if


def on(snapshot: Snapshot, name: str, key: str) -> tuple[int, PodInfo]:
    row = snapshot.columns.row_of[name]
    info = snapshot.columns.infos[row]
    assert info is not None
    return row, info.pods[key]


def move(supposition: Supposition, snapshot: Snapshot, node_name: str, key: str) -> None:
    supposition.remove(*on(snapshot, node_name, key))
    supposition.settle()


def test_removing_the_pod_that_holds_a_disk_frees_it_for_a_while() -> None:
    snapshot = cluster(node("a"), pod("other", gce("d"), on="a"))
    user = pod("p", gce("d"))
    with supposing(snapshot) as supposition:
        move(supposition, snapshot, "a", "ns/other")
        assert rejected(answered(PLUGIN, user, snapshot)) == {}
        supposition.add(0, PodInfo(as_pod(pod("reader", gce("d", True)))))
        supposition.settle()
        assert rejected(answered(PLUGIN, user, snapshot)) == {"a": DISK}
        reader = answered(PLUGIN, pod("p", gce("d", True)), snapshot)
        assert rejected(reader) == {}
    assert rejected(answered(PLUGIN, user, snapshot)) == {"a": DISK}
    snapshot.columns.counts.validate()


def test_removing_the_only_user_of_a_claim_frees_it() -> None:
    snapshot = cluster(node("a"), node("b"), once("c"), pod("other", of_claim("c"), on="b"))
    user = pod("p", of_claim("c"))
    with supposing(snapshot) as supposition:
        move(supposition, snapshot, "b", "ns/other")
        assert answered(PLUGIN, user, snapshot) == SKIP
    assert rejected(answered(PLUGIN, user, snapshot)) == {"a": IN_USE, "b": IN_USE}


def test_two_users_of_a_claim_count_once_until_one_is_removed() -> None:
    """kube-scheduler counts the uses that it finds as one, and subtracts each that is removed."""
    snapshot = cluster(
        node("a"), once("c"), *(pod(name, of_claim("c"), on="a") for name in ("x", "y"))
    )
    with supposing(snapshot) as supposition:
        move(supposition, snapshot, "a", "ns/x")
        assert answered(PLUGIN, pod("p", of_claim("c")), snapshot) == SKIP


def test_each_of_two_claims_in_use_conflicts() -> None:
    snapshot = cluster(
        node("a"),
        once("c"),
        once("d"),
        pod("x", of_claim("c"), on="a"),
        pod("y", of_claim("d"), on="a"),
    )
    user = pod("p", of_claim("c"), of_claim("d"))
    with supposing(snapshot) as supposition:
        move(supposition, snapshot, "a", "ns/x")
        assert rejected(answered(PLUGIN, user, snapshot)) == {"a": IN_USE}
        move(supposition, snapshot, "a", "ns/y")
        assert answered(PLUGIN, user, snapshot) == SKIP


def test_an_added_pod_uses_its_claims() -> None:
    snapshot = cluster(node("a"), once("c"))
    with supposing(snapshot) as supposition:
        supposition.add(0, PodInfo(as_pod(pod("nominated", of_claim("c")))))
        supposition.settle()
        user = pod("p", of_claim("c"))
        assert rejected(answered(PLUGIN, user, snapshot)) == {"a": IN_USE}


def test_a_removed_pod_of_another_namespace_counts_by_the_name_of_its_claim() -> None:
    """As in kube-scheduler, which compares no namespaces here."""
    snapshot = cluster(
        node("a"),
        once("c"),
        pod("x", of_claim("c"), on="a"),
        pod("y", of_claim("c"), on="a", namespace="other"),
    )
    with supposing(snapshot) as supposition:
        move(supposition, snapshot, "a", "other/y")
        assert answered(PLUGIN, pod("p", of_claim("c")), snapshot) == SKIP


# -------------------------------------------------------------------------------------------- hints

DEFAULT = profile()
POD_DELETE = (Resource.ASSIGNED_POD, Action.DELETE)
CLAIM_ADD = (Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD)


@pytest.mark.parametrize(("new", "held", "conflict"), DISKS)
def test_a_deleted_pod_with_a_conflicting_disk_wakes(
    new: dict[str, Any], held: dict[str, Any], conflict: bool
) -> None:
    user = as_pod(pod("p", new))
    gone = as_pod(pod("other", held, on="a"))
    assert wakes(DEFAULT, "VolumeRestrictions", POD_DELETE, user, gone) == conflict
    elsewhere = as_pod(pod("other", held, on="a", namespace="x"))
    assert not wakes(DEFAULT, "VolumeRestrictions", POD_DELETE, user, elsewhere)


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (pod("x", of_claim("c"), on="a"), True),
        (pod("x", of_claim("c")), True),
        (pod("x", of_claim("d"), on="a"), False),
        (pod("x", of_claim("c"), on="a", namespace="other"), False),
        (pod("x", on="a"), False),
    ],
)
def test_a_deleted_pod_with_the_same_claim_wakes(gone: dict[str, Any], expected: bool) -> None:
    user = as_pod(pod("p", of_claim("c")))
    assert wakes(DEFAULT, "VolumeRestrictions", POD_DELETE, user, as_pod(gone)) == expected


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        (claim("c"), True),
        (claim("d"), False),
        (claim("c", namespace="other"), False),
        (claim("p-v1"), False),
    ],
)
def test_an_added_claim_of_the_pod_wakes(added: dict[str, Any], expected: bool) -> None:
    user = as_pod(pod("p", of_claim("c"), {"ephemeral": {}}))
    assert wakes(DEFAULT, "VolumeRestrictions", CLAIM_ADD, user, None, decode(added)) == expected


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ((Resource.NODE, Action.ADD), True),
        ((Resource.NODE, Action.UPDATE_NODE_LABEL), False),
        ((Resource.PERSISTENT_VOLUME_CLAIM, Action.UPDATE), False),
        ((Resource.ASSIGNED_POD, Action.ADD), False),
    ],
)
def test_other_events(event: tuple[Resource, Action], expected: bool) -> None:
    user = as_pod(pod("p", of_claim("c")))
    assert wakes(DEFAULT, "VolumeRestrictions", event, user, None, a_node()) == expected
