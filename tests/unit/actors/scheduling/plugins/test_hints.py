"""Queueing hints of the in-tree plugins: which events wake a pod that the plugin rejected."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.framework.events import Action, Registration, Resource
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.plugins.image_locality import ImageLocality
from tests.kit.hints import profile, wakes
from tests.kit.structs import node, pod

DEFAULT = profile()
woken = partial(wakes, DEFAULT)
NODE_ADD = (Resource.NODE, Action.ADD)
NODE_DELETE = (Resource.NODE, Action.DELETE)
NODE_LABEL = (Resource.NODE, Action.UPDATE_NODE_LABEL)
NODE_TAINT = (Resource.NODE, Action.UPDATE_NODE_TAINT)
NODE_ALLOCATABLE = (Resource.NODE, Action.UPDATE_NODE_ALLOCATABLE)
NODE_FEATURE = (Resource.NODE, Action.UPDATE_NODE_DECLARED_FEATURE)
POD_ADD = (Resource.ASSIGNED_POD, Action.ADD)
POD_DELETE = (Resource.ASSIGNED_POD, Action.DELETE)
POD_LABEL = (Resource.ASSIGNED_POD, Action.UPDATE_POD_LABEL)
POD_SCALE_DOWN = (Resource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN)
OWN_LABEL = (Resource.UNSCHEDULED_POD, Action.UPDATE_POD_LABEL)
OWN_SCALE_DOWN = (Resource.UNSCHEDULED_POD, Action.UPDATE_POD_SCALE_DOWN)
OWN_TOLERATION = (Resource.UNSCHEDULED_POD, Action.UPDATE_POD_TOLERATION)
OWN_GATES = (Resource.UNSCHEDULED_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
OWN_OTHER = (Resource.UNSCHEDULED_POD, Action.UPDATE_OTHER)

Event = tuple[Resource, Action]


def labelled(**labels: str) -> Node:
    return node(labels=labels)


def other(**labels: str) -> Pod:
    """Returns a pod that runs on the node `n`."""
    return pod("o", node="n", labels=labels)


def nominated(item: Pod) -> Pod:
    return msgspec.structs.replace(
        item, status=msgspec.structs.replace(item.status, nominated_node_name="n")
    )


def test_a_hint_that_raises_wakes_the_pod() -> None:
    assert woken("NodeUnschedulable", NODE_TAINT, pod(), node(), "no node")
    assert woken("TaintToleration", NODE_ADD, pod(), None, "no node")
    assert woken("NodePorts", POD_DELETE, pod(), "no pod", None)
    assert woken("NodeResourcesFit", POD_DELETE, pod(), "no pod", None)
    assert woken("PodTopologySpread", POD_DELETE, pod(), "no pod", None)
    assert woken("InterPodAffinity", POD_ADD, pod(), None, "no pod")


def test_a_plugin_without_registered_events_is_not_in_the_table() -> None:
    assert ImageLocality.name not in DEFAULT.hints()
    assert all(
        isinstance(r, Registration)
        for registrations in DEFAULT.hints().values()
        for r in registrations
    )


# ----------------------------------------------------------------------------------- the small ones


def test_scheduling_gates() -> None:
    gates = [{"name": "g"}]
    gone, left = pod("p"), pod("p", schedulingGates=gates)
    assert woken("SchedulingGates", OWN_GATES, left, left, gone)
    assert not woken(
        "SchedulingGates", OWN_GATES, left, pod("other", schedulingGates=gates), pod("other")
    )
    assert not woken("SchedulingGates", OWN_OTHER, left, left, left)


@pytest.mark.parametrize(
    ("event", "old", "new", "expected"),
    [
        (NODE_ADD, None, node(), True),
        (NODE_ADD, None, node(unschedulable=True), False),
        (NODE_TAINT, node(unschedulable=True), node(), True),
        (NODE_TAINT, node(), node(), False),
        (NODE_TAINT, node(), node(unschedulable=True), False),
        (NODE_LABEL, node(unschedulable=True), node(), False),
    ],
)
def test_node_unschedulable_nodes(
    event: Event, old: Node | None, new: Node, expected: bool
) -> None:
    assert woken("NodeUnschedulable", event, pod(), old, new) == expected


def test_node_unschedulable_tolerations() -> None:
    cordon = [
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
    ]
    tolerant = pod("p", tolerations=cordon)
    assert woken("NodeUnschedulable", OWN_TOLERATION, tolerant, pod("p"), tolerant)
    assert not woken(
        "NodeUnschedulable", OWN_TOLERATION, pod("p"), pod("o"), pod("o", tolerations=cordon)
    )
    unrelated = pod("p", tolerations=[{"key": "k", "operator": "Exists"}])
    assert not woken("NodeUnschedulable", OWN_TOLERATION, unrelated, pod("p"), unrelated)


def test_node_name() -> None:
    assert woken("NodeName", NODE_ADD, pod("p", node="n"), None, node("n"))
    assert not woken("NodeName", NODE_ADD, pod("p", node="n"), None, node("m"))
    assert not woken("NodeName", NODE_LABEL, pod("p", node="n"), node("n"), node("n"))


def ports(name: str, *numbers: int, on: str = "", ip: str = "", protocol: str = "TCP") -> Pod:
    listed = [{"hostPort": number, "hostIP": ip, "protocol": protocol} for number in numbers]
    return pod(name, node=on, containers=[{"ports": listed}])


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (ports("gone", 8080, on="n"), True),
        (ports("gone", 80, 8080, on="n"), True),
        (ports("gone", 8081, on="n"), False),
        (ports("gone", on="n"), False),
        (ports("gone", 8080), False),
        (nominated(ports("gone", 8080)), True),
        (ports("gone", 8080, on="n", protocol="UDP"), False),
        (ports("gone", 8080, on="n", ip="10.0.0.1"), True),
    ],
)
def test_node_ports_deleted_pods(gone: Pod, expected: bool) -> None:
    assert woken("NodePorts", POD_DELETE, ports("p", 8080), gone, None) == expected


def test_node_ports_nodes() -> None:
    assert woken("NodePorts", NODE_ADD, ports("p", 8080), None, node())
    assert not woken("NodePorts", NODE_ALLOCATABLE, ports("p", 8080), node(), node())


def test_node_declared_features() -> None:
    assert woken("NodeDeclaredFeatures", NODE_ADD, pod(), None, node())
    same, more = (
        node(status={"declaredFeatures": ["A"]}),
        node(status={"declaredFeatures": ["A", "B"]}),
    )
    assert woken("NodeDeclaredFeatures", NODE_FEATURE, pod(), same, more)
    assert not woken("NodeDeclaredFeatures", NODE_FEATURE, pod(), same, same)
    needy = pod("p", hostNetwork=True, hostUsers=False)
    assert woken("NodeDeclaredFeatures", OWN_OTHER, pod("p"), needy, pod("p"))
    assert not woken("NodeDeclaredFeatures", OWN_OTHER, needy, needy, needy)


# --------------------------------------------------------------------------------- taints, affinity

TAINT = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
SOFT = [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]
TOLERATES = [{"key": "k", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("event", "tolerations", "old", "new", "expected"),
    [
        (NODE_ADD, [], None, node(), True),
        (NODE_ADD, [], None, node(taints=TAINT), False),
        (NODE_ADD, TOLERATES, None, node(taints=TAINT), True),
        (NODE_ADD, [], None, node(taints=SOFT), True),
        (NODE_TAINT, [], node(taints=TAINT), node(), True),
        (NODE_TAINT, [], node(), node(), False),
        (NODE_TAINT, [], node(), node(taints=TAINT), False),
        (NODE_TAINT, TOLERATES, node(), node(taints=TAINT), False),
        (NODE_TAINT, [], node(taints=TAINT), node(taints=SOFT), True),
        (NODE_LABEL, [], node(taints=TAINT), node(), False),
    ],
)
def test_taint_toleration_nodes(
    event: Event, tolerations: Any, old: Node | None, new: Node, expected: bool
) -> None:
    assert woken("TaintToleration", event, pod("p", tolerations=tolerations), old, new) == expected


def test_taint_toleration_tolerations() -> None:
    tolerant = pod("p", tolerations=TOLERATES)
    assert woken("TaintToleration", OWN_TOLERATION, tolerant, pod("p"), tolerant)
    assert not woken(
        "TaintToleration", OWN_TOLERATION, pod("p"), pod("o"), pod("o", tolerations=TOLERATES)
    )


IN_FOO = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "foo", "operator": "In", "values": ["bar"]}]}
            ]
        }
    }
}


@pytest.mark.parametrize(
    ("event", "old", "new", "expected"),
    [
        (NODE_ADD, None, labelled(foo="bar"), True),
        (NODE_ADD, None, labelled(foo="other"), False),
        (NODE_LABEL, node(), labelled(foo="bar"), True),
        (NODE_LABEL, labelled(foo="bar"), labelled(foo="bar", more=""), False),
        (NODE_LABEL, labelled(foo="bar"), node(), False),
        (NODE_TAINT, node(), labelled(foo="bar"), False),
    ],
)
def test_node_affinity(event: Event, old: Node | None, new: Node, expected: bool) -> None:
    assert woken("NodeAffinity", event, pod("p", affinity=IN_FOO), old, new) == expected
    assert woken("NodeAffinity", event, pod("p", nodeSelector={"foo": "bar"}), old, new) == expected


def test_node_affinity_added_by_the_profile() -> None:
    added = profile({"NodeAffinity": {"addedAffinity": IN_FOO["nodeAffinity"]}})
    assert wakes(added, "NodeAffinity", NODE_ADD, pod(), None, labelled(foo="bar"))
    assert not wakes(added, "NodeAffinity", NODE_ADD, pod(), None, node())


# ---------------------------------------------------------------------------------------- resources


def asking(name: str, on: str = "", **requests: str) -> Pod:
    return pod(name, node=on, containers=[{"resources": {"requests": requests}}])


@pytest.mark.parametrize(
    ("event", "old", "new", "expected"),
    [
        (POD_DELETE, asking("gone", on="n"), None, True),
        (POD_DELETE, asking("gone"), None, False),
        (POD_DELETE, nominated(asking("gone")), None, True),
        (OWN_SCALE_DOWN, asking("p", cpu="2"), asking("p", cpu="1"), True),
        (OWN_SCALE_DOWN, asking("o", cpu="2"), asking("o", cpu="1"), False),
        (POD_SCALE_DOWN, asking("o", on="n", cpu="2"), asking("o", on="n", cpu="1"), True),
        (POD_SCALE_DOWN, asking("o", on="n", memory="2"), asking("o", on="n", memory="1"), False),
        (POD_SCALE_DOWN, asking("o", on="n", cpu="2"), asking("o", on="n"), True),
        (POD_LABEL, asking("o", on="n", cpu="2"), asking("o", on="n"), False),
        (POD_ADD, None, asking("o", on="n", cpu="2"), False),
    ],
)
def test_node_resources_fit_pods(
    event: Event, old: Pod | None, new: Pod | None, expected: bool
) -> None:
    assert woken("NodeResourcesFit", event, asking("p", cpu="1"), old, new) == expected


def sized(cpu: str = "4", memory: str = "4Gi", pods: str = "10", **more: str) -> Node:
    return node(allocatable={"cpu": cpu, "memory": memory, "pods": pods, **more})


@pytest.mark.parametrize(
    ("event", "requests", "old", "new", "expected"),
    [
        (NODE_ADD, {"cpu": "2"}, None, sized(), True),
        (NODE_ADD, {"cpu": "5"}, None, sized(), False),
        (NODE_ADD, {"cpu": "2"}, None, sized(pods="0"), False),
        (NODE_ADD, {"example.com/gpu": "1"}, None, sized(), False),
        (NODE_ALLOCATABLE, {"cpu": "2"}, sized(cpu="1"), sized(), True),
        (NODE_ALLOCATABLE, {"cpu": "2"}, sized(), sized(), False),
        (NODE_ALLOCATABLE, {"cpu": "2"}, sized(memory="1Gi"), sized(), False),
        (NODE_ALLOCATABLE, {"cpu": "2"}, sized(pods="5"), sized(), True),
        (NODE_ALLOCATABLE, {}, sized(cpu="1"), sized(), False),
        (
            NODE_ALLOCATABLE,
            {"example.com/gpu": "1"},
            sized(),
            sized(**{"example.com/gpu": "1"}),
            True,
        ),
        (NODE_ALLOCATABLE, {"cpu": "2", "memory": "8Gi"}, sized(cpu="1"), sized(), False),
        (NODE_LABEL, {"cpu": "2"}, sized(cpu="1"), sized(), False),
    ],
)
def test_node_resources_fit_nodes(
    event: Event, requests: dict[str, str], old: Node | None, new: Node, expected: bool
) -> None:
    assert woken("NodeResourcesFit", event, asking("p", **requests), old, new) == expected


# ---------------------------------------------------------------------------------- topology spread


def constraint(
    key: str, *, honor_taints: bool = False, when: str = "DoNotSchedule"
) -> dict[str, Any]:
    selector = {"matchExpressions": [{"key": "foo", "operator": "Exists"}]}
    policy = {"nodeTaintsPolicy": "Honor"} if honor_taints else {}
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": selector,
        **policy,
    }


SPREAD = pod(
    "p", labels={"foo": ""}, topologySpreadConstraints=[constraint("zone"), constraint("node")]
)


@pytest.mark.parametrize(
    ("event", "old", "new", "expected"),
    [
        (POD_ADD, None, other(foo=""), True),
        (POD_ADD, None, other(), False),
        (POD_ADD, None, pod("o", labels={"foo": ""}), False),
        (POD_DELETE, other(foo=""), None, True),
        (POD_DELETE, other(), None, False),
        (POD_LABEL, other(), other(foo=""), True),
        (POD_LABEL, other(foo="1"), other(foo="2"), False),
        (POD_LABEL, other(foo=""), other(bar=""), True),
        (OWN_LABEL, pod("p"), pod("p", labels={"foo": ""}), True),
        (OWN_LABEL, pod("p"), pod("p", labels={"bar": ""}), False),
        (POD_SCALE_DOWN, other(foo=""), other(), False),
        (NODE_ADD, None, labelled(zone="a", node="n"), True),
        (NODE_ADD, None, labelled(zone="a"), False),
        (NODE_DELETE, labelled(zone="a", node="n"), None, True),
        (NODE_DELETE, labelled(node="n"), None, False),
        (NODE_LABEL, labelled(zone="a", node="n"), labelled(zone="b", node="n"), True),
        (NODE_LABEL, labelled(zone="a"), labelled(zone="a", node="n"), True),
        (NODE_LABEL, labelled(zone="a", node="n"), labelled(zone="a"), True),
        (NODE_LABEL, labelled(zone="a"), labelled(zone="b"), False),
        (NODE_LABEL, labelled(zone="a", node="n"), labelled(zone="a", node="n", x=""), False),
        (
            NODE_TAINT,
            labelled(zone="a", node="n"),
            node(labels={"zone": "a", "node": "n"}, taints=TAINT),
            True,
        ),
        (NODE_TAINT, labelled(zone="a"), node(labels={"zone": "a"}, taints=TAINT), False),
    ],
)
def test_pod_topology_spread(event: Event, old: Any, new: Any, expected: bool) -> None:
    assert woken("PodTopologySpread", event, SPREAD, old, new) == expected


def test_pod_topology_spread_elsewhere_and_soft() -> None:
    counted = other(foo="")
    elsewhere = msgspec.structs.replace(
        counted, metadata=msgspec.structs.replace(counted.metadata, namespace="elsewhere")
    )
    assert not woken("PodTopologySpread", POD_ADD, SPREAD, None, elsewhere)
    soft = pod("p", topologySpreadConstraints=[constraint("zone", when="ScheduleAnyway")])
    assert not woken("PodTopologySpread", POD_ADD, soft, None, counted)


def test_pod_topology_spread_nominated_pods() -> None:
    """A nominated pod counts on its node, so a pod that waits for its removal is woken."""
    counted, other = pod("o", labels={"foo": ""}), pod("o")
    assert woken("PodTopologySpread", POD_DELETE, SPREAD, nominated(counted), None)
    assert not woken("PodTopologySpread", POD_DELETE, SPREAD, nominated(other), None)
    assert not woken("PodTopologySpread", POD_DELETE, SPREAD, counted, None)


@pytest.mark.parametrize("honor", [False, True])
def test_pod_topology_spread_tolerations(honor: bool) -> None:
    before = pod("p", topologySpreadConstraints=[constraint("zone", honor_taints=honor)])
    after = msgspec.structs.replace(
        before,
        spec=msgspec.structs.replace(
            before.spec, tolerations=pod(tolerations=TOLERATES).spec.tolerations
        ),
    )
    assert woken("PodTopologySpread", OWN_TOLERATION, after, before, after) == honor


def test_pod_topology_spread_defaults_of_a_list() -> None:
    """Their selectors depend on the current Services, so every pod of the namespace may count."""
    default = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    listed = profile(
        {"PodTopologySpread": {"defaultingType": "List", "defaultConstraints": [default]}}
    )
    assert wakes(listed, "PodTopologySpread", POD_DELETE, pod(), other(), None)
    assert not wakes(listed, "PodTopologySpread", NODE_ADD, pod(), None, node())


# ---------------------------------------------------------------------------- affinity between pods


def terms(*keys: str, anti: bool = False, label: str = "service") -> dict[str, Any]:
    listed = [
        {
            "topologyKey": key,
            "labelSelector": {"matchExpressions": [{"key": label, "operator": "Exists"}]},
        }
        for key in keys
    ]
    kind = "podAntiAffinity" if anti else "podAffinity"
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": listed}}


NEAR = pod("p", affinity=terms("zone"))
AWAY = pod("p", affinity=terms("zone", anti=True))
SERVICE = {"service": "s"}


@pytest.mark.parametrize(
    ("parked", "event", "old", "new", "expected"),
    [
        (NEAR, POD_ADD, None, other(**SERVICE), True),
        (NEAR, POD_ADD, None, other(), False),
        (NEAR, POD_LABEL, other(), other(**SERVICE), True),
        (NEAR, POD_LABEL, other(**SERVICE), other(service="t"), False),
        (NEAR, POD_LABEL, other(**SERVICE), other(), False),
        (NEAR, POD_DELETE, other(**SERVICE), None, False),
        (NEAR, OWN_LABEL, pod("p"), pod("p", labels=SERVICE), True),
        (AWAY, POD_ADD, None, other(**SERVICE), False),
        (AWAY, POD_LABEL, other(**SERVICE), other(), True),
        (AWAY, POD_LABEL, other(), other(**SERVICE), False),
        (AWAY, POD_DELETE, other(**SERVICE), None, True),
        (AWAY, POD_DELETE, other(), None, False),
        (
            pod("p", labels=SERVICE),
            POD_DELETE,
            pod("o", node="n", affinity=terms("zone", anti=True)),
            None,
            True,
        ),
        (pod("p"), POD_DELETE, pod("o", node="n", affinity=terms("zone", anti=True)), None, False),
        (NEAR, NODE_ADD, None, labelled(zone="a"), True),
        (NEAR, NODE_ADD, None, node(), False),
        (NEAR, NODE_LABEL, node(), labelled(zone="a"), True),
        (NEAR, NODE_LABEL, labelled(zone="a"), labelled(zone="b"), True),
        (NEAR, NODE_LABEL, labelled(zone="a"), node(), False),
        (NEAR, NODE_LABEL, labelled(zone="a"), labelled(zone="a", x=""), False),
        (AWAY, NODE_ADD, None, node(), True),
        (AWAY, NODE_LABEL, labelled(zone="a"), node(), True),
        (AWAY, NODE_LABEL, labelled(zone="a"), labelled(zone="b"), True),
        (AWAY, NODE_LABEL, node(), labelled(zone="a"), False),
        (pod("p"), NODE_ADD, None, node(), True),
        (NEAR, NODE_TAINT, node(labels={"zone": "a"}, taints=TAINT), labelled(zone="a"), False),
    ],
)
def test_inter_pod_affinity(parked: Pod, event: Event, old: Any, new: Any, expected: bool) -> None:
    assert woken("InterPodAffinity", event, parked, old, new) == expected


def test_one_pod_must_match_every_term() -> None:
    both = terms("zone")["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    both += terms("zone", label="tier")["podAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    parked = pod(
        "p", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": both}}
    )
    assert not woken("InterPodAffinity", POD_ADD, parked, None, other(**SERVICE))
    assert woken("InterPodAffinity", POD_ADD, parked, None, other(**SERVICE, tier=""))
