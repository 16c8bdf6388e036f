"""Which pods are of one template, and the disks that a pod names directly."""

from __future__ import annotations

from typing import Any
from weakref import ref

import msgspec
import pytest

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.model.interner import LONGEST
from berth.actors.scheduling.model.pod_template import Disk, PodTemplate, Templates, same_template


def disks(*volumes: dict[str, Any]) -> tuple[Disk, ...]:
    return PodTemplate(msgspec.convert({"spec": {"volumes": list(volumes)}}, Pod)).disks


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({}, []),
        ({"persistentVolumeClaim": {"claimName": "c"}}, []),
        ({"azureDisk": {"diskURI": "d"}}, []),
        ({"gcePersistentDisk": {"pdName": "d"}}, [(("gce", "d"), False)]),
        ({"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, [(("gce", "d"), True)]),
        # EBS volumes cannot be shared by readers either.
        ({"awsElasticBlockStore": {"volumeID": "v", "readOnly": True}}, [(("aws", "v"), False)]),
        ({"iscsi": {"iqn": "i", "readOnly": True}}, [(("iscsi", "i"), True)]),
        (
            {"rbd": {"monitors": ["a", "b"], "pool": "p", "image": "i"}},
            [(("rbd", "a", "p", "i"), False), (("rbd", "b", "p", "i"), False)],
        ),
        ({"rbd": {"image": "i"}}, []),
    ],
)
def test_disks_of_a_volume(
    volume: dict[str, Any], expected: list[tuple[tuple[str, ...], bool]]
) -> None:
    assert [(disk.identity, disk.read_only) for disk in disks({"name": "v", **volume})] == expected


def test_a_volume_may_be_of_several_kinds() -> None:
    volume = {"gcePersistentDisk": {"pdName": "d"}, "iscsi": {"iqn": "d"}}
    assert [disk.identity for disk in disks(volume, volume)] == [("gce", "d"), ("iscsi", "d")] * 2


def using(*volumes: dict[str, Any], name: str = "p", node: str = "") -> Pod:
    named = [{"name": f"v{i}", **volume} for i, volume in enumerate(volumes)]
    spec = {"volumes": named, "nodeName": node}
    metadata = {"name": name, "namespace": "ns"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Pod)


def claim(name: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": name, "readOnly": read_only}}


@pytest.mark.parametrize(
    ("pod", "other", "same"),
    [
        (using(claim("a")), using(claim("b")), True),
        (using(claim("a")), using(claim("b"), name="q", node="n"), True),
        (using(claim("a"), claim("a")), using(claim("b"), claim("c")), True),
        (using(claim("a"), {"emptyDir": {}}), using(claim("b"), {"emptyDir": {}}), True),
        (using(claim("a")), using(claim("b", read_only=True)), False),
        (using(claim("a")), using(claim("a"), claim("b")), False),
        (using(claim("a")), using(), False),
        (using(claim("a")), using({"ephemeral": {}}), False),
        (
            using(claim("a"), {"gcePersistentDisk": {"pdName": "d"}}),
            using(claim("b"), {"gcePersistentDisk": {"pdName": "e"}}),
            False,
        ),
    ],
)
def test_the_names_of_claims_do_not_count(pod: Pod, other: Pod, same: bool) -> None:
    assert same_template(pod, other) is same
    templates = Templates()
    first, second = templates.of(pod), templates.of(other)
    assert (first is second) is same
    assert (PodTemplate(pod) == PodTemplate(other)) is same
    if same:
        assert hash(PodTemplate(pod)) == hash(PodTemplate(other))


def claiming(*ports: tuple[str, int]) -> PodTemplate:
    listed = [{"hostIP": ip, "hostPort": number} for ip, number in ports]
    return PodTemplate(msgspec.convert({"spec": {"containers": [{"ports": listed}]}}, Pod))


@pytest.mark.parametrize(
    ("ports", "others", "port"),
    [
        ([("a", 1), ("a", 2)], [("a", 2)], [("a", 2)]),
        ([("a", 1), ("a", 2)], [("a", 1), ("a", 2)], [("a", 1)]),
        ([("a", 1), ("a", 2)], [("", 2)], [("a", 2)]),
        ([("a", 2), ("", 2)], [("b", 2)], [("0.0.0.0", 2)]),
        ([("a", 1), ("", 2)], [("b", 1), ("b", 3)], []),
        ([("a", 1)], [], []),
    ],
)
def test_a_pod_that_comes_shows_one_port_in_conflict(
    ports: list[tuple[str, int]], others: list[tuple[str, int]], port: list[tuple[str, int]]
) -> None:
    values = claiming(*ports).values_if_added(claiming(*others))
    assert [(shown.ip, shown.port) for shown in values.ports] == port


@pytest.mark.parametrize(
    ("mine", "other", "shown"), [(True, True, 0), (True, False, 1), (False, True, 1)]
)
def test_a_pod_that_comes_shows_one_disk_in_conflict(mine: bool, other: bool, shown: int) -> None:
    def template(read_only: bool) -> PodTemplate:
        disks = [{"gcePersistentDisk": {"pdName": n, "readOnly": read_only}} for n in "ab"]
        return PodTemplate(using(*disks))

    assert len(template(mine).values_if_added(template(other)).disks) == shown


def labelled(**labels: str) -> Pod:
    return msgspec.convert({"metadata": {"labels": labels}}, Pod)


def test_templates_that_are_kept_without_pods_have_a_bound_in_bytes() -> None:
    templates = Templates()
    values = [f"{number}{'x' * 10_000}" for number in range(60)]
    gone = [ref(templates.of(labelled(a=value))) for value in values]
    assert [template() is None for template in gone] == [True] * 34 + [False] * 26


@pytest.mark.parametrize("is_heavy", [True, False])
def test_a_template_is_kept_without_its_pods_unless_it_is_heavy(is_heavy: bool) -> None:
    templates = Templates()
    of_pods_that_are_gone = ref(templates.of(labelled(a="x" * LONGEST * is_heavy)))
    templates.of(labelled(b="y"))  # the latest template is kept in any case
    assert (of_pods_that_are_gone() is None) is is_heavy
