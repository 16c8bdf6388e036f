"""The installed kubectl against a toy cluster and against the API server alone."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.forks import ran
from tests.kit.kubectl import Daemon, Kubectl, bare_demo, until
from tests.kit.programs import needs

pytestmark = [pytest.mark.full, needs("kubectl")]

NODES = 6
POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: NAME}}
spec: {containers: [{name: c, image: nginx, resources: {requests: {cpu: 100m}}}]}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, labels: {app: NAME}}
spec:
  replicas: 4
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {creationTimestamp: null, labels: {app: NAME}}
    spec: {containers: [{name: c, image: "nginx:1", resources: {requests: {cpu: 10m}}}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: NAME}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: NAME}}}
"""


VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: v}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /d}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder = tmp_path_factory.mktemp("demo")
    with bare_demo(folder, NODES) as daemon:
        yield daemon.kubectl


def test_a_pod_runs_and_is_described_with_its_events(demo: Kubectl) -> None:
    assert demo("create", "-f", "-", stdin=POD.replace("NAME", "first")) == "pod/first created\n"
    assert (
        demo("wait", "--for=condition=Ready", "pod/first", "--timeout=60s")
        == "pod/first condition met\n"
    )
    (row,) = demo("get", "pods", "-l", "app=first", "-o", "wide", "--no-headers").splitlines()
    node = row.split()[6]
    assert row.split()[:4] == ["first", "1/1", "Running", "0"]
    described = demo("describe", "pod", "first")
    assert re.search(rf"Node: +{node}/", described)
    assert re.search(
        rf"Scheduled .* default-scheduler +Successfully assigned default/first to {node}", described
    )
    assert "first" in demo("get", "pods", "--field-selector", f"spec.nodeName={node}", "-o", "name")
    assert re.search(r"default +first +100m", demo("describe", "node", node))
    watching = subprocess.Popen(
        ["kubectl", "get", "pod", "first", "-w", "-o", "name"],
        env=demo.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "pod/first\n"
        demo("label", "pod", "first", "seen=yes")
        assert watching.stdout.readline() == "pod/first\n"
    finally:
        watching.kill()
        watching.communicate()
    assert (
        demo("replace", "-f", "-", stdin=demo("get", "pod", "first", "-o", "yaml"))
        == "pod/first replaced\n"
    )
    assert demo("delete", "pod", "first") == 'pod "first" deleted\n'
    assert 'pods "first" not found' in demo.refused("get", "pod", "first")


def test_a_deployment_is_applied_scaled_rolled_and_deleted(demo: Kubectl) -> None:
    manifest = DEPLOYMENT.replace("NAME", "web")
    assert "deployment.apps/web created" in demo("apply", "-f", "-", stdin=manifest)
    demo("scale", "deployment/web", "--replicas=20")
    assert "successfully rolled out" in demo("rollout", "status", "deployment/web", "--timeout=60s")
    pods = demo.read("pods", "-l", "app=web")["items"]
    spread = Counter(pod["spec"]["nodeName"] for pod in pods)
    assert (len(pods), len(spread)) == (20, NODES)
    assert max(spread.values()) - min(spread.values()) <= 1
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}

    assert "configured" in demo(
        "apply", "-f", "-", stdin=manifest.replace("replicas: 4", "replicas: 5")
    )
    demo("set", "image", "deployment/web", "c=nginx:2")
    assert "successfully rolled out" in demo("rollout", "status", "deployment/web", "--timeout=60s")
    assert "2" in demo("rollout", "history", "deployment/web")
    demo("rollout", "undo", "deployment/web")
    demo("rollout", "status", "deployment/web", "--timeout=60s")
    assert demo("get", "deployment", "web", "-o", "wide", "--no-headers").split()[5:7] == [
        "c",
        "nginx:1",
    ]
    printed = demo("get", "all")
    assert all(
        word in printed for word in ("pod/web-", "deployment.apps/web", "replicaset.apps/web-")
    )
    assert "NewReplicaSetAvailable" in demo("describe", "deployment", "web")
    assert "Allowed disruptions" in demo("describe", "pdb", "web")

    for patch, how in (
        (
            '{"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:3"}]}}}}',
            "strategic",
        ),
        ('{"spec": {"replicas": 3}}', "merge"),
        ('[{"op": "add", "path": "/metadata/labels/a", "value": "b"}]', "json"),
    ):
        assert "patched" in demo("patch", "deployment", "web", "--type", how, "-p", patch)
    web = demo.read("deployment", "web")
    (container,) = web["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["resources"]) == ("nginx:3", {"requests": {"cpu": "10m"}})
    assert (web["spec"]["replicas"], web["metadata"]["labels"]) == (3, {"app": "web", "a": "b"})
    assert "serverside-applied" in demo(
        "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifest
    )
    assert demo("diff", "-f", "-", stdin=manifest) == ""
    demo("delete", "-f", "-", stdin=manifest)
    until(lambda: not demo.read("replicasets,pods", "-l", "app=web")["items"])


def test_a_node_is_labelled_tainted_cordoned_and_drained(demo: Kubectl) -> None:
    demo("apply", "-f", "-", stdin=DEPLOYMENT.replace("NAME", "db"))
    demo("rollout", "status", "deployment/db", "--timeout=60s")
    node = demo.read("pods", "-l", "app=db")["items"][0]["spec"]["nodeName"]
    assert demo("label", "node", node, "disk=ssd") == f"node/{node} labeled\n"
    assert demo("get", "nodes", "-l", "disk=ssd", "-o", "name") == f"node/{node}\n"
    assert demo("taint", "node", node, "k=v:PreferNoSchedule") == f"node/{node} tainted\n"
    assert demo("taint", "node", node, "k-") == f"node/{node} untainted\n"
    assert demo("cordon", node) == f"node/{node} cordoned\n"
    assert "SchedulingDisabled" in demo("get", "node", node)
    assert (
        demo("get", "nodes", "--field-selector", "spec.unschedulable=true", "-o", "name")
        == f"node/{node}\n"
    )
    # the budget allows one eviction at a time, so drain has to repeat its requests
    assert "evicted" in demo("drain", node, "--ignore-daemonsets", "--timeout=60s")
    demo("rollout", "status", "deployment/db", "--timeout=60s")
    assert node not in {
        pod["spec"]["nodeName"] for pod in demo.read("pods", "-l", "app=db")["items"]
    }
    assert demo("uncordon", node) == f"node/{node} uncordoned\n"
    assert (
        "taints" not in demo.read("node", node)["spec"]
        or demo.read("node", node)["spec"]["taints"] == []
    )


def test_served_kinds_are_listed_and_explained(demo: Kubectl) -> None:
    resources = demo("api-resources", "--verbs=list", "-o", "name").splitlines()
    assert {
        "pods",
        "deployments.apps",
        "poddisruptionbudgets.policy",
        "resourceclaims.resource.k8s.io",
    } <= {*resources}
    for deprecated in ("endpoints", "componentstatuses"):  # of which the server warns
        resources.remove(deprecated)
    assert "node/node-1" in demo("get", ",".join(resources), "-A", "-o", "name")
    assert "FIELD: nodeName <string>" in demo("explain", "pod.spec.nodeName")
    assert "replicas" in demo("explain", "deployment.spec")
    assert "system-node-critical" in demo("get", "priorityclasses")
    assert demo("get", "--raw", "/healthz") == "ok"
    assert "Server Version: v1.36" in demo("version")


def test_an_impossible_request_is_refused_in_one_line(demo: Kubectl) -> None:
    demo("create", "-f", "-", stdin=POD.replace("NAME", "quiet"))
    demo("wait", "--for=condition=Ready", "pod/quiet", "--timeout=60s")
    far = POD.replace("{name: NAME", "{namespace: nowhere, name: b")
    boat = POD.replace("NAME", "b").replace("spec: {", "spec: {boat: 1, ")
    refusals = [
        (("logs", "quiet", "-c", "x"), "container x is not valid for pod quiet", ""),
        (("exec", "quiet", "--", "ls"), "no script says what it does: the container is hollow", ""),
        (("get", "boats"), 'the server doesn\'t have a resource type "boats"', ""),
        (
            ("get", "pods", "--field-selector", "spec.image=x"),
            "field label not supported: spec.image",
            "",
        ),
        (("create", "-f", "-"), 'pods "quiet" already exists', POD.replace("NAME", "quiet")),
        (("create", "-f", "-"), 'namespaces "nowhere" not found', far),
        (("create", "-f", "-"), 'unknown field "spec.boat"', boat),
        (
            ("create", "-f", "-"),
            "spec.containers: Required value",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: b}",
        ),
        (
            ("create", "-f", "-"),
            "cannot unmarshal",
            POD.replace("NAME", "b").replace("name: c", "name: 5"),
        ),
        (
            ("patch", "pod", "quiet", "-p", '{"spec": {"nodeName": "x"}}'),
            "spec: Forbidden: pod updates may not change fields other than",
            "",
        ),
    ]
    for arguments, why, stdin in refusals:
        complaint = demo.refused(*arguments, stdin=stdin)
        assert why in complaint
        assert len(complaint.splitlines()) == 1
    demo("delete", "pod", "quiet", "--now")


