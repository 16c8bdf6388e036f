"""Suggestions to give a node the labels that the node selector or the node affinity asks for."""

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
    """Yields the change of the fewest labels of one of the nodes that would then suit the pod."""
    edit = _any_labels(world.pod)
    if not edit.patch:
        return
    with world.changed([edit]):
        nodes = world.nodes()
    pod = world.pod
    selector = pod["spec"].get("nodeSelector") or {}
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    missing: list[tuple[int, str, dict[str, str | None]]] = []
    for name in nodes:
        labels = world.node_info(name).labels
        for term in terms:
            lacks = _missing_labels(selector, term, labels)
            if lacks and not any(key.startswith(FACTS) for key in lacks):
                missing.append((len(lacks), name, lacks))
    for number, name, lacks in sorted(missing, key=lambda each: each[:2])[:1]:
        sentence, edit = labelled(world, name, lacks)
        yield ProposedChange("label", Who.ADMIN, min(1.0, 0.3 * number), sentence, (edit,))


def labelled(world: World, name: str, labels: Mapping[str, str | None]) -> tuple[str, Edit]:
    """Returns the change that gives labels to a node, in words and as an edit. A label whose value
    is None is removed.
    """
    document = world.document("Node", name)
    assert document is not None
    added = {key: value for key, value in labels.items() if value is not None}
    removed = [key for key, value in labels.items() if value is None]
    if document["metadata"].get("labels"):
        patches = [put(value, "metadata", "labels", key) for key, value in added.items()]
    else:
        patches = [put(added, "metadata", "labels")]
    patches += [removal("metadata", "labels", key) for key in removed]
    words = f"Label {name} with {' and '.join(f'{k}={v}' for k, v in added.items())}"
    without = f"the label{'s' * (len(removed) > 1)} {' and '.join(removed)}"
    if removed and added:
        words += f", and remove {without.replace('the', 'its', 1)}"
    elif removed:
        words = f"Remove {without} from {name}"
    return words, patch_of(document, *patches)


def _missing_labels(
    selector: Mapping[str, str], term: Document, labels: Mapping[str, str]
) -> dict[str, str | None] | None:
    """Returns the labels that a node lacks, None as the value of one that it must not have; None
    if labels alone are not enough.
    """
    lacks: dict[str, str | None] = {k: v for k, v in selector.items() if labels.get(k) != v}
    if term.get("matchFields"):
        return None
    for expression in term.get("matchExpressions") or ():
        requirement = msgspec.convert(expression, NodeSelectorRequirement)
        if not requirement_matches(requirement, _with(labels, lacks)):
            lacks[requirement.key] = _suitable_value(requirement)
            if not requirement_matches(requirement, _with(labels, lacks)):
                return None
    return lacks


def _with(labels: Mapping[str, str], changed: Mapping[str, str | None]) -> dict[str, str]:
    return {k: v for k, v in {**labels, **changed}.items() if v is not None}


def _suitable_value(requirement: NodeSelectorRequirement) -> str | None:
    """Returns a value with which a label meets the requirement; None if it is met without one."""
    values = requirement.values
    match requirement.operator:
        case "In" if values:
            return values[0]
        case "Exists":
            return "true"
        case "Gt" | "Lt" if values and values[0].lstrip("-").isdecimal():
            return str(int(values[0]) + (1 if requirement.operator == "Gt" else -1))
    return None


WAY = Way(changes, openings)
