"""Measures what pods of almost a megabyte cost: `python -m tests.budget.huge_pods [--seed 1]`.

For each list of a pod, the pod has as many items as one object of the API server may have. Prints
the milliseconds of processor time of each step that other pods wait for. Not a test, because times
differ from run to run; test_huge_pods.py counts calls.

    read        decodes the JSON
    add         counts the pod, bound to a node, in the cache and the snapshot
    own         decides about the pod
    again       decides about one of another template, with the same list
    beside      decides about a small pod, the first after the huge one was counted
    next        decides about another small pod
    event       asks all plugins whether one event helps the parked pod: the most of all events
    preemptor   decides about the pod with higher priority in a full cluster
    victim      decides about a small pod with higher priority in a cluster full of such pods
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from time import thread_time
from typing import Any

import click
import msgspec

from berth.actors.messages.cache import AssignedPodAdded
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.framework.events import Action, ClusterEvent, Resource
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.devices import ResourceClaim
from berth.actors.scheduling.kube.meta import ObjectMeta
from berth.actors.scheduling.kube.reading import Reader
from berth.actors.scheduling.kube.storage import PersistentVolumeClaim
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.tools.bench.decision import make_cache, make_node
from tests.kit.documents import Document
from tests.kit.profiles import profile_of

SIZE, NODES, VICTIMS = 1_000_000, 5_000, 20
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
STEPS = ("read", "add", "own", "again", "beside", "next", "event", "preemptor", "victim")
READER = Reader(Pod)
Item = Callable[[int], Any]


def items(item: Item, size: int = SIZE) -> list[Any]:
    """Returns as many items as have this many bytes of JSON together."""
    grown: list[Any] = []
    left = size
    while left > 0:
        grown.append(item(len(grown)))
        left -= len(json.dumps(grown[-1])) + 2
    return grown


def selecting(key: str, operator: str, *values: str) -> Document:
    return {"labelSelector": {"matchExpressions": [expression(key, operator, *values)]}}


def expression(key: str, operator: str, *values: str) -> Document:
    return {"key": key, "operator": operator, **({"values": values} if values else {})}


def terms(kind: str, term: Item, weight: int = 0) -> Document:
    """Returns a pod's affinity; the terms are preferred if they have a weight."""
    if weight:
        weighted = items(lambda i: {"weight": weight, "podAffinityTerm": term(i)})
        return {"affinity": {kind: {PREFERRED: weighted}}}
    return {"affinity": {kind: {REQUIRED: items(term)}}}


def of_nodes(requirement: Item, *, weight: int = 0, single: bool = False) -> Document:
    if single:
        term = {"nodeSelectorTerms": [{"matchExpressions": items(requirement)}]}
        return {"affinity": {"nodeAffinity": {REQUIRED: term}}}
    if weight:
        preferred = items(
            lambda i: {"weight": weight, "preference": {"matchExpressions": [requirement(i)]}}
        )
        return {"affinity": {"nodeAffinity": {PREFERRED: preferred}}}
    selected = {"nodeSelectorTerms": items(lambda i: {"matchExpressions": [requirement(i)]})}
    return {"affinity": {"nodeAffinity": {REQUIRED: selected}}}


def spread(constraint: Item) -> Document:
    return {"topologySpreadConstraints": items(lambda i: {"maxSkew": 1, **constraint(i)})}


