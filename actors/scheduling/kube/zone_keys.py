"""The zone key of a node, as component-helpers derives it."""

from __future__ import annotations

from .core import Node

REGION = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
ZONE = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")


def zone_of(node: Node) -> str:
    """Returns the zone key of a node, its region and zone; "" if its labels name neither.

    The older (beta) labels take precedence if they are set.
    """
    labels = node.metadata.labels
    region = labels.get(REGION[1]) or labels.get(REGION[0], "")
    zone = labels.get(ZONE[1]) or labels.get(ZONE[0], "")
    return f"{region}:\x00:{zone}" if region or zone else ""
