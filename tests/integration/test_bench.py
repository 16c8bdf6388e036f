"""`berth bench` from the command line: tiny workloads, in every place where they can run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from click.testing import CliRunner

from berth.actors.client.rest import Client, Connection
from berth.actors.runtime.clock import SystemClock
from berth.actors.system import run_scheduler
from berth.actors.telemetry.logs import configure_logs
from berth.config.types import KubeSchedulerConfiguration, LeaderElectionConfiguration
from berth.tools.bench.command import SAMPLE, bench
from berth.tools.bench.workload import load, select
from berth.tools.cluster.apiserver.app import serve
from berth.tools.cluster.apiserver.kubeconfig import kubeconfig

pytestmark = pytest.mark.full

NODE = """
apiVersion: v1
kind: Node
metadata: {name: "node-{{.Index}}"}
status: {capacity: {cpu: "4", memory: 8Gi, pods: "50"}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {generateName: pod-, labels: {kind: %s}}
spec:
  priority: 3
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: i, resources: {requests: {cpu: %s}}}]
"""
DEVICE = """
apiVersion: v1
kind: Pod
metadata: {generateName: device-}
spec:
  containers: [{name: c, image: i, resources: {claims: [{name: d}]}}]
  resourceClaims: [{name: d, %s}]
"""
CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {annotations: {pv.kubernetes.io/bind-completed: "true"}}
spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}
"""
VOLUME = """
apiVersion: v1
kind: PersistentVolume
spec: {accessModes: [ReadOnlyMany], capacity: {storage: 1Gi}, csi: {driver: d}}
"""
CLASS = """
apiVersion: resource.k8s.io/v1beta2
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: device.driver == "d"}}]}
"""
DEVICE_CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {generateName: gpu-}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
"""
DEVICE_CLAIM_TEMPLATE = """
apiVersion: resource.k8s.io/v1beta2
kind: ResourceClaimTemplate
metadata: {name: gpus}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}
"""
RULE = """
apiVersion: resource.k8s.io/v1alpha3
kind: DeviceTaintRule
metadata: {name: all}
"""
FILE = """
- name: Plain
  defaultPodTemplatePath: small.yaml
  workloadTemplate:
  - {opcode: createNodes, countParam: $nodes, nodeTemplatePath: node.yaml}
  - {opcode: createPods, count: 2}
  - {opcode: createPods, countParam: $pods, collectMetrics: true}
  workloads:
  - {name: few, params: {nodes: 2, pods: 6}}
  - {name: hurried, params: {nodes: 1, pods: 2}, threshold: 1000000}
  - {name: many, params: {nodes: 40, pods: 600}}
- name: Every
  defaultPodTemplatePath: small.yaml
  workloadTemplate:
  - {opcode: createNamespaces, prefix: ns, count: 2}
  - {opcode: startCollectingMetrics, namespaces: [ns-0, ns-1, late], labelSelector: {kind: small}}
  - {opcode: createPods, count: 2, namespace: late, skipWaitToCompletion: true}
  - {opcode: barrier, stageRequirement: Attempted}
  - {opcode: createNodes, count: 2, nodeTemplatePath: node.yaml}
  - {opcode: barrier, namespaces: [late]}
  - {opcode: createNodes, count: 1}
  - opcode: createPods
    namespace: volumes
    count: 1
    persistentVolumeTemplatePath: volume.yaml
    persistentVolumeClaimTemplatePath: claim.yaml
  - opcode: churn
    mode: recreate
    number: 1
    intervalMilliseconds: 5
    templatePaths: [service.yaml, large.yaml]
  - opcode: createPodSets
    count: 2
    namespacePrefix: ns
    createPodsOp: {opcode: createPods, count: 3}
  - {opcode: createAny, namespace: ns-0, count: 2, templatePath: service.yaml}
  - {opcode: updateAny, count: 2, templatePath: node.yaml, updatePerSecond: 1000}
  - {opcode: sleep, duration: 30ms}
  - {opcode: deletePods, namespace: ns-0, deletePodsPerSecond: 500}
  - {opcode: deletePods, namespace: ns-1, labelSelector: {kind: small}, skipWaitToCompletion: true}
  - {opcode: createPods, count: 2, namespace: steady, steadyState: true, duration: 200ms}
  - {opcode: stopCollectingMetrics}
  workloads:
  - {name: operation}
- name: Hopeless
  workloadTemplate:
  - {opcode: createNodes, count: 1, nodeTemplatePath: node.yaml}
  - {opcode: createPods, count: 3, podTemplatePath: large.yaml}
  workloads:
  - {name: large}