def shapes(seed: int) -> Mapping[str, Callable[[], Document]]:
    """Returns, by name, functions that make the spec of a huge pod; what they choose at random
    depends on the seed.
    """
    rng = Random(seed)

    def any_term(i: int) -> Document:
        operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        key = rng.choice(("color", "app", f"x{i}"))
        values = [rng.choice(("blue", f"a{i % 60}", f"v{i}")) for _ in range(rng.randint(1, 3))]
        term = selecting(key, operator, *(values if operator in ("In", "NotIn") else ()))
        if rng.random() < 0.3:
            term["namespaceSelector"] = rng.choice(
                ({}, {"matchLabels": {"team": "devops"}}, {"matchLabels": {"team": f"t{i}"}})
            )
        if rng.random() < 0.2:
            term["namespaces"] = [rng.choice(("default", f"ns{i}")), f"ns{rng.randint(0, 9)}"]
        return {"topologyKey": rng.choice((HOST, ZONE, f"t{i}")), **term}

    def any_requirement(i: int) -> Document:
        key = rng.choice((HOST, ZONE, f"x{i}"))
        operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        if operator in ("Gt", "Lt"):
            return expression(key, operator, str(i))
        return expression(key, operator, *([f"n{i}"] if operator in ("In", "NotIn") else ()))

    def absent(i: int) -> Document:
        return {"topologyKey": HOST, **selecting(f"x{i}", "DoesNotExist")}

    def elsewhere(i: int) -> Document:
        return {"topologyKey": f"t{i}", **selecting("q", "DoesNotExist")}

    def own(i: int) -> Document:
        return {"topologyKey": HOST, "labelSelector": {"matchLabels": {"q": f"x{i}"}}}

    def container(i: int) -> Document:
        requests = {f"example.com/r{i}": "1", "cpu": "1n"}
        ports = [{"hostPort": i % 60000 + 1, "containerPort": 1}]
        return {
            "name": f"c{i}",
            "image": f"i{i}",
            "resources": {"requests": requests},
            "ports": ports,
        }

    def volume(source: Item) -> Callable[[], Document]:
        return lambda: {"volumes": items(lambda i: {"name": f"v{i}", **source(i)})}

    soft, hard = {"whenUnsatisfiable": "ScheduleAnyway"}, {"whenUnsatisfiable": "DoNotSchedule"}
    labels = {"labelSelector": {"matchLabels": {"color": "blue"}}}
    namespaces = [f"ns{i}" for i in range(100)]
    away, near = "podAntiAffinity", "podAffinity"
    return {
        "away from labels": lambda: terms(away, own),
        "away in other places": lambda: terms(away, elsewhere),
        "away from all": lambda: terms(away, absent),
        "away, namespaces": lambda: terms(
            away, lambda i: {**own(i), "namespaces": [*namespaces, f"n{i}"]}
        ),
        "away, any team": lambda: terms(
            away, lambda i: {**absent(i), "namespaceSelector": {"matchLabels": {"team": f"t{i}"}}}
        ),
        "away, no team": lambda: terms(
            away,
            lambda i: {
                **absent(i),
                "namespaceSelector": selecting(f"x{i}", "DoesNotExist")["labelSelector"],
            },
        ),
        "near all": lambda: terms(near, absent),
        "near all, zones": lambda: terms(near, lambda i: {**absent(i), "topologyKey": ZONE}),
        "rather near": lambda: terms(near, absent, 1),
        "rather away": lambda: terms(away, absent, 1),
        "rather near any": lambda: terms(near, any_term, 7),
        "rather away from any": lambda: terms(away, any_term, 7),
        "near any": lambda: terms(near, any_term),
        "away from any": lambda: terms(away, any_term),
        "near, one selector": lambda: {
            "affinity": {
                near: {
                    REQUIRED: [
                        {
                            "topologyKey": HOST,
                            "labelSelector": {
                                "matchExpressions": items(
                                    lambda i: expression(f"x{i}", "NotIn", "a")
                                )
                            },
                        }
                    ]
                }
            }
        },
        "near, many values": lambda: terms(
            near,
            lambda i: {
                "topologyKey": HOST,
                **selecting("app", "NotIn", *(f"z{i}-{j}" for j in range(10_000))),
            },
        ),
        "spread over keys": lambda: spread(lambda i: {"topologyKey": f"t{i}", **soft, **labels}),
        "spread, hard": lambda: spread(lambda i: {"topologyKey": f"t{i}", **hard, **labels}),
        "spread, other selectors": lambda: spread(
            lambda i: {"topologyKey": f"t{i}", **hard, **selecting(f"x{i}", "DoesNotExist")}
        ),
        "spread by labels": lambda: {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": ZONE,
                    **hard,
                    **labels,
                    "matchLabelKeys": items(lambda i: f"k{i}"),
                }
            ]
        },
        "node terms": lambda: of_nodes(any_requirement),
        "node, one term": lambda: of_nodes(
            lambda i: expression(f"x{i}", "DoesNotExist"), single=True
        ),
        "node, numbers": lambda: of_nodes(lambda i: expression(HOST, "Gt", str(i)), single=True),
        "node preferences": lambda: of_nodes(any_requirement, weight=3),
        "node values": lambda: of_nodes(
            lambda i: expression(HOST, "NotIn", *(f"n{j}" for j in range(10_000)))
        ),
        "node names": lambda: {
            "affinity": {
                "nodeAffinity": {
                    REQUIRED: {
                        "nodeSelectorTerms": items(
                            lambda i: {"matchFields": [expression("metadata.name", "In", f"n{i}")]}
                        )
                    }
                }
            }
        },
        "node selector": lambda: {"nodeSelector": {f"k{i}": "v" for i in range(60_000)}},
        "tolerations": lambda: {
            "tolerations": items(lambda i: {"key": f"k{i}", "value": "v", "effect": "NoSchedule"})
        },
        "tolerations, numbers": lambda: {
            "tolerations": items(lambda i: {"key": f"k{i}", "operator": "Gt", "value": "9"})
        },
        "containers": lambda: {"containers": items(container)},
        "init containers": lambda: {
            "initContainers": items(lambda i: {**container(i), "restartPolicy": "Always"})
        },
        "images": lambda: {"containers": items(lambda i: {"name": f"c{i}", "image": f"i{i}:x"})},
        "ports": lambda: {
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "ports": items(lambda i: {"hostPort": i + 1, "containerPort": 1}),
                }
            ]
        },
        "resources": lambda: {
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "resources": {"requests": {f"example.com/r{i}": "1" for i in range(40_000)}},
                }
            ]
        },
        "overhead": lambda: {"overhead": {f"example.com/r{i}": "1" for i in range(40_000)}},
        "config maps": volume(lambda i: {"configMap": {"name": f"c{i}"}}),
        "claims": volume(lambda i: {"persistentVolumeClaim": {"claimName": f"c{i}"}}),
        "one claim": volume(lambda _: {"persistentVolumeClaim": {"claimName": "c"}}),
        "ephemeral": volume(lambda i: {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}),
        "disks": volume(lambda i: {"gcePersistentDisk": {"pdName": f"c{i}"}}),
        "monitors": volume(
            lambda i: {"rbd": {"monitors": [f"m{i}-{j}" for j in range(90)], "image": "i"}}
        ),
        "csi": volume(lambda i: {"csi": {"driver": f"d{i}.example.com"}}),
        "image volumes": volume(lambda i: {"image": {"reference": f"i{i}"}}),
        "device claims": lambda: {
            "resourceClaims": items(lambda i: {"name": f"r{i}", "resourceClaimName": f"c{i}"})
        },
        "device templates": lambda: {
            "resourceClaims": items(
                lambda i: {"name": f"r{i}", "resourceClaimTemplateName": f"c{i}"}
            )
        },
        "gates": lambda: {"schedulingGates": items(lambda i: {"name": f"g{i}"})},
        "labels": lambda: {"labels": {f"k{i}": "v" for i in range(60_000)}},
        "annotations": lambda: {"annotations": {f"k{i}": "v" for i in range(60_000)}},
        "owners": lambda: {
            "ownerReferences": items(
                lambda i: {"apiVersion": "v1", "kind": "Pod", "name": f"o{i}", "uid": f"u{i}"}
            )
        },
        "finalizers": lambda: {"finalizers": items(lambda i: f"example.com/f{i}")},
    }


