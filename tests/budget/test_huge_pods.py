"""The cost of a huge pod grows with its terms or with the nodes, but never with their product. Its
terms are read when it comes, and not when another pod waits for a decision.

The tests count the calls for a pod with many terms on few nodes and on many nodes. More nodes may
cost any number of calls for themselves, but none for each term.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from berth.actors.messages.cache import AssignedPodAdded
from berth.actors.scheduling.decision.outcome import Unfit
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.framework.events import ClusterEvent
from berth.actors.scheduling.kube.core import Container, Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.tools.bench.decision import make_cache
from tests.budget.huge_pods import events
from tests.kit import documents
from tests.kit.calls import CallCounter
from tests.kit.documents import Document, node
from tests.kit.profiles import profile_of
from tests.kit.snapshots import snapshot_of
from tests.kit.structs import pod, pod_info

pytestmark = pytest.mark.full("long")

TERMS, FEW, MANY = 600, 20, 220
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
PROFILE = profile_of()


def of_nodes(expressions: Callable[[int], list[Document]], *, preferred: bool) -> Document:
    terms = [{"matchExpressions": expressions(i)} for i in range(TERMS)]
    if preferred:
        return {
            "affinity": {
                "nodeAffinity": {PREFERRED: [{"weight": 1, "preference": term} for term in terms]}
            }
        }
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def expression(key: str, operator: str, *values: str) -> Document:
    return {"key": key, "operator": operator, "values": values}


def of_pods(kind: str, term: Callable[[int], Document], *, preferred: bool = False) -> Document:
    terms = [{"topologyKey": ZONE, **term(i)} for i in range(TERMS)]
    if preferred:
        terms = [{"weight": 1, "podAffinityTerm": affinity_term} for affinity_term in terms]
    return {"affinity": {kind: {PREFERRED if preferred else REQUIRED: terms}}}


def app(number: int) -> Document:
    return {"labelSelector": {"matchLabels": {"app": f"a{number}"}}}


def not_app(number: int) -> Document:
    return {"labelSelector": {"matchExpressions": [expression("app", "NotIn", f"a{number}")]}}


def spread(when: str) -> Document:
    constraints = [
        {"maxSkew": 1, "topologyKey": f"key{i}", "whenUnsatisfiable": when, **app(0)}
        for i in range(TERMS)
    ]
    return {"topologySpreadConstraints": constraints}


def volumes(source: Callable[[int], Document]) -> Document:
    return {"volumes": [{"name": f"v{i}", **source(i)} for i in range(TERMS)]}


HUGE: dict[str, Document] = {
    "names": of_nodes(lambda i: [expression(HOST, "In", f"n{i % MANY}")], preferred=True),
    "other names": of_nodes(lambda i: [expression(HOST, "NotIn", f"n{i}")], preferred=True),
    "unknown labels": of_nodes(lambda i: [expression(f"key{i}", "In", "v")], preferred=True),
    "numbers": of_nodes(lambda i: [expression("rank", "Gt", str(i))], preferred=True),
    "both": of_nodes(
        lambda i: [expression(HOST, "NotIn", f"n{i}"), expression(ZONE, "In", "z1")], preferred=True
    ),
    "required names": of_nodes(lambda i: [expression(HOST, "In", f"n{i % MANY}")], preferred=False),
    "required and unknown": of_nodes(lambda i: [expression(f"key{i}", "Exists")], preferred=False),
    "node selector": {"nodeSelector": {f"key{i}": "v" for i in range(TERMS)}},
    "tolerations": {"tolerations": [{"key": "k", "value": str(i)} for i in range(TERMS)]},
    "near": of_pods("podAffinity", app, preferred=True),
    "near what is not": of_pods("podAffinity", not_app, preferred=True),
    "near all": of_pods("podAffinity", not_app),
    "near in unknown places": of_pods(
        "podAffinity", lambda i: {**not_app(i), "topologyKey": f"key{i}"}
    ),
    "away": of_pods("podAntiAffinity", app),
    "spread": spread("DoNotSchedule"),
    "soft spread": spread("ScheduleAnyway"),
    "ports": {
        "containers": [
            {"ports": [{"hostPort": 1000 + i, "containerPort": 1} for i in range(TERMS)]}
        ]
    },
    "images": {
        "containers": [{}],
        "volumes": [{"name": f"v{i}", "image": {"reference": f"i{i}"}} for i in range(TERMS)],
    },
    "resources": {
        "containers": [
            {"resources": {"requests": {f"example.com/r{i}": "1" for i in range(TERMS)}}}
        ]
    },
}


SMALL = {"name": "c", "resources": {"requests": {"cpu": "4"}}}
FULL = msgspec.convert(SMALL, Container)
VOLUMES: dict[str, Document] = {
    "claims": volumes(lambda i: {"persistentVolumeClaim": {"claimName": f"c{i}"}}),
    "one claim": volumes(lambda _: {"persistentVolumeClaim": {"claimName": "c"}}),
    "disks": volumes(lambda i: {"gcePersistentDisk": {"pdName": f"d{i}"}}),
    "monitors": volumes(lambda i: {"rbd": {"monitors": [f"m{i}-{j}" for j in range(9)]}}),
}


def calls(spec: Document, nodes: int) -> int:
    """Returns the calls for three pods of one template, of which the third is remembered. Each node
    already has a pod of a different app.
    """
    objects: list[Document] = []
    for i in range(nodes):
        labels = {HOST: f"n{i}", ZONE: f"z{i % 3}", "rank": str(i)}
        taints = [{"key": "k", "value": str(i), "effect": "NoSchedule"}]
        tainted = taints if "tolerations" in spec else []
        objects.append(node(f"n{i}", memory="32Gi", labels=labels, taints=tainted))
        objects.append(documents.pod(f"b{i}", node=f"n{i}", labels={"app": f"a{i}"}))
    snapshot, scheduler = snapshot_of(objects), Scheduler(Random(1))
    counter = CallCounter()
    with counter:
        for number in range(3):
            info = pod_info(f"p{number}", namespace="default", labels={"app": "own"}, **spec)
            scheduler.schedule(PROFILE, info, snapshot)
    return counter.calls


@pytest.mark.parametrize("name", HUGE)
def test_no_term_costs_a_call_for_every_node(name: str) -> None:
    few, many = calls(HUGE[name], FEW), calls(HUGE[name], MANY)
    beside = calls({}, MANY) - calls({}, FEW)
    # about ten calls a term, and some for each added node and its pod
    allowed = 10 * TERMS + 110 * (MANY - FEW)
    assert allowed < TERMS * (MANY - FEW) / 4
    assert many - few - beside < allowed, f"{few} calls on {FEW} nodes, {many} on {MANY}"


def huge(number: int, terms: Document, **spec: Any) -> Pod:
    labels = {"number": str(number)}
    return pod(f"huge{number}", namespace="default", labels=labels, **{**terms, **spec})


def other_place(number: int) -> Document:
    return {"topologyKey": f"key{number}", **not_app(number)}


@pytest.mark.parametrize(
    "terms",
    [
        of_pods("podAntiAffinity", app),
        of_pods("podAntiAffinity", not_app),
        of_pods("podAntiAffinity", other_place),
        of_pods("podAffinity", not_app),
        of_pods("podAffinity", not_app, preferred=True),
    ],
    ids=["away", "away from others", "away in unknown places", "near", "rather near"],
)
def test_the_terms_of_pods_on_nodes_are_read_when_the_pods_come(terms: Document) -> None:
    cache, scheduler, pods = make_cache(FEW), Scheduler(Random(1)), 10
    cache.snapshot()
    coming, deciding = CallCounter(), CallCounter()
    with coming:
        for number in range(pods):
            cache.handle(AssignedPodAdded(huge(number, terms, nodeName="n1")))
    with deciding:
        for app_of_pod in ("x", "y"):
            info = pod_info(namespace="default", labels={"a": app_of_pod})
            scheduler.schedule(PROFILE, info, cache.snapshot())
    assert coming.calls < 25 * pods * TERMS
    assert deciding.calls < pods * TERMS / 2


# Hints of NodeAffinity and of volumes try every term, in less than a microsecond each.
@pytest.mark.parametrize("name", [n for n in HUGE if n not in ("required and unknown", "images")])
def test_an_event_costs_a_parked_pod_no_call_for_each_term(name: str) -> None:
    parked = huge(0, HUGE[name])
    for resource, action, old, new in events():
        event = ClusterEvent(resource, action)
        registered = [r for of_plugin in PROFILE.hints().values() for r in of_plugin]
        hints = [r.hint for r in registered if r.hint is not None and r.event.matches(event)]
        for hint in hints:  # It reads the terms once.
            hint(parked, old, new)
        counter = CallCounter()
        with counter:
            for hint in hints:
                hint(parked, old, new)
        assert counter.calls < TERMS / 2, f"{event}: {counter.calls} calls"


@pytest.mark.parametrize(
    "name", ["near", "near what is not", "near all", "near in unknown places", "away"]
)
def test_a_term_of_a_pending_pod_costs_few_calls(name: str) -> None:
    cache, scheduler = make_cache(FEW), Scheduler(Random(1))
    scheduler.schedule(PROFILE, PodInfo(huge(0, {})), cache.snapshot())
    counter = CallCounter()
    with counter:
        scheduler.schedule(PROFILE, PodInfo(huge(1, HUGE[name])), cache.snapshot())
    assert counter.calls < 25 * TERMS


def calls_of_preemption(spec: Document) -> int:
    """Returns the calls of a decision about a small pod in a cluster full of such pods."""
    cache, scheduler = make_cache(FEW), Scheduler(Random(1))
    for number in range(FEW):
        filling = huge(number, spec, nodeName=f"n{number}")
        containers = (*filling.spec.containers, FULL)
        full = msgspec.structs.replace(filling.spec, containers=containers)
        cache.handle(AssignedPodAdded(msgspec.structs.replace(filling, spec=full)))
    snapshot, info = cache.snapshot(), PodInfo(huge(FEW, {"containers": [SMALL]}, priority=10))
    counter = CallCounter()
    with counter:
        outcome = scheduler.schedule(PROFILE, info, snapshot)
    assert isinstance(outcome, Unfit)
    assert outcome.nomination is not None
    return counter.calls


@pytest.mark.parametrize("name", ["ports", "resources", "claims", "disks", "monitors", "one claim"])
def test_a_preemptor_costs_no_call_for_each_value_of_its_victims(name: str) -> None:
    few, many = calls_of_preemption({}), calls_of_preemption({**VOLUMES, **HUGE}[name])
    assert many < few + FEW * TERMS / 4, f"{few} calls among small pods, {many} among large ones"


@pytest.mark.parametrize("address", ["10.0.0.1", "10.0.0.2"], ids=["in conflict", "apart"])
def test_a_nominated_pod_costs_no_call_for_each_port(address: str) -> None:
    cache, scheduler = make_cache(FEW), Scheduler(Random(1))
    snapshot = cache.snapshot()
    for number in range(FEW):
        nominated = PodInfo(huge(number, at_address("10.0.0.1")))
        snapshot.nominations.put(nominated, f"n{number}")
    scheduler.schedule(PROFILE, PodInfo(huge(FEW, at_address(address))), snapshot)
    info = PodInfo(huge(FEW + 1, at_address(address)))
    counter = CallCounter()
    with counter:
        outcome = scheduler.schedule(PROFILE, info, snapshot)
    assert isinstance(outcome, Unfit) == (address == "10.0.0.1")
    assert counter.calls < 10 * TERMS


def at_address(address: str) -> Document:
    ports = [{"hostPort": 1 + i, "containerPort": 1, "hostIP": address} for i in range(TERMS)]
    return {"containers": [{"ports": ports}]}
