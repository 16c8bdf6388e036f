"""Translates in-tree volumes to the CSI volumes that replace them.

A node with the CSI driver of a cloud attaches the disks of the former in-tree plugin through that
driver. Limits then count these disks as volumes of the driver, and their node affinity uses the
driver's topology labels. Mirrors the csi-translation-lib of Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from msgspec.structs import replace

from .core import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    GCEPersistentDiskVolumeSource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Volume,
)
from .storage import CSINode, PersistentVolume

AWS_EBS = "kubernetes.io/aws-ebs"
GCE_PD = "kubernetes.io/gce-pd"
AZURE_DISK = "kubernetes.io/azure-disk"
AZURE_FILE = "kubernetes.io/azure-file"
CINDER = "kubernetes.io/cinder"
PORTWORX = "kubernetes.io/portworx-volume"
VSPHERE = "kubernetes.io/vsphere-volume"

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONE_DELIMITER = "__"

# In-tree plugins: the scheduler treats their volumes as volumes of the CSI driver.
MIGRATED = frozenset((AWS_EBS, GCE_PD, AZURE_DISK, CINDER, PORTWORX))

_DRIVERS = {
    AWS_EBS: "ebs.csi.aws.com",
    GCE_PD: "pd.csi.storage.gke.io",
    AZURE_DISK: "disk.csi.azure.com",
    AZURE_FILE: "file.csi.azure.com",
    CINDER: "cinder.csi.openstack.org",
    PORTWORX: "pxd.portworx.com",
    VSPHERE: "csi.vsphere.vmware.com",
}
_SOURCES = {
    AWS_EBS: "aws_elastic_block_store",
    GCE_PD: "gce_persistent_disk",
    AZURE_DISK: "azure_disk",
    AZURE_FILE: "azure_file",
    CINDER: "cinder",
    PORTWORX: "portworx_volume",
    VSPHERE: "vsphere_volume",
}
# The zone labels of drivers. Only these topologies are translated.
_ZONE_LABELS = {
    AWS_EBS: "topology.ebs.csi.aws.com/zone",
    GCE_PD: "topology.gke.io/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
}
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
_UNSPECIFIED = "UNSPECIFIED"
_AWS_VOLUME = re.compile("vol-[^/]*")
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_PORT = re.compile("[0-9]*")


class TranslationError(ValueError):
    """The failure to find the CSI equivalent of a volume, with Kubernetes' message."""


def in_tree_plugin(volume: PersistentVolume | Volume) -> str | None:
    """Returns the in-tree plugin of a volume, or None if no CSI driver replaces it."""
    source = volume.spec if isinstance(volume, PersistentVolume) else volume
    for plugin, field in _SOURCES.items():
        if getattr(source, field) is not None:
            return plugin
    return None


def csi_driver(plugin: str) -> str | None:
    """Returns the CSI driver that replaces an in-tree plugin, or None if none does."""
    return _DRIVERS.get(plugin)


def migrated_plugins(csi_node: CSINode | None) -> frozenset[str]:
    """Returns the in-tree plugins whose volumes a node attaches through CSI drivers."""
    named = "" if csi_node is None else csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "")
    return frozenset(named.split(",")) if named else frozenset()


# ------------------------------------------------------------------------------------------ handles


def volume_handle(volume: PersistentVolume | Volume) -> str:
    """Returns the volume handle of a volume of a MIGRATED plugin. Raises TranslationError."""
    source = volume.spec if isinstance(volume, PersistentVolume) else volume
    if source.aws_elastic_block_store is not None:
        return _ebs_handle(source.aws_elastic_block_store)
    if source.gce_persistent_disk is not None:
        labels = volume.metadata.labels if isinstance(volume, PersistentVolume) else {}
        zones = labels.get(BETA_ZONE) or labels.get(ZONE, "")
        return _pd_handle(source.gce_persistent_disk, zones.split(ZONE_DELIMITER))
    if source.azure_disk is not None:
        return _azure_disk_handle(source.azure_disk)
    for plain in (source.cinder, source.portworx_volume):
        if plain is not None:
            return plain.volume_id
    raise TranslationError("could not find in-tree plugin translation logic")


