"""NodeVolumeLimits: each rule, each message, each hint."""

from __future__ import annotations

from typing import Any

import pytest

from berth.actors.scheduling.decision.failures import PluginError
from berth.actors.scheduling.framework.events import Action, Resource
from berth.actors.scheduling.framework.status import SKIP, Code
from berth.actors.scheduling.kube.kinds import decode
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.scheduling.model.what_if import supposing
from berth.actors.scheduling.plugins.node_volume_limits.plugin import NodeVolumeLimits
from berth.config.feature_gates import defaults_of, with_defaults
from berth.config.versions import VERSIONS
from berth.plugin import PodInfo
from tests.kit.handle import NoApi
from tests.kit.hints import profile, wakes
from tests.kit.storage import (
    answered,
    as_pod,
    claim,
    cluster,
    node,
    of_claim,
    pod,
    rejected,
    storage_class,
    thing,
    volume,
)

Thing = dict[str, Any]
REASON = "node(s) exceed max volume count"
EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
BAD_EBS = {"awsElasticBlockStore": {"volumeID": "aws://z/disk"}}
PD = {"gcePersistentDisk": {"pdName": "d"}}
A, B = of_claim("a"), of_claim("b")
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


def plugin(**gates: bool) -> NodeVolumeLimits:
    handle = NoApi()
    handle.feature_gates = with_defaults(gates)
    return NodeVolumeLimits({}, handle)


def csi_node(name: str, **limits: int | None) -> Thing:
    """Returns a CSINode; underscores in the names of drivers stand for dots."""
    drivers = [
        {
            "name": driver.replace("_", "."),
            "allocatable": None if limit is None else {"count": limit},
        }
        for driver, limit in limits.items()
    ]
    return thing("CSINode", name, spec={"drivers": drivers})


def csi(name: str, driver: str = "d", handle: str = "") -> Thing:
    return volume(name, csi={"driver": driver, "volumeHandle": handle or name})


def attachment(name: str, volume_name: str | None, on: str = "n", attacher: str = "d") -> Thing:
    source = {} if volume_name is None else {"persistentVolumeName": volume_name}
    return thing(
        "VolumeAttachment", name, spec={"attacher": attacher, "nodeName": on, "source": source}
    )


def bound(*names: str, driver: str = "d") -> list[Thing]:
    """Claims that are bound to CSI volumes, all of them with these names."""
    return [item for name in names for item in (claim(name, name), csi(name, driver))]


def passes(new: Thing, *objects: Thing, **gates: bool) -> bool:
    """True if the pod may run on the node n."""
    answer = rejected(answered(plugin(**gates), new, cluster(node("n"), *objects)))
    assert answer in ({}, {"n": REASON}), answer
    return not answer


def count(*volumes: Thing, objects: list[Thing], driver: str = "d") -> int:
    """Returns the number of the driver's volumes that a pod with these volumes adds to its node."""
    for limit in range(5):
        other = pod("other", *volumes, on="n")
        full = [
            csi_node("n", **{driver.replace(".", "_"): limit + 1}),
            *bound("new", driver=driver),
        ]
        if passes(pod("p", of_claim("new")), other, *full, *objects):
            return limit
    raise AssertionError("more than 4")


# ---------------------------------------------------------------------------------- the new volumes


@pytest.mark.parametrize("volumes", [[], [{"emptyDir": {}}], [{"rbd": {"image": "i"}}]])
def test_skipped(volumes: list[Thing]) -> None:
    assert answered(plugin(), pod("p", *volumes), cluster(node("n"))) == SKIP


def test_the_limit_of_the_driver() -> None:
    new = [A, B]
    for limit in range(4):
        passed = passes(pod("p", *new), csi_node("n", d=limit), *bound("a", "b"))
        assert passed == (limit >= 2)


@pytest.mark.parametrize(
    "nodes",
    [
        [],
        [csi_node("other", d=0)],
        [csi_node("n")],
        [csi_node("n", d=None)],
        [csi_node("n", e=0)],
        [thing("CSINode", "n", spec={"drivers": [{"name": "d", "allocatable": {}}]})],
        [thing("CSINode", "n", spec={"drivers": [{"name": "d", "allocatable": {"count": None}}]})],
    ],
)
def test_without_a_limit_everything_fits(nodes: list[Thing]) -> None:
    assert passes(pod("p", A), *nodes, *bound("a"))


