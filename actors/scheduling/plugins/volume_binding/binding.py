"""Binding: reserves volumes for the claims of a placed pod, and writes the reservation.

Reserve assumes the volumes and claims as they will be, so that the next decision does not take them
again. PreBind writes them and waits until the volume controller has bound every claim. It gives up
if the node, the pod or a volume is gone, or if the time is over. Changes that were not written are
restored. Mirrors AssumePodVolumes, BindPodVolumes and checkBindings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

import msgspec

from berth.plugin import SUCCESS, Handle, Node, ObjectKey, Pod, Status, error

from ...kube.annotations import BOUND_BY_CONTROLLER, SELECTED_NODE
from ...kube.claims import is_fully_bound
from ...kube.csi_translation import (
    MIGRATED,
    TranslationError,
    in_tree_plugin,
    migrated_plugins,
    translated_affinity,
)
from ...kube.meta import ObjectMeta, ObjectReference, version_of
from ...kube.storage import CSINode, PersistentVolume, PersistentVolumeClaim
from .matching import affinity_allows, labels_selector, node_affinity
from .pod_volumes import NodeVolumes

T = TypeVar("T", PersistentVolume, PersistentVolumeClaim)


class _Write(msgspec.Struct, frozen=True):
    """A merge patch, and the object after it.

    The patch is sent even if the object was assumed like that before: the pod that assumed it first
    may never write it.
    """

    assumed: PersistentVolume | PersistentVolumeClaim
    changes: Mapping[str, Any]


class Reservation:
    """The volumes that a placed pod's claims get, and the claims for which new volumes are made.

    The objects are assumed versions until they are written, then the versions that the API server
    returned.
    """

    def __init__(self) -> None:
        self.bindings: list[tuple[PersistentVolume, PersistentVolumeClaim]] = []
        self.provisions: list[PersistentVolumeClaim] = []
        self.unwritten: list[_Write] = []

    def written(self, answer: PersistentVolume | PersistentVolumeClaim) -> None:
        """Records that the first of the writes is done."""
        name, namespace = answer.metadata.name, answer.metadata.namespace
        del self.unwritten[0]
        if isinstance(answer, PersistentVolume):
            self.bindings = [
                (answer if volume.metadata.name == name else volume, claim)
                for volume, claim in self.bindings
            ]
        else:
            self.provisions = [
                answer if (it.metadata.name, it.metadata.namespace) == (name, namespace) else it
                for it in self.provisions
            ]


class Binding:
    """The reservations of a plugin. `seconds` limits the wait for the volume controller."""

    def __init__(self, handle: Handle, seconds: float) -> None:
        self._handle = handle
        self._seconds = seconds

    def reserve(self, volumes: NodeVolumes, node: str) -> Reservation:
        """Assumes the volumes as bound to their claims, and the claims as claims of the node.

        A pod may name a claim twice; the claim gets one volume.
        """
        reservation, done = Reservation(), set[tuple[str, str]]()
        for volume, claim in volumes.bindings:
            if not _is_new(claim, done):
                continue
            write = _pre_binding_write(volume, claim)
            if write.assumed is not volume:
                self._handle.objects.assume(write.assumed)
            reservation.unwritten.append(write)
            assert isinstance(write.assumed, PersistentVolume)
            reservation.bindings.append((write.assumed, claim))
        for provision in volumes.provisions:
            if not _is_new(provision.claim, done):
                continue
            write = _provisioning_write(provision.claim, node)
            self._handle.objects.assume(write.assumed)
            reservation.unwritten.append(write)
            assert isinstance(write.assumed, PersistentVolumeClaim)
            reservation.provisions.append(write.assumed)
        return reservation

    def unreserve(self, reservation: Reservation) -> None:
        """Restores the changes that were not written."""
        for write in reservation.unwritten:
            self._handle.objects.restore(write.assumed)
        reservation.unwritten = []

    async def bind(self, reservation: Reservation, pod: Pod, node: str) -> Status:
        """Writes the reservation, and waits until all claims are bound."""
        while reservation.unwritten:
            write = reservation.unwritten[0]
            metadata = write.assumed.metadata
            kind = cast("type[PersistentVolume]", type(write.assumed))
            answer = await self._handle.api.patch(
                kind, metadata.name, write.changes, metadata.namespace
            )
            if isinstance(answer, Status):
                self.unreserve(reservation)
                return answer
            reservation.written(answer)
        status = await self._handle.objects.wait_for(
            lambda: self._check_bound(reservation, pod, node), self._seconds
        )
        if status is None:
            return error("binding volumes: context deadline exceeded")
        return status if status.ok else error(f"binding volumes: {status.message}")

    # ------------------------------------------------------------------------------------- waiting

    def _check_bound(
        self, reservation: Reservation, pod: Pod, node: str
    ) -> Status | list[ObjectKey]:
        """Returns success once every claim is bound, an error if one never will be, otherwise the
        objects whose change may end the wait.
        """
        objects, metadata = self._handle.objects, pod.metadata
        on = objects.get(Node, node)
        if on is None:
            return error(f'failed to get node "{node}": node "{node}" not found')
        current = objects.get(Pod, metadata.name, metadata.namespace)
        if current is None or current.metadata.uid != metadata.uid:
            return error(f'pod does not exist any more: pod "{metadata.name}" not found')
        keys: list[ObjectKey] = [
            (Node, "", node),
            (Pod, metadata.namespace, metadata.name),
        ]
        statuses = [self._is_bound(*binding, on, keys) for binding in reservation.bindings]
        statuses += [self._is_provisioned(claim, on, keys) for claim in reservation.provisions]
        for status in statuses:
            if status is not None and not status.ok:
                return status
        return SUCCESS if all(statuses) else keys

    def _is_bound(
        self,
        written: PersistentVolume,
        claim: PersistentVolumeClaim,
        node: Node,
        keys: list[ObjectKey],
    ) -> Status | None:
        """Returns None while the claim is not bound to the volume yet. Adds objects to `keys`."""
        objects, metadata, name = self._handle.objects, claim.metadata, written.metadata.name
        keys += [
            (PersistentVolume, "", name),
            (PersistentVolumeClaim, metadata.namespace, metadata.name),
        ]
        volume = objects.get(PersistentVolume, name)
        if volume is None:
            return error(f'failed to check binding: persistentvolumes "{name}" not found')
        current = objects.get(PersistentVolumeClaim, metadata.name, metadata.namespace)
        if current is None:
            return error(f"failed to check binding: {_claim_not_found(claim)}")
        if version_of(written) > version_of(volume):
            return None
        conflict = self._conflict(volume, node, "failed to translate pv to csi: ")
        if conflict is not None:
            return conflict
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            return error(f'ClaimRef got reset for pv "{volume.metadata.name}"')
        if not is_fully_bound(current):
            return None
        if current.spec.volume_name != volume.metadata.name:
            # Two volumes were reserved for the claim, and the controller chose the other one. The
            # node may not suit that one; kube-scheduler would bind the pod there.
            where, other = f"{claim.metadata.namespace}/{claim.metadata.name}", current.spec
            return error(f'persistentvolumeclaims "{where}" is bound to pv "{other.volume_name}"')
        return SUCCESS

    def _is_provisioned(
        self, written: PersistentVolumeClaim, node: Node, keys: list[ObjectKey]
    ) -> Status | None:
        """Returns None while there is no volume for the claim yet. Adds objects to `keys`."""
        metadata = written.metadata
        keys.append((PersistentVolumeClaim, metadata.namespace, metadata.name))
        claim = self._handle.objects.get(PersistentVolumeClaim, metadata.name, metadata.namespace)
        if claim is None:
            return error(f"failed to check provisioning pvc: {_claim_not_found(written)}")
        if version_of(written) > version_of(claim):
            return None
        if not claim.metadata.annotations:
            return error(f'selectedNode annotation reset for PVC "{metadata.name}"')
        if claim.metadata.annotations.get(SELECTED_NODE) != node.metadata.name:
            return error(f'provisioning failed for PVC "{metadata.name}"')
        if claim.spec.volume_name:
            keys.append((PersistentVolume, "", claim.spec.volume_name))
            volume = self._handle.objects.get(PersistentVolume, claim.spec.volume_name)
            if volume is None:
                return None  # The informer will get it; if it is deleted, the claim gets unbound.
            conflict = self._conflict(volume, node, "")
            if conflict is not None:
                return conflict
        return SUCCESS if is_fully_bound(claim) else None

    def _conflict(self, volume: PersistentVolume, node: Node, untranslated: str) -> Status | None:
        """Returns an error if the volume cannot be used on the node. `untranslated` begins the
        message about a volume that cannot be translated.
        """
        affinity = node_affinity(volume)
        plugin = in_tree_plugin(volume)
        on = self._handle.objects.get(CSINode, node.metadata.name)
        if plugin in MIGRATED and plugin in migrated_plugins(on):
            try:
                translated = translated_affinity(volume)
            except TranslationError as problem:
                return error(f"{untranslated}could not translate pv: {problem}")
            affinity = None if translated is None else labels_selector(translated)
        if affinity_allows(affinity, node):
            return None
        return error(
            f'pv "{volume.metadata.name}" node affinity doesn\'t match node '
            f'"{node.metadata.name}": no matching NodeSelectorTerms'
        )


def _is_new(claim: PersistentVolumeClaim, done: set[tuple[str, str]]) -> bool:
    """True if the claim is not yet in `done`, to which it is added."""
    key = claim.metadata.namespace, claim.metadata.name
    is_new = key not in done
    done.add(key)
    return is_new


def _pre_binding_write(volume: PersistentVolume, claim: PersistentVolumeClaim) -> _Write:
    """Returns the write that binds a volume to a claim. The volume controller does the rest.
    Mirrors GetBindVolumeToClaim.
    """
    reference, metadata = volume.spec.claim_ref, claim.metadata
    of_claim = reference is not None and (reference.namespace, reference.name) == (
        metadata.namespace,
        metadata.name,
    )
    assumed = volume
    if reference is None or not of_claim or reference.uid not in ("", metadata.uid):
        # Nobody has bound it: with this mark, the controller may undo the binding.
        assumed = _with_annotation(assumed, BOUND_BY_CONTROLLER, "yes", keep=True)
    if reference is None or not of_claim or reference.uid != metadata.uid:
        reference = ObjectReference(
            "v1",
            "PersistentVolumeClaim",
            metadata.namespace,
            metadata.name,
            metadata.uid,
            metadata.resource_version,
        )
        spec = msgspec.structs.replace(assumed.spec, claim_ref=reference)
        assumed = msgspec.structs.replace(assumed, spec=spec)
    return _Write(
        assumed,
        {
            "metadata": _patch(assumed.metadata, BOUND_BY_CONTROLLER),
            "spec": {"claimRef": msgspec.to_builtins(reference)},
        },
    )


def _provisioning_write(claim: PersistentVolumeClaim, node: str) -> _Write:
    """Returns the write that makes the provisioner create a volume for a claim, for this node."""
    assumed = _with_annotation(claim, SELECTED_NODE, node)
    return _Write(assumed, {"metadata": _patch(assumed.metadata, SELECTED_NODE)})


def _with_annotation(item: T, name: str, value: str, *, keep: bool = False) -> T:
    """Returns the object with an annotation. With `keep`, an existing value stays."""
    annotations = item.metadata.annotations
    if keep and name in annotations:
        return item
    metadata = msgspec.structs.replace(item.metadata, annotations={**annotations, name: value})
    return msgspec.structs.replace(item, metadata=metadata)


def _patch(metadata: ObjectMeta, annotation: str) -> dict[str, Any]:
    """Returns a patch of the metadata, with the annotation if the metadata has it. The API server
    refuses the patch if the object has changed since it was read.
    """
    patch: dict[str, Any] = {"resourceVersion": metadata.resource_version}
    if annotation in metadata.annotations:
        patch["annotations"] = {annotation: metadata.annotations[annotation]}
    return patch


def _claim_not_found(claim: PersistentVolumeClaim) -> str:
    return f'persistentvolumeclaims "{claim.metadata.namespace}/{claim.metadata.name}" not found'
