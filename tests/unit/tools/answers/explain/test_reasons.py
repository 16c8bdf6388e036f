"""Each reason for which a plugin can reject a pod, with what `berth explain` says of it, and the
first change that it names, or why there is none. A reason in the code that is not here fails the
test.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import msgspec
import pytest
from click.testing import CliRunner

from berth.tools.views.commands.explain import explain
from tests.docs.blocks import ROOT

PLUGINS = ROOT / "actors/scheduling/plugins"
# The functions whose texts are reasons, and the beginnings of those that are constants.
GIVING = {"unresolvable", "unschedulable", "ClaimProblem", "ClaimError", "VolumeError", "not_found"}
BEGINNINGS = (
    "Insufficient {",
    "Too many",
    "cannot ",
    "invalid resource",
    "node(s) ",
    "pod affinity terms",
    "pod has",
    "resourceclaim not",
)


class Case(msgspec.Struct, frozen=True):
    """A pod that a plugin rejects: the cluster, and the pod's spec, each in YAML.

    `sentence` is a part of the first sentence, and `change` the beginning of the first change.
    """

    cluster: str
    spec: str
    sentence: str
    change: str
    options: str = ""


class Unchanged(msgspec.Struct, frozen=True):
    """A pod that is not helped by any change that is tried, and `why` none is."""

    cluster: str
    spec: str
    sentence: str
    why: str


NODE = """
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {kubernetes.io/hostname: n1, zone: a}},
 spec: {}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}}
"""
WITHOUT_PODS = NODE.replace('"110"', '"0"')
PLAIN = "containers: [{name: c, image: i}]"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
DB = "labelSelector: {matchLabels: {app: db}}, topologyKey: zone"


def busy(spec: str, rest: str = "") -> str:
    """Returns a pod of app=db on n1."""
    return (
        "\n{apiVersion: v1, kind: Pod, metadata: {name: db, labels: {app: db}},"
        f" spec: {{nodeName: n1, {spec}}}{rest}}}\n"
    )


def cluster(*documents: str) -> str:
    return "---".join((NODE, *documents))


def claim(spec: str, metadata: str = "") -> str:
    size = "accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}"
    mode = size.replace("ReadWriteOnce", "ReadWriteOncePod") if "POD" in spec else size
    of = ", ".join(filter(None, (mode, spec.replace("POD", "").strip(" ,"))))
    named = ", ".join(filter(None, ("name: data", metadata)))
    return f"""
{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{{named}}}, spec: {{{of}}}}}
"""


BOUND = (
    'volumeName: pv, storageClassName: ""',
    'annotations: {pv.kubernetes.io/bind-completed: "yes"}',
)
VOLUME = """
{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv, labels: {LABELS}},
 spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], csi: {driver: d.example.com,
 volumeHandle: v}, AFFINITY claimRef: {namespace: default, name: data}}, status: {phase: Bound}}
"""
ELSEWHERE = (
    "nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions:"
    " [{key: topology.kubernetes.io/zone, operator: In, values: [b]}]}]}},"
)
ZONED = NODE.replace("zone: a", "topology.kubernetes.io/zone: a")
CLASS = """
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: c}, provisioner: PROVISIONER,
 volumeBindingMode: MODE}
"""
LATE = CLASS.replace("MODE", "WaitForFirstConsumer")
STATIC = LATE.replace("PROVISIONER", "kubernetes.io/no-provisioner")
ROOM = """
{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: d.example.com},
 spec: {storageCapacity: true}}
---
{apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, metadata: {name: r, namespace: default},
 storageClassName: c, capacity: 512Mi, nodeTopology: {}}
"""
LIMIT = """
{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: n1},
 spec: {drivers: [{name: d.example.com, nodeID: n1, allocatable: {count: 0}}]}}
"""
USING = "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}], " + PLAIN
DISK = "volumes: [{name: v, gcePersistentDisk: {pdName: disk}}], " + PLAIN
DEVICES = """
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: s}, spec: {nodeName: n1,
 driver: d.example.com, pool: {name: n1, generation: 1, resourceSliceCount: COUNT},
 devices: [{name: a PARTS}, {name: b}]}}
"""
POOL = DEVICES.replace("COUNT", "1").replace("PARTS", "")
BROKEN = POOL.replace(
    "{name: a }", "{name: a, consumesCounters: [{counterSet: x, counters: {u: {value: '1'}}}]}"
)
GPU = """
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: gpu METADATA},
 spec: {devices: {requests: [{name: r, exactly: {deviceClassName: CLASS, count: COUNT}}]}} STATUS}
