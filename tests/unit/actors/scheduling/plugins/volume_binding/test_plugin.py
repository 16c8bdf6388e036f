"""VolumeBinding: each rule and its message, the scores, and the hints."""

from __future__ import annotations

from typing import Any

import pytest

from berth.actors.scheduling.decision.failures import PluginError
from berth.actors.scheduling.decision.rules import Rules, rule_hooks
from berth.actors.scheduling.framework.events import Action, Resource
from berth.actors.scheduling.framework.status import SKIP, Code, Status
from berth.actors.scheduling.kube.kinds import decode
from berth.actors.scheduling.model.columns import FIRST_ROWS
from berth.actors.scheduling.plugins.volume_binding.plugin import GATE, VolumeBinding
from berth.config.feature_gates import DEFAULTS, defaults_of
from berth.config.versions import VERSIONS
from berth.plugin import ArgsError, CycleState, PodInfo
from berth.tools.answers.explain.document_cluster import DocumentCluster
from tests.kit.documents import Document
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
    thing,
    volume,
)
from tests.kit.structs import node as a_node

PLUGIN = VolumeBinding({}, NoApi())
NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_MATCH = "node(s) didn't find available persistent volumes to bind"
NO_ROOM = "node(s) did not have enough free storage"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
SELECTED = "volume.kubernetes.io/selected-node"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
DONE = {"pv.kubernetes.io/bind-completed": "yes"}
WITH_CLAIM = pod("p", of_claim("c"))
NODES = (node("a", host="a", zone="x"), node("b", host="b", zone="y"))
WAITS = thing("StorageClass", "s", volumeBindingMode="WaitForFirstConsumer")
DYNAMIC = {**WAITS, "provisioner": "driver"}


def wants(name: str = "c", size: str = "1Gi", **parts: Any) -> Document:
    """Returns a claim that waits for its first consumer."""
    parts = {"accessModes": ["ReadWriteOnce"], "storageClassName": "s", **parts}
    return claim(name, resources={"requests": {"storage": size}}, **parts)


def gives(name: str = "v", size: str = "1Gi", on: str = "", **parts: Any) -> Document:
    """Returns an available volume, which can be used on one node or on all."""
    phase, metadata = parts.pop("phase", "Available"), parts.pop("metadata", {})
    terms = [{"matchExpressions": [{"key": "host", "operator": "In", "values": [on]}]}]
    if on:
        parts["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    parts = {"accessModes": ["ReadWriteOnce"], "storageClassName": "s", **parts}
    document = volume(name, parts.pop("labels", None), capacity={"storage": size}, **parts)
    document["metadata"] |= metadata
    return {**document, "status": {"phase": phase}}


def bound(name: str = "c", to: str = "v", **parts: Any) -> Document:
    return claim(name, to, annotations=DONE, **parts)


def decided(*objects: Document, document: Document = WITH_CLAIM) -> Status | dict[str, Status]:
    return answered(PLUGIN, document, cluster(*NODES, *objects))


# ---------------------------------------------------------------------------------------- PreFilter


@pytest.mark.parametrize(
    "document",
    [pod("p"), pod("p", {"emptyDir": {}}), pod("p", {"gcePersistentDisk": {"pdName": "d"}})],
)
def test_pods_without_claims_are_skipped(document: Document) -> None:
    assert decided(document=document) is SKIP


def changed(document: Document, **parts: Any) -> Document:
    return {**document, **parts}


DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
NOW = thing("StorageClass", "s", volumeBindingMode="Immediate")
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([], 'persistentvolumeclaim "c" not found'),
        ([wants(namespace="other")], 'persistentvolumeclaim "c" not found'),
        (
            [changed(bound(), status={"phase": "Lost"})],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
        (
            [changed(bound(), metadata=bound()["metadata"] | DELETED)],
            'persistentvolumeclaim "c" is being deleted',
        ),
        # The phase counts before the deletion.
        (
            [changed(bound(), metadata=bound()["metadata"] | DELETED, status={"phase": "Lost"})],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
        ([wants()], UNBOUND),
        ([wants(), NOW], UNBOUND),
        ([claim("c")], UNBOUND),
        ([claim("c", "v"), WAITS], UNBOUND),
        ([wants(volumeName="v"), WAITS], UNBOUND),
        ([wants(storageClassName=""), WAITS], UNBOUND),
        ([wants(annotations={BETA_CLASS: "other"}), WAITS], UNBOUND),
    ],
)
def test_claims_that_cannot_be_used(objects: list[Document], message: str) -> None:
    status = decided(*objects)
    assert isinstance(status, Status)
    assert (status.code, status.message) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, message)


