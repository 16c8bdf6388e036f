"""VolumeZone: each rule, each message, each hint."""

from __future__ import annotations

from typing import Any

import pytest

from berth.actors.scheduling.framework.events import Action, Resource
from berth.actors.scheduling.framework.status import SKIP, Code
from berth.actors.scheduling.kube.kinds import decode
from berth.actors.scheduling.plugins.volume_zone import VolumeZone
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

PLUGIN = VolumeZone({}, NoApi())
REASON = "node(s) had no available volume zone"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
WAITS = thing("StorageClass", "waits", volumeBindingMode="WaitForFirstConsumer")


@pytest.mark.parametrize(
    ("labels", "on_node", "passes"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {ZONE: "b"}, False),
        ({ZONE: "a__b"}, {ZONE: "b"}, True),
        ({ZONE: " a __b"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {}, True),  # a cluster without zones
        ({ZONE: "a"}, {"disk": "ssd"}, True),
        ({ZONE: "a"}, {REGION: "r"}, False),
        ({REGION: "r"}, {REGION: "r", ZONE: "a"}, True),
        ({REGION: "r", ZONE: "a"}, {REGION: "r", ZONE: "b"}, False),
        ({ZONE: "a__"}, {ZONE: "b"}, None),  # cannot be read, and does not count
        ({ZONE: ""}, {ZONE: "b"}, None),
        ({BETA_ZONE: "a"}, {BETA_ZONE: "a"}, True),
        ({BETA_ZONE: "a"}, {ZONE: "a"}, True),
        ({BETA_ZONE: "a"}, {BETA_ZONE: "b", ZONE: "a"}, False),
        ({BETA_REGION: "r"}, {REGION: "r"}, True),
        ({BETA_REGION: "r"}, {REGION: "s"}, False),
        ({ZONE: "a"}, {BETA_ZONE: "a"}, False),
    ],
)
def test_labels(labels: dict[str, str], on_node: dict[str, str], passes: bool | None) -> None:
    snapshot = cluster(node("n", **on_node), claim("c", "v"), volume("v", labels))
    answer = answered(PLUGIN, pod("p", of_claim("c")), snapshot)
    if passes is None:
        assert answer == SKIP
        return
    assert rejected(answer) == ({} if passes else {"n": REASON})
    assert isinstance(answer, dict)
    assert answer["n"].code == (Code.SUCCESS if passes else Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


def test_every_volume_counts() -> None:
    snapshot = cluster(
        *(node(name, **{ZONE: name}) for name in "abc"),
        *(claim(f"c-{name}", name) for name in ("ab", "bc")),
        *(volume(name, {ZONE: "__".join(name)}) for name in ("ab", "bc")),
    )
    answer = answered(PLUGIN, pod("p", of_claim("c-ab"), of_claim("c-bc")), snapshot)
    assert rejected(answer) == {"a": REASON, "c": REASON}


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([], 'persistentvolumeclaim "c" not found'),
        ([claim("c", "v", namespace="other")], 'persistentvolumeclaim "c" not found'),
        ([claim("c", "v")], 'persistentvolume "v" not found'),
        ([claim("c")], "PersistentVolumeClaim had no pv name and storageClass name"),
        ([claim("c", storageClassName="waits")], 'storageclass.storage.k8s.io "waits" not found'),
        (
            [claim("c", storageClassName="s"), thing("StorageClass", "s")],
            'VolumeBindingMode not set for StorageClass "s"',
        ),
        (
            [
                claim("c", storageClassName="s"),
                thing("StorageClass", "s", volumeBindingMode="Immediate"),
            ],
            "PersistentVolume had no name",
        ),
    ],
)
def test_claims_that_reject_the_pod(objects: list[dict[str, Any]], message: str) -> None:
    snapshot = cluster(node("n", **{ZONE: "a"}), *objects)
    answer = answered(PLUGIN, pod("p", of_claim("c")), snapshot)
    assert not isinstance(answer, dict)
    assert answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert answer.message == message
    everywhere = answered(PLUGIN, pod("p", of_claim("c")), snapshot, pre_filter=False)
    assert rejected(everywhere) == {"n": message}


def test_a_claim_without_a_name_rejects_the_pod() -> None:
    answer = answered(PLUGIN, pod("p", of_claim("")), cluster(node("n")))
    assert not isinstance(answer, dict)
    assert answer.message == "PersistentVolumeClaim had no name"