METADATA = ("labels", "annotations", "ownerReferences", "finalizers")


def document(name: str, spec: Document, node: str = "", color: str = "blue", **more: Any) -> bytes:
    """Returns a pod as JSON; the lists of its metadata are among those of its spec."""
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"}
    lists = {key: spec[key] for key in METADATA if key in spec}
    rest = {key: value for key, value in spec.items() if key not in METADATA}
    container = {"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}}}
    of_pod = {"schedulerName": "default-scheduler", "containers": [container], **rest, **more}
    lists["labels"] = {**lists.get("labels", {}), "color": color}
    if node:
        of_pod["nodeName"] = node
    return json.dumps({"metadata": {**metadata, **lists}, "spec": of_pod}).encode()


class Cluster:
    """Nodes with 300 small pods, a scheduler, and the profile."""

    def __init__(self, profile: Profile, nodes: int = NODES) -> None:
        self.cache, self.scheduler, self.profile = make_cache(nodes), Scheduler(Random(1)), profile
        for i in range(min(nodes, 300)):
            self.add(READER.read(document(f"run{i}", {"labels": {"app": f"a{i % 50}"}}, f"n{i}")))
        self.decide(READER.read(document("first", {})))

    def add(self, pod: Pod) -> None:
        self.cache.handle(AssignedPodAdded(pod))

    def decide(self, pod: Pod) -> object:
        return self.scheduler.schedule(self.profile, PodInfo(pod), self.cache.snapshot())


def events() -> list[tuple[Resource, Action, object | None, object | None]]:
    pod = READER.read(document("other", {"labels": {"a": "1"}}, "n1"))
    changed = READER.read(document("other", {"labels": {"a": "2"}}, "n1"))
    node = make_node(1)
    labels = {**node.metadata.labels, ZONE: "other"}
    moved = msgspec.structs.replace(
        node, metadata=msgspec.structs.replace(node.metadata, labels=labels)
    )
    metadata = ObjectMeta(name="x", namespace="default", uid="u")
    claim, devices = PersistentVolumeClaim(metadata=metadata), ResourceClaim(metadata=metadata)
    return [
        (Resource.POD, Action.ADD, None, pod),
        (Resource.POD, Action.DELETE, pod, None),
        (Resource.POD, Action.UPDATE_POD_LABEL, pod, changed),
        (Resource.POD, Action.UPDATE_POD_SCALE_DOWN, pod, changed),
        (Resource.NODE, Action.ADD, None, node),
        (Resource.NODE, Action.UPDATE_NODE_LABEL, node, moved),
        (Resource.NODE, Action.UPDATE_NODE_TAINT, node, moved),
        (Resource.NODE, Action.UPDATE_NODE_ALLOCATABLE, node, moved),
        (Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD, None, claim),
        (Resource.RESOURCE_CLAIM, Action.ADD, None, devices),
    ]


def of_event(profile: Profile, pod: Pod) -> float:
    """Returns the seconds that the hints of all plugins take for one event, once they were asked
    for another: the most of all events.
    """
    most = 0.0
    for resource, action, old, new in events():
        event = ClusterEvent(resource, action)
        hints = [
            registration.hint
            for registrations in profile.hints().values()
            for registration in registrations
            if registration.hint is not None and registration.event.matches(event)
        ]
        for _ in range(2):
            start = thread_time()
            for hint in hints:
                hint(pod, old, new)
            taken = thread_time() - start
        most = max(most, taken)
    return most


def measured(profile: Profile, spec: Document) -> list[float]:
    """Returns the seconds of each step."""

    def read(name: str, node: str = "", color: str = "blue", **more: Any) -> Pod:
        return READER.read(document(name, spec, node, color, **more))

    def seconds(action: Callable[[], object]) -> float:
        start = thread_time()
        action()
        return thread_time() - start

    def add(cluster: Cluster, pod: Pod) -> None:
        cluster.add(pod)
        cluster.cache.snapshot()

    raw = document("huge", spec)
    taken = [seconds(lambda: READER.read(raw))]
    cluster = Cluster(profile)
    bound = read("bound", "n1")
    taken.append(seconds(lambda: add(cluster, bound)))
    own = [read("own"), read("again", color="red")]
    small = [READER.read(document(f"s{i}", {}, color=f"c{i}")) for i in range(2)]
    taken += [seconds(partial(cluster.decide, pod)) for pod in own]
    cluster = Cluster(profile)
    add(cluster, read("bound", "n1"))
    taken += [seconds(partial(cluster.decide, pod)) for pod in small]
    taken.append(of_event(profile, read("parked")))
    full = Cluster(profile, VICTIMS)
    for i in range(VICTIMS):
        cpu = {"name": "c", "resources": {"requests": {"cpu": "4"}}}
        full.add(READER.read(document(f"full{i}", {"containers": [cpu]}, f"n{i}")))
    taken.append(seconds(lambda: full.decide(read("preemptor", priority=10))))
    full = Cluster(profile, VICTIMS)
    for i in range(VICTIMS):
        pod = read(f"victim{i}", f"n{i}")
        first, *more = pod.spec.containers
        large = msgspec.convert({"requests": {"cpu": "4"}}, type(first.resources))
        first = msgspec.structs.replace(first, resources=large)
        in_full = msgspec.structs.replace(pod.spec, containers=(first, *more))
        full.add(msgspec.structs.replace(pod, spec=in_full))
    full.cache.snapshot()
    preemptor = READER.read(document("preemptor", {}, priority=10))
    taken.append(seconds(lambda: full.decide(preemptor)))
    return taken


@click.command(help="Measures what huge pods cost.")
@click.option("--seed", default=1)
@click.argument("only", nargs=-1)
def main(seed: int, only: tuple[str, ...]) -> None:
    profile = profile_of()
    click.echo(f"{'milliseconds':24}" + "".join(f"{step:>10}" for step in STEPS))
    for name, shape in shapes(seed).items():
        if not only or name in only:
            taken = measured(profile, shape())
            click.echo(f"{name:24}" + "".join(f"{1000 * value:10.1f}" for value in taken))


if __name__ == "__main__":
    main()