"""
ALLOCATED = (
    ", status: {allocation: {devices: {results: [{request: r, driver: d.example.com, pool: n2,"
    " device: a}]}, nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name,"
    " operator: In, values: [n2]}]}]}}}"
)
WITH_GPU = (
    "resourceClaims: [{name: g, resourceClaimName: gpu}],"
    " containers: [{name: c, image: i, resources: {claims: [{name: g}]}}]"
)


def gpu(count: int = 1, of: str = "gpu", metadata: str = "", status: str = "") -> str:
    parts = {"COUNT": str(count), "CLASS": of, "METADATA": metadata, "STATUS": status}
    text = GPU
    for name, part in parts.items():
        text = text.replace(name, part)
    return text


def node_of(lack: str) -> str:
    return f"stays pending: of 1 node, 1 {lack}"


def terms(kind: str) -> str:
    return f"affinity: {{{kind}: {{{REQUIRED}: [{{{DB}}}]}}}}, {PLAIN}"


ANTI = terms("podAntiAffinity")
NAMES = "{key: metadata.name, operator: In, values: [NAME]}"
BOTH = f"{NAMES.replace('NAME', 'n1')}, {NAMES.replace('NAME', 'n2')}"
TERM = f"nodeSelectorTerms: [{{matchFields: [{BOTH}]}}]"
CONFLICT = f"affinity: {{nodeAffinity: {{{REQUIRED}: {{{TERM}}}}}}}"
SPREAD = (
    "topologySpreadConstraints: [{maxSkew: 1, topologyKey: KEY, whenUnsatisfiable: DoNotSchedule,"
    f" labelSelector: {{matchLabels: {{app: web}}}}}}], {PLAIN}"
)
NEVER_MET = SPREAD.replace("KEY", "zone").replace("maxSkew: 1", "maxSkew: 1, minDomains: 2")
PORT = "containers: [{name: c, image: i, ports: [{hostPort: 80, containerPort: 80}]}]"
RESTARTED = (
    "containers: [{name: c, image: i, restartPolicy: Never, restartPolicyRules: [{action:"
    " RestartAllContainers, exitCodes: {operator: In, values: [1]}}]}]"
)
RESTARTS = "RestartAllContainersOnContainerExits"

CASES: dict[str, Case | Unchanged | str] = {
    "Insufficient {}": Case(
        NODE,
        "containers: [{name: c, image: i, resources: {requests: {cpu: 9}}}]",
        node_of("lacks cpu (9 requested, the largest node has 4)"),
        "Lower the cpu request of container c to 4",
    ),
    "Too many pods": Case(
        f"{NODE.replace('110', '1')}---{busy(PLAIN)}",
        PLAIN,
        node_of("has all the pods that it may have (at most 1)"),
        "Move default/db away from n1",
    ),
    "node(s) were unschedulable": Case(
        NODE.replace("spec: {}", "spec: {unschedulable: true}"),
        PLAIN,
        node_of("is cordoned"),
        "Uncordon n1",
    ),
    "node(s) had untolerated taint(s)": Case(
        NODE.replace("spec: {}", "spec: {taints: [{key: k, effect: NoSchedule}]}"),
        PLAIN,
        node_of("has the taint k:NoSchedule"),
        "Tolerate the taint k:NoSchedule",
    ),
    "node(s) didn't match Pod's node affinity/selector": Case(
        NODE,
        f"nodeSelector: {{zone: b}}, {PLAIN}",
        node_of("does not have zone=b (nodes have a"),
        "Drop zone=b from the node selector",
    ),
    "node(s) didn't match scheduler-enforced node affinity": (
        "tests/unit/tools/answers/explain/test_explain.py: a label of the configuration"
    ),
    "pod affinity terms conflict": Case(
        NODE,
        f"{CONFLICT}, {PLAIN}",
        "stays pending: NodeAffinity says: pod affinity terms conflict",
        "Drop metadata.name in (n2) from the node affinity",
    ),
    "pod affinity: {}": "the API server refuses a selector that cannot be read",
    "node(s) didn't match the requested node name": (
        "only of the next pod of a workload: test_a_template_that_names_a_node"
    ),
    "node(s) didn't have free ports for the requested pod ports": Case(
        cluster(busy(PORT)),
        PORT,
        node_of("has the host port 80/TCP in use (by default/db on n1)"),
        "Use the host port 81 instead of 80",
    ),
    "node(s) didn't match pod affinity rules": Case(
        NODE,
        terms("podAffinity"),
        node_of("has no pod with app=db: there is none in the namespace default"),
        "Drop the pod affinity to app=db in the same zone",
    ),
    "node(s) didn't match pod anti-affinity rules": Case(
        cluster(busy(PLAIN)),
        ANTI,
        node_of("is kept free by the pod's anti-affinity to app=db in the same zone"),
        "Drop the pod anti-affinity to app=db in the same zone",
    ),
    "node(s) didn't satisfy existing pods anti-affinity rules": Case(
        cluster(busy(ANTI.replace("app: db", "app: web"))),
        PLAIN,
        node_of("is kept free by another pod's anti-affinity (in the way: default/db)"),
        "Move default/db away from n1",
    ),
    "node(s) didn't match pod topology spread constraints": Case(
        cluster(busy(PLAIN).replace("app: db", "app: web")),
        NEVER_MET,
        node_of(
            "would have too many of the pods that are spread over zone (maxSkew 1, counted from 0, "
            "with 1 of minDomains 2)"
        ),
        "Raise maxSkew of the spread constraint over zone to 2",
    ),
    "node(s) didn't match pod topology spread constraints (missing required label)": Case(
        NODE,
        SPREAD.replace("KEY", "rack"),
        node_of("does not have the label rack, which the spreading needs"),
        "Let the spread constraint over rack be ScheduleAnyway",
    ),
    "node(s) didn't match Pod's required features": Case(
        NODE,
        RESTARTED,
        node_of(f"does not declare the feature {RESTARTS}, which the pod needs"),
        "Drop the rules with RestartAllContainers",
        f"--feature-gates=NodeDeclaredFeatures=true,{RESTARTS}=true",
    ),
    "node(s) had no available disk": Case(
        cluster(busy(DISK)),
        DISK,
        node_of("is left out by GCE disk disk, as pod default/db on n1 uses it already"),
        "Move default/db away from n1",
    ),
    (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod"
    ): Case(
        cluster(
            VOLUME.replace("LABELS", "").replace("AFFINITY", ""),
            claim(f"{BOUND[0]}, POD", BOUND[1]),
            busy(USING),
        ),
        USING,
        node_of("is left out by claim data, as only one pod may use the claim (ReadWriteOncePod)"),
        "End default/db, which uses the claim data",
    ),
    "node(s) had no available volume zone": Case(
        "---".join(
            (
                ZONED,
                VOLUME.replace("LABELS", "topology.kubernetes.io/zone: b").replace("AFFINITY", ""),
                claim(*BOUND),
            )
        ),
        USING,
        node_of("is left out by claim data, as the labels of pv ask for"),
        "Move the volume pv to the zone a",
    ),
    "node(s) exceed max volume count": Case(
        cluster(LIMIT, VOLUME.replace("LABELS", "").replace("AFFINITY", ""), claim(*BOUND)),
        USING,
        node_of("lacks room for volumes of d.example.com: the pod needs 1"),
        "Add a node like n1",
    ),
    "node(s) didn't match PersistentVolume's node affinity": Case(
        "---".join(
            (
                ZONED,
                VOLUME.replace("LABELS", "").replace("AFFINITY", ELSEWHERE),
                claim(*BOUND),
            )
        ),
        USING,
        node_of("is left out by claim data, as pv can only be used on nodes with"),
        "Move the volume pv to the zone a",
    ),
    "node(s) didn't find available persistent volumes to bind": Case(
        cluster(STATIC, claim("storageClassName: c")),
        USING,
        node_of("is left out by claim data, as there is no volume of class c"),
        "Add a volume of 1Gi of the class c for the claim data",
    ),
    "node(s) did not have enough free storage": Case(
        cluster(LATE.replace("PROVISIONER", "d.example.com"), claim("storageClassName: c"), ROOM),
        USING,
        node_of("is left out by claim data, as d.example.com reports room for 512Mi"),
        "Ask for 512Mi in the claim data",
    ),
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)": (
        "VolumeZone rejects the pod before: persistentvolume not found"
    ),
    "node(s) could not be read": "the Node has to be corrected; the log names its field",
    "cannot allocate all claims": Case(
        cluster(POOL, gpu(3)),
        WITH_GPU,
        node_of("cannot allocate all claims"),
        "Ask for 2 instead of 3 devices in request r of the claim gpu",
    ),
    "cannot fit resource": (
        "NodeResourcesFit rejects the nodes before, unless it is disabled: Insufficient"
    ),
    "cannot schedule extended resource claim": (
        "a claim that is left over from an earlier attempt, which the scheduler deletes itself"
    ),
    "invalid resource pools were encountered": Unchanged(
        cluster(BROKEN, gpu(3)),
        WITH_GPU,
        node_of("invalid resource pools were encountered"),
        "the driver has to correct its slices",
    ),
    "resourceclaim not available on the node": Unchanged(
        cluster(POOL, gpu(status=ALLOCATED)),
        WITH_GPU,
        node_of("resourceclaim not available on the node"),
        "the scheduler gives the devices back itself, once no other pod uses the claim",
    ),
    "pod has unbound immediate PersistentVolumeClaims": Case(
        cluster(
            CLASS.replace("PROVISIONER", "d.example.com").replace("MODE", "Immediate"),
            claim("storageClassName: c"),
        ),
        USING,
        "stays pending: VolumeBinding says: claim data (not bound, and its class c binds immedi",
        "Wait until d.example.com makes the volume of the claim data",
    ),
    "persistentvolumeclaim": Unchanged(
        NODE,
        USING,
        'VolumeRestrictions says: persistentvolumeclaim "data" not found',
        "nobody knows what the claim would ask for",
    ),
    "persistentvolume": Unchanged(
        cluster(claim(*BOUND)),
        USING,
        'VolumeZone says: persistentvolume "pv" not found',
        "a volume that is lost cannot be made again with its data",
    ),
    "storageclass.storage.k8s.io": "VolumeBinding rejects the pod before: unbound immediate",
    "PersistentVolumeClaim had no name": "the API server refuses a claim volume without a name",
    'persistentvolumeclaim "{}" bound to non-existent persistentvolume "{}"': (
        "VolumeZone rejects the pod before: persistentvolume not found"
    ),
    'persistentvolumeclaim "{}" is being deleted': Unchanged(
        cluster(
            LATE.replace("PROVISIONER", "d.example.com"),
            claim("storageClassName: c", 'deletionTimestamp: "2026-01-01T00:00:00Z"'),
        ),
        USING,
        'persistentvolumeclaim "data" is being deleted',
        "no new pod may use the claim",
    ),
    'VolumeBindingMode not set for StorageClass "{}"': "the API server sets the default",
    'node "{}" not found': "a node without an object is not among the nodes",
    "could not translate pv: {}": "the volume has to be corrected",
    "waiting for scheduling gates: [{}]": Case(
        NODE,
        f"schedulingGates: [{{name: example.com/quota}}], {PLAIN}",
        "waits until its scheduling gates are removed: example.com/quota. If it were tried now",
        "Wait until the scheduling gate is removed (example.com/quota)",
    ),
    "request {}: device class {} does not exist": Case(
        cluster(POOL, gpu(of="gpus")),
        WITH_GPU,
        "DynamicResources says: request r: device class gpus does not exist",
        "Name the class gpu instead of gpus in request r of the claim gpu",
    ),
    'could not find ResourceClaim "{}/{}"': Unchanged(
        cluster(POOL),
        WITH_GPU,
        'DynamicResources says: could not find ResourceClaim "default/gpu"',
        "nobody knows what the claim would ask for",
    ),
    'resourceclaim "{}" is being deleted': Unchanged(
        cluster(POOL, gpu(metadata=', deletionTimestamp: "2026-01-01T00:00:00Z"')),
        WITH_GPU,
        'DynamicResources says: resourceclaim "gpu" is being deleted',
        "no new pod may use the claim",
    ),
    'pod "{}": ResourceClaim not created yet': "the resource claim controller has to make it",
    "ResourceClaim {}/{} was not created for Pod {} (Pod is not owner)": (
        "the claim of an earlier pod of the name, which the garbage collector deletes"
    ),
    "more than {} resource claims": "berth's own limit, above that of the API server",
    'pod "{}", spec.resourceClaim "{}": none of the supported fields are set': (
        "the API server refuses such an entry"
    ),
    (
        "resource claim {}, request {}: has subrequests, but the DRAPrioritizedList feature is "
        "disabled"
    ): "a feature gate of the scheduler",
    "resource claim {}, request {}: unknown request type": "the API server refuses such a request",
    "resource claim {} is in the process of being allocated": (
        "it ends by itself, when another pod is bound"
    ),
}
# The ends of a message, which reject nothing, and keys of a plugin's own state.
NO_REJECTIONS = {
    "No preemption victims found for incoming pod",
    "The pods of lower priority are too large for preemption",
    'cannot read "PreFilterVolumeRestrictions" from cycleState',
    "deallocation of ResourceClaim completed",
    "deletion of ResourceClaim completed",
    "no new claims to deallocate",
    "preemption would break a PodDisruptionBudget",
    "preemption: no candidate node for preemption",
    "preemption: {}",
    "still not schedulable",
}


def reasons_in_the_code() -> Iterator[str]:
    for path in sorted(PLUGINS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                yield from (text_of(each) for each in node.args if name in GIVING)
            elif isinstance(node, ast.expr) and text_of(node).startswith(BEGINNINGS):
                yield text_of(node)


def text_of(node: ast.expr) -> str:
    """Returns the text of a literal, with {} for what is put in; "" for other expressions."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        return "".join(map(str, parts))
    return ""


