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
        "metadata": {"name": "nt-default", "namespace": "default"},
        "spec": {"weights": [{"name": "UserDefined", "topologyList": list(of)}]},
    }


KNOWN = topology(costs(ZONE, "z2", "z1", 5), costs(REGION, "east", "west", 20))


def member(name: str, on: str = "") -> Document:
    return pod(name, cpu=1, labels={LABEL: "shop"}, node=on)


def scores(subject: Document, *others: Document, **args: Any) -> Mapping[str, int]:
    given = {"NetworkCost": args}
    decision = decide(subject, NODES, *others, plugins=[NetworkCost], args=given)
    return decision.scores_by_plugin.get("NetworkCost", {})


def test_near_is_better_than_far() -> None:
    # 0 on the node, 1 in the zone, 5 between the zones, 20 between the regions
    assert scores(member("x"), member("y", "a"), KNOWN) == {"a": 100, "b": 95, "c": 75, "d": 0}


def test_zones_count_within_a_region_and_regions_between_them() -> None:
    misleading = topology(costs(ZONE, "z3", "z1", 1), costs(REGION, "west", "west", 1))
    # To another zone of the region, and to another region, no way is known.
    found = scores(member("x"), member("y", "a"), misleading)
    assert found == {"a": 100, "b": 99, "c": 0, "d": 0}


def test_the_costs_of_one_name_in_one_object_count() -> None:
    both = topology(costs(ZONE, "z2", "z1", 5), costs(REGION, "east", "west", 20))
    measured = [costs(ZONE, "z2", "z1", 10), costs(REGION, "east", "west", 20)]
    both["spec"]["weights"].append({"name": "NetperfCosts", "topologyList": measured})
    peer = member("y", "a")
    assert scores(member("x"), peer, both)["c"] == 75
    assert scores(member("x"), peer, both, weightsName="NetperfCosts")["c"] == 50
    nowhere = scores(member("x"), peer, both, networkTopologyName="other")
    assert nowhere == {"a": 100, "b": 99, "c": 0, "d": 0}
    elsewhere = scores(member("x"), peer, both, namespaces=["net", "default"])
    assert elsewhere["c"] == 75


def test_every_pod_of_the_application_counts() -> None:
    placed = member("y", "d"), member("z", "d"), member("w", "a")
    assert max(scores(member("x"), *placed, KNOWN).items(), key=lambda of: of[1])[0] == "d"


def test_a_pod_alone_or_the_first_of_its_application_has_no_preference() -> None:
    assert not any(scores(pod("x"), member("y", "a"), KNOWN).values())
    assert not any(scores(member("x"), KNOWN).values())


def test_its_contracts() -> None:
    check_plugin(NetworkCost, nodes=NODES, pods=[member("m")], examples=5)
