"""The examples of Kubernetes' documentation take effect: each decides otherwise than the default.

They are those of the pages on scheduler configuration, node affinity by profile, bin packing,
performance tuning and cluster-level default constraints. Extenders are in test_extenders.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from berth.actors.configuration.file import ConfigurationFile
from berth.actors.scheduling.decision.outcome import Choice
from berth.actors.scheduling.decision.registry import extension_points
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.config.feature_gates import DEFAULTS
from berth.config.profiles import expand_profile
from tests.kit.documents import thing
from tests.kit.virtual_cluster import VirtualCluster, node, pod, virtual_cluster

HEAD = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
"""
NO_SCORES = """
profiles:
- schedulerName: default-scheduler
- schedulerName: no-scoring-scheduler
  plugins:
    preScore:
      disabled:
      - name: '*'
    score:
      disabled:
      - name: '*'
"""
ADDED_AFFINITY = """
profiles:
- schedulerName: default-scheduler
- schedulerName: foo-scheduler
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms:
          - matchExpressions:
            - key: scheduler-profile
              operator: In
              values:
              - foo
"""
PACKING = """
profiles:
- pluginConfig:
  - args:
      scoringStrategy:
        resources:
        - name: cpu
          weight: 1
        - name: memory
          weight: 1
        - name: intel.com/foo
          weight: 3
        - name: intel.com/bar
          weight: 3
        type: MostAllocated
    name: NodeResourcesFit
"""
RATIO = """
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        resources:
        - name: intel.com/foo
          weight: 3
        - name: intel.com/bar
          weight: 3
        requestedToCapacityRatio:
          shape:
          - utilization: 0
            score: 0
          - utilization: 100
            score: 10
        type: RequestedToCapacityRatio
"""
PERCENTAGE = "percentageOfNodesToScore: 50"
DEFAULT_CONSTRAINTS = """
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: PodTopologySpread
    args:
      defaultConstraints:
      - maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: ScheduleAnyway
      defaultingType: List
"""
NO_CONSTRAINTS = """
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: PodTopologySpread
    args:
      defaultConstraints: []
      defaultingType: List
"""
# Its multiPoint precedes the scores' own set, whose weight counts.
MULTI_POINT = """
profiles:
- schedulerName: multipoint-scheduler
  plugins:
    multiPoint:
      enabled:
      - name: ImageLocality
        weight: 3
      disabled:
      - name: NodeResourcesBalancedAllocation
    score:
      disabled:
      - name: PodTopologySpread
      enabled:
      - name: NodeResourcesFit
        weight: 9
"""
Labels = dict[str, str]


def running(folder: Path, text: str) -> Any:
    path = folder / "scheduler.yaml"
    path.write_text(HEAD + text)
    return virtual_cluster(path=path)


def server(name: str, cpu: int = 8, labels: Labels | None = None, **more: str) -> dict[str, Any]:
    document = node(name, cpu)
    document["metadata"]["labels"] = labels or {}
    document["status"]["allocatable"] |= {n.replace("_", "/"): x for n, x in more.items()}
    return document


def wanting(name: str, scheduler: str = "default-scheduler", **more: str) -> dict[str, Any]:
    document = pod(name)
    document["metadata"]["labels"] = {"app": "web"}
    document["spec"]["schedulerName"] = scheduler
    requests = document["spec"]["containers"][0]["resources"]["requests"]
    requests |= {n.replace("_", "/"): x for n, x in more.items()}
    document["spec"]["containers"][0]["resources"]["limits"] = requests
    return document


async def placed(cluster: VirtualCluster, *pods: dict[str, Any]) -> list[str]:
    """Returns the nodes of the pods, which come one by one."""
    for document in pods:
        await cluster.create(document)
        await cluster.clock.advance(2.0)
    return [cluster.pods()[document["metadata"]["name"]].spec.node_name for document in pods]


async def test_a_profile_without_scores_takes_the_first_node_that_fits(tmp_path: Path) -> None:
    async with running(tmp_path, NO_SCORES) as cluster:
        for name in ("a", "b", "c"):
            await cluster.create(server(name))
        await placed(cluster, wanting("p"), wanting("q", "no-scoring-scheduler"))
        feasible = {
            decision.pod.metadata.name: decision.outcome.feasible
            for decision in cluster.decisions
            if isinstance(decision.outcome, Choice)
        }
        assert feasible == {"p": 3, "q": 1}


async def test_an_added_affinity_holds_for_the_pods_of_its_profile(tmp_path: Path) -> None:
    async with running(tmp_path, ADDED_AFFINITY) as cluster:
        await cluster.create(server("big", 64))
        await cluster.create(server("small", 4, {"scheduler-profile": "foo"}))
        nodes = await placed(cluster, wanting("p"), wanting("q", "foo-scheduler"))
        assert nodes == ["big", "small"]


@pytest.mark.parametrize(
    ("text", "same"),
    [("", False), (PACKING, True), (RATIO, True)],
    ids=["default", "most", "ratio"],
)
async def test_resources_are_packed(tmp_path: Path, text: str, same: bool) -> None:
    async with running(tmp_path, text) as cluster:
        eight: dict[str, Any] = {"intel.com_foo": "8"}
        for name in ("a", "b"):
            await cluster.create(server(name, **eight))
        wants = {"intel.com_foo": "1"}
        first, second = await placed(cluster, wanting("p", **wants), wanting("q", **wants))
        assert (first == second) is same


@pytest.mark.parametrize(("text", "feasible"), [("", 144), (PERCENTAGE, 150)])
async def test_a_percentage_of_nodes_is_enough(tmp_path: Path, text: str, feasible: int) -> None:
    async with running(tmp_path, text) as cluster:
        for number in range(300):
            await cluster.create(server(f"n{number}"))
        await placed(cluster, wanting("p"))
        (decision,) = cluster.decisions
        assert isinstance(decision.outcome, Choice)
        assert decision.outcome.feasible == feasible


@pytest.mark.parametrize(
    ("text", "zones"),
    [(DEFAULT_CONSTRAINTS, {"a": 2, "b": 2}), (NO_CONSTRAINTS, {"a": 4})],
    ids=["list", "none"],
)
async def test_default_constraints(tmp_path: Path, text: str, zones: dict[str, int]) -> None:
    service = thing("Service", "web", spec={"selector": {"app": "web"}})
    async with running(tmp_path, text) as cluster:
        await cluster.create(service)
        await cluster.create(server("a", 100, {"topology.kubernetes.io/zone": "a"}))
        await cluster.create(server("b", 12, {"topology.kubernetes.io/zone": "b"}))
        nodes = await placed(cluster, *(wanting(f"p{number}") for number in range(4)))
        assert Counter(nodes) == zones


async def test_multi_point_and_the_set_of_a_point(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(HEAD + MULTI_POINT)
    file = ConfigurationFile(path)
    (profile,) = file.parse(file.read()).profiles
    points = {name: extension_points(plugin) for name, plugin in IN_TREE.items()}
    expanded = expand_profile(profile, points, "", DEFAULTS)
    scores = [(score.name, score.weight) for score in expanded["score"]]
    assert scores[0] == ("NodeResourcesFit", 9)
    assert ("ImageLocality", 3) in scores
    names = {name for name, _ in scores}
    assert not names & {"PodTopologySpread", "NodeResourcesBalancedAllocation"}
    assert "PodTopologySpread" in {plugin.name for plugin in expanded["filter"]}
