"""The volumes of a pod as CSI drivers attach them.

A claim's volume is that of its PersistentVolume. As long as it has none, it is one of the driver
that provisions for its StorageClass. The disks of a cloud that a pod names directly, or that a
PersistentVolume is, count for the CSI driver that took them over, on nodes that have a CSINode.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from berth.plugin import (
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodInfo,
    Status,
    StorageClass,
    error,
    unresolvable,
)

from ...kube.claims import claim_name, class_of, controller_uid, not_found, not_made_for
from ...kube.core import Volume
from ...kube.csi_translation import (
    MIGRATED,
    TranslationError,
    csi_driver,
    in_tree_plugin,
    volume_handle,
)
from ...kube.meta import HasMetadata
from ...model.cluster_objects import ClusterObjects, ObjectName
from ...model.pod_template import PerTemplate

# The start of a handle that no driver gives: the volume does not exist yet.
_UNBOUND = "\0"


class Attached(msgspec.Struct, frozen=True):
    """A volume by the name that is unique in the cluster, driver/handle. `migrated` if it counts
    only on nodes that have a CSINode.
    """

    name: str
    driver: str
    migrated: bool = False


class Claimed(msgspec.Struct, frozen=True):
    """The volume of a claim, None if it does not count. `controller` is the uid of the claim's
    controller. `read` are the objects from which this was taken, besides the claim, whether they
    exist or not.
    """

    volume: Attached | None
    controller: str = ""
    read: tuple[tuple[type[HasMetadata], str], ...] = ()


# Finds the claim of a name within a namespace; None if there is none.
FindClaim = Callable[[ObjectName], Claimed | None]


def claimed(objects: ClusterObjects, name: ObjectName) -> Claimed | None:
    claim = objects.get(PersistentVolumeClaim, name[1], name[0])
    if claim is None:
        return None
    controller = controller_uid(claim)
    volume_name, class_name = claim.spec.volume_name, class_of(claim)
    volume = objects.get(PersistentVolume, volume_name) if volume_name else None
    read: tuple[tuple[type[HasMetadata], str], ...] = ()
    if volume_name:
        read = ((PersistentVolume, volume_name),)
    if volume is not None:
        return Claimed(_of_volume(volume), controller, read)
    if not class_name:
        return Claimed(None, controller, read)
    read = (*read, (StorageClass, class_name))
    return Claimed(_of_class(objects.get(StorageClass, class_name), name), controller, read)


def _of_volume(volume: PersistentVolume) -> Attached | None:
    source = volume.spec.csi
    if source is not None:
        driver, handle = source.driver, source.volume_handle
        return Attached(f"{driver}/{handle}", driver) if driver and handle else None
    plugin = in_tree_plugin(volume)
    if plugin not in MIGRATED:
        return None
    try:
        handle = volume_handle(volume)
    except TranslationError:
        return None
    return _migrated(plugin, handle) if handle else None


def _of_class(found: StorageClass | None, claim: ObjectName) -> Attached | None:
    """The volume that the class's driver would provide for an unbound claim."""
    if found is None or not found.provisioner:
        return None
    handle = f"{_UNBOUND}{claim[0]}/{claim[1]}"
    if found.provisioner in MIGRATED:
        return _migrated(found.provisioner, handle)
    if csi_driver(found.provisioner) is not None:
        return None  # in-tree, and not served by its driver
    return Attached(f"{found.provisioner}/{handle}", found.provisioner)


def _migrated(plugin: str, handle: str) -> Attached:
    driver = csi_driver(plugin)
    assert driver is not None, plugin
    return Attached(f"{driver}/{handle}", driver, migrated=True)


# ------------------------------------------------------------------------------------------ of pods


def _attached_inline(volume: Volume) -> Attached | Status | None:
    """The disk that a pod names directly; None if it does not count."""
    plugin = in_tree_plugin(volume)
    if plugin is None or plugin not in MIGRATED:
        return None
    try:
        return _migrated(plugin, volume_handle(volume))
    except TranslationError as problem:
        return error(f"converting volume({volume.name}) from inline to csi: {problem}")


def _uses(pod: Pod) -> tuple[tuple[int, Attached | Status | None], ...]:
    """The positions of the volumes that may be attached, each with its inline disk. A volume with
    a claim has None: the claim's name is no part of the template.
    """
    found: list[tuple[int, Attached | Status | None]] = []
    for position, volume in enumerate(pod.spec.volumes):
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
            found.append((position, None))
        else:
            disk = _attached_inline(volume)
            if disk is not None:
                found.append((position, disk))
    return tuple(found)


_USES = PerTemplate(_uses)


def attached_by(
    info: PodInfo, find: FindClaim, *, has_csi_node: bool, new: bool
) -> dict[str, str] | Status:
    """The drivers of the volumes that a pod attaches to a node, by the volume's name.

    Returns the status of the first volume that cannot be counted instead. A claim that does not
    exist makes a new pod unresolvable; of other pods it does not count.
    """
    pod, found = info.pod, {}
    for position, disk in _USES(info.template, pod):
        if disk is None:
            volume = _claimed_by(pod, pod.spec.volumes[position], find, new=new)
        else:
            volume = disk if has_csi_node else None
        if isinstance(volume, Status):
            return volume
        if volume is not None and (has_csi_node or not volume.migrated):
            found[volume.name] = volume.driver
    return found


def _claimed_by(
    pod: Pod, volume: Volume, find: FindClaim, *, new: bool
) -> Attached | Status | None:
    """The volume of a claim that a pod names, or that was made for it."""
    name, namespace = claim_name(pod, volume), pod.metadata.namespace
    if not name:
        return error("PersistentVolumeClaim had no name")
    found = find((namespace, name))
    if found is None:
        return (
            unresolvable(
                f"looking up PVC {namespace}/{name}: " + not_found("persistentvolumeclaim", name)
            )
            if new
            else None
        )
    own = volume.persistent_volume_claim is not None or (
        found.controller != "" and found.controller == pod.metadata.uid
    )
    return found.volume if own else error(not_made_for(pod, name))