def test_a_negative_limit_rejects() -> None:
    assert not passes(pod("p", A), csi_node("n", d=-1), *bound("a"))


def test_the_limits_of_each_driver() -> None:
    new = pod("p", A, B)
    volumes = [*bound("a"), *bound("b", driver="e")]
    assert passes(new, csi_node("n", d=1, e=1), *volumes)
    assert not passes(new, csi_node("n", d=1, e=0), *volumes)
    assert not passes(new, csi_node("n", d=0, e=1), *volumes)


def test_each_node_has_its_own_limit() -> None:
    snapshot = cluster(
        *(node(name) for name in "abc"),
        csi_node("a", d=1),
        csi_node("b", d=2),
        *bound("x", "y"),
        pod("other", of_claim("x"), on="b"),
        pod("third", of_claim("x"), on="a"),
    )
    answer = answered(plugin(), pod("p", of_claim("y")), snapshot)
    assert rejected(answer) == {"a": REASON}
    assert isinstance(answer, dict)
    assert answer["a"].code is Code.UNSCHEDULABLE


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (of_claim("gone"), 'looking up PVC ns/gone: persistentvolumeclaim "gone" not found'),
        ({"ephemeral": {}}, 'looking up PVC ns/p-v1: persistentvolumeclaim "p-v1" not found'),
    ],
)
@pytest.mark.parametrize("nodes", [[], [csi_node("n", d=9)]])
def test_a_missing_claim_makes_the_pod_unresolvable(
    new: Thing, message: str, nodes: list[Thing]
) -> None:
    snapshot = cluster(node("n"), *nodes, *bound("a"), claim("gone", namespace="other"))
    answer = answered(plugin(), pod("p", A, new), snapshot)
    assert rejected(answer) == {"n": message}
    assert isinstance(answer, dict)
    assert answer["n"].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


OWNED = [{"uid": "p", "controller": True}]


@pytest.mark.parametrize(
    ("new", "objects", "message"),
    [
        (of_claim(""), [], "PersistentVolumeClaim had no name"),
        (
            {"ephemeral": {}},
            [claim("p-v0")],
            "PVC ns/p-v0 was not created for pod ns/p (pod is not owner)",
        ),
        (
            {"ephemeral": {}},
            [claim("p-v0", ownerReferences=[{"uid": "other", "controller": True}])],
            "PVC ns/p-v0 was not created for pod ns/p (pod is not owner)",
        ),
    ],
)
def test_claims_that_fail_the_attempt(new: Thing, objects: list[Thing], message: str) -> None:
    with pytest.raises(PluginError) as raised:
        answered(plugin(), pod("p", new), cluster(node("n"), *objects))
    assert message in str(raised.value)


def test_the_claim_of_an_ephemeral_volume_counts() -> None:
    objects = [claim("p-v0", "x", ownerReferences=OWNED), csi("x")]
    assert passes(pod("p", {"ephemeral": {}}), csi_node("n", d=1), *objects)
    assert not passes(pod("p", {"ephemeral": {}}), csi_node("n", d=0), *objects)


def test_an_inline_disk_that_cannot_be_translated_fails_where_there_is_a_csi_node() -> None:
    assert passes(pod("p", BAD_EBS))
    with pytest.raises(PluginError) as raised:
        passes(pod("p", BAD_EBS), csi_node("n"))
    assert "converting volume(v0) from inline to csi: failed to translate" in str(raised.value)
    snapshot = cluster(node("a"), node("b"), csi_node("b"))
    with pytest.raises(PluginError):  # also if a node passes
        answered(plugin(), pod("p", BAD_EBS), snapshot)


def test_the_first_problem_of_a_pod_counts() -> None:
    new = pod("p", BAD_EBS, of_claim("gone"))
    message = 'looking up PVC ns/gone: persistentvolumeclaim "gone" not found'
    assert rejected(answered(plugin(), new, cluster(node("n")))) == {"n": message}
    with pytest.raises(PluginError, match="converting"):
        passes(new, csi_node("n"))


