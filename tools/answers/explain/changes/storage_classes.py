"""Suggestions to give a claim without a class the default StorageClass, an existing or a new one;
or to let a class make volumes for every node.
"""

from __future__ import annotations

from collections.abc import Iterator

from berth.actors.scheduling.kube.annotations import DEFAULT_CLASS as DEFAULT_CLASSES

from ..words import listed
from .change import ProposedChange, Who
from .edit import Action, Document, Edit, patch_of, put, removal
from .kind_of_change import Way
from .volume_change import claims_of, new_volume_edits
from .world import World

MOST_CLASSES = 3
DEFAULT_CLASS = DEFAULT_CLASSES[0]
LATE, NEW = "WaitForFirstConsumer", "default"
PROVISIONER = "example.com"  # of a new class


def changes(world: World) -> Iterator[ProposedChange]:
    yield from _defaults(world)
    yield from _without_topologies(world)


def _without_topologies(world: World) -> Iterator[ProposedChange]:
    """Yields, for each class of an unbound claim, the class without its allowedTopologies."""
    unbound = [claim["spec"] for claim in claims_of(world) if not claim["spec"].get("volumeName")]
    for name in sorted({spec.get("storageClassName") or "" for spec in unbound}):
        of = world.document("StorageClass", name)
        if of is not None and of.get("allowedTopologies"):
            edit = patch_of(of, removal("allowedTopologies"))
            sentence = f"Create the class {name} anew without allowedTopologies"
            yield ProposedChange("storageClass", Who.ADMIN, 0.6, sentence, (edit,))


def _defaults(world: World) -> Iterator[ProposedChange]:
    claims = [claim for claim in claims_of(world) if _has_no_class(claim)]
    if not claims:
        return
    names = listed([claim["metadata"]["name"] for claim in claims])
    what = f"the claim{'s' * (len(claims) > 1)} {names}"
    classes = sorted(world.every("StorageClass"), key=lambda each: str(each["metadata"]["name"]))
    for each in classes[:MOST_CLASSES]:
        name = each["metadata"]["name"]
        edits = [edit for claim in claims for edit in _edits_of_class(claim, each)]
        annotations = {**(each["metadata"].get("annotations") or {}), DEFAULT_CLASS: "true"}
        default = patch_of(each, put(annotations, "metadata", "annotations"))
        sentence = (
            f"Make {name} the default StorageClass, which {what} then get{_verb_ending(claims)}"
        )
        yield ProposedChange("storageClass", Who.ADMIN, 0.2, sentence, (default, *edits))
    if not classes:
        created, document = _created_class()
        edits = [edit for claim in claims for edit in _edits_of_class(claim, document)]
        sentence = f"Add a default StorageClass, which {what} then get{_verb_ending(claims)}"
        yield ProposedChange("storageClass", Who.ADMIN, 0.4, sentence, (created, *edits))


def _verb_ending(claims: list[Document]) -> str:
    return "" if len(claims) > 1 else "s"


def _has_no_class(claim: Document) -> bool:
    """True for an unbound claim that would get a default class. A claim whose class is the empty
    name asks for none.
    """
    return not claim["spec"].get("volumeName") and claim["spec"].get("storageClassName") is None


def _edits_of_class(claim: Document, of: Document) -> Iterator[Edit]:
    """Yields the edits that give a claim a class, and a volume if it does not wait for a
    scheduler.
    """
    named = put(of["metadata"]["name"], "spec", "storageClassName")
    yield patch_of(claim, named)
    if of.get("volumeBindingMode") != LATE:
        spec = {**claim["spec"], "storageClassName": of["metadata"]["name"]}
        yield from new_volume_edits({**claim, "spec": spec})


def _created_class() -> tuple[Edit, Document]:
    document = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": NEW, "annotations": {DEFAULT_CLASS: "true"}},
        "provisioner": PROVISIONER,
        "volumeBindingMode": LATE,
    }
    return Edit(Action.CREATE, "StorageClass", NEW, document=document), document


WAY = Way(changes)