def test_the_first_problem_counts() -> None:
    snapshot = cluster(node("n"), claim("a"))
    answer = answered(PLUGIN, pod("p", of_claim("b"), of_claim("a")), snapshot)
    assert not isinstance(answer, dict)
    assert answer.message == 'persistentvolumeclaim "b" not found'


@pytest.mark.parametrize(
    ("volumes", "objects"),
    [
        ([], []),
        ([{"emptyDir": {}}], []),
        ([{"ephemeral": {}}], []),
        ([of_claim("c")], [claim("c", "v"), volume("v")]),
        ([of_claim("c")], [claim("c", storageClassName="waits"), WAITS]),
    ],
)
def test_skipped(volumes: list[dict[str, Any]], objects: list[dict[str, Any]]) -> None:
    answer = answered(PLUGIN, pod("p", *volumes), cluster(node("n", **{ZONE: "a"}), *objects))
    assert answer == SKIP


def test_a_filter_without_its_pre_filter_looks_at_the_volumes_itself() -> None:
    snapshot = cluster(node("n", **{ZONE: "b"}), claim("c", "v"), volume("v", {ZONE: "a"}))
    answer = answered(PLUGIN, pod("p", of_claim("c")), snapshot, pre_filter=False)
    assert rejected(answer) == {"n": REASON}
    assert rejected(answered(PLUGIN, pod("p"), snapshot, pre_filter=False)) == {}


# -------------------------------------------------------------------------------------------- hints

DEFAULT = profile()
CLAIM_ADD = (Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD)
CLAIM_UPDATE = (Resource.PERSISTENT_VOLUME_CLAIM, Action.UPDATE)
CLAIM_DELETE = (Resource.PERSISTENT_VOLUME_CLAIM, Action.DELETE)
VOLUME_ADD = (Resource.PERSISTENT_VOLUME, Action.ADD)
VOLUME_UPDATE = (Resource.PERSISTENT_VOLUME, Action.UPDATE)
CLASS_ADD = (Resource.STORAGE_CLASS, Action.ADD)
Event = tuple[Resource, Action]


@pytest.mark.parametrize(
    ("event", "old", "new", "expected"),
    [
        (CLAIM_ADD, None, claim("c"), True),
        (CLAIM_ADD, None, claim("other"), False),
        (CLAIM_ADD, None, claim("c", namespace="other"), False),
        (CLAIM_ADD, None, claim("p-v1"), False),  # of the ephemeral volume
        (CLAIM_UPDATE, claim("c"), claim("c", "v"), True),
        (CLAIM_DELETE, claim("c"), None, False),
        (VOLUME_ADD, None, volume("v"), True),
        (VOLUME_UPDATE, volume("v"), volume("v", {ZONE: "a"}), True),
        (VOLUME_UPDATE, volume("v", {ZONE: "a"}), volume("v", {ZONE: "b"}), True),
        (VOLUME_UPDATE, volume("v", {ZONE: "a"}), volume("v", {BETA_ZONE: "a"}), True),
        (VOLUME_UPDATE, volume("v", {ZONE: "a__b"}), volume("v", {ZONE: "b__a"}), False),
        (VOLUME_UPDATE, volume("v", {ZONE: "a__"}), volume("v"), False),
        (VOLUME_UPDATE, volume("v"), volume("v", {"app": "a"}), False),
        (CLASS_ADD, None, WAITS, True),
        (CLASS_ADD, None, thing("StorageClass", "s"), False),
        (CLASS_ADD, None, thing("StorageClass", "s", volumeBindingMode="Immediate"), False),
        ((Resource.STORAGE_CLASS, Action.UPDATE), WAITS, WAITS, False),
    ],
)
def test_hints(
    event: Event, old: dict[str, Any] | None, new: dict[str, Any] | None, expected: bool
) -> None:
    user = as_pod(pod("p", of_claim("c"), {"ephemeral": {}}))
    before, after = (None if item is None else decode(item) for item in (old, new))
    assert wakes(DEFAULT, "VolumeZone", event, user, before, after) == expected


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (Action.ADD, True),
        (Action.UPDATE_NODE_LABEL, True),
        (Action.UPDATE_NODE_TAINT, False),
        (Action.DELETE, False),
    ],
)
def test_nodes_that_wake(action: Action, expected: bool) -> None:
    user = as_pod(pod("p", of_claim("c")))
    assert wakes(DEFAULT, "VolumeZone", (Resource.NODE, action), user, None, a_node()) == expected
