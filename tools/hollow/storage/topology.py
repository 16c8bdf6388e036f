"""Where a volume can be reached from: the labels of a node that its driver distinguishes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..documents import Document, spec_of

Segment = dict[str, str]


def segment_of(
    storage_class: Document, labels: Mapping[str, str], keys: Sequence[str]
) -> Segment | None:
    """The part of the cluster in which a volume for a node of these labels is made.

    It has the labels that the class's allowedTopologies name; without these, those of the driver's
    topology `keys`. Empty if the volume can be reached from everywhere; None if the class does not
    allow the node.
    """
    terms = storage_class.get("allowedTopologies") or ()
    if not terms:
        return {key: labels[key] for key in keys if key in labels}
    for term in terms:
        expressions = term.get("matchLabelExpressions") or ()
        if expressions and all(
            labels.get(expression["key"]) in (expression.get("values") or ())
            for expression in expressions
        ):
            return {expression["key"]: labels[expression["key"]] for expression in expressions}
    return None


def topology_keys(csi_node: Document | None, driver: str) -> list[str]:
    """The label keys by which a driver on a node tells parts of the cluster apart."""
    for found in spec_of(csi_node or {}).get("drivers") or ():
        if found.get("name") == driver:
            return found.get("topologyKeys") or []
    return []


def affinity_to(segment: Segment) -> Document:
    """The nodeAffinity of a volume in a segment."""
    expressions = [
        {"key": key, "operator": "In", "values": [value]} for key, value in sorted(segment.items())
    ]
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}


def segment_in(volume: Document) -> Segment:
    """The segment that `affinity_to` has given to a volume."""
    required = (spec_of(volume).get("nodeAffinity") or {}).get("required") or {}
    return {
        expression["key"]: expression["values"][0]
        for term in required.get("nodeSelectorTerms") or ()
        for expression in term.get("matchExpressions") or ()
        if expression.get("operator") == "In" and expression.get("values")
    }
