"""What is asked about: pods by their names, the next pods of workloads, and where a pod stands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from berth.tools.answers.explain.subject import Subject, standing
from berth.tools.views.commands.explain import explain

NODE = """
apiVersion: v1
kind: Node
metadata: {name: NAME, labels: {kubernetes.io/hostname: NAME}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: shop}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "CPU"}}}], REST}
"""
WORKLOADS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template: &template
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: count}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: i, volumeMounts: [{name: data, mountPath: /d}]}]}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec:
        storageClassName: lazy
        accessModes: [ReadWriteOnce]
        resources: {requests: {storage: 1Gi}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: lazy}
provisioner: csi.example.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: i}]}
"""


def pod(name: str = "p", cpu: str = "1", rest: str = "priority: 0") -> str:
    return POD.replace("NAME", name).replace("CPU", cpu).replace("REST", rest)


def node(name: str = "node-1") -> str:
    return NODE.replace("NAME", name)


def asked(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(explain, arguments, input=stdin)


def told(*arguments: str, stdin: str = "") -> str:
    """Returns the standard output of a question that is answered, with single spaces."""
    result = asked(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("text", "namespace", "subject"),
    [
        ("web", "default", "pod default/web"),
        ("web", "shop", "pod shop/web"),
        ("shop/web", "default", "pod shop/web"),
        ("deploy/web", "shop", "Deployment shop/web"),
        ("deployments.apps/web", "shop", "Deployment shop/web"),
        ("sts/db", "default", "StatefulSet default/db"),
        ("po/web", "default", "pod default/web"),
        ("Job/count", "default", "Job default/count"),
    ],
)
def test_names_are_read_as_kubectl_reads_them(text: str, namespace: str, subject: str) -> None:
    assert str(Subject.parse(text, namespace)) == subject


def test_standard_input_an_argument_and_a_namespace() -> None:
    cluster = f"{node()}---{pod()}"
    for arguments in (("shop/p",), ("p", "-n", "shop"), ("--pod", "p", "-n", "shop")):
        assert "shop/p goes to node-1" in told("-f", "-", *arguments, stdin=cluster)
    assert "shop/p goes to node-1" in told("-f", "-", "p", stdin=cluster)
    assert "shop/p goes to node-1" in told("-f", "-", "po/p", stdin=cluster)
    twice = asked("-f", "-", "p", "--pod", "p", stdin=cluster)
    assert twice.exit_code == 2
    assert "expected the pod once" in twice.stderr


def test_a_name_in_several_namespaces() -> None:
    elsewhere = f"{node()}---{pod()}---{pod().replace('shop', 'test')}"
    unclear = asked("-f", "-", "p", stdin=elsewhere)
    assert unclear.exit_code == 1
    problem = "pod default/p is not in the cluster; p is in shop, test: choose with -n"
    assert problem in unclear.stderr
    everywhere = f"{elsewhere}---{pod().replace('shop', 'default')}"
    assert "default/p goes to node-1" in told("-f", "-", "p", stdin=everywhere)
    wrong = asked("-f", "-", "p", "-n", "tset", stdin=elsewhere)
    assert "pod tset/p is not in the cluster; p is in shop, test" in wrong.stderr
    assert asked("-f", "-", "q", stdin=elsewhere).stderr.endswith("q is not in the cluster\n")


def test_a_mistyped_name() -> None:
    cluster = f"{node()}---{pod().replace('name: p', 'name: payments-1')}"
    wrong = asked("-f", "-", "-n", "shop", "paymnets-1", stdin=cluster)
    assert wrong.exit_code == 1
    problem = "pod shop/paymnets-1 is not in the cluster, did you mean payments-1?"
    assert wrong.stderr.endswith(f"{problem}\n")
    unstated = asked("-f", "-", "paymnets-1", stdin=cluster)
    assert unstated.stderr.endswith("is not in the cluster, did you mean shop/payments-1?\n")
    far = asked("-f", "-", "-n", "shop", "web", stdin=cluster)
    assert far.stderr.endswith("pod shop/web is not in the cluster\n")


@pytest.mark.parametrize(
    ("workload", "name"),
    [
        ("deployment/web", "default/web-new"),
        ("job/count", "default/count-new"),
        ("statefulset/db", "default/db-0"),
        ("ds/agent", "default/agent-new"),
    ],
)
def test_the_next_pod_of_a_workload(workload: str, name: str) -> None:
    cluster = f"{node()}---{WORKLOADS}"
    assert f"{name} goes to node-1" in told("-f", "-", workload, stdin=cluster)


def test_only_the_next_pod_of_a_daemon_set_tolerates_a_cordon() -> None:
    cluster = f"{node()}spec: {{unschedulable: true}}\n---{WORKLOADS}"
    assert "default/agent-new goes to node-1" in told("-f", "-", "ds/agent", stdin=cluster)
    pending = asked("-f", "-", "deployment/web", stdin=cluster).stdout
    assert "default/web-new stays pending: of 1 node, 1 is cordoned" in pending


def test_the_next_pod_of_a_stateful_set_follows_the_last() -> None:
    running = pod("db-0").replace("shop", "default")
    cluster = f"{node()}---{WORKLOADS}---{running}"
    assert "default/db-1 goes to node-1" in told("-f", "-", "sts/db", stdin=cluster)


GATED = "schedulingGates: [{name: example.com/quota}]"
STANDINGS = [
    (GATED, "", "waits until its scheduling gates are removed: example.com/quota"),
    ("nodeName: node-1", "phase: Running", "already runs on node-1"),
    ("nodeName: node-1", "phase: Pending", "is already bound to node-1"),
    ("nodeName: node-2", "phase: Pending", "is already bound to node-2, which does not exist"),
    ("nodeName: node-2", "phase: Succeeded", "has ended: its phase is Succeeded"),
    ("priority: 0", "nominatedNodeName: node-1",
     "is nominated to node-1, where it waits for room or is being bound"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "status", "sentence"), STANDINGS)
def test_why_a_pod_is_not_tried_now_is_said_first(spec: str, status: str, sentence: str) -> None:
    cluster = f"{node()}---{pod(rest=spec)}status: {{{status}}}\n"
    answer = told("-f", "-", "shop/p", stdin=cluster)
    assert answer.startswith(f"shop/p {sentence}. If it were tried now:")
    assert "shop/p would go to node-1" in answer
    document = json.loads(asked("-f", "-", "shop/p", "-o", "json", stdin=cluster).stdout)
    assert document["standing"] == [sentence]


def test_who_evicted_a_pod_is_said_before_it_is_tried() -> None:
    status = "{phase: Failed, reason: Evicted, message: 'The node was low on resource: memory. '}"
    cluster = f"{node()}---{pod(rest='nodeName: node-2')}status: {status}\n"
    answer = told("-f", "-", "shop/p", stdin=cluster)
    assert answer.startswith(
        "shop/p has ended: its phase is Failed. shop/p was ended by the kubelet of node-2 "
        "(Evicted): The node was low on resource: memory. shop/p has no replacement, because no "
        "controller owns it. If it were tried now:"
    )


def test_a_pod_that_is_being_deleted_and_one_that_may_be_tried() -> None:
    deleted = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert standing(deleted) == ["is being deleted since 2026-01-01T00:00:00Z"]
    assert standing({"metadata": {}, "spec": {}, "status": {}}) == []


def test_a_pod_of_another_scheduler_is_said_to_be_so() -> None:
    cluster = f"{node()}---{pod(rest='schedulerName: other')}"
    result = asked("-f", "-", "shop/p", stdin=cluster)
    assert result.exit_code == 1
    assert "shop/p belongs to the scheduler 'other' by its spec.schedulerName" in result.stderr
    assert "this configuration has default-scheduler" in result.stderr
    listed = asked("-f", "-", "-A", "-o", "json", stdin=cluster)
    assert '"decision":"belongs to the scheduler \'other\' by its' in listed.stdout


def test_without_a_name_each_pending_pod_has_a_row() -> None:
    pods = (
        pod("fits"),
        pod("huge", "9"),
        pod("gated", rest=GATED),
        pod("runs", rest="nodeName: node-1"),
    )
    cluster = "---".join((node(), *pods))
    document = yaml.safe_load(asked("-f", "-", "-A", "-o", "yaml", stdin=cluster).stdout)
    decisions = {item["name"]: item["decision"] for item in document["items"]}
    assert decisions["fits"] == "goes to node-1"
    assert decisions["gated"] == "would go to node-1"
    assert decisions["huge"].startswith(
        "stays pending: of 1 node, 1 lacks cpu (9 requested, the largest node has 4)"
    )
    assert decisions.keys() == {"fits", "huge", "gated"}
    assert "shop/fits │ goes to node-1" in told("-f", "-", "-n", "shop", stdin=cluster)
    shown = told("-f", "-", stdin=cluster)
    assert "no pod is pending in the namespace default" in shown
    assert "other namespaces have 3 pending pods: -A shows them" in shown
    assert "other namespaces" not in told("-f", "-", "-A", stdin=cluster)


def test_files_without_a_node_are_said_to_have_none() -> None:
    result = asked("-f", "-", "shop/p", stdin=pod())
    assert result.exit_code == 1
    assert "the files have no Node: add one" in result.stderr


LEFT_OUT = """
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: api}
---
apiVersion: v1
kind: Service
metadata: {name: web, uid: of-a-dump}
spec: {ports: [{port: 80}]}
"""


def test_what_does_not_concern_the_scheduler_is_left_out_with_a_line(tmp_path: Path) -> None:
    (tmp_path / "objects.yaml").write_text("---".join((node(), pod(), LEFT_OUT)))
    (tmp_path / "kustomization.yaml").write_text("resources: [objects.yaml]\n")
    result = asked("-f", str(tmp_path), "shop/p")
    assert result.exit_code == 0, result.output
    assert result.stderr == (
        "left out: 2 Ingress, 1 Kustomization, 1 NetworkPolicy: nothing for the scheduler\n"
    )


def test_a_kind_with_a_typing_mistake_is_left_out_with_a_hint() -> None:
    wrong = "\napiVersion: apps/v1\nkind: Deploymet\nmetadata: {name: web}\n"
    result = asked("-f", "-", "shop/p", stdin="---".join((node(), pod(), wrong, wrong)))
    assert result.exit_code == 0, result.output
    assert result.stderr == (
        "left out: 2 Deploymet (did you mean Deployment?): nothing for the scheduler\n"
    )


def test_the_best_nodes_are_shown() -> None:
    cluster = "---".join([*(node(f"n{number}") for number in range(30)), pod()])
    assert told("-f", "-", "shop/p", stdin=cluster).count("│ n") == 20
    answer = told("-f", "-", "shop/p", "--top", "3", stdin=cluster)
    assert answer.count("│ n") == 3
    assert "and 27 more" in answer


def test_feature_gates_are_taken_in_both_forms() -> None:
    cluster = f"{node()}---{pod()}"
    gates = "DynamicResourceAllocation=true", "DRAPartitionableDevices=false"
    for options in (
        ("--feature-gates", ",".join(gates)),
        ("--feature-gates", gates[0], "--feature-gates", gates[1]),
    ):
        told("-f", "-", "shop/p", *options, stdin=cluster)


IDLE = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: mill, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: mill}}
  template:
    metadata: {labels: {app: mill}}
    spec: {containers: [{name: c, image: busybox, resources: {requests: {cpu: "99"}}}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: shop}
spec:
  schedule: "0 0 * * *"
  jobTemplate:
    spec:
      template:
        spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: drivers, namespace: shop}
spec:
  selector: {matchLabels: {app: drivers}}
  template:
    metadata: {labels: {app: drivers}}
    spec: {nodeSelector: {gpu: "yes"}, containers: [{name: c, image: busybox}]}
"""


def test_workloads_without_pods_are_counted_and_one_pod_of_each_is_tried() -> None:
    cluster = "---".join((node(), IDLE))
    shown = told("-f", "-", "-n", "shop", stdin=cluster)
    assert "no pod is pending in the namespace shop 2 workloads have no pods here" in shown
    assert "of one pod of each, 1 could not be placed" in shown
    shown = told("-f", "-", stdin=cluster)
    assert "other namespaces have 2 workloads without pods: -A shows them" in shown
    document = yaml.safe_load(asked("-f", "-", "-A", "-o", "yaml", stdin=cluster).stdout)
    assert [(of["workload"], of["asks"], of["placed"]) for of in document["withoutPods"]] == [
        ("CronJob shop/nightly", 1, True),
        ("Deployment shop/mill", 2, False),
    ]
    assert "shop/nightly-new goes to node-1" in told("cronjob/nightly", "-f", "-", stdin=cluster)