def test_each_reason_in_the_code_has_its_answer() -> None:
    reasons = {*filter(None, reasons_in_the_code())} - NO_REJECTIONS
    # This one is put together from another one.
    reasons.add("node(s) didn't match pod topology spread constraints (missing required label)")
    assert reasons == CASES.keys()


def told(case: Case | Unchanged) -> tuple[str, str, str]:
    """Returns the first line, the first change or "", and Kubernetes' message with all the rest."""
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}}, spec: {SPEC}}"
    text = f"{case.cluster}---\n{pod.replace('SPEC', case.spec)}\n"
    options = case.options.split() if isinstance(case, Case) else []
    runner = CliRunner(env={"COLUMNS": "900"})
    result = runner.invoke(explain, ["-f", "-", "web", *options], input=text)
    assert result.exit_code == 0, result.output
    head, _, tail = result.output.partition("what would change it\n- ")
    return " ".join(head.split("\nnodes that")[0].split()), tail, head


TRIED = {reason: case for reason, case in CASES.items() if not isinstance(case, str)}


@pytest.mark.parametrize("reason", TRIED)
def test_the_reason_is_explained(reason: str) -> None:
    case = TRIED[reason]
    sentence, change, whole = told(case)
    assert reason.startswith("waiting") or reason.split("{}", maxsplit=1)[0] in whole
    assert case.sentence in sentence
    assert change.startswith(case.change) if isinstance(case, Case) else not change


