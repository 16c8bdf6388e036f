"""NodeResourceTopology of topology.node.k8s.io/v1alpha2, as far as the plugin reads it, and the
NUMA nodes that it tells of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from berth.plugin import ObjectMeta, WatchedKind, milli, quantity

API_VERSION = "topology.node.k8s.io/v1alpha2"
ZONE_NAME = re.compile(r"node-(\d+)")
MOST_NUMA_NODES = 8  # the kubelet's default; scores are parts of it
FARTHEST = 255  # an unknown distance, as in the tables of the firmware

Amounts = Mapping[str, int]  # by resource: cpu in thousandths, all others in whole units


class ZoneResource(msgspec.Struct, frozen=True):
    name: str
    available: str | int = 0


class ZoneCost(msgspec.Struct, frozen=True):
    name: str
    value: int


class Zone(msgspec.Struct, frozen=True):
    name: str
    type: str = ""
    resources: tuple[ZoneResource, ...] = ()
    costs: tuple[ZoneCost, ...] = ()


class TopologyAttribute(msgspec.Struct, frozen=True):
    name: str
    value: str = ""


class NodeResourceTopology(msgspec.Struct, frozen=True, rename="camel"):
    """It has the name of its node. `topology_policies` is the older form of the attributes."""

    metadata: ObjectMeta
    topology_policies: tuple[str, ...] = ()
    attributes: tuple[TopologyAttribute, ...] = ()
    zones: tuple[Zone, ...] = ()


TOPOLOGIES = WatchedKind(
    API_VERSION,
    "NodeResourceTopology",
    f"/apis/{API_VERSION}/noderesourcetopologies",
    NodeResourceTopology,
)


class NumaNodes(msgspec.Struct, frozen=True):
    """What a node's kubelet does, and what is available in each NUMA node, by its number.

    `is_single`: the kubelet refuses what does not fit into one NUMA node. `by_pod`: it aligns pods
    as a whole, and not each container. `costs` are the distances between two NUMA nodes. `most` is
    the number of NUMA nodes that the kubelet copes with.
    """

    available: Mapping[int, Amounts]
    costs: Mapping[tuple[int, int], int] = {}
    is_single: bool = False
    by_pod: bool = False
    most: int = MOST_NUMA_NODES


def numa_nodes(topology: NodeResourceTopology) -> NumaNodes:
    zones = [(_number(zone.name), zone) for zone in topology.zones if zone.type == "Node"]
    known = sorted(((number, zone) for number, zone in zones if number >= 0), key=lambda of: of[0])
    older = topology.topology_policies[0] if topology.topology_policies else ""
    given = {each.name: each.value for each in topology.attributes}
    policy = given.get("topologyManagerPolicy", "")
    scope = given.get("topologyManagerScope", "")
    most = given.get("topologyManagerMaxNUMANodes", "")
    return NumaNodes(
        {
            number: {of.name: amount(of.name, of.available) for of in zone.resources}
            for number, zone in known
        },
        {(number, _number(cost.name)): cost.value for number, zone in known for cost in zone.costs},
        policy == "single-numa-node" if policy else older.startswith("SingleNUMANode"),
        scope == "pod" if scope else older.endswith("PodLevel"),
        int(most) if most.isdecimal() and int(most) > 1 else MOST_NUMA_NODES,
    )


def amount(resource: str, text: str | float) -> int:
    return milli(str(text)) if resource == "cpu" else quantity(str(text))


def _number(zone: str) -> int:
    """Returns the number of a NUMA node by the name of its zone, or else -1."""
    found = ZONE_NAME.fullmatch(zone)
    return int(found[1]) if found else -1
