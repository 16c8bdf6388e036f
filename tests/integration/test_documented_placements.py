"""The examples of Kubernetes' documentation about the places of pods lead where it says.

They are those of the pages on assigning pods to nodes, scheduling readiness, spread constraints and
taints. Their manifests are created as kubectl creates them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest
import yaml

from berth.actors.client.rest import ApiError
from berth.config.feature_gates import with_defaults
from berth.config.options import Options
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from tests.kit.cluster import Cluster, cluster
from tests.kit.documents import Document
from tests.kit.virtual_loop import in_virtual_time

pytestmark = pytest.mark.full("long")

ZONE = "topology.kubernetes.io/zone"
LEVEL = "servicelevel.organization.example/agreed-service-level"
Labels = dict[str, str]

CHOSEN_BY_LABEL = """
kind: Pod
metadata: {name: ssd, labels: {env: test}}
spec:
  containers: [{name: nginx, image: nginx, imagePullPolicy: IfNotPresent}]
  nodeSelector: {disktype: ssd}
"""
CHOSEN_BY_NAME = """
kind: Pod
metadata: {name: named}
spec:
  nodeName: node3
  containers: [{name: nginx, image: nginx, imagePullPolicy: IfNotPresent}]
"""
NODE_AFFINITY = """
kind: Pod
metadata: {name: with-node-affinity}
spec:
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions:
          - key: topology.kubernetes.io/zone
            operator: In
            values: [antarctica-east1, antarctica-west1]
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 1
        preference:
          matchExpressions:
          - {key: another-node-label-key, operator: In, values: [another-node-label-value]}
  containers: [{name: with-node-affinity, image: registry.k8s.io/pause:3.8}]
"""
WEIGHTS = """
kind: Pod
metadata: {name: with-affinity-preferred-weight}
spec:
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions: [{key: kubernetes.io/os, operator: In, values: [linux]}]
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 1
        preference: {matchExpressions: [{key: label-1, operator: In, values: [key-1]}]}
      - weight: 50
        preference: {matchExpressions: [{key: label-2, operator: In, values: [key-2]}]}
  containers: [{name: with-node-affinity, image: registry.k8s.io/pause:3.8}]
"""
POD_AFFINITY = """
kind: Pod
metadata: {name: with-pod-affinity}
spec:
  affinity:
    podAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - labelSelector: {matchExpressions: [{key: security, operator: In, values: [S1]}]}
        topologyKey: topology.kubernetes.io/zone
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          labelSelector: {matchExpressions: [{key: security, operator: In, values: [S2]}]}
          topologyKey: topology.kubernetes.io/zone
  containers: [{name: with-pod-affinity, image: registry.k8s.io/pause:3.8}]
"""
CACHE_AND_STORE = """
kind: Deployment
metadata: {name: redis-cache}
spec:
  selector: {matchLabels: {app: store}}
  replicas: 3
  template:
    metadata: {labels: {app: store}}
    spec:
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - labelSelector: {matchExpressions: [{key: app, operator: In, values: [store]}]}
            topologyKey: kubernetes.io/hostname
      containers: [{name: redis-server, image: redis:3.2-alpine}]
---
kind: Deployment
metadata: {name: web-server}
spec:
  selector: {matchLabels: {app: web-store}}
  replicas: 3
  template:
    metadata: {labels: {app: web-store}}
    spec:
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - labelSelector: {matchExpressions: [{key: app, operator: In, values: [web-store]}]}
            topologyKey: kubernetes.io/hostname
        podAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - labelSelector: {matchExpressions: [{key: app, operator: In, values: [store]}]}
            topologyKey: kubernetes.io/hostname
      containers: [{name: web-app, image: nginx:1.16-alpine}]
"""
GATES = """
kind: Pod
metadata: {name: test-pod}
spec:
  schedulingGates: [{name: example.com/foo}, {name: example.com/bar}]
  containers: [{name: pause, image: registry.k8s.io/pause:3.6}]
"""
ONE_CONSTRAINT = """
kind: Pod
metadata: {name: mypod, labels: {foo: bar}}
spec:
  topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: zone
    whenUnsatisfiable: DoNotSchedule
    labelSelector: {matchLabels: {foo: bar}}
  containers: [{name: pause, image: registry.k8s.io/pause:3.1}]
