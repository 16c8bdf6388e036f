"""Examples of in-tree volumes and the CSI volumes that they become."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.kube.core import NodeSelector, Volume
from berth.actors.scheduling.kube.csi_translation import (
    MIGRATED,
    TranslationError,
    csi_driver,
    in_tree_plugin,
    migrated_plugins,
    translated_affinity,
    volume_handle,
)
from berth.actors.scheduling.kube.storage import CSINode, PersistentVolume

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
PD = {"gcePersistentDisk": {"pdName": "disk"}}
AZURE_DISK = {"azureDisk": {"diskURI": "/disks/d"}}
CINDER = {"cinder": {"volumeID": "c-1"}}
PORTWORX = {"portworxVolume": {"volumeID": "p-1"}}


def pv(
    source: dict[str, Any], labels: dict[str, str] | None = None, terms: Any = None
) -> PersistentVolume:
    spec = dict(source)
    if terms is not None:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    metadata = {"name": "pv", "labels": labels or {}}
    return msgspec.convert({"metadata": metadata, "spec": spec}, PersistentVolume)


def inline(source: dict[str, Any]) -> Volume:
    return msgspec.convert({"name": "v", **source}, Volume)


def required(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def selector(*terms: dict[str, Any]) -> NodeSelector:
    return msgspec.convert({"nodeSelectorTerms": list(terms)}, NodeSelector)


def ebs(name: str) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": name}}


@pytest.mark.parametrize(
    ("source", "plugin", "driver", "on"),
    [
        (EBS, "kubernetes.io/aws-ebs", "ebs.csi.aws.com", True),
        (PD, "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", True),
        (AZURE_DISK, "kubernetes.io/azure-disk", "disk.csi.azure.com", True),
        (CINDER, "kubernetes.io/cinder", "cinder.csi.openstack.org", True),
        (PORTWORX, "kubernetes.io/portworx-volume", "pxd.portworx.com", True),
        ({"azureFile": {}}, "kubernetes.io/azure-file", "file.csi.azure.com", False),
        ({"vsphereVolume": {}}, "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", False),
    ],
)
def test_plugin_and_driver(source: dict[str, Any], plugin: str, driver: str, on: bool) -> None:
    assert in_tree_plugin(pv(source)) == plugin
    assert in_tree_plugin(inline(source)) == plugin
    assert csi_driver(plugin) == driver
    assert (plugin in MIGRATED) is on


@pytest.mark.parametrize("source", [{}, {"csi": {"driver": "d"}}, {"local": {"path": "/p"}}])
def test_other_volumes_have_no_in_tree_plugin(source: dict[str, Any]) -> None:
    assert in_tree_plugin(pv(source)) is None
    assert csi_driver("d") is None


def test_the_empty_volume_has_no_in_tree_plugin() -> None:
    assert in_tree_plugin(Volume()) is None


@pytest.mark.parametrize(
    ("source", "handle"),
    [
        (EBS, "vol-1"),
        (ebs("aws://us-east-1b/vol-2"), "vol-2"),
        (ebs("aws:///vol-3"), "vol-3"),
        (ebs("aws://z//vol-4//"), "vol-4"),
        (ebs("aws://z/vol%2D5?x=/#y"), "vol-5"),
        (ebs("AWS://z/vol-6"), "AWS://z/vol-6"),
        ({"awsElasticBlockStore": {}}, ""),
        (PD, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk"),
        (AZURE_DISK, "/disks/d"),
        ({"azureDisk": {"diskURI": "/disks/d", "kind": "managed"}}, "/disks/d"),
        (CINDER, "c-1"),
        (PORTWORX, "p-1"),
    ],
)
def test_handles(source: dict[str, Any], handle: str) -> None:
    assert volume_handle(pv(source)) == handle
    assert volume_handle(inline(source)) == handle


@pytest.mark.parametrize(
    ("labels", "handle"),
    [
        ({ZONE: "us-east1-a"}, "projects/UNSPECIFIED/zones/us-east1-a/disks/disk"),
        (
            {ZONE: "us-east1-a", BETA_ZONE: "us-east1-b"},
            "projects/UNSPECIFIED/zones/us-east1-b/disks/disk",
        ),
        (
            {ZONE: "us-east1-a", BETA_ZONE: ""},
            "projects/UNSPECIFIED/zones/us-east1-a/disks/disk",
        ),
        ({ZONE: ""}, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk"),
        ({ZONE: "us-east1-a__us-east1-b"}, "projects/UNSPECIFIED/regions/us-east1/disks/disk"),
    ],
)
def test_handle_of_a_gce_disk_by_its_zones(labels: dict[str, str], handle: str) -> None:
    assert volume_handle(pv(PD, labels)) == handle


EBS_PROBLEM = "failed to translate Kubernetes ID to EBS Volume ID "
NO_VOLUME, NO_NAME = "Invalid format for AWS volume", "Invalid disk name"
ODD, NO_PORT = "aws://z/vol-%zz", "aws://z:x/vol-1"
REGIONS = "failed to get region from zones:"
UNEXPECTED = "zone in unexpected format, expected: {locale}-{region}-{zone}, got: "


@pytest.mark.parametrize(
    ("volume", "problem"),
    [
        (pv(ebs("aws://z/disk")), f"{EBS_PROBLEM}{NO_VOLUME} (aws://z/disk)"),
        (pv(ebs("aws://z/vol-1/x")), f"{EBS_PROBLEM}{NO_VOLUME} (aws://z/vol-1/x)"),
        (inline(ebs("aws://vol-1")), f"{EBS_PROBLEM}{NO_VOLUME} (aws://vol-1)"),
        (
            inline(ebs(ODD)),
            f'{EBS_PROBLEM}{NO_NAME} ({ODD}): parse "{ODD}": invalid URL escape "%zz"',
        ),
        (
            inline(ebs(NO_PORT)),
            f'{EBS_PROBLEM}{NO_NAME} ({NO_PORT}): parse "{NO_PORT}": invalid port ":x" after host',
        ),
        (
            pv(PD, {ZONE: "a-b-c__d-e-f"}),
            f"{REGIONS} multiple or no regions gotten from zones, got: map[a-b:{{}} d-e:{{}}]",
        ),
        (pv(PD, {ZONE: "a-b-c__"}), f"{REGIONS} {UNEXPECTED}"),
        (
            inline({"azureDisk": {"diskURI": "d", "kind": "Shared"}}),
            "kind(Shared) is not supported in csi migration",
        ),
    ],
)
def test_volumes_that_cannot_be_translated(volume: PersistentVolume | Volume, problem: str) -> None:
    with pytest.raises(TranslationError) as raised:
        volume_handle(volume)
    assert str(raised.value) == problem
    if isinstance(volume, PersistentVolume):
        with pytest.raises(TranslationError):
            translated_affinity(volume)


EBS_ZONE = "topology.ebs.csi.aws.com/zone"
OTHER = required("disk", "ssd")
A_ZONE = required(EBS_ZONE, "a")


def exists(key: str) -> dict[str, str]:
    return {"key": key, "operator": "Exists"}


def terms_of(listed: Any) -> Any:
    """Returns the terms with these requirements."""
    return listed and [{"matchExpressions": each} if each else {} for each in listed]


@pytest.mark.parametrize(
    ("labels", "terms", "translated"),
    [
        ({}, None, None),
        ({REGION: "r"}, None, None),
        ({ZONE: "b__a__a"}, None, [[required(EBS_ZONE, "a", "b")]]),
        ({ZONE: " a __"}, None, [[A_ZONE]]),
        ({ZONE: ""}, None, None),
        ({BETA_ZONE: "a"}, None, [[A_ZONE]]),
        ({ZONE: "a", BETA_ZONE: "b"}, None, [[A_ZONE]]),
        ({ZONE: "a"}, [], [[A_ZONE]]),
        # The affinity goes before the labels.
        (
            {ZONE: "a"},
            [[required(ZONE, "b"), OTHER], [OTHER]],
            [[required(EBS_ZONE, "b"), OTHER], [OTHER]],
        ),
        # The zone of a label is added to every term.
        ({ZONE: "a"}, [[OTHER], []], [[OTHER, A_ZONE], [A_ZONE]]),
        # A requirement on the zone without values does not count as a zone.
        ({ZONE: "a"}, [[exists(ZONE)]], [[exists(ZONE), A_ZONE]]),
        (
            {},
            [[required(BETA_ZONE, "a"), required(BETA_REGION, "r")]],
            [[A_ZONE, required(REGION, "r")]],
        ),
        # The affinity names the new zone label: the beta labels stay.
        (
            {},
            [[required(ZONE, "a"), required(BETA_REGION, "r")]],
            [[A_ZONE, required(BETA_REGION, "r")]],
        ),
        ({BETA_ZONE: "a"}, [[required(BETA_REGION, "r")]], [[required(REGION, "r"), A_ZONE]]),
        ({BETA_ZONE: "a"}, [[exists(BETA_REGION)]], [[exists(BETA_REGION), A_ZONE]]),
    ],
)
def test_translated_affinity(labels: dict[str, str], terms: Any, translated: Any) -> None:
    expected = None if translated is None else selector(*terms_of(translated))
    assert translated_affinity(pv(EBS, labels, terms_of(terms))) == expected


@pytest.mark.parametrize(
    ("source", "key"),
    [
        (EBS, EBS_ZONE),
        (PD, "topology.gke.io/zone"),
        (CINDER, "topology.cinder.csi.openstack.org/zone"),
        (AZURE_DISK, ZONE),
        (PORTWORX, ZONE),
    ],
)
def test_translated_zone_label_of_each_driver(source: dict[str, Any], key: str) -> None:
    translated = translated_affinity(pv(source, {}, [{"matchExpressions": [required(ZONE, "a")]}]))
    assert translated == selector({"matchExpressions": [required(key, "a")]})


def test_azure_disks_and_portworx_volumes_take_no_zone_from_labels() -> None:
    assert translated_affinity(pv(AZURE_DISK, {ZONE: "a"})) is None
    assert translated_affinity(pv(PORTWORX, {ZONE: "a"})) is None


@pytest.mark.parametrize(
    ("annotations", "plugins"),
    [
        ({}, set()),
        ({"storage.alpha.kubernetes.io/migrated-plugins": ""}, set()),
        ({"storage.alpha.kubernetes.io/migrated-plugins": "a,b"}, {"a", "b"}),
        ({"storage.alpha.kubernetes.io/migrated-plugins": "a, b"}, {"a", " b"}),
    ],
)
def test_migrated_plugins(annotations: dict[str, str], plugins: set[str]) -> None:
    node = msgspec.convert({"metadata": {"name": "n", "annotations": annotations}}, CSINode)
    assert migrated_plugins(node) == plugins
    assert migrated_plugins(None) == frozenset()
