"""The operations of a workload, on a cluster in memory that binds each pod as it is created."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
import yaml

from berth.actors.client.rest import ApiError
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.devices import ResourceClaim
from berth.tools.bench import pod_waits
from berth.tools.bench.device_objects import CLAIMS
from berth.tools.bench.inproc import InProcess
from berth.tools.bench.measure import NoMeter, Result
from berth.tools.bench.objects import NODES, PODS
from berth.tools.bench.operations import Executor
from berth.tools.bench.pod_counts import PodTracker
from berth.tools.bench.pod_waits import StalledError
from berth.tools.bench.templates import Document
from berth.tools.bench.workload import load, plan
from berth.tools.bench.workload_cluster import ClusterError
from berth.tools.kubernetes.api.types.resources import BY_KIND, Kind
from tests.kit.virtual_loop import in_virtual_time

POD = """
apiVersion: v1
kind: Pod
metadata: {generateName: p-, labels: {app: x}}
spec: {terminationGracePeriodSeconds: 0, priority: 10, containers: [{name: c, image: i}]}
"""
CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: "device.driver == 'd.example.com'"}}]}
"""
CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {generateName: claim-}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: "own-{{.Index}}", labels: {of: "{{.Count}}", said: "{{.text}}"}}
"""


class Binding(InProcess):
    """A cluster whose pods get a node at once, as if a scheduler were there."""

    binds = True

    def __init__(self, pods: PodTracker) -> None:
        super().__init__(pods)
        self.created: Counter[str] = Counter()  # pods, by namespace

    async def create(self, kind: Kind, namespace: str, name: str, document: Document) -> None:
        self.created[namespace] += kind == PODS
        await super().create(kind, namespace, name, document)
        if kind == PODS and self.binds:
            (pod,) = (each for each in await self.every(PODS, Pod) if each.metadata.name == name)
            await self.bind(namespace, name, pod.metadata.uid, "node-0")


async def test_a_kind_that_the_scheduler_does_not_follow_is_updated() -> None:
    cluster, maps = InProcess(PodTracker()), BY_KIND["v1", "ConfigMap"]
    await cluster.create(maps, "default", "m", {"data": {"a": "1"}})
    await cluster.update(maps, "default", "m", {"data": {"a": "2"}}, ())
    listed = await cluster.call("GET", maps.path("default"), dict)
    assert [item["data"] for item in listed["items"]] == [{"a": "2"}]
    with pytest.raises(ClusterError, match='configmaps "gone" not found'):
        await cluster.update(maps, "default", "gone", {"data": {}}, ())
    with pytest.raises(ApiError, match="is not served in process") as refused:
        await cluster.call("OPTIONS", PODS.path("default"), dict)
    assert refused.value.code == 405


def test_a_known_kind_with_fields_of_a_plugins_own_is_refused() -> None:
    cluster, nodes = InProcess(PodTracker()), BY_KIND["v1", "Node"]
    with pytest.raises(ClusterError, match=r"/api/v1/nodes as Pod: .* --api embedded"):
        cluster.follow(nodes.path(), Pod)


class Story:
    """A workload of these operations, in its folder."""

    def __init__(self, folder: Path, *operations: Document) -> None:
        case = {"name": "Case", "workloadTemplate": list(operations), "workloads": [{"name": "W"}]}
        (folder / "pod.yaml").write_text(POD)
        (folder / "node.yaml").write_text(NODE)
        (folder / "class.yaml").write_text(CLASS)
        (folder / "claim.yaml").write_text(CLAIM)
        file = folder / "workloads.yaml"
        file.write_text(yaml.safe_dump([case]))
        (case_read,) = load(file)
        self.run_of = plan(file, case_read, case_read.workloads[0])
        self.pods = PodTracker()
        self.cluster = Binding(self.pods)
        self.reports: list[tuple[str, int, int]] = []

    async def run(self) -> list[Result]:
        return await Executor(
            self.run_of,
            self.cluster,
            self.pods,
            NoMeter(),
            0.0,
            lambda *report: self.reports.append(report),
        ).run()

    async def nodes(self) -> list[Node]:
        return await self.cluster.every(NODES, Node)

    def names(self, namespace: str) -> list[str]:
        return self.pods.names(namespace, {})


def operation(opcode: str, **fields: object) -> Document:
    return {"opcode": opcode, **fields}


@contextmanager
def raises_alone(error: type[Exception], problem: str) -> Iterator[None]:
    """Expects a group of one error."""
    with pytest.raises(ExceptionGroup) as group:
        yield
    (only,) = group.value.exceptions
    assert isinstance(only, error)
    assert re.search(problem, str(only))


async def test_objects_are_created_in_order_and_those_of_a_step_are_measured(
    tmp_path: Path,
) -> None:
    said = {text: {"templatePath": "node.yaml", "templateParams": {"text": text}} for text in "ab"}
    pods = {"namespace": "ns-0", "podTemplatePath": "pod.yaml"}
    story = Story(
        tmp_path,
        operation("createNodes", count=2),
        operation("createAny", count=2, **said["a"]),
        operation("updateAny", **said["b"]),
        operation("createNamespaces", prefix="ns", count=2),
        operation("createPods", count=3, collectMetrics=True, **pods),
        operation("createPods", count=2, signatureBatchSize=1, **pods),
        operation("createPods", count=2, namespace="ns-1", skipWaitToCompletion=True),
        operation("barrier"),
        operation("createPodSets", namespacePrefix="set", count=2, createPodsOp={"count": 1}),
    )
    (result,) = await story.run()
    assert result.pods == 3
    numbers = {name: len(story.names(name)) for name in ("ns-0", "ns-1", "set-0", "set-1")}
    assert numbers == {"ns-0": 5, "ns-1": 2, "set-0": 1, "set-1": 1}
    assert len(story.pods.names("ns-0", {"app": "x", "signature": "signature-label-1"})) == 1
    labels = {node.metadata.name: node.metadata.labels for node in await story.nodes()}
    assert len(labels) == 4
    assert labels["own-0"] == {"of": "1", "said": "b"}
    assert labels["own-1"] == {"of": "2", "said": "a"}
    assert story.reports[0] == ("createNodes (1 of 9)", 0, 9)
    assert story.reports[-1] == ("done", 9, 9)


@in_virtual_time
async def test_pods_are_deleted_and_churn_goes_on_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_waits, "time", SimpleNamespace(monotonic=anyio.current_time))
    churned = {"number": 2, "intervalMilliseconds": 1, "templatePaths": ["pod.yaml"]}
    story = Story(
        tmp_path,
        operation("createPods", count=3, namespace="gone", podTemplatePath="pod.yaml"),
        operation("createPods", count=1, namespace="kept"),
        operation("churn", mode="create", namespace="more", **churned),
        operation("churn", mode="recreate", namespace="anew", **churned),
        operation("deletePods", namespace="gone", labelSelector={"app": "x"}),
        operation("sleep", duration="50ms"),
    )
    await story.run()
    assert (story.names("gone"), len(story.names("kept"))) == ([], 1)
    assert len(story.names("more")) == 2
    assert len(story.names("anew")) <= 2
    assert story.cluster.created["anew"] > 2


@pytest.mark.parametrize("claims", [2, 3])
async def test_devices_are_published_and_claims_allocated(tmp_path: Path, claims: int) -> None:
    story = Story(
        tmp_path,
        operation("createNodes", count=1),
        operation(
            "createResourceDriver", driverName="d.example.com", nodes="*", maxClaimsPerNode=2
        ),
        operation("createAny", templatePath="class.yaml"),
        operation("createResourceClaims", namespace="ns", templatePath="claim.yaml", count=claims),
        operation("allocResourceClaims", namespace="ns"),
    )
    if claims > 2:
        with raises_alone(ClusterError, "no node has the devices for ns/claim-"):
            await story.run()
        return
    await story.run()
    allocations = [
        claim.status.allocation for claim in await story.cluster.every(CLAIMS, ResourceClaim)
    ]
    devices = [each.devices.results[0].device for each in allocations if each is not None]
    assert sorted(devices) == ["instance-0", "instance-1"]


async def test_a_wait_without_progress_ends_the_workload(tmp_path: Path) -> None:
    story = Story(tmp_path, operation("createPods", count=3, namespace="ns"))
    story.cluster.binds = False
    problem = r"stalled in createPods \(1 of 1\): 3 of 3 pods in ns wait, and none was placed"
    with raises_alone(StalledError, problem):
        await story.run()


@pytest.mark.parametrize(
    ("listed", "error", "problem"),
    [
        (["barrier", {"namespaces": ["other"]}], ClusterError, "other is not one of this"),
        (["stopCollectingMetrics", {}], ClusterError, "no metrics are being collected"),
    ],
)
async def test_operations_that_cannot_be_carried_out(
    tmp_path: Path, listed: list[Any], error: type[Exception], problem: str
) -> None:
    opcode, fields = listed
    with raises_alone(error, problem):
        await Story(tmp_path, operation(opcode, **fields)).run()
