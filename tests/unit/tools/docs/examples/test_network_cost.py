"""NetworkCost: a pod goes where the way to the pods of its application is short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berth.testing import check_plugin, decide, node, pod
from berth.tools.docs.examples.network_cost import NetworkCost

LABEL = "appgroup.diktyo.x-k8s.io"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
Document = dict[str, Any]


def at(name: str, zone: str, region: str) -> Document:
    return node(name, cpu=8, labels={ZONE: zone, REGION: region})


NODES = [at("a", "z1", "west"), at("b", "z1", "west"), at("c", "z2", "west"), at("d", "z3", "east")]


def costs(key: str, origin: str, destination: str, cost: int) -> Document:
    ways = [{"destination": destination, "networkCost": cost}]
    return {"topologyKey": key, "originList": [{"origin": origin, "costList": ways}]}


def topology(*of: Document) -> Document:
    return {
        "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
        "kind": "NetworkTopology",
        "metadata": {"name": "net", "namespace": "default"},
        "spec": {"weights": [{"name": "UserDefined", "topologyList": list(of)}]},
    }


KNOWN = topology(costs(ZONE, "z2", "z1", 5), costs(REGION, "east", "west", 20))


def member(name: str, on: str = "") -> Document:
    return pod(name, cpu=1, labels={LABEL: "shop"}, node=on)


def scores(subject: Document, *others: Document) -> Mapping[str, int]:
    decision = decide(subject, NODES, *others, plugins=[NetworkCost])
    return decision.scores_by_plugin.get("NetworkCost", {})


def test_near_is_better_than_far() -> None:
    # 0 on the node, 1 in the zone, 5 between the zones, 20 between the regions
    assert scores(member("x"), member("y", "a"), KNOWN) == {"a": 100, "b": 95, "c": 75, "d": 0}


def test_every_pod_of_the_application_counts() -> None:
    placed = member("y", "d"), member("z", "d"), member("w", "a")
    assert max(scores(member("x"), *placed, KNOWN).items(), key=lambda of: of[1])[0] == "d"


def test_a_pod_alone_or_the_first_of_its_application_has_no_preference() -> None:
    assert not any(scores(pod("x"), member("y", "a"), KNOWN).values())
    assert not any(scores(member("x"), KNOWN).values())


def test_its_contracts() -> None:
    check_plugin(NetworkCost, nodes=NODES, pods=[member("m")], examples=5)