- name: Devices
  featureGates: {DynamicResourceAllocation: true}
  workloadTemplate:
  - {opcode: createNodes, count: 7, nodeTemplatePath: node.yaml}
  - {opcode: createResourceDriver, driverName: d, nodes: "node-*", maxClaimsPerNode: 1}
  - {opcode: createAny, templatePath: class.yaml}
  - {opcode: createResourceClaims, namespace: ns, count: 6, templatePath: deviceclaim.yaml}
  - {opcode: allocResourceClaims, namespace: ns}
  - {opcode: createAny, namespace: steady, templatePath: template.yaml}
  - opcode: createPods
    namespace: steady
    count: 1
    podTemplatePath: device.yaml
    steadyState: true
    duration: 1500ms
    collectMetrics: true
  workloads:
  - {name: one}
- name: Sharing
  featureGates: {DynamicResourceAllocation: true}
  workloadTemplate:
  - {opcode: createNodes, count: 2, nodeTemplatePath: node.yaml}
  - {opcode: createResourceDriver, driverName: d, nodes: "node-1", maxClaimsPerNode: 1}
  - {opcode: createAny, templatePath: class.yaml}
  - {opcode: createAny, namespace: ns, templatePath: shared.yaml}
  - opcode: createPods
    namespace: ns
    count: 4
    podTemplatePath: sharing.yaml
    collectMetrics: true
  workloads:
  - {name: one}
- name: Slices
  featureGates: {DRAResourceClaimDeviceStatus: true}
  workloadTemplate:
  - {opcode: createNodes, count: 2, nodeTemplatePath: node.yaml}
  - {opcode: createAny, templatePath: rule.yaml}
  - {opcode: createAny, templatePath: class.yaml}
  - {opcode: createResourceClaims, namespace: ns, count: 2, templatePath: deviceclaim.yaml}
  - {opcode: startCollectingMetrics, namespaces: [ns]}
  - {opcode: createResourceDriver, driverName: d, nodes: "node-?", maxClaimsPerNode: 3}
  - {opcode: stopCollectingMetrics}
  workloads:
  - {name: one}
- name: Groups
  workloadTemplate:
  - {opcode: createPodGroups, namespace: d}
  workloads:
  - {name: one}
- name: Gates
  featureGates: {GateOfTomorrow: true}
  workloadTemplate: []
  workloads:
  - {name: one}
"""
MOODY = """
from berth.plugin import NodeScorePlugin


class Moody(NodeScorePlugin):
    name = "Moody"

    def __init__(self, args, handle):
        self._likes = "node-1" if type(handle).__name__ == "ReadOnlyHandle" else "node-0"

    def score_node(self, state, info, node):
        return int(node.name == self._likes)
