"""The real kubectl drains nodes of a toy cluster, with each of its flags."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit import documents
from tests.kit.cluster import path_of
from tests.kit.documents import Document, thing
from tests.kit.kubectl import Kubectl, bare_demo, until
from tests.kit.programs import needs

pytestmark = [pytest.mark.full, needs("kubectl")]

NODES = 3
REPLICAS = 4
SPEC: Document = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0}
DRAIN = ("--ignore-daemonsets", "--timeout=60s")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder = tmp_path_factory.mktemp("drain")
    with bare_demo(folder, NODES) as daemon:
        yield daemon.kubectl


@pytest.fixture
def kubectl(cluster: Kubectl) -> Iterator[Kubectl]:
    yield cluster
    owners = ("Deployment", "DaemonSet", "StatefulSet", "PodDisruptionBudget")
    for kind in (*owners, "Pod"):
        for item in cluster.call("GET", path_of(kind))["items"]:
            cluster.call("DELETE", f"{path_of(kind)}/{item['metadata']['name']}")
    until(lambda: not pods(cluster))
    cluster("uncordon", *nodes_of(cluster))


def nodes_of(kubectl: Kubectl) -> list[str]:
    return [node["metadata"]["name"] for node in kubectl.call("GET", path_of("Node"))["items"]]


def pods(kubectl: Kubectl, **query: str) -> list[Document]:
    items: list[Document] = kubectl.call("GET", path_of("Pod"), **query)["items"]
    return items


def read(kubectl: Kubectl, kind: str, name: str) -> Document:
    return kubectl.call("GET", f"{path_of(kind)}/{name}")


def create(kubectl: Kubectl, *documents: Document) -> None:
    for document in documents:
        kubectl.call("POST", path_of(document["kind"]), document)


def pod(name: str, node: str = "", metadata: Document | None = None, **spec: Any) -> Document:
    placed = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    return documents.pod(
        name, labels={"app": name}, metadata=metadata, **{**SPEC, **placed, **spec}
    )


def workload(kind: str, name: str, *, seconds: int = 0, **spec: Any) -> Document:
    pods = documents.template(name, **{**SPEC, "terminationGracePeriodSeconds": seconds})
    return documents.workload(kind, name, pods, **spec)


def budget(name: str, **spec: Any) -> Document:
    return thing(
        "PodDisruptionBudget", name, spec={"selector": {"matchLabels": {"app": name}}, **spec}
    )


def pods_on(kubectl: Kubectl, node: str) -> set[str]:
    selected = pods(kubectl, fieldSelector=f"spec.nodeName={node}")
    return {item["metadata"]["name"] for item in selected}


def ready(kubectl: Kubectl, app: str) -> int:
    conditions = [
        condition
        for item in pods(kubectl, labelSelector=f"app={app}")
        if "deletionTimestamp" not in item["metadata"]
        for condition in item["status"].get("conditions", ())
    ]
    return sum(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def running(kubectl: Kubectl, *names: str) -> None:
    """Waits until these pods exist and run."""
    until(lambda: {*names} <= {p["metadata"]["name"] for p in pods(kubectl) if runs(p)})


def runs(pod: Document) -> bool:
    return bool(pod["status"].get("phase") == "Running")


def rolled_out(kubectl: Kubectl, name: str, replicas: int) -> None:
    """Waits until a Deployment has so many pods, all new and ready."""

    def over() -> bool:
        deployment = read(kubectl, "Deployment", name)
        status = deployment.get("status") or {}
        counts = {status.get(each) for each in ("replicas", "updatedReplicas", "readyReplicas")}
        observed = status.get("observedGeneration") == deployment["metadata"]["generation"]
        return observed and counts == {replicas}

    until(over)


def allows(kubectl: Kubectl, name: str, disruptions: int) -> None:
    """Waits until a budget of at least one healthy pod allows so many disruptions."""

    def counted() -> bool:
        status = read(kubectl, "PodDisruptionBudget", name).get("status") or {}
        healthy = status.get("currentHealthy", 0) > 0
        return bool(healthy and status["disruptionsAllowed"] == disruptions)

    until(counted)


def busiest(kubectl: Kubectl) -> str:
    return max(nodes_of(kubectl), key=lambda node: len(pods_on(kubectl, node)))


def test_a_drain_cordons_evicts_and_waits(kubectl: Kubectl) -> None:
    create(kubectl, workload("Deployment", "web", replicas=REPLICAS))
    rolled_out(kubectl, "web", REPLICAS)
    node = busiest(kubectl)
    before = pods_on(kubectl, node)
    said = kubectl("drain", node, "--timeout=60s")
    assert said.startswith(f"node/{node} cordoned\n")
    assert said.endswith(f"node/{node} drained\n")
    assert all(f"pod/{name} evicted" in said for name in before)
    assert pods_on(kubectl, node) == set()
    assert kubectl("cordon", node) == f"node/{node} already cordoned\n"
    rolled_out(kubectl, "web", REPLICAS)
    assert kubectl("uncordon", node) == f"node/{node} uncordoned\n"
    assert kubectl("uncordon", node) == f"node/{node} already uncordoned\n"


def test_a_budget_lets_one_pod_go_at_a_time(kubectl: Kubectl) -> None:
    few = REPLICAS - 1
    create(
        kubectl,
        workload("Deployment", "db", replicas=REPLICAS),
        budget("db", minAvailable=few),
    )
    rolled_out(kubectl, "db", REPLICAS)
    allows(kubectl, "db", 1)
    others = nodes_of(kubectl)[1:]
    kubectl("cordon", *others)
    kubectl("rollout", "restart", "deployment/db")
    rolled_out(kubectl, "db", REPLICAS)
    kubectl("uncordon", *others)
    node = nodes_of(kubectl)[0]
    assert len(pods_on(kubectl, node)) == REPLICAS
    least, ended = [REPLICAS], threading.Event()

    def look() -> None:
        while not ended.wait(0.1):
            least.append(ready(kubectl, "db"))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        done = kubectl.run("drain", node, "--timeout=90s")
    finally:
        ended.set()
        looking.join()
    assert done.returncode == 0, done.stderr
    assert "will retry after 5s" in done.stderr
    assert "Cannot evict pod as it would violate the pod's disruption budget" in done.stderr
    assert done.stdout.count(" evicted\n") == REPLICAS
    assert min(least) >= few


def test_a_budget_that_allows_nothing_stops_a_drain_until_it_is_disabled(
    kubectl: Kubectl,
) -> None:
    create(kubectl, workload("StatefulSet", "db", replicas=1), budget("db", maxUnavailable=0))
    running(kubectl, "db-0")
    (node,) = {n for n in nodes_of(kubectl) if "db-0" in pods_on(kubectl, n)}
    refused = kubectl.refused("drain", node, "--timeout=1s")
    assert "global timeout reached: 1s" in refused
    assert "db-0" in pods_on(kubectl, node)
    assert "deleted" in kubectl("drain", node, "--disable-eviction", "--timeout=60s")
    until(lambda: "db-0" not in pods_on(kubectl, node))


def test_daemon_sets_stop_a_drain_unless_they_are_ignored(kubectl: Kubectl) -> None:
    create(kubectl, workload("DaemonSet", "agent"))
    until(lambda: ready(kubectl, "agent") == NODES)
    node = nodes_of(kubectl)[0]
    refused = kubectl.refused("drain", node)
    assert "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)" in refused
    before = pods_on(kubectl, node)
    done = kubectl.run("drain", node, "--ignore-daemonsets")
    assert done.returncode == 0
    assert "ignoring DaemonSet-managed Pods: default/agent-" in done.stderr
    assert pods_on(kubectl, node) == before, "a daemon's pods tolerate the cordon"


def test_pods_without_a_controller_need_force(kubectl: Kubectl) -> None:
    node = nodes_of(kubectl)[0]
    create(kubectl, pod("bare", node))
    running(kubectl, "bare")
    refused = kubectl.refused("drain", node)
    assert "cannot delete Pods that declare no controller (use --force to override)" in refused
    done = kubectl.run("drain", node, "--force", "--timeout=60s")
    assert done.returncode == 0
    assert "deleting Pods that declare no controller: default/bare" in done.stderr
    assert "pod/bare evicted" in done.stdout
    assert pods_on(kubectl, node) == set()


def test_pods_with_an_empty_dir_need_a_flag(kubectl: Kubectl) -> None:
    document = workload("Deployment", "cache", replicas=1)
    document["spec"]["template"]["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    create(kubectl, document)
    rolled_out(kubectl, "cache", 1)
    node = busiest(kubectl)
    refused = kubectl.refused("drain", node)
    assert "cannot delete Pods with local storage (use --delete-emptydir-data" in refused
    said = kubectl("drain", node, "--delete-emptydir-data", "--timeout=60s")
    assert "evicted" in said


def test_pods_of_the_node_itself_and_finished_pods(kubectl: Kubectl) -> None:
    node = nodes_of(kubectl)[0]
    mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    create(
        kubectl,
        pod("static", metadata=mirror, nodeName=node),
        pod("done", node, restartPolicy="Never"),
        budget("done", minAvailable=1),
    )
    running(kubectl, "static", "done")
    finished = {"status": {"phase": "Succeeded"}}
    kubectl("patch", "pod", "done", "--subresource=status", "-p", json.dumps(finished))
    said = kubectl("drain", node, "--timeout=60s")
    assert "pod/done evicted" in said, "a finished pod needs neither force nor its budget"
    assert pods_on(kubectl, node) == {"static"}


def test_a_selector_drains_a_part_of_the_pods(kubectl: Kubectl) -> None:
    node = nodes_of(kubectl)[0]
    create(kubectl, pod("red", node), pod("blue", node))
    running(kubectl, "red", "blue")
    done = kubectl.run("drain", node, "--pod-selector=app=red", "--force", "--timeout=60s")
    assert done.returncode == 0
    assert "pod/red evicted" in done.stdout
    assert pods_on(kubectl, node) == {"blue"}
    kubectl("uncordon", node)
    kubectl("label", "node", node, "room=north")
    done = kubectl.run("drain", "--selector=room=north", "--force", "--timeout=60s")
    assert done.returncode == 0
    assert "pod/blue evicted" in done.stdout
    kubectl("label", "node", node, "room-")


# kubectl waits for ever if it deletes pods in a dry run of the server.
@pytest.mark.parametrize(
    ("where", "options"), [("client", []), ("client", ["--disable-eviction"]), ("server", [])]
)
def test_a_dry_run_changes_nothing(kubectl: Kubectl, where: str, options: list[str]) -> None:
    node = nodes_of(kubectl)[0]
    create(kubectl, pod("bare", node), budget("bare", minAvailable=0))
    running(kubectl, "bare")
    allows(kubectl, "bare", 1)
    before = read(kubectl, "PodDisruptionBudget", "bare")
    done = kubectl.run("drain", node, "--force", f"--dry-run={where}", *options)
    assert done.returncode == 0, done.stderr
    word = "dry run" if where == "client" else "server dry run"
    assert f"node/{node} cordoned ({word})" in done.stdout
    assert f"node/{node} drained ({word})" in done.stdout
    assert "bare" in done.stdout
    assert read(kubectl, "PodDisruptionBudget", "bare") == before
    assert "unschedulable" not in read(kubectl, "Node", node).get("spec", {})
    assert "deletionTimestamp" not in read(kubectl, "Pod", "bare")["metadata"]


@pytest.mark.parametrize("options", [[], ["--disable-eviction"]], ids=["eviction", "deletion"])
def test_the_grace_period_of_a_drain_replaces_that_of_the_pods(
    kubectl: Kubectl, options: list[str]
) -> None:
    node = nodes_of(kubectl)[0]
    create(kubectl, pod("slow", node, terminationGracePeriodSeconds=3600))
    running(kubectl, "slow")
    began = time.monotonic()
    command = ("drain", node, "--force", "--grace-period=1", "--timeout=60s")
    assert kubectl.run(*command, *options).returncode == 0
    assert time.monotonic() - began < 30
    assert pods_on(kubectl, node) == set()


def test_an_unhealthy_pod_is_drained_if_its_budget_says_so(kubectl: Kubectl) -> None:
    node = nodes_of(kubectl)[0]
    unready = {"annotations": {"berth.dev/ready-seconds": "3600"}}
    create(kubectl, pod("sick", node, unready), budget("sick", minAvailable=1))
    running(kubectl, "sick")
    until(lambda: read(kubectl, "PodDisruptionBudget", "sick")["status"].get("expectedPods") == 1)
    assert not read(kubectl, "PodDisruptionBudget", "sick")["status"].get("currentHealthy")
    refused = kubectl.refused("drain", node, "--force", "--timeout=1s")
    assert "Cannot evict pod" in refused
    policy = {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}
    kubectl("patch", "pdb", "sick", "--type=merge", "-p", json.dumps(policy))
    assert kubectl.run("drain", node, "--force", "--timeout=60s").returncode == 0
    assert pods_on(kubectl, node) == set()


def test_two_budgets_over_a_pod_end_a_drain(kubectl: Kubectl) -> None:
    node = nodes_of(kubectl)[0]
    other = {**budget("bare", minAvailable=0), "metadata": {"name": "other"}}
    create(kubectl, pod("bare", node), budget("bare", minAvailable=0), other)
    running(kubectl, "bare")
    refused = kubectl.refused("drain", node, "--force", "--timeout=60s")
    assert "more than one PodDisruptionBudget" in refused
    assert pods_on(kubectl, node) == {"bare"}