# ---------------------------------------------------------------------------- the volumes of a node


@pytest.mark.parametrize(
    ("volumes", "objects", "expected"),
    [
        ([A], bound("a"), 1),
        ([A, A], bound("a"), 1),
        ([A, B], bound("a", "b"), 2),
        ([A, B], [claim("a", "v"), claim("b", "v"), csi("v")], 1),
        ([A, B], [claim("a", "v"), claim("b", "w"), csi("v", handle="h"), csi("w", handle="h")], 1),
        ([A], bound("a", driver="e"), 0),
        ([of_claim("gone")], [], 0),
        ([{"ephemeral": {}}], [], 0),
        ([A], [claim("a", "v"), volume("v")], 0),
        ([A], [claim("a", "v"), volume("v", local={"path": "/p"})], 0),
        ([A], [claim("a", "v"), csi("v", driver="")], 0),
        ([A], [claim("a", "v"), volume("v", csi={"driver": "d"})], 0),
        # unbound claims
        ([A], [claim("a")], 0),
        ([A], [claim("a", storageClassName="s")], 0),
        ([A], [claim("a", storageClassName="s"), storage_class("s", "d")], 1),
        ([A], [claim("a", storageClassName="s"), storage_class("s", "")], 0),
        ([A], [claim("a", "gone", storageClassName="s"), storage_class("s", "d")], 1),
        (
            [A, B],
            [
                claim("a", storageClassName="s"),
                claim("b", storageClassName="s"),
                storage_class("s", "d"),
            ],
            2,
        ),
        ([A], [claim("a", annotations={BETA_CLASS: "s"}), storage_class("s", "d")], 1),
        # inline CSI volumes do not count
        ([{"csi": {"driver": "d"}}], [], 0),
    ],
)
def test_what_a_pod_counts_for(volumes: list[Thing], objects: list[Thing], expected: int) -> None:
    assert count(*volumes, objects=objects) == expected


GCE = "pd.csi.storage.gke.io"
ZONES = {"topology.kubernetes.io/zone": "a-b-c__d-e-f"}


@pytest.mark.parametrize(
    ("volumes", "objects", "driver", "expected"),
    [
        ([EBS], [], "ebs.csi.aws.com", 1),
        ([EBS, EBS, PD], [], "ebs.csi.aws.com", 1),
        ([{"awsElasticBlockStore": {}}], [], "ebs.csi.aws.com", 1),
        ([PD], [], GCE, 1),
        ([{"azureDisk": {"diskURI": "d"}}], [], "disk.csi.azure.com", 1),
        ([{"cinder": {"volumeID": "v"}}], [], "cinder.csi.openstack.org", 1),
        ([{"portworxVolume": {"volumeID": "v"}}], [], "pxd.portworx.com", 1),
        ([{"azureFile": {"shareName": "s"}}], [], "file.csi.azure.com", 0),
        ([{"vsphereVolume": {}}], [], "csi.vsphere.vmware.com", 0),
        ([A], [claim("a", "v"), volume("v", **PD)], GCE, 1),
        # The volume of the claim is the disk that the pod names too.
        ([A, PD], [claim("a", "v"), volume("v", **PD)], GCE, 1),
        ([A], [claim("a", "v"), volume("v", ZONES, **PD)], GCE, 0),
        ([A], [claim("a", "v"), volume("v", **BAD_EBS)], "ebs.csi.aws.com", 0),
        ([A], [claim("a", "v"), volume("v", awsElasticBlockStore={})], "ebs.csi.aws.com", 0),
        ([A], [claim("a", "v"), volume("v", azureFile={})], "file.csi.azure.com", 0),
        (
            [A],
            [claim("a", storageClassName="s"), storage_class("s", "kubernetes.io/gce-pd")],
            GCE,
            1,
        ),
        (
            [A],
            [claim("a", storageClassName="s"), storage_class("s", "kubernetes.io/azure-file")],
            "file.csi.azure.com",
            0,
        ),
    ],
)
def test_migrated_volumes(
    volumes: list[Thing], objects: list[Thing], driver: str, expected: int
) -> None:
    assert count(*volumes, objects=objects, driver=driver) == expected


