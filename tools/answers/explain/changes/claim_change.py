"""Suggestions to give an unbound claim a volume, new or smaller; to end its use by another pod; or
to replace a claim whose volume is part of a node.
"""

from __future__ import annotations

from collections.abc import Iterator

from berth.actors.scheduling.kube.quantity import value
from berth.actors.scheduling.kube.storage import CSIStorageCapacity, PersistentVolume

from .change import ProposedChange, Who
from .edit import Action, Document, Edit, deletion_of, patch_of, put
from .kind_of_change import Way
from .leaving_pods import pod_list
from .volume_change import NO_PROVISIONER, ON_A_NODE, claims_of, new_volume_edits
from .world import World

ALONE, LATE = "ReadWriteOncePod", "WaitForFirstConsumer"
MOST_SIZES = 5


def changes(world: World) -> Iterator[ProposedChange]:
    for claim in claims_of(world):
        if ALONE in (claim["spec"].get("accessModes") or ()):
            yield from _end_of_use(world, claim)
        if not claim["spec"].get("volumeName"):
            yield from _new_volume(world, claim)
            yield from _smaller_claim(world, claim)
        else:
            yield from _new_claim(world, claim)


def _end_of_use(world: World, claim: Document) -> Iterator[ProposedChange]:
    """Yields the deletion of the pods that use a claim of which only one pod may make use."""
    metadata = claim["metadata"]
    place = f"{metadata.get('namespace') or ''}/{metadata['name']}"
    pods = [pod for node in world.node_infos() for pod in node.pods.values()]
    keys = [pod.key for pod in pods if place in pod.claims]
    if keys:
        use = "uses" if len(keys) == 1 else "use"
        sentence = f"End {pod_list(keys)}, which {use} the claim {metadata['name']}"
        yield ProposedChange("claim", Who.OWNER, 0.4, sentence, tuple(map(deletion_of, keys)))


def _new_volume(world: World, claim: Document) -> Iterator[ProposedChange]:
    """Yields the creation of a volume that every node can use, for a claim whose class makes
    none.
    """
    spec, name = claim["spec"], claim["metadata"]["name"]
    of = spec.get("storageClassName") or ""
    found = world.document("StorageClass", of)
    if found is not None and found["provisioner"] != NO_PROVISIONER:
        return
    created, bound = new_volume_edits({**claim, "spec": {**spec, "storageClassName": of}})
    edits: tuple[Edit, ...] = (created, bound)
    if found is not None and found.get("volumeBindingMode") == LATE:
        free = {**created.document["spec"]}
        del free["claimRef"]
        document = {**created.document, "spec": free, "status": {"phase": "Available"}}
        edits = (Edit(Action.CREATE, created.kind, created.name, document=document),)
    size = (spec.get("resources") or {}).get("requests", {}).get("storage", "some size")
    what = f"of the class {of}" if of else "without a class"
    sentence = f"Add a volume of {size} {what} for the claim {name}"
    yield ProposedChange("volume", Who.ADMIN, 0.6, sentence, edits)


def _smaller_claim(world: World, claim: Document) -> Iterator[ProposedChange]:
    """Yields a smaller claim: its request is the largest for which a driver reports room, or that a
    free volume has.
    """
    of = claim["spec"].get("storageClassName")
    rooms = {
        str(each.maximum_volume_size if each.capacity is None else each.capacity)
        for each in world.objects(CSIStorageCapacity)
        if each.storage_class_name == of
    } - {"None"}
    rooms |= {
        str(each.spec.capacity["storage"])
        for each in world.objects(PersistentVolume)
        if each.spec.storage_class_name == of
        and each.spec.claim_ref is None
        and "storage" in each.spec.capacity
    }
    for size in sorted(rooms, key=value, reverse=True)[:MOST_SIZES]:
        edit = patch_of(claim, put(size, "spec", "resources", "requests", "storage"))
        with world.changed([edit]):
            if not value(size) or not world.fits():
                continue
        sentence = f"Ask for {size} in the claim {claim['metadata']['name']}"
        yield ProposedChange("claim", Who.OWNER, 0.5, sentence, (edit,))
        return


def _new_claim(world: World, claim: Document) -> Iterator[ProposedChange]:
    """Yields the replacement of a claim that is bound to a volume on one node."""
    name, metadata = claim["spec"]["volumeName"], claim["metadata"]
    volume = world.document("PersistentVolume", name)
    if volume is None or not any(source in volume["spec"] for source in ON_A_NODE):
        return
    spec = {key: value for key, value in claim["spec"].items() if key != "volumeName"}
    new = put(spec, "spec"), put({}, "metadata", "annotations"), put({"phase": "Pending"}, "status")
    sentence = f"Create the claim {metadata['name']} anew, without the data of its volume {name}"
    yield ProposedChange("claim", Who.OWNER, 0.9, sentence, (patch_of(claim, *new),))


WAY = Way(changes)
