"""Segments: the sets of nodes that can reach a volume, as labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from berth.actors.scheduling.kube.storage import CSINode, PersistentVolume, StorageClass

from ..objects.structs import Document

Segment = dict[str, str]


def segment_of(
    storage_class: StorageClass, labels: Mapping[str, str], keys: Sequence[str]
) -> Segment | None:
    """Returns the part of the cluster in which a volume for a node with these labels is created.

    It consists of the labels that the class's allowedTopologies name or, without these, of the
    driver's topology `keys`. It is empty if the volume can be reached from everywhere; None if the
    class does not allow the node.
    """
    terms = storage_class.allowed_topologies
    if not terms:
        return {key: labels[key] for key in keys if key in labels}
    for term in terms:
        requirements = term.match_label_expressions
        if requirements and all(labels.get(each.key) in each.values for each in requirements):
            return {each.key: labels[each.key] for each in requirements}
    return None


def topology_keys(csi_node: CSINode | None, driver: str) -> tuple[str, ...]:
    """Returns the label keys by which a driver on a node tells parts of the cluster apart."""
    drivers = csi_node.spec.drivers if csi_node else ()
    return next((each.topology_keys for each in drivers if each.name == driver), ())


def affinity_to(segment: Segment) -> Document:
    """Returns the nodeAffinity of a volume in a segment."""
    expressions = [
        {"key": key, "operator": "In", "values": [value]} for key, value in sorted(segment.items())
    ]
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}


def segment_in(volume: PersistentVolume) -> Segment:
    """Returns the segment that `affinity_to` has written into a volume's affinity."""
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity else None
    return {
        expression.key: expression.values[0]
        for term in (required.node_selector_terms if required else ())
        for expression in term.match_expressions
        if expression.operator == "In" and expression.values
    }