def test_a_claim_without_a_name() -> None:
    status = decided(document=pod("p", of_claim("")))
    assert isinstance(status, Status)
    assert status.message == 'persistentvolumeclaim "" not found'


def test_every_claim_is_looked_for_before_any_is_found_unbound() -> None:
    status = decided(wants(), document=pod("p", of_claim("c"), of_claim("d")))
    assert isinstance(status, Status)
    assert status.message == 'persistentvolumeclaim "d" not found'


def test_a_class_without_a_binding_mode_fails_the_attempt() -> None:
    with pytest.raises(PluginError) as failed:
        decided(wants(), thing("StorageClass", "s"))
    assert failed.value.status.message == (
        'running PreFilter plugin "VolumeBinding": VolumeBindingMode not set for StorageClass "s"'
    )


OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": True}


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([], 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v0"'),
        ([bound("p-v0")], "PVC ns/p-v0 was not created for pod ns/p (pod is not owner)"),
        (
            [bound("p-v0", ownerReferences=[{**OWNER, "uid": "other"}])],
            "PVC ns/p-v0 was not created for pod ns/p (pod is not owner)",
        ),
        ([bound("p-v0", ownerReferences=[OWNER]), gives()], ""),
    ],
)
def test_ephemeral_volumes(objects: list[Document], message: str) -> None:
    answer = decided(*objects, document=pod("p", {"ephemeral": {}}))
    if message:
        assert isinstance(answer, Status)
        assert answer.message == message
    else:
        assert rejected(answer) == {}


# ------------------------------------------------------------------------------------ bound volumes


def terms(*answer: Document) -> Document:
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": list(answer)}}}


def about(key: str, operator: str, *values: str) -> Document:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("affinity", "allowed"),
    [
        ({}, "ab"),
        ({"nodeAffinity": {}}, "ab"),
        (terms(), ""),
        (terms({}), ""),
        (terms({"matchExpressions": [about("host", "In", "a")]}), "a"),
        (terms({"matchExpressions": [about("host", "In", "a")]}, {}), "a"),
        (
            terms(
                {"matchExpressions": [about("host", "In", "a")]},
                {"matchExpressions": [about("zone", "In", "y")]},
            ),
            "ab",
        ),
        (terms({"matchExpressions": [about("host", "Near", "a")]}), ""),
        # An invalid term matches nothing, and does not keep other terms from matching.
        (terms({"matchExpressions": [about("host", "NotIn")]}), ""),
        (terms({"matchExpressions": [about("none", "DoesNotExist", "a")]}), ""),
        (
            terms(
                {"matchExpressions": [about("host", "Exists", "a")]},
                {"matchExpressions": [about("host", "In", "b")]},
            ),
            "b",
        ),
        # kube-scheduler asks with the labels of the node alone, so its name meets everything.
        (terms({"matchFields": [about("metadata.name", "In", "a")]}), "ab"),
        (terms({"matchFields": [about("metadata.name", "In", "nobody")]}), "ab"),
        (terms({"matchFields": [about("metadata.name", "NotIn", "a")]}), "ab"),
        (terms({"matchFields": [about("metadata.name", "In", "a", "b")]}), ""),
        (terms({"matchFields": [about("metadata.name", "Exists")]}), ""),
        (
            terms(
                {
                    "matchFields": [about("metadata.name", "In", "b")],
                    "matchExpressions": [about("zone", "In", "x")],
                }
            ),
            "a",
        ),
    ],
)
def test_node_affinity(affinity: Document, allowed: str) -> None:
    expected = {name: NODE_CONFLICT for name in "ab" if name not in allowed}
    assert rejected(decided(bound(), gives(**affinity))) == expected
    # An available volume is asked in the same way.
    unmatched = dict.fromkeys(expected, NO_MATCH)
    assert rejected(decided(wants(), WAITS, gives(**affinity))) == unmatched