def test_only_pods_on_the_node_count() -> None:
    limit = csi_node("n", d=1)
    assert passes(pod("p", A), limit, *bound("a", "b"), pod("q", B))
    elsewhere = pod("q", B, on="m")
    assert passes(pod("p", A), limit, node("m"), *bound("a", "b"), elsewhere)


def test_a_volume_that_the_node_already_attaches_needs_no_room() -> None:
    other = pod("q", A, on="n")
    new = pod("p", A)
    assert passes(new, csi_node("n", d=1), *bound("a"), other)
    assert passes(new, csi_node("n", d=0), *bound("a"), other)
    both = pod("p", A, B)
    assert not passes(both, csi_node("n", d=1), *bound("a", "b"), other)
    assert passes(both, csi_node("n", d=2), *bound("a", "b"), other)


def test_a_shared_volume_needs_no_room_where_it_is_attached() -> None:
    snapshot = cluster(
        *(item for name in "abc" for item in (node(name), csi_node(name, d=1))),
        *bound("x", "y"),
        pod("q", of_claim("x"), on="b"),
        pod("r", of_claim("y"), on="c"),
    )
    assert rejected(answered(plugin(), pod("p", of_claim("x")), snapshot)) == {"c": REASON}


def test_a_pod_on_the_node_that_cannot_be_counted_fails_the_attempt() -> None:
    volumes, new = bound("a"), pod("p", A)
    broken = pod("q", of_claim(""), on="n")
    assert passes(new, *volumes, broken)
    assert passes(new, csi_node("n", e=None), *volumes, broken)
    with pytest.raises(PluginError, match="PersistentVolumeClaim had no name"):
        passes(new, csi_node("n", e=0), *volumes, broken)
    # A pod without volumes that count is not concerned.
    unbound = pod("p", B)
    assert passes(unbound, csi_node("n", e=0), claim("b"), broken)
    with pytest.raises(PluginError, match="converting"):
        passes(new, csi_node("n", e=0), *volumes, pod("q", BAD_EBS, on="n"))
    stolen = pod("q", {"ephemeral": {}}, on="n")
    with pytest.raises(PluginError, match="pod is not owner"):
        passes(new, csi_node("n", e=0), *volumes, claim("q-v0"), stolen)


# -------------------------------------------------------------------------------- VolumeAttachments


@pytest.mark.parametrize(
    ("attached", "free"),
    [
        ([], True),
        ([attachment("x", "b")], False),
        ([attachment("x", "b", on="m")], True),
        ([attachment("x", "gone")], True),
        ([attachment("x", None)], True),
        ([attachment("x", "b", attacher="")], True),
        ([attachment("x", "b", attacher="e")], True),
        ([attachment("x", "disk")], True),
    ],
)
def test_attachments(attached: list[Thing], free: bool) -> None:
    objects = [*bound("a", "b"), volume("disk", **PD), csi_node("n", d=1), *attached]
    assert passes(pod("p", A), *objects) == free


def test_an_attached_volume_of_a_pod_counts_once() -> None:
    objects = [*bound("a", "b"), attachment("x", "b"), pod("q", B, on="n")]
    assert passes(pod("p", A), csi_node("n", d=2), *objects)
    assert not passes(pod("p", A), csi_node("n", d=1), *objects)


def test_two_attachments_of_one_volume_count_once() -> None:
    objects = [*bound("a", "b"), attachment("x", "b"), attachment("y", "b")]
    assert passes(pod("p", A), csi_node("n", d=2), *objects)


def test_a_volume_that_is_attached_without_a_pod_counts_again_for_the_new_pod() -> None:
    """As in kube-scheduler, which leaves out only volumes that pods of the node use."""
    objects = [*bound("a"), attachment("x", "a")]
    assert not passes(pod("p", A), csi_node("n", d=1), *objects)
    assert passes(pod("p", A), csi_node("n", d=2), *objects)


# -------------------------------------------------------------------------------- installed drivers