def test_a_template_that_names_a_node() -> None:
    template = f"{{metadata: {{labels: {{app: web}}}}, spec: {{nodeName: n2, {PLAIN}}}}}"
    deployment = (
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector:"
        f" {{matchLabels: {{app: web}}}}, template: {template}}}}}"
    )
    runner = CliRunner(env={"COLUMNS": "900"})
    result = runner.invoke(
        explain, ["-f", "-", "deployment/web"], input=f"{NODE}---\n{deployment}\n"
    )
    assert "1 is not n2, which the pod's spec.nodeName names" in result.output
    assert "- Leave out nodeName: n2: it fits on n1." in result.output


def test_a_rule_that_taints_devices() -> None:
    """The rule is named, and what it taints; in 1.36 the rules are off."""
    rule = (
        "{apiVersion: resource.k8s.io/v1, kind: DeviceTaintRule, metadata: {name: repair}, spec:"
        " {deviceSelector: {driver: d.example.com}, taint: {key: broken, effect: NoSchedule}}}"
    )
    case = Case(
        f"{cluster(POOL, gpu(1))}---\n{rule}\n", WITH_GPU, "", "", "--emulated-version=1.37"
    )
    sentence, change, whole = told(case)
    assert sentence.endswith(node_of("cannot allocate all claims"))
    assert "2 tainted broken:NoSchedule" in whole + change
    assert change.startswith(
        "Tolerate the device taint broken:NoSchedule in request r of the claim gpu: it fits on n1."
        "\n- Delete the DeviceTaintRule repair, which taints devices of driver d.example.com with"
        " broken:NoSchedule: it fits on n1."
    )
    assert "goes to n1" in told(Case(case.cluster, WITH_GPU, "", ""))[0]