def test_bound_claims_are_looked_at_in_order_up_to_the_first_conflict() -> None:
    document = pod("p", of_claim("c"), of_claim("d"))
    claims = bound(), bound("d", "gone")
    assert rejected(decided(*claims, gives(on="a"), document=document)) == {
        "a": NO_VOLUME,
        "b": NODE_CONFLICT,
    }
    document = pod("p", of_claim("d"), of_claim("c"))
    assert rejected(decided(*claims, gives(on="a"), document=document)) == dict.fromkeys(
        "ab", NO_VOLUME
    )


def test_bound_and_waiting_claims_both_have_their_reasons() -> None:
    document = pod("p", of_claim("d"), of_claim("c"))
    answer = decided(
        bound("d", "w"), gives("w", on="a", phase="Bound"), wants(), WAITS, document=document
    )
    assert isinstance(answer, dict)
    assert answer["a"].reasons == (NO_MATCH,)
    assert answer["b"].reasons == (NODE_CONFLICT, NO_MATCH)
    answer = decided(bound("d", "gone"), wants(), WAITS, document=document)
    assert isinstance(answer, dict)
    assert answer["a"].reasons == (NO_MATCH, NO_VOLUME)


AWS_ZONE = "topology.ebs.csi.aws.com/zone"


def test_disks_of_in_tree_plugins_on_nodes_that_use_csi() -> None:
    """The zone label of the volume becomes a requirement on the driver's own zone label."""
    nodes = [
        node("here", **{AWS_ZONE: "x"}),
        node("there", **{AWS_ZONE: "y"}),
        node("old", **{AWS_ZONE: "y"}),
    ]
    plugins = {MIGRATED: "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"}
    nodes += [thing("CSINode", name, annotations=plugins) for name in ("here", "there")]
    nodes.append(thing("CSINode", "old", annotations={MIGRATED: "kubernetes.io/gce-pd"}))
    zone = {"topology.kubernetes.io/zone": "x"}
    disk = volume("v", zone, awsElasticBlockStore={"volumeID": "vol-1"})
    assert rejected(answered(PLUGIN, WITH_CLAIM, cluster(*nodes, bound(), disk))) == {
        "there": NODE_CONFLICT
    }


def test_a_disk_that_cannot_be_translated_fails_the_attempt() -> None:
    bad = volume("v", awsElasticBlockStore={"volumeID": "aws://"})
    migrated = thing("CSINode", "b", annotations={MIGRATED: "kubernetes.io/aws-ebs"})
    with pytest.raises(PluginError) as failed:
        decided(bound(), bad, migrated)
    assert failed.value.status.message == (
        'running "VolumeBinding" filter plugin: could not translate pv: '
        "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://)"
    )
    assert rejected(decided(bound(), bad)) == {}


# --------------------------------------------------------------------------------- existing volumes


def ref(name: str = "c", namespace: str = "ns", **more: str) -> Document:
    return {"claimRef": {"name": name, "namespace": namespace, **more}}