@pytest.mark.parametrize(
    ("required", "nodes", "installed"),
    [
        (None, [], True),
        (False, [], True),
        (True, [], False),
        (True, [csi_node("n")], False),
        (True, [csi_node("n", e=1)], False),
        (True, [csi_node("n", d=None)], True),
        (True, [csi_node("n", d=1)], True),
    ],
)
def test_a_driver_may_require_to_be_installed(
    required: bool | None, nodes: list[Thing], installed: bool
) -> None:
    spec = {} if required is None else {"preventPodSchedulingIfMissing": required}
    snapshot = cluster(node("n"), *nodes, *bound("a"), thing("CSIDriver", "d", spec=spec))
    new = pod("p", A)
    answer = rejected(answered(plugin(VolumeLimitScaling=True), new, snapshot))
    assert answer == ({} if installed else {"n": "d CSI driver is not installed on the node"})
    assert rejected(answered(plugin(), new, snapshot)) == {}


@pytest.mark.parametrize(
    ("minor", "known", "required", "limit", "installed"),
    [
        (37, True, False, None, True),
        (37, True, True, None, False),
        (36, True, True, None, True),
        (37, True, True, 2, True),
        (37, False, False, None, True),
    ],
)
def test_the_gates_of_1_37_require_drivers(
    minor: int, known: bool, required: bool, limit: int | None, installed: bool
) -> None:
    """The rows of TestVolumeLimitScalingGate in Kubernetes' nodevolumelimits/csi_test.go, 1.36.2,
    with the gate's default in each version.
    """
    driver = "ebs.csi.aws.com"
    objects = [node("n"), *bound("a", driver=driver)]
    if known:
        spec = {"preventPodSchedulingIfMissing": required}
        objects.append(thing("CSIDriver", driver, spec=spec))
    if limit is not None:
        objects.append(csi_node("n", ebs_csi_aws_com=limit))
    limits = NodeVolumeLimits({}, NoApi(defaults_of(VERSIONS[minor])))
    answer = rejected(answered(limits, pod("p", A), cluster(*objects)))
    assert answer == (
        {} if installed else {"n": f"{driver} CSI driver is not installed on the node"}
    )


def test_an_unknown_driver_need_not_be_installed() -> None:
    assert passes(pod("p", A), *bound("a"), VolumeLimitScaling=True)


def test_limits_hold_where_drivers_must_be_installed() -> None:
    required = thing("CSIDriver", "d", spec={"preventPodSchedulingIfMissing": True})
    snapshot = cluster(
        *(node(name) for name in "abc"),
        csi_node("a", d=0),
        csi_node("b", d=1),
        *bound("x"),
        required,
    )
    answer = answered(plugin(VolumeLimitScaling=True), pod("p", of_claim("x")), snapshot)
    assert rejected(answer) == {"a": REASON, "c": "d CSI driver is not installed on the node"}


def test_a_migrated_volume_requires_no_driver_on_a_node_without_csi_node() -> None:
    driver = "ebs.csi.aws.com"
    required = thing("CSIDriver", driver, spec={"preventPodSchedulingIfMissing": True})
    snapshot = cluster(node("a"), node("b"), csi_node("b"), required)
    answer = answered(plugin(VolumeLimitScaling=True), pod("p", EBS), snapshot)
    assert rejected(answer) == {"b": f"{driver} CSI driver is not installed on the node"}


# ---------------------------------------------------------------------------------------- snapshots


def room_of(snapshot: Snapshot, key: str) -> tuple[int, PodInfo]:
    info = snapshot.columns.infos[0]
    assert info is not None
    return 0, info.pods[key]


def test_a_what_if_question_frees_and_takes_room_for_a_while() -> None:
    user, limits = pod("p", A), plugin()
    snapshot = cluster(node("n"), csi_node("n", d=1), *bound("a", "b"), pod("q", B, on="n"))
    assert rejected(answered(limits, user, snapshot)) == {"n": REASON}
    with supposing(snapshot) as supposition:
        supposition.remove(*room_of(snapshot, "ns/q"))
        supposition.settle()
        assert rejected(answered(limits, user, snapshot)) == {}
        supposition.add(0, PodInfo(as_pod(pod("r", B))))
        supposition.settle()
        assert rejected(answered(limits, user, snapshot)) == {"n": REASON}
    assert rejected(answered(limits, user, snapshot)) == {"n": REASON}


