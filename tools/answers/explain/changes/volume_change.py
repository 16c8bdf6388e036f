"""Suggestions to move a volume to another zone, or wait until a claim has one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from .change import ProposedChange, Who
from .edit import Action, Document, Edit, patch_of, put, removal
from .kind_of_change import Way
from .world import World

ON_A_NODE = ("local", "hostPath")
ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
NO_PROVISIONER = "kubernetes.io/no-provisioner"


def claims_of(world: World) -> Iterator[Document]:
    """Yields the claims of the pod that exist."""
    metadata = world.pod["metadata"]
    namespace = metadata.get("namespace") or ""
    for volume in world.pod["spec"].get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
        if volume.get("ephemeral"):
            name = f"{metadata['name']}-{volume['name']}"
        claim = world.document("PersistentVolumeClaim", name, namespace)
        if claim is not None:
            yield claim


def _bound_volumes(world: World) -> Iterator[Document]:
    """Yields the volumes of the pod's claims, without local volumes of a node."""
    for claim in claims_of(world):
        volume = world.document("PersistentVolume", claim["spec"].get("volumeName") or "")
        if volume is not None and not any(source in volume["spec"] for source in ON_A_NODE):
            yield volume


def _without_node_affinity(volume: Document) -> Edit:
    """Returns the edit after which the volume may be used on each node."""
    labels = volume["metadata"].get("labels") or {}
    kept = {key: value for key, value in labels.items() if key not in ZONES}
    patch = put(kept, "metadata", "labels") if kept != labels else []
    if "nodeAffinity" in volume["spec"]:
        patch = [*patch, *removal("spec", "nodeAffinity")]
    return patch_of(volume, patch)


def openings(world: World) -> Iterator[Edit]:
    for volume in _bound_volumes(world):
        edit = _without_node_affinity(volume)
        if edit.patch:
            yield edit


def changes(world: World) -> Iterator[ProposedChange]:
    yield from _moves_to_zone(world)
    yield from _waits_for_volume(world)


def _moves_to_zone(world: World) -> Iterator[ProposedChange]:
    for volume in _bound_volumes(world):
        free = _without_node_affinity(volume)
        if not free.patch:
            continue
        with world.changed([free]):
            nodes = world.nodes()
        zones = Counter(world.node_info(name).labels.get(ZONES[0], "") for name in nodes)
        zone = min(zones, key=lambda zone: (-zones[zone], zone), default="")
        if zone:
            expression = {"key": ZONES[0], "operator": "In", "values": [zone]}
            affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
            edit = patch_of(volume, free.patch, put(affinity, "spec", "nodeAffinity"))
            sentence = f"Move the volume {volume['metadata']['name']} to the zone {zone}"
            yield ProposedChange("volume", Who.ADMIN, 0.8, sentence, (edit,))


def _waits_for_volume(world: World) -> Iterator[ProposedChange]:
    """Yields the wait for a volume that a provisioner makes without waiting for a pod."""
    edits: list[Edit] = []
    names, provisioners = [], set()
    for claim in claims_of(world):
        of = world.document("StorageClass", claim["spec"].get("storageClassName") or "")
        if claim["spec"].get("volumeName") or of is None or of["provisioner"] == NO_PROVISIONER:
            continue
        if of.get("volumeBindingMode") == "WaitForFirstConsumer":
            continue
        edits += new_volume_edits(claim)
        names.append(claim["metadata"]["name"])
        provisioners.add(of["provisioner"])
    if edits:
        by = " and ".join(sorted(provisioners))
        sentence = f"Wait until {by} makes the volume of the claim {' and '.join(names)}"
        yield ProposedChange("provisioner", Who.NOBODY, 0.2, sentence, tuple(edits))


def new_volume_edits(claim: Document) -> tuple[Edit, Edit]:
    """Returns the edits that create a volume for a claim, usable on each node, and bind it."""
    metadata, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{metadata['uid']}"
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": name},
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": spec["resources"]["requests"],
            "claimRef": reference,
            "csi": {"driver": "example.com", "volumeHandle": name},
            "storageClassName": spec["storageClassName"],
        },
        "status": {"phase": "Bound"},
    }
    bound = {**(metadata.get("annotations") or {}), "pv.kubernetes.io/bind-completed": "yes"}
    patch = [*put(name, "spec", "volumeName"), *put(bound, "metadata", "annotations")]
    patch += put({**(claim.get("status") or {}), "phase": "Bound"}, "status")
    created = Edit(Action.CREATE, "PersistentVolume", name, document=volume)
    return created, patch_of(claim, patch)


WAY = Way(changes, openings)