def _ebs_handle(source: AWSElasticBlockStoreVolumeSource) -> str:
    """Returns the id of an EBS volume, which may be written aws://zone/id or aws:///id."""
    text = source.volume_id
    prefix = "aws://"
    if not text.startswith(prefix):
        return text
    failed = "failed to translate Kubernetes ID to EBS Volume ID"
    host, slash, path = re.split("[?#]", text[len(prefix) :], maxsplit=1)[0].partition("/")
    problem = _url_problem(host, slash + path)
    if problem:
        raise TranslationError(f'{failed} Invalid disk name ({text}): parse "{text}": {problem}')
    handle = unquote(path).strip("/")
    if not _AWS_VOLUME.fullmatch(handle):
        raise TranslationError(f"{failed} Invalid format for AWS volume ({text})")
    return handle


def _url_problem(host: str, path: str) -> str:
    """Returns the reason why Go cannot parse a URL with this host and path; "" if it can."""
    if any(character < " " or character == "\x7f" for character in host + path):
        return "net/url: invalid control character in URL"
    escape = _BAD_ESCAPE.search(host + path)
    if escape:
        return f'invalid URL escape "{escape[0]}"'
    _, colon, port = host.rpartition(":")
    if colon and not host.startswith("[") and not _PORT.fullmatch(port):
        return f'invalid port ":{port}" after host'
    return ""


def _pd_handle(source: GCEPersistentDiskVolumeSource, zones: Sequence[str]) -> str:
    if len(zones) > 1:
        place = f"regions/{_region_of(zones)}"
    else:
        place = f"zones/{zones[0] or _UNSPECIFIED}"
    return f"projects/{_UNSPECIFIED}/{place}/disks/{source.pd_name}"


def _region_of(zones: Sequence[str]) -> str:
    failed = "failed to get region from zones:"
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise TranslationError(
                f"{failed} zone in unexpected format, expected: "
                f"{{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add(f"{parts[0]}-{parts[1]}")
    if len(regions) != 1:
        listing = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise TranslationError(
            f"{failed} multiple or no regions gotten from zones, got: map[{listing}]"
        )
    return regions.pop()


def _azure_disk_handle(source: AzureDiskVolumeSource) -> str:
    if source.kind is not None and source.kind.lower() != "managed":
        raise TranslationError(f"kind({source.kind}) is not supported in csi migration")
    return source.data_disk_uri


# ----------------------------------------------------------------------------------------- topology


def translated_affinity(pv: PersistentVolume) -> NodeSelector | None:
    """Returns the node affinity of a volume of a MIGRATED plugin, with the labels of the CSI
    driver; None if it has none. Raises TranslationError if the volume cannot be translated.
    """
    volume_handle(pv)
    affinity = None if pv.spec.node_affinity is None else pv.spec.node_affinity.required
    zone_label = _ZONE_LABELS.get(in_tree_plugin(pv) or "")
    if zone_label is None:
        return affinity
    terms = () if affinity is None else affinity.node_selector_terms
    labels = pv.metadata.labels
    zone, region = _topology_labels(terms, labels)
    renamed = {}
    if _has_values(terms, zone):
        renamed[zone] = zone_label
    if region == BETA_REGION and _has_values(terms, region):
        renamed[region] = REGION
    terms = tuple([_with_csi_label(term, renamed) for term in terms])
    if zone not in renamed:
        zones = {name.strip() for name in labels.get(zone, "").split(ZONE_DELIMITER)} - {""}
        if zones:
            added = NodeSelectorRequirement(
                key=zone_label, operator="In", values=tuple(sorted(zones))
            )
            terms = tuple(
                replace(term, match_expressions=(*term.match_expressions, added))
                for term in terms or (NodeSelectorTerm(),)
            )
    return NodeSelector(node_selector_terms=terms) if terms else affinity


def _topology_labels(
    terms: Sequence[NodeSelectorTerm], labels: Mapping[str, str]
) -> tuple[str, str]:
    """Returns the zone label that the affinity uses, else that of the volume, and the region label
    from the same generation of labels.
    """
    for zones in ({r.key for term in terms for r in term.match_expressions}, labels):
        if ZONE in zones:
            return ZONE, REGION
        if BETA_ZONE in zones:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _has_values(terms: Sequence[NodeSelectorTerm], key: str) -> bool:
    return any(r.key == key and r.values for term in terms for r in term.match_expressions)


def _with_csi_label(term: NodeSelectorTerm, keys: dict[str, str]) -> NodeSelectorTerm:
    if not any(r.key in keys for r in term.match_expressions):
        return term
    return replace(
        term,
        match_expressions=tuple(
            [replace(r, key=keys.get(r.key, r.key)) for r in term.match_expressions]
        ),
    )