def test_one_plugin_answers_about_several_snapshots() -> None:
    user, limits = pod("p", A), plugin()
    full = cluster(node("n"), csi_node("n", d=0), *bound("a"))
    free = cluster(node("n"), csi_node("n", d=1), *bound("a"))
    for _ in range(2):
        assert rejected(answered(limits, user, full)) == {"n": REASON}
        assert rejected(answered(limits, user, free)) == {}


# -------------------------------------------------------------------------------------------- hints

DEFAULT = profile()
CSI_NODE_UPDATE = (Resource.CSI_NODE, Action.UPDATE)
CLAIM_ADD = (Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD)
POD_DELETE = (Resource.ASSIGNED_POD, Action.DELETE)
ATTACHMENT_DELETE = (Resource.VOLUME_ATTACHMENT, Action.DELETE)


def woken(
    event: tuple[Resource, Action], user: Thing, old: Thing | None, new: Thing | None
) -> bool:
    before, after = (None if item is None else decode(item) for item in (old, new))
    return wakes(DEFAULT, "NodeVolumeLimits", event, as_pod(user), before, after)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"d": 1}, {"d": 2}, True),
        ({"d": 2}, {"d": 1}, False),
        ({"d": 1}, {"d": 1}, False),
        ({}, {"d": 1}, True),
        ({}, {"d": 0}, False),
        ({"d": None}, {"d": 1}, True),
        ({"d": 1}, {"d": None}, False),
        ({"d": 1}, {}, False),
        ({"d": 2, "e": 1}, {"d": 1, "e": 2}, True),
    ],
)
def test_a_csi_node_with_a_higher_limit_wakes(
    old: dict[str, int | None], new: dict[str, int | None], expected: bool
) -> None:
    user = pod("p", A)
    assert woken(CSI_NODE_UPDATE, user, csi_node("n", **old), csi_node("n", **new)) == expected


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (pod("q", of_claim("c"), on="n"), True),
        (pod("q", {"ephemeral": {}}, on="n"), True),
        (pod("q", {"azureFile": {}}, on="n"), True),
        (pod("q", {"emptyDir": {}}, on="n"), False),
        (pod("q", on="n"), False),
        (pod("q", of_claim("c")), False),
        ({**pod("q", of_claim("c")), "status": {"nominatedNodeName": "n"}}, True),
    ],
)
def test_a_deleted_pod_with_volumes_wakes(gone: Thing, expected: bool) -> None:
    assert woken(POD_DELETE, pod("p", A), gone, None) == expected


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        (claim("a"), True),
        (claim("p-v1"), True),
        (claim("p-v0"), False),
        (claim("b"), False),
        (claim("a", namespace="other"), False),
    ],
)
def test_an_added_claim_of_the_pod_wakes(added: Thing, expected: bool) -> None:
    user = pod("p", A, {"ephemeral": {}})
    assert woken(CLAIM_ADD, user, None, added) == expected


@pytest.mark.parametrize(
    ("volumes", "attacher", "expected"),
    [
        ([A], "any", True),
        ([{"ephemeral": {}}], "any", False),
        ([EBS], "ebs.csi.aws.com", True),
        ([EBS], "d", False),
        ([BAD_EBS], "d", True),
        ([{"azureFile": {}}], "file.csi.azure.com", True),
        ([{"azureFile": {}}], "d", False),
        ([{"emptyDir": {}}, EBS], "ebs.csi.aws.com", True),
        ([], "d", False),
    ],
)
def test_a_deleted_attachment_wakes(volumes: list[Thing], attacher: str, expected: bool) -> None:
    gone = attachment("x", "v", attacher=attacher)
    assert woken(ATTACHMENT_DELETE, pod("p", *volumes), gone, None) == expected


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ((Resource.CSI_NODE, Action.ADD), True),
        ((Resource.CSI_NODE, Action.DELETE), False),
        ((Resource.NODE, Action.ADD), False),
        ((Resource.PERSISTENT_VOLUME, Action.ADD), False),
        ((Resource.VOLUME_ATTACHMENT, Action.ADD), False),
    ],
)
def test_other_events(event: tuple[Resource, Action], expected: bool) -> None:
    assert woken(event, pod("p", A), None, None) == expected
