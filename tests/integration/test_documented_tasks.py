"""The examples of Kubernetes' documentation about leaving pods work with kubectl as written.

They are those of the pages on pod overhead, pod priority, budgets, the draining of nodes and
out-of-memory situations. Taints, evictions through the API and pressure are in docs/eviction.md,
whose commands tests/docs runs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from berth.tools.cluster.kubelets.configuration_files import read_configurations
from berth.tools.cluster.kubelets.housekeeping import Setup
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from tests.kit.cluster import cluster
from tests.kit.kubectl import Daemon, Kubectl
from tests.kit.programs import needs
from tests.kit.virtual_loop import in_long_virtual_time

OVERHEAD = """
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: micro-vm}
handler: micro-vm
overhead:
  podFixed: {memory: 120Mi, cpu: 250m}
---
apiVersion: v1
kind: Pod
metadata: {name: test-pod}
spec:
  runtimeClassName: micro-vm
  containers:
  - name: shell
    image: busybox
    stdin: true
    tty: true
    resources: {limits: {cpu: 500m, memory: 100Mi}}
  - name: web
    image: nginx
    resources: {limits: {cpu: 1500m, memory: 100Mi}}
"""
PRIORITY = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: foremost}
value: 1000000
globalDefault: false
description: For pods of services alone.
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: foremost-and-polite}
value: 1000000
preemptionPolicy: Never
globalDefault: false
description: Goes first and takes no place from others.
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {env: test}}
spec:
  containers: [{name: web, image: nginx, imagePullPolicy: IfNotPresent}]
  priorityClassName: foremost
---
apiVersion: v1
kind: Pod
metadata: {name: count, labels: {env: test}}
spec:
  containers: [{name: count, image: busybox}]
  priorityClassName: foremost-and-polite
"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: zk-pdb}
spec:
  AMOUNT
  selector: {matchLabels: {app: zookeeper}}
"""
ENSEMBLE = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: zk}
spec:
  replicas: 3
  serviceName: zk
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: zookeeper}}
  template:
    metadata: {labels: {app: zookeeper}}
    spec: {containers: [{name: zk, image: zookeeper}]}
"""
RESERVE = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
evictionHard: {memory.available: 500Mi}
"""


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    daemon = Daemon(tmp_path_factory.mktemp("tasks"), "demo", "--keep", "--nodes", "3")
    yield daemon.kubectl
    assert daemon.end() == 0


def eventually(kubectl: Kubectl, pattern: str, *arguments: str) -> None:
    """Repeats a command until its output matches."""
    end = time.monotonic() + 30
    while not re.search(pattern, got := kubectl(*arguments)):
        assert time.monotonic() < end, got


@pytest.mark.full
@needs("kubectl")
def test_the_overhead_of_a_runtime_class_is_added_to_the_requests(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=OVERHEAD)
    overhead = kubectl("get", "pod", "test-pod", "-o", "jsonpath={.spec.overhead}")
    assert msgspec.json.decode(overhead) == {"cpu": "250m", "memory": "120Mi"}
    kubectl("wait", "pod", "test-pod", "--for=condition=Ready")
    node = kubectl("get", "pod", "test-pod", "-o", "jsonpath={.spec.nodeName}")
    (line,) = re.findall(".* test-pod .*", kubectl("describe", "node", node))
    assert line.split()[2::2][:4] == ["2250m", "2250m", "320Mi", "320Mi"]


@pytest.mark.full
@needs("kubectl")
def test_priority_classes_give_pods_their_priority_and_policy(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=PRIORITY)
    fields = "jsonpath={.spec.priority} {.spec.preemptionPolicy}"
    assert kubectl("get", "pod", "web", "-o", fields) == "1000000 PreemptLowerPriority"
    assert kubectl("get", "pod", "count", "-o", fields) == "1000000 Never"
    table = kubectl("get", "priorityclasses")
    assert re.search(r"^foremost-and-polite +1000000 +false +\S+ +Never$", table, re.MULTILINE)


@pytest.mark.full
@needs("kubectl")
@pytest.mark.parametrize(
    ("amount", "row"),
    [("minAvailable: 2", r"zk-pdb +2 +N/A"), ("maxUnavailable: 1", r"zk-pdb +N/A +1")],
)
def test_a_budget_counts_the_pods_that_may_go(kubectl: Kubectl, amount: str, row: str) -> None:
    kubectl("apply", "-f", "-", stdin=BUDGET.replace("AMOUNT", amount))
    eventually(kubectl, rf"{row} +0 ", "get", "poddisruptionbudgets")
    kubectl("apply", "-f", "-", stdin=ENSEMBLE)
    eventually(kubectl, rf"{row} +1 ", "get", "poddisruptionbudgets")
    status = kubectl.read("poddisruptionbudgets", "zk-pdb")["status"]
    counts = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
    assert [status[count] for count in counts] == [3, 2, 1, 3]
    assert status["observedGeneration"] == 1
    for kind, name in (("statefulset", "zk"), ("pdb", "zk-pdb")):
        kubectl("delete", kind, name)
    kubectl("wait", "pod", "-l", "app=zookeeper", "--for=delete")


@in_long_virtual_time
async def test_pods_are_evicted_when_95_percent_of_the_memory_are_in_use(tmp_path: Path) -> None:
    """A node of 10Gi, an operator who wants to evict at 95%: memory.available<500Mi."""
    node = hollow_node(1)
    for amounts in ("capacity", "allocatable"):
        node["status"][amounts] = {**node["status"][amounts], "memory": "10Gi"}

    def using(name: str, usage: str) -> dict[str, Any]:
        metadata = {"name": name, "annotations": {"berth.dev/usage": f"memory={usage}"}}
        requests = {"requests": {"memory": "1Gi"}}
        containers = [{"name": "c", "image": "x", "resources": requests}]
        return {"metadata": metadata, "spec": {"nodeName": "node-1", "containers": containers}}

    (tmp_path / "kubelet.yaml").write_text(RESERVE)
    setup = Setup(read_configurations(tmp_path / "kubelet.yaml"))
    async with cluster() as running:
        await running.start_hollow([node], setup)
        await running.create("Pod", using("calm", "900Mi"))
        await running.create("Pod", using("greedy", "8600Mi+1Mi/s"))
        evicted = await running.status("Pod", "greedy", lambda s: s["phase"] == "Failed", 300)
        assert "Threshold quantity: 500Mi" in evicted["status"]["message"]
        assert re.search("available: 4(8[5-9]|9[0-9])Mi", evicted["status"]["message"])
        assert (await running.get("Pod", "calm"))["status"]["phase"] == "Running"