def test_a_server_without_controllers_protects_nothing_for_ever(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "apiserver")
    daemon.kubectl("create", "-f", "-", stdin=VOLUME)
    daemon.kubectl("delete", "pv/v", "pvc/c", "--timeout=10s")  # which waits until they are gone
    assert daemon.end() == 0


@pytest.mark.parametrize(("version", "has_rules"), [("1.36", False), ("1.37", True)])
def test_a_server_has_the_kinds_of_its_version(
    tmp_path: Path, version: str, has_rules: bool
) -> None:
    daemon = Daemon(tmp_path, "apiserver", "--version", version)
    assert f"Server Version: v{version}." in daemon.kubectl("version")
    kinds = daemon.kubectl("api-resources", "-o", "name").split()
    assert ("devicetaintrules.resource.k8s.io" in kinds) == has_rules
    assert daemon.end() == 0


def test_objects_survive_the_killing_of_the_server(tmp_path: Path) -> None:
    data = tmp_path / "objects"
    daemon = Daemon(tmp_path, "apiserver", "--data", str(data))
    for name in ("kept", "gone"):
        daemon.kubectl("create", "-f", "-", stdin=POD.replace("NAME", name))
    daemon.kubectl("delete", "pod", "gone")
    before = daemon.kubectl.read("pods,namespaces,priorityclasses", "-A")["items"]
    assert daemon.end(signal.SIGKILL) != 0
    cut_off = b'{"type":"DELETED","object":{"apiVersion":"v1","kind":"Pod","meta'
    with data.open("ab") as file:
        file.write(cut_off)
    daemon = Daemon(tmp_path, "apiserver", "--data", str(data))
    assert (
        daemon.complaints()
        == f"{data}: left out the last write, which was cut off after {len(cut_off)} bytes\n"
    )
    assert daemon.kubectl.read("pods,namespaces,priorityclasses", "-A")["items"] == before
    assert (
        complaint_of("apiserver", "--data", str(data))
        == f"Error: {data}: another server is using this file"
    )
    assert daemon.end() == 0
    data.write_text("hello\nworld\n")
    said = complaint_of("apiserver", "--data", str(data))
    assert f"{data}, line 1: not a write of an API server" in said


