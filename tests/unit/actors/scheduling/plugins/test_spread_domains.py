"""The pods that a topology spread constraint counts if it does not include every node."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import AssignedPodAdded, NodeAdded
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.plugins.pod_topology_spread import HARD, own_constraints
from berth.actors.scheduling.plugins.spread_domains import Eligibility, pods_by_domain
from tests.kit import structs

LABELS = {"app": "web"}
NODES = {
    "n0": ("a", True),
    "n1": ("a", False),
    "n2": ("b", True),
    "n3": ("c", False),
}  # zone, tainted


def make_pod(name: str, node: str, key: str = "zone") -> Pod:
    constraint = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": HARD,
        "nodeTaintsPolicy": "Honor",
        "labelSelector": {"matchLabels": LABELS},
    }
    fields: Any = {"namespace": "default", "topologySpreadConstraints": [constraint]}
    return structs.pod(name, node=node, labels=LABELS, **fields)


@pytest.mark.parametrize(
    ("key", "counts"),
    [("zone", {"a": 1, "b": 0, "c": 1}), ("host", {"n0": 0, "n1": 1, "n2": 0, "n3": 1})],
)
def test_pods_on_nodes_that_the_pod_does_not_tolerate_are_not_counted(
    key: str, counts: dict[str, int]
) -> None:
    cache = CacheState()
    for name, (zone, tainted) in NODES.items():
        document = {
            "metadata": {"name": name, "labels": {"zone": zone, "host": name}},
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}] if tainted else []},
        }
        cache.handle(NodeAdded(msgspec.convert(document, Node)))
        cache.handle(AssignedPodAdded(make_pod(f"on-{name}", name)))
    snapshot, info = cache.snapshot(), PodInfo(make_pod("p", "", key))
    constraints = own_constraints(HARD, info.pod)
    (eligible,) = Eligibility().of(constraints, info, snapshot, labelled=True)
    label = snapshot.columns.label(key)
    table = pods_by_domain(constraints[0], eligible, label, info, snapshot)
    assert dict(zip(label.values, table.tolist(), strict=False)) == counts
    assert table[-1] == 0
    assert eligible.number == sum(counts.values())
    assert table[eligible.domains].tolist() == [1] * eligible.number