"""
MOODY_CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {score: {enabled: [{name: Moody, weight: 100}]}}
"""
SERVICE = (
    "{apiVersion: v1, kind: Service, metadata: {generateName: s-}, spec: {ports: [{port: 80}]}}"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    for name, text in (
        ("node.yaml", NODE),
        ("small.yaml", POD % ("small", "100m")),
        ("large.yaml", POD % ("large", "9")),
        ("device.yaml", DEVICE % "resourceClaimTemplateName: gpus"),
        ("sharing.yaml", DEVICE % "resourceClaimName: gpu"),
        ("shared.yaml", DEVICE_CLAIM.replace("generateName: gpu-", "name: gpu")),
        ("template.yaml", DEVICE_CLAIM_TEMPLATE),
        ("claim.yaml", CLAIM),
        ("class.yaml", CLASS),
        ("deviceclaim.yaml", DEVICE_CLAIM),
        ("rule.yaml", RULE),
        ("volume.yaml", VOLUME),
        ("service.yaml", SERVICE),
        ("config.yaml", FILE),
    ):
        (tmp_path / name).write_text(text)
    return tmp_path / "config.yaml"


def run(file: Path, workload: str, *arguments: str) -> Any:
    return CliRunner().invoke(bench, [str(file), "--workload", workload, *arguments])


def measured(result: Any, pods: int) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    (figures,) = json.loads(result.stdout)
    assert figures["pods"] == pods
    assert figures["throughput"]["average"] == pytest.approx(pods / figures["seconds"], rel=0.01)
    assert isinstance(figures, dict)
    return figures


def test_without_a_file_small_workloads_are_measured() -> None:
    names = [f"{case.name}/{workload.name}" for case, workload in select(load(SAMPLE), (), ())]
    assert names == ["Basic/500Nodes_1500Pods", "Spread/500Nodes_1000Pods"]
    arguments = ["--workload", "Spread", "--api", "inproc", "--check", "20", "-o", "json"]
    result = CliRunner().invoke(bench, arguments)
    assert result.exit_code == 0, result.output
    (figures,) = json.loads(result.stdout)
    assert (figures["pods"], figures["checked"]["agree"]) == (1000, 20)


@pytest.mark.parametrize(("api", "version"), [("inproc", "1.36"), ("embedded", "1.37")])
def test_a_workload_is_measured_and_its_decisions_are_those_of_explain(
    file: Path, api: str, version: str
) -> None:
    options = ("--api", api, "--check", "4", "--emulated-version", version, "-o", "json")
    figures = measured(run(file, "Plain/few", *options), 6)
    assert (
        0
        < figures["decision_ms"]["p50"]
        <= figures["decision_ms"]["p99"]
        < figures["attempt_ms"]["p99"]
    )
    assert figures["cpu_seconds"] > 0
    assert figures["peak_rss_bytes"] > 10 << 20
    assert "threshold" not in figures
    assert figures["checked"] == {"pods": 4, "agree": 4, "differ": []}


def test_decisions_that_differ_from_explain_are_reported(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin gives other answers to `explain`."""
    installed = tmp_path / "installed"
    (installed / "moody-1.dist-info").mkdir(parents=True)
    (installed / "moody-1.dist-info" / "entry_points.txt").write_text(
        "[berth.plugins]\nMoody = moody:Moody\n"
    )
    (installed / "moody-1.dist-info" / "METADATA").write_text("Name: moody\nVersion: 1\n")
    (installed / "moody.py").write_text(MOODY)
    (tmp_path / "moody.yaml").write_text(MOODY_CONFIGURATION)
    file.write_text(
        FILE.replace("- name: Plain", "- name: Plain\n  schedulerConfigPath: moody.yaml")
    )
    monkeypatch.setenv("PYTHONPATH", str(installed))
    result = run(file, "Plain/few", "--api", "inproc", "--check", "6", "-o", "json")
    assert result.exit_code == 1, result.output
    (figures,) = json.loads(result.stdout)
    assert (
        figures["checked"]["pods"],
        figures["checked"]["agree"],
        len(figures["checked"]["differ"]),
    ) == (6, 0, 6)
    assert figures["checked"]["differ"][0]["difference"].startswith("node-0 was chosen with ")
    assert "Moody 0 and 100" in figures["checked"]["differ"][0]["difference"]
    shown = run(file, "Plain/few", "--api", "inproc", "--check", "6")
    assert shown.exit_code == 1
    assert "decisions that berth explain does not make" in shown.output


@pytest.mark.parametrize("api", ["inproc", "embedded"])
def test_every_operation(file: Path, api: str) -> None:
    result = run(file, "Every", "--api", api, "-o", "json")
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    (figures,) = json.loads(result.stdout)
    assert (figures["name"], figures["pods"]) == ("Every/operation", 8)


def test_runs_and_threshold(file: Path) -> None:
    result = run(file, "Plain/hurried", "--api", "inproc", "--runs", "2")
    assert result.exit_code == 1
    assert "1e+06 missed" in result.output


def test_a_profile_says_where_the_time_goes(file: Path, tmp_path: Path) -> None:
    stacks = tmp_path / "stacks.txt"
    result = run(file, "Plain/many", "--api", "inproc", "--stacks", str(stacks))
    assert result.exit_code == 0, result.output
    assert "where the time goes" in result.output
    assert "actors/cycle" in result.output
    bottom, *_, top = stacks.read_text().splitlines()[0].split(";")
    assert bottom == "Plain/many"
    assert int(top.rpartition(" ")[2]) > 0


def test_a_workload_that_stalls_ends_and_says_how_many_wait(file: Path) -> None:
    result = run(file, "Hopeless", "--api", "inproc", "--stall", "0.3")
    assert result.exit_code == 1
    line = result.stderr.splitlines()[-1]
    assert line.startswith(
        "Hopeless/large: failed: stalled in createPods (2 of 2): 3 of 3 pods in namespace-1 wait"
    )
    assert "0/1 nodes are available: 1 Insufficient cpu." in line


@pytest.mark.parametrize("api", ["inproc", "embedded"])
def test_pods_get_devices_by_claims_of_templates(file: Path, api: str) -> None:
    """Six of the seven devices are allocated at first, so each pod waits for the one before it."""
    result = run(file, "Devices", "--api", api, "--check", "3", "-o", "json")
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    (figures,) = json.loads(result.stdout)
    assert figures["pods"] > 1
    assert figures["checked"]["agree"] == 3


def test_pods_share_a_claim(file: Path) -> None:
    result = run(file, "Sharing", "--api", "inproc", "--check", "4", "-o", "json")
    figures = measured(result, 4)
    assert figures["checked"]["agree"] == figures["checked"]["pods"]


def test_publishing_devices_is_measured_without_pods(file: Path) -> None:
    result = run(file, "Slices", "--api", "inproc", "-o", "json")
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    (figures,) = json.loads(result.stdout)
    assert (figures["pods"], figures["throughput"]["average"]) == (0, 0)
    assert figures["seconds"] > 0


@pytest.mark.parametrize(
    ("workload", "reason"),
    [("Groups", "operation createPodGroups"), ("Gates", "feature gate GateOfTomorrow")],
)
def test_a_workload_with_unknown_operations_is_unsupported(
    file: Path, workload: str, reason: str
) -> None:
    result = run(file, workload, "--api", "inproc")
    assert result.exit_code == 0, result.output
    assert result.stderr == f"{workload}/one: unsupported: {reason}\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--workload", "Nothing"], "no workload is selected"),
        (
            ["--workload", "Plain/few", "--api", "inproc", "--scheduler", "none"],
            "--api inproc cannot be combined with",
        ),
        (
            ["--workload", "Plain/few", "--check", "3", "--scheduler", "none"],
            "--check cannot be combined with",
        ),
        (["--kubeconfig", "missing"], "missing"),
    ],
)
def test_a_workload_that_cannot_be_run_is_reported_in_one_line(
    file: Path, arguments: list[str], problem: str
) -> None:
    result = CliRunner().invoke(bench, [str(file), *arguments])
    assert result.exit_code != 0
    assert problem in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.output


def test_a_missing_template_is_reported_in_one_line(file: Path) -> None:
    (file.parent / "small.yaml").unlink()
    result = run(file, "Plain/few", "--api", "inproc")
    assert result.exit_code == 1
    assert "small.yaml: cannot be read" in result.stderr.splitlines()[-1]


NEEDY = """
from berth.plugin import PostBindPlugin


class Needy(PostBindPlugin):
    name = "Needy"

    def __init__(self, args, handle):
        raise ValueError("no url")

    def post_bind(self, state, info, node):
        pass
"""


def test_a_plugin_that_cannot_be_made_is_reported_in_one_line(file: Path) -> None:
    plugin = file.parent / "needy.py"
    plugin.write_text(NEEDY)
    command = [sys.executable, "-m", "berth.actors", "bench", str(file), "--workload", "Plain/few"]
    said = subprocess.run(
        [*command, "--plugin", f"{plugin}:Needy"], capture_output=True, text=True, check=False
    )
    assert said.returncode == 1
    assert "Needy cannot be made: ValueError: no url" in said.stderr.splitlines()[-1]
    assert "build_profiles" not in said.stderr


async def test_measuring_another_scheduler_leaves_its_cluster_clean(
    file: Path, tmp_path: Path
) -> None:
    # The other scheduler runs in this process, and must not write to its standard output.
    configure_logs(quiet=True)
    configuration = KubeSchedulerConfiguration(
        leader_election=LeaderElectionConfiguration(leader_elect=False)
    )
    async with serve() as url, anyio.create_task_group() as group:
        connection = Connection(url)
        await group.start(run_scheduler, configuration, connection, SystemClock(), Random(1))
        (tmp_path / "kubeconfig").write_text(kubeconfig(url))
        arguments = [
            "--kubeconfig",
            str(tmp_path / "kubeconfig"),
            "--scheduler",
            "none",
            "-o",
            "json",
        ]
        result = await anyio.to_thread.run_sync(run, file, "Plain/few", *arguments)
        figures = measured(result, 6)
        assert (figures["decision_ms"], figures["cpu_seconds"]) == (None, None)
        async with Client(connection) as client:
            assert (await client.call("GET", "/api/v1/nodes", dict))["items"] == []
            pods = (await client.call("GET", "/api/v1/pods", dict))["items"]
            for namespace in {pod["metadata"]["namespace"] for pod in pods}:
                ending = await client.call("GET", f"/api/v1/namespaces/{namespace}", dict)
                assert ending["status"]["phase"] == "Terminating"
        group.cancel_scope.cancel()
