"""Suggestions to add the label to a node that the node selector or the node affinity asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from berth.actors.scheduling.kube.core import NodeSelectorRequirement
from berth.actors.scheduling.kube.node_selector import requirement_matches

from ..asks.node_restrictions import FACTS
from .affinity_change import REQUIRED
from .change import ProposedChange, Who
from .edit import Document, Edit, patch_of, put, removal
from .kind_of_change import Way
from .world import World


def _any_labels(pod: Document) -> Edit:
    """Returns the edit after which the pod fits nodes with any labels."""
    patch = removal("spec", "nodeSelector") if pod["spec"].get("nodeSelector") else []
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    if REQUIRED in affinity:
        patch += removal("spec", "affinity", "nodeAffinity", REQUIRED)
    return patch_of(pod, patch)


def openings(world: World) -> Iterator[Edit]:
    edit = _any_labels(world.pod)
    if edit.patch:
        yield edit


def changes(world: World) -> Iterator[ProposedChange]:
    """Yields the addition of the fewest labels to one of the nodes that would then suit the pod."""
    edit = _any_labels(world.pod)
    if not edit.patch:
        return
    with world.changed([edit]):
        nodes = world.nodes()
    pod = world.pod
    selector = pod["spec"].get("nodeSelector") or {}
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    missing: list[tuple[int, str, dict[str, str]]] = []
    for name in nodes:
        labels = world.node_info(name).labels
        for term in terms:
            lacks = _missing_labels(selector, term, labels)
            if lacks and not any(key.startswith(FACTS) for key in lacks):
                missing.append((len(lacks), name, lacks))
    for number, name, lacks in sorted(missing, key=lambda each: each[:2])[:1]:
        sentence, edit = labelled(world, name, lacks)
        yield ProposedChange("label", Who.ADMIN, min(1.0, 0.3 * number), sentence, (edit,))


def labelled(world: World, name: str, labels: dict[str, str]) -> tuple[str, Edit]:
    """Returns the change that adds labels to a node, in words and as an edit."""
    document = world.document("Node", name)
    assert document is not None
    if document["metadata"].get("labels"):
        patches = [put(value, "metadata", "labels", key) for key, value in labels.items()]
    else:
        patches = [put(labels, "metadata", "labels")]
    words = " and ".join(f"{key}={value}" for key, value in labels.items())
    return f"Label {name} with {words}", patch_of(document, *patches)


def _missing_labels(
    selector: dict[str, str], term: Document, labels: Mapping[str, str]
) -> dict[str, str] | None:
    """Returns the labels that a node lacks; None if labels alone are not enough."""
    lacks = {key: value for key, value in selector.items() if labels.get(key) != value}
    if term.get("matchFields"):
        return None
    for expression in term.get("matchExpressions") or ():
        requirement = msgspec.convert(expression, NodeSelectorRequirement)
        if requirement_matches(requirement, {**labels, **lacks}):
            continue
        if requirement.operator not in ("In", "Exists"):
            return None
        lacks[requirement.key] = requirement.values[0] if requirement.values else "true"
    return lacks


WAY = Way(changes, openings)