@pytest.mark.parametrize(
    ("claimed", "offered", "matches"),
    [
        ({}, {}, True),
        ({"size": "2Gi"}, {}, False),
        ({"size": "1073741824"}, {}, True),
        ({"size": "1073741825"}, {}, False),
        ({"size": "9E"}, {"size": "10E"}, True),
        ({"size": "20E"}, {"size": "10E"}, False),
        ({}, {"phase": "Released"}, False),
        ({}, {"phase": ""}, False),
        ({}, {"metadata": DELETED}, False),
        ({}, {"storageClassName": "other"}, False),
        ({}, {"storageClassName": "x", "metadata": {"annotations": {BETA_CLASS: "s"}}}, True),
        ({"storageClassName": "x", "annotations": {BETA_CLASS: "s"}}, {}, True),
        ({"volumeMode": "Block"}, {}, False),
        ({"volumeMode": "Filesystem"}, {}, True),
        ({"volumeMode": "Block"}, {"volumeMode": "Block"}, True),
        ({"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}, {}, False),
        ({"accessModes": []}, {}, True),
        ({"volumeAttributesClassName": "gold"}, {}, False),
        ({"volumeAttributesClassName": ""}, {}, True),
        ({}, {"volumeAttributesClassName": "gold"}, False),
        ({"volumeAttributesClassName": "gold"}, {"volumeAttributesClassName": "gold"}, True),
        ({"selector": {}}, {}, True),
        ({"selector": {"matchLabels": {"disk": "ssd"}}}, {}, False),
        ({"selector": {"matchLabels": {"disk": "ssd"}}}, {"labels": {"disk": "ssd"}}, True),
        # A volume that is reserved for the claim needs neither phase, labels nor access modes ...
        (
            {"selector": {"matchLabels": {"disk": "ssd"}}, "accessModes": ["ReadWriteMany"]},
            {"phase": "", **ref()},
            True,
        ),
        ({}, ref(uid="c"), True),
        # ... but room, the mode and the class.
        ({"size": "2Gi"}, ref(), False),
        ({"volumeMode": "Block"}, ref(), False),
        ({}, {"storageClassName": "other", **ref()}, False),
        ({}, {"metadata": DELETED, **ref()}, False),
        ({}, ref(uid="earlier"), False),
        ({}, ref("d"), False),
        ({}, ref(namespace="other"), False),
    ],
)
def test_matching_volumes(claimed: Document, offered: Document, matches: bool) -> None:
    expected = {} if matches else dict.fromkeys("ab", NO_MATCH)
    assert rejected(decided(WAITS, wants(**claimed), gives(**offered))) == expected
    # Where the volume can be used is another question.
    expected = {"b": NO_MATCH} if matches else dict.fromkeys("ab", NO_MATCH)
    assert rejected(decided(WAITS, wants(**claimed), gives(on="a", **offered))) == expected


def test_a_reserved_volume_excludes_all_others() -> None:
    assert rejected(decided(WAITS, wants(), gives("v", on="a", **ref()), gives("w"))) == {
        "b": NO_MATCH
    }


def test_each_claim_needs_a_volume_of_its_own() -> None:
    document = pod("p", of_claim("c"), of_claim("d"))
    claims = WAITS, wants(), wants("d", "2Gi")
    large, two = gives("v", "2Gi"), gives("w", "2Gi", on="a")
    assert rejected(decided(*claims, large, document=document)) == dict.fromkeys("ab", NO_MATCH)
    assert rejected(decided(*claims, large, two, document=document)) == {"b": NO_MATCH}
    # The smallest claim chooses first, and takes the smallest volume.
    assert rejected(decided(*claims, large, gives("w"), document=document)) == {}


def test_a_claim_that_is_named_twice_needs_two_volumes() -> None:
    document = pod("p", of_claim("c"), of_claim("c"))
    assert rejected(decided(WAITS, wants(), gives("v"), document=document)) == dict.fromkeys(
        "ab", NO_MATCH
    )
    reserved = [gives("v", **ref()), gives("w", **ref(uid="c"))]
    assert rejected(decided(WAITS, wants(), *reserved, document=document)) == {}


def test_a_selector_that_is_not_valid_fails_the_attempt_where_it_is_asked() -> None:
    odd = wants(selector={"matchExpressions": [{"key": "a", "operator": "Odd"}]})
    with pytest.raises(PluginError, match="error creating internal label selector for claim: ns/c"):
        decided(WAITS, odd)
    # Pods with claims that are not bound are rejected before, and so are other nodes.
    document = pod("p", of_claim("c"), of_claim("d"))
    status = decided(WAITS, odd, claim("d"), document=document)
    assert isinstance(status, Status)
    assert status.message == UNBOUND
    elsewhere = wants("d", annotations={SELECTED: "gone"})
    assert rejected(decided(WAITS, odd, elsewhere, document=document)) == dict.fromkeys(
        "ab", NO_MATCH
    )


# -------------------------------------------------------------------------------------- new volumes


def topology(*answer: Document) -> Document:
    return {**DYNAMIC, "allowedTopologies": list(answer)}


def labelled(*values_by_key: tuple[str, list[str]]) -> Document:
    return {
        "matchLabelExpressions": [{"key": key, "values": values} for key, values in values_by_key]
    }


@pytest.mark.parametrize(
    ("storage_class", "allowed"),
    [
        (WAITS, ""),
        ({**WAITS, "provisioner": "kubernetes.io/no-provisioner"}, ""),
        (DYNAMIC, "ab"),
        (topology({}), ""),
        (topology(labelled(("zone", ["x"]))), "a"),
        (topology(labelled(("zone", []))), ""),
        (topology({}, labelled(("zone", ["x", "y"]))), "ab"),
        (topology(labelled(("zone", ["x"]), ("host", ["b"]))), ""),
        (topology(labelled(("zone", ["x"])), labelled(("host", ["b"]))), "ab"),
    ],
)
def test_where_volumes_can_be_made(storage_class: Document, allowed: str) -> None:
    expected = {name: NO_MATCH for name in "ab" if name not in allowed}
    assert rejected(decided(storage_class, wants())) == expected


@pytest.mark.parametrize(
    ("selected", "expected"),
    [
        ("a", {"b": NO_MATCH}),
        ("gone", dict.fromkeys("ab", NO_MATCH)),
        ("", dict.fromkeys("ab", NO_MATCH)),
    ],
)
def test_a_selected_node(selected: str, expected: dict[str, str]) -> None:
    """Existing volumes do not count any more."""
    answer = decided(DYNAMIC, wants(annotations={SELECTED: selected}), gives())
    assert rejected(answer) == expected


def room(name: str = "r", **parts: Any) -> Document:
    return thing("CSIStorageCapacity", name, **{"storageClassName": "s", **parts})


LIMITED = thing("CSIDriver", "driver", spec={"storageCapacity": True})
ANYWHERE: Document = {"nodeTopology": {}}
IN_X: Document = {"nodeTopology": {"matchLabels": {"zone": "x"}}}


@pytest.mark.parametrize(
    ("capacities", "allowed"),
    [
        ([], ""),
        ([room(capacity="1Gi", **ANYWHERE)], "ab"),
        ([room(capacity="1Gi", **IN_X)], "a"),
        ([room(capacity="1Gi")], ""),  # no node has access
        ([room(**ANYWHERE)], ""),
        ([room(capacity="1023Mi", **ANYWHERE)], ""),
        ([room(capacity="8Gi", maximumVolumeSize="1Mi", **ANYWHERE)], ""),
        ([room(capacity="1Mi", maximumVolumeSize="1Gi", **ANYWHERE)], "ab"),
        ([room(storageClassName="other", capacity="1Gi", **ANYWHERE)], ""),
        ([room(capacity="1Mi", **IN_X), room("q", capacity="1Gi", **IN_X)], "a"),
        ([room(capacity="20E", **IN_X)], "a"),
        (
            [
                room(
                    capacity="1Gi", nodeTopology={"matchExpressions": [about("zone", "NotIn", "x")]}
                )
            ],
            "b",
        ),
        (
            [room(capacity="1Gi", nodeTopology={"matchExpressions": [about("zone", "Odd", "x")]})],
            "",
        ),
    ],
)
def test_room_for_new_volumes(capacities: list[Document], allowed: str) -> None:
    expected = {name: NO_ROOM for name in "ab" if name not in allowed}
    assert rejected(decided(DYNAMIC, wants(), LIMITED, *capacities)) == expected


@pytest.mark.parametrize(
    "objects",
    [
        [wants()],
        [wants(), thing("CSIDriver", "driver", spec={})],
        [wants(), thing("CSIDriver", "driver", spec={"storageCapacity": False})],
        [LIMITED, claim("c", storageClassName="s")],
    ],
)
def test_room_that_is_not_limited(objects: list[Document]) -> None:
    assert rejected(decided(DYNAMIC, *objects)) == {}


def test_room_everywhere_is_also_on_nodes_that_are_added() -> None:
    objects = DocumentCluster(frozenset({"default-scheduler"}))
    for document in (*NODES, DYNAMIC, wants(), LIMITED, room(capacity="1Gi", **ANYWHERE)):
        objects.put(document)
    plugin = VolumeBinding({}, NoApi())
    assert rejected(answered(plugin, WITH_CLAIM, objects.snapshot())) == {}
    for number in range(FIRST_ROWS):
        objects.put(node(f"n{number}"))
    assert rejected(answered(plugin, WITH_CLAIM, objects.snapshot())) == {}


def test_the_first_claim_without_a_volume_gives_the_reason() -> None:
    document = pod("p", of_claim("c"), of_claim("d"))
    other = {**WAITS, "metadata": {"name": "t"}}
    both = DYNAMIC, other, LIMITED, room(capacity="1Gi", **IN_X)
    first, second = wants("c", "1Gi"), wants("d", "2Gi", storageClassName="t")
    assert rejected(decided(*both, first, second, document=document)) == {
        "a": NO_MATCH,
        "b": NO_ROOM,
    }


# ------------------------------------------------------------------------------- scores, arguments


class Gated(NoApi):
    def __init__(self) -> None:
        super().__init__()
        self.feature_gates = {**DEFAULTS, GATE: True}


@pytest.mark.parametrize(
    ("objects", "shape", "expected"),
    [
        # Half of an existing volume, all of it, and a new volume without a limit.
        ([wants(), gives("v", "2Gi", on="a"), gives("w", "1Gi", on="b")], None, [50, 0]),
        ([wants(), gives("v", "3Gi", on="a")], None, [67, 0]),
        (
            [wants(), gives("v", "2Gi", on="a"), gives("w", "1Gi", on="b")],
            [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
            [50, 100],
        ),
        (
            [
                wants(),
                LIMITED,
                room(capacity="4Gi", **IN_X),
                room("q", capacity="1Gi", nodeTopology={}),
            ],
            None,
            [0, 0],
        ),
        ([wants(), LIMITED, room("q", capacity="4Gi", **ANYWHERE)], None, [75, 75]),
        ([wants(), LIMITED, room("q", maximumVolumeSize="4Gi", **ANYWHERE)], None, [0, 0]),
    ],
)
def test_scores(objects: list[Document], shape: list[Document] | None, expected: list[int]) -> None:
    plugin = VolumeBinding({} if shape is None else {"shape": shape}, Gated())
    assert scored(plugin, WITH_CLAIM, *NODES, DYNAMIC, *objects) == expected


def scored(plugin: VolumeBinding, document: Document, *objects: Document) -> list[int]:
    """Returns the score of each node for a pod that fits on all of them."""
    snapshot = cluster(*objects)
    points = ("preFilter", "filter", "preScore", "score")
    rules = Rules(rule_hooks({point: [(plugin, 1)] for point in points}))
    state, info = CycleState(), PodInfo(as_pod(document))
    assert rules.pre_filter(state, info, snapshot).status.ok
    nodes = snapshot.all()
    rules.filter(state, info, nodes)
    rules.pre_score(state, info, nodes)
    (scores,) = rules.score(state, info, nodes)
    listed: list[int] = scores.scores.tolist()
    return listed


GIB = ["100Gi", "50Gi", "10Gi"]
FULLEST = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
EMPTIEST = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]


@pytest.mark.parametrize(
    ("sizes", "existing", "capacities", "shape", "expected"),
    [
        # These five are rows of upstream; its tests give the shape of the first four themselves.
        (["10Gi"], False, GIB, FULLEST, [10, 20, 100]),
        (["10Gi", "50Gi"], True, GIB, FULLEST, [50, 50, 50]),
        (["50Gi", "50Gi"], False, ["100Gi"], FULLEST, [100]),
        (["10Gi"], False, ["100Gi", "20Gi", "10Gi"], FULLEST, [10, 50, 100]),
        (["10Gi"], False, ["100Gi", "20Gi", "10Gi"], EMPTIEST, [90, 50, 0]),
        # The default shape prefers what is used least.
        (["10Gi"], False, GIB, None, [90, 80, 0]),
        (["50Gi", "50Gi"], False, ["100Gi"], None, [0]),
        (["10Gi", "50Gi"], True, GIB, None, [50, 50, 50]),
    ],
)
def test_nodes_are_scored_by_storage_with_the_gates_of_1_37(
    sizes: list[str],
    existing: bool,
    capacities: list[str],
    shape: list[Document] | None,
    expected: list[int],
) -> None:
    """The rows are those of TestVolumeBinding in Kubernetes' volume_binding_test.go, 1.36.2, with
    EnableStorageCapacityScoring. If `existing`, the last claim can have a volume on each node.
    """
    names = [f"node-{letter}" for letter in "abc"[: len(capacities)]]
    objects: list[Document] = [node(name, host=name) for name in names]
    claims = [f"c{number}" for number in range(len(sizes))]
    classes = ["s" for _ in sizes]
    if existing:
        classes[-1] = "t"
        objects.append(thing("StorageClass", "t", volumeBindingMode="WaitForFirstConsumer"))
        objects += [gives(f"v-{n}", "100Gi", on=n, storageClassName="t") for n in names]
    objects += [
        wants(name, size, storageClassName=of)
        for name, size, of in zip(claims, sizes, classes, strict=True)
    ]
    objects += [
        room(name, capacity=size, nodeTopology={"matchLabels": {"host": name}})
        for name, size in zip(names, capacities, strict=True)
    ]
    handle = NoApi(defaults_of(VERSIONS[37]))
    plugin = VolumeBinding({} if shape is None else {"shape": shape}, handle)
    document = pod("p", *(of_claim(name) for name in claims))
    assert scored(plugin, document, DYNAMIC, LIMITED, *objects) == expected


def test_without_the_gate_nothing_is_scored() -> None:
    snapshot = cluster(*NODES, DYNAMIC, wants())
    state, info = CycleState(), PodInfo(as_pod(WITH_CLAIM))
    PLUGIN.pre_filter(state, info, snapshot)
    assert PLUGIN.pre_score(state, info, snapshot.all()) is SKIP


@pytest.mark.parametrize(
    ("args", "handle", "message"),
    [
        (
            {"bindTimeoutSeconds": -1},
            NoApi(),
            "bindTimeoutSeconds: expected an integer of at least 0",
        ),
        ({"shape": []}, NoApi(), f"shape: expected none without the feature gate {GATE}"),
        ({"size": 1}, NoApi(), "size"),
        ({"shape": [{"utilization": 101, "score": 1}]}, Gated(), "shape"),
    ],
)
def test_arguments(args: Document, handle: NoApi, message: str) -> None:
    with pytest.raises(ArgsError, match=message):
        VolumeBinding(args, handle)


# ------------------------------------------------------------------- extension points that are off

RESERVED_CLAIM = [WAITS, wants(), gives(on="a")]


async def pre_bound(
    points: set[str], *objects: Document, document: Document = WITH_CLAIM
) -> Status | None:
    """Returns the error of PreBind, or of the question before it, if only these points are on; None
    if there is nothing to do in PreBind.
    """
    snapshot, state, info = cluster(*NODES, *objects), CycleState(), PodInfo(as_pod(document))
    answer = PLUGIN.pre_filter(state, info, snapshot)
    if answer is not SKIP and "filter" in points:
        PLUGIN.filter(state, info, snapshot.all())
    if "reserve" in points:
        assert PLUGIN.reserve(state, info, "a").ok
    flight = PLUGIN.pre_bind_pre_flight(state, info, "a")
    if flight is SKIP:
        return None
    if isinstance(flight, Status):
        assert await PLUGIN.pre_bind(state, info, "a") == flight
        return flight
    return await PLUGIN.pre_bind(state, info, "a")


async def test_no_volume_is_reserved_without_filter() -> None:
    assert await pre_bound({"reserve"}, *RESERVED_CLAIM) is None


@pytest.mark.parametrize(
    ("points", "objects", "document", "problem"),
    [
        ({"filter"}, [], pod("p"), 'no pod volume found for node "a"'),
        (set(), RESERVED_CLAIM, WITH_CLAIM, 'no pod volume found for node "a"'),
        (
            {"filter"},
            RESERVED_CLAIM,
            WITH_CLAIM,
            'binding volumes: ClaimRef got reset for pv "v"',
        ),
        (
            {"filter"},
            [DYNAMIC, wants()],
            WITH_CLAIM,
            'failed to get cached bindings for pod "ns/p"',
        ),
        (
            {"filter"},
            [bound(), gives(on="a")],
            WITH_CLAIM,
            'failed to get cached bindings for pod "ns/p"',
        ),
    ],
)
async def test_no_pod_is_bound_without_reserve(
    points: set[str], objects: list[Document], document: Document, problem: str
) -> None:
    status = await pre_bound(points, *objects, document=document)
    assert status is not None
    assert (status.code, status.message) == (Code.ERROR, problem)


# -------------------------------------------------------------------------------------------- hints

DEFAULT = profile()
MINE = as_pod(pod("p", of_claim("c"), {"csi": {"driver": "driver"}}))
EPHEMERAL = as_pod(pod("p", {"ephemeral": {}}))


def driver(limits: bool | None, name: str = "driver") -> Document:
    return thing("CSIDriver", name, spec={} if limits is None else {"storageCapacity": limits})


def csi_node(plugins: str = "", **parts: Any) -> Document:
    return thing("CSINode", "a", annotations={MIGRATED: plugins} if plugins else {}, **parts)


@pytest.mark.parametrize(
    ("resource", "old", "new", "helps"),
    [
        (Resource.STORAGE_CLASS, None, WAITS, True),
        (Resource.STORAGE_CLASS, WAITS, DYNAMIC, False),
        (Resource.STORAGE_CLASS, WAITS, topology({}), True),
        (Resource.PERSISTENT_VOLUME_CLAIM, None, wants(), True),
        (Resource.PERSISTENT_VOLUME_CLAIM, wants(), wants(), True),
        (Resource.PERSISTENT_VOLUME_CLAIM, None, wants("d"), False),
        (Resource.PERSISTENT_VOLUME_CLAIM, None, wants(namespace="other"), False),
        (Resource.PERSISTENT_VOLUME, None, gives(), True),
        (Resource.PERSISTENT_VOLUME, gives(), gives(), True),
        (Resource.CSI_NODE, None, csi_node(), True),
        (Resource.CSI_NODE, csi_node(), csi_node(spec={"drivers": [{"name": "d"}]}), False),
        (Resource.CSI_NODE, csi_node(), csi_node("kubernetes.io/aws-ebs"), True),
        (Resource.CSI_DRIVER, None, driver(False), False),
        (Resource.CSI_DRIVER, driver(True), driver(None), True),
        (Resource.CSI_DRIVER, driver(True), driver(False), True),
        (Resource.CSI_DRIVER, driver(False), driver(True), False),
        (Resource.CSI_DRIVER, driver(True, "d"), driver(False, "d"), False),
        (Resource.CSI_STORAGE_CAPACITY, None, room(), True),
        (Resource.CSI_STORAGE_CAPACITY, room(), room(), False),
        (Resource.CSI_STORAGE_CAPACITY, room(), room(capacity="0"), True),
        (Resource.CSI_STORAGE_CAPACITY, room(capacity="1Gi"), room(capacity="1Gi"), False),
        (Resource.CSI_STORAGE_CAPACITY, room(capacity="1Gi"), room(capacity="2Gi"), True),
        (Resource.CSI_STORAGE_CAPACITY, room(capacity="2Gi"), room(capacity="1Gi"), False),
        (Resource.CSI_STORAGE_CAPACITY, room(capacity="1Gi"), room(), False),
        (
            Resource.CSI_STORAGE_CAPACITY,
            room(capacity="1Gi", maximumVolumeSize="1Gi"),
            room(capacity="2Gi", maximumVolumeSize="1Gi"),
            False,
        ),
    ],
)
def test_events(resource: Resource, old: Document | None, new: Document, helps: bool) -> None:
    action = Action.ADD if old is None else Action.UPDATE_OTHER
    objects = None if old is None else decode(old), decode(new)
    assert wakes(DEFAULT, "VolumeBinding", (resource, action), MINE, *objects) is helps


def test_events_of_nodes_and_of_ephemeral_claims() -> None:
    for action, helps in (
        (Action.ADD, True),
        (Action.UPDATE_NODE_LABEL, True),
        (Action.UPDATE_NODE_ALLOCATABLE, False),
        (Action.DELETE, False),
    ):
        event = (Resource.NODE, action)
        assert wakes(DEFAULT, "VolumeBinding", event, MINE, a_node(), a_node()) is helps
    created = (Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD)
    assert wakes(DEFAULT, "VolumeBinding", created, EPHEMERAL, None, decode(wants("p-v0")))
    assert not wakes(DEFAULT, "VolumeBinding", created, EPHEMERAL, None, decode(wants("v0")))
    gone = (Resource.PERSISTENT_VOLUME_CLAIM, Action.DELETE)
    assert not wakes(DEFAULT, "VolumeBinding", gone, MINE, decode(wants()), None)