def complaint_of(*arguments: str) -> str:
    """Returns the single line in which a berth command says why it ends."""
    code, output, complaints = ran(*arguments, folder=Path.cwd(), environment=os.environ)
    assert (code, output) == (1, "")
    (line,) = complaints.splitlines()
    return line


STORAGE = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: zonal}
provisioner: hollow.csi.berth.dev
volumeBindingMode: WaitForFirstConsumer
allowedTopologies:
  - matchLabelExpressions:
      - {key: topology.kubernetes.io/zone, values: [zone-a, zone-b]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  storageClassName: zonal
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 2Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: keeper}
spec:
  nodeName: node-2
  containers: [{name: c, image: nginx}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"""


def test_kubectl_sees_and_keeps_volumes(demo: Kubectl) -> None:
    demo("apply", "-f", "-", stdin=STORAGE)
    until(lambda: "ContainerCreating" in demo("get", "pod", "keeper"))
    assert demo("get", "pvc", "data", "--no-headers").split()[:3] == ["data", "Pending", "zonal"]
    demo("annotate", "pvc", "data", "volume.kubernetes.io/selected-node=node-2")
    demo("wait", "pvc/data", "--for=jsonpath={.status.phase}=Bound", "--timeout=60s")
    demo("wait", "pod/keeper", "--for=condition=Ready", "--timeout=60s")
    name = demo.read("pvc", "data")["spec"]["volumeName"]
    assert demo("get", "pv", name, "--no-headers").split()[:6] == [
        name, "2Gi", "RWO", "Delete", "Bound", "default/data",
    ]  # fmt: skip
    (attachment,) = demo("get", "volumeattachments", "--no-headers").splitlines()
    assert attachment.split()[1:5] == ["hollow.csi.berth.dev", name, "node-2", "true"]
    assert len(demo("get", "csinodes", "--no-headers").splitlines()) == NODES
    classes = demo("get", "storageclass", "zonal", "--no-headers").split()
    assert classes[1:4] == ["hollow.csi.berth.dev", "Delete", "WaitForFirstConsumer"]
    told = demo("describe", "pvc", "data")
    assert re.search(r"Used By: +keeper", told)
    assert "Term 0: " in demo("describe", "pv", name)

    demo("delete", "pvc", "data", "--wait=false")
    assert "Terminating" in demo("get", "pvc", "data")
    demo("delete", "pod", "keeper")
    demo("wait", "pvc/data", "--for=delete", "--timeout=60s")
    demo("wait", f"pv/{name}", "--for=delete", "--timeout=60s")
    until(lambda: not demo.read("volumeattachments")["items"])
    demo("delete", "storageclass", "zonal")


def test_kubectl_changes_the_volume_limit_of_a_node(demo: Kubectl) -> None:
    path = "/spec/drivers/0/allocatable/count"
    change = json.dumps([{"op": "replace", "path": path, "value": 1}])
    demo("patch", "csinode", "node-1", "--type=json", "-p", change)
    (driver,) = demo.read("csinode", "node-1")["spec"]["drivers"]
    assert driver["allocatable"] == {"count": 1}
    change = json.dumps([{"op": "replace", "path": "/spec/drivers/0/nodeID", "value": "x"}])
    refusal = demo.refused("patch", "csinode", "node-1", "--type=json", "-p", change)
    assert "field is immutable" in refusal


DEVICES = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: by-hand}
spec:
  driver: gpu.example.com
  pool: {name: node-2, generation: 1, resourceSliceCount: 1}
  nodeName: node-2
  devices: [{name: gpu-0, attributes: {model: {string: A}}, capacity: {memory: {value: 80Gi}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: spare}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: miner}
spec:
  containers: [{name: c, image: nginx, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
"""


def test_kubectl_sees_devices_and_who_has_them(demo: Kubectl) -> None:
    demo("apply", "-f", "-", stdin=DEVICES)
    demo("apply", "-f", "-", stdin=DEVICES)
    demo("wait", "--for=condition=Ready", "pod/miner", "--timeout=60s")
    assert demo("get", "pod", "miner", "-o", "jsonpath={.spec.nodeName}") == "node-2"
    rows = demo("get", "resourceclaims", "--no-headers").splitlines()
    states = {row.split()[0].rpartition("-")[0]: row.split()[1] for row in rows}
    assert states == {"": "pending", "miner-gpu": "allocated,reserved"}
    slices = ["get", "resourceslices", "--field-selector", "spec.nodeName=node-2", "--no-headers"]
    assert demo(*slices).split()[:4] == ["by-hand", "node-2", "gpu.example.com", "node-2"]
    assert "deviceClassName" in demo("explain", "resourceclaim.spec.devices.requests.exactly")
    taint = [{"op": "add", "path": "/spec/devices/0/taints", "value": [{"key": "broken"}]}]
    patch = ["patch", "resourceslice", "by-hand", "--type=json", "-p"]
    refused = demo.refused(*patch, json.dumps(taint))
    assert "spec.devices[0].taints[0].effect: Required value" in refused
    taint[0]["value"] = [{"key": "broken", "effect": "NoExecute"}]
    demo(*patch, json.dumps(taint))
    demo("wait", "--for=delete", "pod/miner", "--timeout=60s")
    until(lambda: len(demo.read("resourceclaims")["items"]) == 1)
    demo("delete", "deviceclass/gpu.example.com", "resourceslice/by-hand")
    demo("delete", "resourceclaimtemplate/gpu", "resourceclaim/spare")