"""
TWO_CONSTRAINTS = """
kind: Pod
metadata: {name: mypod, labels: {foo: bar}}
spec:
  topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: zone
    whenUnsatisfiable: DoNotSchedule
    labelSelector: {matchLabels: {foo: bar}}
  - maxSkew: 1
    topologyKey: node
    whenUnsatisfiable: DoNotSchedule
    labelSelector: {matchLabels: {foo: bar}}
  containers: [{name: pause, image: registry.k8s.io/pause:3.1}]
"""
WITHOUT_ZONE_C = """
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions: [{key: zone, operator: NotIn, values: [zoneC]}]
"""
TOLERATION = """
kind: Pod
metadata: {name: nginx, labels: {env: test}}
spec:
  containers: [{name: nginx, image: nginx, imagePullPolicy: IfNotPresent}]
  tolerations: [{key: example-key, operator: Exists, effect: NoSchedule}]
"""
NUMERIC_TOLERATION = """
kind: Pod
metadata: {name: nginx-numeric-toleration, labels: {env: test}}
spec:
  containers: [{name: nginx, image: nginx, imagePullPolicy: IfNotPresent}]
  tolerations:
  - key: servicelevel.organization.example/agreed-service-level
    operator: Gt
    value: "900"
    effect: NoSchedule
