"""The volumes of a pod as CSI drivers attach them.

A claim with a PersistentVolume stands for that volume. A claim without one stands for a volume of
the driver that provisions for its StorageClass. A cloud disk counts for the CSI driver that took it
over, on nodes that have a CSINode, whether a pod names it directly or a PersistentVolume does.
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

# Begins the handles of volumes that do not exist yet. No driver uses such a handle.
_UNBOUND = "\0"


class AttachedVolume(msgspec.Struct, frozen=True):
    """A volume with its name, driver/handle, which is unique in the cluster. A `migrated` volume
    counts only on nodes that have a CSINode.
    """

    name: str
    driver: str
    migrated: bool = False


class ClaimedVolume(msgspec.Struct, frozen=True):
    """The volume of a claim; None if it does not count. `controller` is the uid of the claim's
    controller. `read` are the other objects that were read, which need not exist.
    """

    volume: AttachedVolume | None
    controller: str = ""
    read: tuple[tuple[type[HasMetadata], str], ...] = ()


# Returns the volume of the claim with this namespace and name; None if there is no such claim.
FindClaim = Callable[[ObjectName], ClaimedVolume | None]


def claimed_volume(objects: ClusterObjects, name: ObjectName) -> ClaimedVolume | None:
    """Returns the volume of a claim; None if there is no such claim."""
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
        return ClaimedVolume(_attached_volume(volume), controller, read)
    if not class_name:
        return ClaimedVolume(None, controller, read)
    read = (*read, (StorageClass, class_name))
    return ClaimedVolume(
        _volume_of_class(objects.get(StorageClass, class_name), name), controller, read
    )


def _attached_volume(volume: PersistentVolume) -> AttachedVolume | None:
    source = volume.spec.csi
    if source is not None:
        driver, handle = source.driver, source.volume_handle
        return AttachedVolume(f"{driver}/{handle}", driver) if driver and handle else None
    plugin = in_tree_plugin(volume)
    if plugin not in MIGRATED:
        return None
    try:
        handle = volume_handle(volume)
    except TranslationError:
        return None
    return _migrated_volume(plugin, handle) if handle else None


def _volume_of_class(
    storage_class: StorageClass | None, claim: ObjectName
) -> AttachedVolume | None:
    """Returns the volume that the class's driver would make for an unbound claim."""
    plugin = "" if storage_class is None else storage_class.provisioner
    if not plugin:
        return None
    handle = f"{_UNBOUND}{claim[0]}/{claim[1]}"
    if plugin in MIGRATED:
        return _migrated_volume(plugin, handle)
    if csi_driver(plugin) is not None:
        return None  # in-tree, and not served by its driver
    return AttachedVolume(f"{plugin}/{handle}", plugin)


def _migrated_volume(plugin: str, handle: str) -> AttachedVolume:
    driver = csi_driver(plugin)
    assert driver is not None, plugin
    return AttachedVolume(f"{driver}/{handle}", driver, migrated=True)


# ------------------------------------------------------------------------------------------ of pods


def _attached_inline(volume: Volume) -> AttachedVolume | Status | None:
    """Returns the disk that a pod's volume names directly; None if it does not count."""
    plugin = in_tree_plugin(volume)
    if plugin is None or plugin not in MIGRATED:
        return None
    try:
        return _migrated_volume(plugin, volume_handle(volume))
    except TranslationError as problem:
        return error(f"converting volume({volume.name}) from inline to csi: {problem}")


def _attachable_volumes(pod: Pod) -> tuple[tuple[int, AttachedVolume | Status | None], ...]:
    """Returns the positions of the volumes that may be attached, each with its inline disk; None
    for a volume with a claim, whose name is no part of the template.
    """
    uses: list[tuple[int, AttachedVolume | Status | None]] = []
    for position, volume in enumerate(pod.spec.volumes):
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
            uses.append((position, None))
        else:
            disk = _attached_inline(volume)
            if disk is not None:
                uses.append((position, disk))
    return tuple(uses)


_USES = PerTemplate(_attachable_volumes)


def attached_by(
    info: PodInfo, find: FindClaim, *, has_csi_node: bool, new: bool
) -> dict[str, str] | Status:
    """Returns the drivers of the volumes that a pod attaches to a node, by the volume's name.

    If a volume cannot be counted, returns the status of the first such volume instead. A claim that
    does not exist makes a new pod unresolvable; for other pods it does not count.
    """
    pod, drivers = info.pod, {}
    for position, disk in _USES(info.template, pod):
        if disk is None:
            volume = _claimed_by(pod, pod.spec.volumes[position], find, new=new)
        else:
            volume = disk if has_csi_node else None
        if isinstance(volume, Status):
            return volume
        if volume is not None and (has_csi_node or not volume.migrated):
            drivers[volume.name] = volume.driver
    return drivers


def _claimed_by(
    pod: Pod, volume: Volume, find: FindClaim, *, new: bool
) -> AttachedVolume | Status | None:
    """Returns the volume of a claim that a pod names, or that was made for it."""
    name, namespace = claim_name(pod, volume), pod.metadata.namespace
    if not name:
        return error("PersistentVolumeClaim had no name")
    claim = find((namespace, name))
    if claim is None:
        return (
            unresolvable(
                f"looking up PVC {namespace}/{name}: " + not_found("persistentvolumeclaim", name)
            )
            if new
            else None
        )
    own = volume.persistent_volume_claim is not None or (
        claim.controller != "" and claim.controller == pod.metadata.uid
    )
    return claim.volume if own else error(not_made_for(pod, name))