"""


def nodes(*labels: Labels, taints: Iterable[Document] = ()) -> list[Document]:
    """Returns node1, node2 and so on with these labels; the last one has the taints."""
    documents = [hollow_node(number + 1) for number in range(len(labels))]
    for number, (document, own) in enumerate(zip(documents, labels, strict=True), 1):
        name = f"node{number}"
        document["metadata"]["name"] = name
        document["metadata"]["labels"] |= {"kubernetes.io/hostname": name, "node": name, **own}
    documents[-1]["spec"] = {"taints": list(taints)}
    return documents


@asynccontextmanager
async def running(documents: Iterable[Document], **gates: bool) -> AsyncIterator[Cluster]:
    async with cluster() as started:
        await started.start_hollow(documents)
        await started.schedule(options=Options(feature_gates=with_defaults(gates)))
        yield started


async def apply(cluster: Cluster, text: str) -> None:
    for document in yaml.safe_load_all(text):
        await cluster.create(document["kind"], document)


async def run_on(cluster: Cluster, *places: str, labels: Labels | None = None) -> None:
    """Creates a pod on each of these nodes, and waits until they run."""
    for number, place in enumerate(places):
        name = f"{place}-{number}"
        spec = {"nodeName": place, "containers": [{"name": "c", "image": "i"}]}
        metadata = {"name": name, "labels": labels or {"foo": "bar"}}
        await cluster.create("Pod", {"metadata": metadata, "spec": spec})
        await cluster.status("Pod", name, lambda status: status["phase"] == "Running")


def waits(status: Document) -> bool:
    conditions = status.get("conditions") or ()
    return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)


@in_virtual_time
async def test_a_node_is_chosen_by_label_or_by_name() -> None:
    async with running(nodes({}, {"disktype": "ssd"}, {})) as started:
        await apply(started, CHOSEN_BY_LABEL)
        await apply(started, CHOSEN_BY_NAME)
        assert await started.node_of("ssd") == "node2"
        await started.status("Pod", "named", lambda status: status["phase"] == "Running")


@in_virtual_time
async def test_node_affinity_is_required_and_preferred() -> None:
    east, west = {ZONE: "antarctica-east1"}, {ZONE: "antarctica-west1"}
    wanted_label = {"another-node-label-key": "another-node-label-value"}
    async with running(nodes(east, west | wanted_label, wanted_label)) as started:
        await apply(started, NODE_AFFINITY)
        assert await started.node_of("with-node-affinity") == "node2"


@in_virtual_time
async def test_the_heavier_preference_decides() -> None:
    async with running(nodes({"label-1": "key-1"}, {"label-2": "key-2"}, {})) as started:
        await apply(started, WEIGHTS)
        assert await started.node_of("with-affinity-preferred-weight") == "node2"


@in_virtual_time
async def test_pods_attract_and_repel_by_zone() -> None:
    places = ({ZONE: "V"}, {ZONE: "R"}, {ZONE: "W"})
    async with running(nodes(*places)) as started:
        await apply(started, POD_AFFINITY)
        await started.status("Pod", "with-pod-affinity", waits)
        await run_on(started, "node1", "node2", labels={"security": "S1"})
        first = await started.node_of("with-pod-affinity")
        assert first in ("node1", "node2")
        await started.delete("Pod", "with-pod-affinity")
        await started.gone("Pod", "with-pod-affinity")
        await run_on(started, "node2", labels={"security": "S2"})
        await apply(started, POD_AFFINITY)
        assert await started.node_of("with-pod-affinity") == "node1"


@in_virtual_time
async def test_each_web_server_is_beside_a_cache() -> None:
    async with running(nodes({}, {}, {})) as started:
        await apply(started, CACHE_AND_STORE)

        def placed(pods: list[Document]) -> bool:
            return len(pods) == 6 and all("nodeName" in pod["spec"] for pod in pods)

        pods = await started.until_all("Pod", placed)
        couples = Counter(
            (pod["metadata"]["labels"]["app"], pod["spec"]["nodeName"]) for pod in pods
        )
        assert len(couples) == 6


@in_virtual_time
async def test_a_pod_waits_for_its_gates_to_open() -> None:
    async with running(nodes({})) as started:
        await apply(started, GATES)
        stored = await started.status("Pod", "test-pod", waits)
        assert [gate["name"] for gate in stored["spec"]["schedulingGates"]] == [
            "example.com/foo",
            "example.com/bar",
        ]
        (condition,) = stored["status"]["conditions"]
        assert condition["reason"] == "SchedulingGated"
        with pytest.raises(ApiError):
            await started.patch("Pod", "test-pod", {"spec": {"schedulingGates": [{"name": "c/d"}]}})
        await started.patch("Pod", "test-pod", {"spec": {"schedulingGates": None}})
        await started.status("Pod", "test-pod", lambda status: status["phase"] == "Running")


ZONES = (
    {"zone": "zoneA"},
    {"zone": "zoneA"},
    {"zone": "zoneB"},
    {"zone": "zoneB"},
    {"zone": "zoneC"},
)


@pytest.mark.parametrize(
    ("text", "count", "pods", "expected"),
    [
        (ONE_CONSTRAINT, 4, (1, 2, 3), {"node3", "node4"}),
        (ONE_CONSTRAINT.replace("topologyKey: zone", "topologyKey: node"), 4, (1, 2, 3), {"node4"}),
        (TWO_CONSTRAINTS, 4, (1, 2, 3), {"node4"}),
        (TWO_CONSTRAINTS, 3, (1, 1, 2, 3, 3), set[str]()),
        (
            TWO_CONSTRAINTS.replace("maxSkew: 1", "maxSkew: 2"),
            3,
            (1, 1, 2, 3, 3),
            {"node2", "node3"},
        ),
        (ONE_CONSTRAINT, 5, (1, 2, 3), {"node5"}),
        (ONE_CONSTRAINT.rstrip() + WITHOUT_ZONE_C, 5, (1, 2, 3), {"node3", "node4"}),
    ],
    ids=["zone", "node", "both", "conflict", "relaxed", "empty zone", "without zone C"],
)
@in_virtual_time
async def test_a_pod_goes_where_the_spread_allows(
    text: str, count: int, pods: tuple[int, ...], expected: set[str]
) -> None:
    zones = ZONES[:count]
    async with running(nodes(*zones)) as started:
        await run_on(started, *(f"node{number}" for number in pods))
        await apply(started, text)
        if expected:
            assert await started.node_of("mypod") in expected
        else:
            stored = await started.status("Pod", "mypod", waits)
            assert "nodeName" not in stored["spec"]


@in_virtual_time
async def test_a_tolerated_taint_lets_a_pod_in() -> None:
    taints = [{"key": "example-key", "value": "v", "effect": "NoSchedule"}]
    async with running(nodes({}, taints=taints)) as started:
        await apply(
            started, "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}"
        )
        await started.status("Pod", "p", waits)
        await apply(started, TOLERATION)
        assert await started.node_of("nginx") == "node1"


@pytest.mark.parametrize(("level", "enters"), [("950", True), ("900", False)])
@in_virtual_time
async def test_a_toleration_compares_numbers(level: str, enters: bool) -> None:
    taints = [{"key": LEVEL, "value": level, "effect": "NoSchedule"}]
    async with running(
        nodes({}, taints=taints), TaintTolerationComparisonOperators=True
    ) as started:
        await apply(started, NUMERIC_TOLERATION)
        if enters:
            assert await started.node_of("nginx-numeric-toleration") == "node1"
        else:
            await started.status("Pod", "nginx-numeric-toleration", waits)
