"""Validation: for each rule a document that breaks only this rule, and documents that
break none.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from berth.actors.scheduling.kube.names import dns_subdomain
from berth.tools.kubernetes.api.rules.fields import invalid
from berth.tools.kubernetes.api.rules.validation import details_of_kind, invalid_message, problems
from tests.kit.cases import documents
from tests.kit.documents import pod

SELECTOR = {"matchLabels": {"app": "x"}}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
AFFINITY = (
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
)


SPREAD = "spec.topologySpreadConstraints[0]"


def container(**fields: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "c", "image": "i", **fields}])


def resources(requests: dict[str, Any], limits: dict[str, Any] | None = None) -> dict[str, Any]:
    return container(resources={"requests": requests, "limits": limits or {}})


def node_affinity(*requirements: dict[str, Any], field: str = "matchExpressions") -> dict[str, Any]:
    required = {"nodeSelectorTerms": [{field: list(requirements)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def spread(**fields: Any) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return {**constraint, **fields}


def test_a_valid_pod_with_all_validated_fields() -> None:
    document = pod(
        initContainers=[{"name": "i", "image": "i", "restartPolicy": "Always"}],
        volumes=[{"name": "v", "emptyDir": {}}],
        resourceClaims=[{"name": "gpu", "resourceClaimName": "claim"}],
        nodeSelector={"example.com/disk": "ssd"},
        priority=7,
        restartPolicy="Never",
        overhead={"cpu": "10m"},
        tolerations=[
            {"operator": "Exists"},
            {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5},
            {"key": "n", "operator": "Gt", "value": "10"},
        ],
        affinity={
            **node_affinity(
                {"key": "a", "operator": "In", "values": ["b"]},
                {"key": "n", "operator": "Gt", "values": ["3"]},
                {"key": "a", "operator": "Exists"},
            ),
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 100,
                        "podAffinityTerm": {"topologyKey": "zone", "labelSelector": SELECTOR},
                    }
                ]
            },
        },
        topologySpreadConstraints=[
            spread(minDomains=2),
            spread(whenUnsatisfiable="ScheduleAnyway"),
        ],
        schedulingGates=[{"name": "example.com/wait"}],
    )
    document["spec"]["containers"][0] |= {
        "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "UDP", "name": "web"}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "resources": {
            "requests": {
                "cpu": "100m",
                "memory": "1Gi",
                "example.com/gpu": "1",
                "hugepages-2Mi": "4Mi",
            },
            "limits": {"cpu": "1", "example.com/gpu": 1, "hugepages-2Mi": "4Mi"},
            "claims": [{"name": "gpu"}],
        },
    }
    assert problems("Pod", document) == []


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        *(
            (container(**fields), f"spec.containers[0]{text}")
            for fields, text in documents("""
{name: ''} => .name: Required value
{image: ''} => .image: Required value
{resources: {requests: {cpu: '-1'}}} =>
    .resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0
{resources: {requests: {cpu: '2'}, limits: {cpu: '1'}}} =>
    .resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1
{resources: {requests: {example.com/gpu: '1'}}} =>
    .resources.limits: Required value: Limit must be set for non overcommitable resources
{resources: {requests: {example.com/gpu: '1'}, limits: {example.com/gpu: '2'}}} =>
    .resources.requests: Invalid value: "1": must be equal to example.com/gpu limit of 2
{resources: {requests: {}, limits: {example.com/gpu: 500m}}} =>
    .resources.limits[example.com/gpu]: Invalid value: "500m": must be an integer
{resources: {requests: {hugepages-2Mi: 2Mi}, limits: {hugepages-2Mi: 2Mi}}} =>
    .resources: Forbidden: HugePages require cpu or memory
{ports: [{containerPort: 70000}]} =>
    .ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive
{ports: [{containerPort: 1, hostPort: 70000}]} =>
    .ports[0].hostPort: Invalid value: 70000: must be between 1 and 65535, inclusive
{ports: [{containerPort: 1, protocol: ICMP}]} =>
    .ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"
{volumeMounts: [{name: v, mountPath: /v}]} => .volumeMounts[0].name: Not found: "v"
{resources: {claims: [{name: gpu}]}} =>
    .resources.claims[0]: Not found: "gpu": must be one of the names in pod.spec.resourceClaims
    which is empty
""")
        ),
        *(
            (pod(topologySpreadConstraints=[spread(**fields)]), f"{SPREAD}{text}")
            for fields, text in documents("""
{maxSkew: 0} => .maxSkew: Invalid value: 0: must be greater than zero
{topologyKey: ''} => .topologyKey: Required value: can not be empty
{whenUnsatisfiable: Never} => .whenUnsatisfiable: Unsupported value: "Never": supported values:
    "DoNotSchedule", "ScheduleAnyway"
{whenUnsatisfiable: ScheduleAnyway, minDomains: 1} => .minDomains: Invalid value: 1: can only use
    minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway
""")
        ),
        *(
            (pod(**fields), text)
            for fields, text in documents("""
{initContainers: [{name: c, image: i}]} => spec.initContainers[0].name: Duplicate value: "c"
{restartPolicy: Sometimes} => spec.restartPolicy: Unsupported value: "Sometimes": supported values:
    "Always", "OnFailure", "Never"
{tolerations: [{key: a, operator: Like}]} => spec.tolerations[0].operator: Unsupported value:
    "Like": supported values: "Equal", "Exists"
{tolerations: [{value: a}]} => spec.tolerations[0].operator: Invalid value: "": operator must be
    Exists when `key` is empty, which means "match all values and all keys"
{tolerations: [{key: a, effect: NoWay}]} => spec.tolerations[0].effect: Unsupported value: "NoWay":
    supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"
{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {}}}} =>
    spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms:
    Required value: must have at least one node selector term
{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101}]}}} =>
    spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid
    value: 101: must be in the range 1-100
{topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule},
  {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]} =>
    spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{zone,
    DoNotSchedule}"
{schedulingGates: [{name: a}, {name: a}]} => spec.schedulingGates[1]: Duplicate value: "a"
{nodeName: n, schedulingGates: [{name: a}]} =>
    spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared
{containers: [{name: c, image: i, resources: {requests: {cpu: '2'}, limits: {}}}], resources:
    {requests: {cpu: 1500m}}} => spec.resources.requests[cpu]: Invalid value: "1500m": must be
    greater than or equal to aggregate container requests of 2
{volumes: [{name: v}]} => spec.volumes[0]: Required value: must specify a volume type
""")
        ),
        ({"metadata": {"name": "a"}, "spec": {}}, "spec.containers: Required value"),
        *(
            (
                pod(affinity=node_affinity(requirement)),
                f"{AFFINITY}[0].matchExpressions[0].values{text}",
            )
            for requirement, text in documents("""
{key: a, operator: In} => : Required value: must be specified when `operator` is 'In' or 'NotIn'
{key: a, operator: Exists, values: [b]} =>
    : Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'
{key: a, operator: Lt, values: ['1', '2']} =>
    : Required value: must be specified single value when `operator` is 'Lt' or 'Gt'
""")
        ),
        (
            pod(
                affinity=node_affinity(
                    {"key": "spec.x", "operator": "In", "values": ["b"]}, field="matchFields"
                )
            ),
            (
                f'{AFFINITY}[0].matchFields[0].key: Invalid value: "spec.x": not a valid '
                f"field selector key"
            ),
        ),
    ],
)
def test_a_pod_with_one_thing_wrong(document: dict[str, Any], expected: str) -> None:
    assert problems("Pod", document) == [expected]


def test_pod_affinity_needs_a_topology_key() -> None:
    affinity = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": SELECTOR}]
        }
    }
    path = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey"
    assert problems("Pod", pod(affinity=affinity))[:2] == [
        f"{path}: Required value: can not be empty",
        f'{path}: Invalid value: "": name part must be non-empty',
    ]


def test_a_resource_without_a_domain_must_be_a_standard_container_resource() -> None:
    path = 'spec.containers[0].resources.requests[gpu]: Invalid value: "gpu"'
    assert problems("Pod", resources({"gpu": "1"})) == [
        f"{path}: must be a standard resource type or fully qualified",
        f"{path}: must be a standard resource for containers",
    ]


@pytest.mark.parametrize(
    ("metadata", "start"),
    [
        *documents("""
{} => metadata.name: Required value: name or generateName is required
{name: A} => metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of
{generateName: A-} => metadata.generateName: Invalid value: "A-": a lowercase RFC 1123 subdomain
{name: a, namespace: a_b} => metadata.namespace: Invalid value: "a_b": a lowercase RFC 1123 label
{name: a, labels: {a b: c}} => metadata.labels: Invalid value: "a b": name part must consist of
{name: a, labels: {a: '-'}} => metadata.labels: Invalid value: "-": a valid label must be an empty
{name: a, labels: {a/b/c: ''}} => metadata.labels: Invalid value: "a/b/c": a valid label key must
{name: a, annotations: {/b: c}} => metadata.annotations: Invalid value: "/b": prefix part must
{name: a, ownerReferences: [{apiVersion: v1, kind: Pod, name: p}]} =>
    metadata.ownerReferences.uid: Invalid value: "": must not be empty
"""),
        (
            {"name": "a" * 254},
            f'metadata.name: Invalid value: "{"a" * 254}": must be no more than 253 characters',
        ),
        (
            {"name": "a", "annotations": {"a": "x" * 262144}},
            "metadata.annotations: Too long: may not be more than",
        ),
    ],
)
def test_metadata(metadata: dict[str, Any], start: str) -> None:
    (problem,) = problems("Pod", {**pod(), "metadata": metadata})
    assert problem.startswith(start)


def test_only_names_of_namespaces_and_services_may_not_have_dots() -> None:
    named = {"metadata": {"name": "a.b-1", "labels": {"Example.com/A": "", "a.b_c": "x"}}}
    assert problems("Pod", {**pod(), **named})[0].startswith(
        'metadata.labels: Invalid value: "Example.com/A"'
    )
    del named["metadata"]["labels"]
    assert problems("Pod", {**pod(), **named}) == []
    (problem,) = problems("Namespace", named)
    assert problem.endswith("must not contain dots")


def test_a_generate_name_suffices() -> None:
    assert problems("Pod", {**pod(), "metadata": {"generateName": "a-"}}) == []


BEFORE = pod(
    activeDeadlineSeconds=10,
    tolerations=[{"key": "a", "operator": "Exists", "effect": "NoExecute"}],
    nodeSelector={"disk": "ssd"},
)


def changed(**spec: Any) -> dict[str, Any]:
    return {**BEFORE, "spec": {**BEFORE["spec"], **spec}}


@pytest.mark.parametrize(
    "after",
    [
        changed(),
        changed(containers=[{"name": "c", "image": "j"}]),
        changed(activeDeadlineSeconds=9),
        changed(hostNetwork=False, volumes=[], affinity=None),
        changed(
            tolerations=[
                {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3},
                {"key": "b", "operator": "Exists"},
            ]
        ),
    ],
)
def test_changes_that_an_update_of_a_pod_may_make(after: dict[str, Any]) -> None:
    assert problems("Pod", after, BEFORE) == []


@pytest.mark.parametrize(
    ("spec", "start"),
    documents("""
{nodeName: n} => spec: Forbidden: pod updates may not change fields other than `spec.containers[*]
{nodeSelector: {disk: ssd, a: b}} => spec: Forbidden: pod updates may not change
{containers: [{name: c, image: i}, {name: c, image: i}]} =>
    spec.containers: Forbidden: pod updates may not add
{tolerations: []} => spec.tolerations: Forbidden: existing toleration can not be modified
{activeDeadlineSeconds: 11} => spec.activeDeadlineSeconds: Invalid value: 11: must be less than
{activeDeadlineSeconds: null} => spec.activeDeadlineSeconds: Invalid value: null: must not update
{schedulingGates: [{name: g}]} =>
    spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling
    gate 'g'
{containers: [{name: c, image: i, resources: {requests: {cpu: '1'}}}]} =>
    spec: Forbidden: pod updates may not change
"""),
)
def test_changes_that_an_update_of_a_pod_may_not_make(spec: dict[str, Any], start: str) -> None:
    refusals = problems("Pod", changed(**spec), BEFORE)
    (refusal,) = (text for text in refusals if not text.startswith("spec.containers[1]"))
    assert refusal.startswith(start)


def test_an_update_may_write_a_quantity_in_another_form() -> None:
    assert problems("Pod", resources({"cpu": "1000m"}), resources({"cpu": 1})) == []


IN_A = {"key": "zone", "operator": "In", "values": ["a"]}
EXISTS = {"key": "disk", "operator": "Exists"}
GATED = pod(
    schedulingGates=[{"name": "g"}, {"name": "h"}],
    nodeSelector={"a": "b"},
    affinity=node_affinity(IN_A),
)


def regated(**spec: Any) -> dict[str, Any]:
    return {**GATED, "spec": {**copy.deepcopy(GATED["spec"]), **spec}}


def test_the_gates_and_the_node_choice_of_a_gated_pod_may_shrink() -> None:
    after = regated(
        schedulingGates=[{"name": "h"}],
        nodeSelector={"a": "b", "c": "d"},
        affinity=node_affinity(IN_A, EXISTS),
    )
    assert problems("Pod", after, GATED) == []
    bare = pod(schedulingGates=[{"name": "g"}])
    assert (
        problems("Pod", {**bare, "spec": {**bare["spec"], "affinity": node_affinity(IN_A)}}, bare)
        == []
    )


@pytest.mark.parametrize(
    ("after", "middle"),
    [
        (regated(nodeSelector={"a": "c"}), "only additions to spec.nodeSelector are allowed"),
        (
            regated(affinity=node_affinity(EXISTS)),
            "only additions are allowed (no mutations or deletions)",
        ),
        (
            regated(affinity=None),
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        ),
        (regated(hostNetwork=True), "pod updates may not change fields other than"),
    ],
)
def test_the_node_choice_of_a_gated_pod_may_not_grow(after: dict[str, Any], middle: str) -> None:
    (problem,) = problems("Pod", after, GATED)
    assert middle in problem


def workload(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "w"}, "spec": {"selector": SELECTOR, "template": TEMPLATE, **spec}}


def test_the_containers_of_a_stateful_set_may_mount_its_claims() -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    containers = [{"name": "c", "image": "i", "volumeMounts": mounts}]
    template = {**TEMPLATE, "spec": {"containers": containers}}
    size = {"requests": {"storage": "1Gi"}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": size}
    claims = [{"metadata": {"name": "data"}, "spec": claim}]
    assert problems("StatefulSet", workload(template=template, volumeClaimTemplates=claims)) == []
    (problem,) = problems("StatefulSet", workload(template=template))
    assert problem.endswith('volumeMounts[0].name: Not found: "data"')
    shadowed = {"containers": containers, "volumes": [{"name": "data", "emptyDir": {}}]}
    template = {**TEMPLATE, "spec": shadowed}
    assert problems("StatefulSet", workload(template=template, volumeClaimTemplates=claims)) == []


def test_the_retention_policy_of_claims() -> None:
    policy = {"whenDeleted": "Delete", "whenScaled": "Keep"}
    assert problems("StatefulSet", workload(persistentVolumeClaimRetentionPolicy=policy)) == [
        (
            "spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "
            '"Keep": supported values: "Retain", "Delete"'
        )
    ]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"])
def test_workloads(kind: str) -> None:
    assert problems(kind, workload(replicas=0)) == []
    *missing, problem = problems(kind, workload(selector=None))
    assert missing == ([] if kind == "DaemonSet" else ["spec.selector: Required value"])
    assert problem.endswith("`selector` does not match template `labels`")
    assert problems(kind, workload(selector={"matchLabels": {"app": "y"}})) == [
        (
            'spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not '
            "match template `labels`"
        )
    ]
    assert problems(kind, workload(minReadySeconds=-1))[0] == (
        "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"
    )
    assert problems(kind, workload(template={**TEMPLATE, "spec": {}})) == [
        "spec.template.spec.containers: Required value"
    ]
    more = {"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "app", "operator": "Exists"}]}
    (problem,) = problems(kind, workload(selector=more), workload())
    assert problem.startswith(
        "spec: Forbidden: updates to" if kind == "StatefulSet" else "spec.selector: Invalid value"
    )


def test_a_replication_controller_has_a_plain_selector() -> None:
    assert problems("ReplicationController", workload(selector={"app": "x"})) == []
    assert problems("ReplicationController", workload(selector=None)) == [
        "spec.selector: Required value"
    ]
    assert len(problems("ReplicationController", workload(selector={"app": "y"}))) == 1


def test_the_restart_policy_of_jobs() -> None:
    never = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
    job = {"metadata": {"name": "j"}, "spec": {"template": never}}
    assert problems("Job", job) == []
    assert problems("Job", {**job, "spec": {"template": TEMPLATE}}) == [
        'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'
    ]
    (problem,) = problems("Job", {**job, "spec": {"template": {**never, "metadata": {}}}}, job)
    assert problem.endswith("field is immutable")


def claim(storage: Any = "1Gi", **spec: Any) -> dict[str, Any]:
    basis = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
    return {"metadata": {"name": "c"}, "spec": {**basis, **spec}}


def volume(**spec: Any) -> dict[str, Any]:
    held = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/a"},
    }
    return {"metadata": {"name": "v"}, "spec": {**held, **spec}}


def csi_node(**driver: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "n"},
        "spec": {"drivers": [{"name": "d", "nodeID": "n", **driver}]},
    }


def in_zone(zone: str) -> dict[str, Any]:
    expression = {"key": "zone", "operator": "In", "values": [zone]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


@pytest.mark.parametrize(
    ("document", "kind"),
    documents("""
{metadata: {name: n}, spec: {taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoExecute}]},
    status: {capacity: {cpu: 4}}} => Node
{metadata: {name: c}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
    => PersistentVolumeClaim
{metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath:
    {path: /a}}} => PersistentVolume
{metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: null,
    csi: {driver: D.e, volumeHandle: h}}} => PersistentVolume
{metadata: {name: s}, provisioner: p, allowedTopologies: [{matchLabelExpressions: [{key: zone,
    values: [a, b]}]}]} => StorageClass
{metadata: {name: c}, storageClassName: s} => CSIStorageCapacity
{metadata: {name: d}, spec: {}} => CSIDriver
{metadata: {name: a}, spec: {attacher: d, nodeName: n, source: {persistentVolumeName: v}}} =>
    VolumeAttachment
{metadata: {name: s}, provisioner: p, volumeBindingMode: Immediate} => StorageClass
{metadata: {name: p}, value: 1000000000} => PriorityClass
{metadata: {name: system-node-critical}, value: 2000001000} => PriorityClass
{metadata: {name: b}, spec: {minAvailable: 50%, selector: {matchLabels: {app: x}}}} =>
    PodDisruptionBudget
{metadata: {name: b}, spec: {maxUnavailable: 0}} => PodDisruptionBudget
{metadata: {name: s}, spec: {ports: [{port: 80, targetPort: web}]}} => Service
{metadata: {name: s}, spec: {clusterIP: None}} => Service
{metadata: {name: l}, spec: {leaseDurationSeconds: 15, leaseTransitions: 0}} => Lease
{metadata: {name: e, namespace: default}, involvedObject: {kind: Node}} => Event
{metadata: {name: c}, data: {a.b: c}} => ConfigMap
{metadata: {name: r}, handler: runc} => RuntimeClass
{metadata: {name: n}, spec: {drivers: [{name: d, nodeID: n}]}} => CSINode
"""),
)
def test_valid_objects_of_other_kinds(document: dict[str, Any], kind: str) -> None:
    assert problems(kind, document) == []
    assert problems(kind, document, document) == []


@pytest.mark.parametrize(
    ("kind", "document", "before", "expected"),
    [
        *documents("""
Node => {metadata: {name: n}, spec: {taints: [{key: a, effect: NoSchedule}, {key: a, effect:
    NoSchedule}]}} => null => spec.taints[1]: Duplicate value:
    {"Key":"a","Value":"","Effect":"NoSchedule","TimeAdded":null}:
    taints must be unique by key and effect pair
Node => {metadata: {name: n}, spec: {}, status: {allocatable: {cpu: '-1'}}} => null =>
    status.allocatable[cpu]: Invalid value: "-1": must be greater than or equal to 0
PersistentVolumeClaim => {metadata: {name: c}, spec: {accessModes: [ReadWriteOnce], resources:
  {requests: {storage: '0'}}}} => null =>
    spec.resources[storage]: Invalid value: "0": must be greater than zero
PersistentVolumeClaim => {metadata: {name: c}, spec: {accessModes: [], resources: {requests:
  {storage: 1Gi}}}} => null =>
    spec.accessModes: Required value: at least 1 access mode is required
PersistentVolumeClaim => {metadata: {name: c}, spec: {accessModes: [ReadWriteOnce], resources:
  {requests: {storage: 1Gi}}, volumeName: w}} => {metadata: {name: c}, spec: {accessModes:
  [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, volumeName: v}} =>
    spec: Forbidden: spec is immutable after creation except resources.requests and
    volumeAttributesClassName for bound claims
PersistentVolume => {metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], capacity: {cpu: 1},
    hostPath: {path: /a}}} => null => spec.capacity: Unsupported value: {"cpu":1}: supported values:
    "storage"
PersistentVolume => {metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], capacity: {storage:
    1Gi}, hostPath: null}} => null => spec: Required value: must specify a volume type
PersistentVolume => {metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], capacity: {storage:
  1Gi}, hostPath: {path: /b}}} => {metadata: {name: v}, spec: {accessModes: [ReadWriteOnce],
  capacity: {storage: 1Gi}, hostPath: {path: /a}}} =>
    spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation
StorageClass => {metadata: {name: s}} => null => provisioner: Required value
StorageClass => {metadata: {name: s}, provisioner: p, volumeBindingMode: Late} => null =>
    volumeBindingMode: Unsupported value: "Late": supported values: "Immediate",
    "WaitForFirstConsumer"
PriorityClass => {metadata: {name: p}, value: 1000000001} => null =>
    value: Forbidden: maximum allowed value of a user defined priority is 1000000000
PriorityClass => {metadata: {name: p}, value: 2} => {metadata: {name: p}, value: 1} =>
    value: Forbidden: may not be changed in an update.
PodDisruptionBudget => {metadata: {name: b}, spec: {minAvailable: 1, maxUnavailable: 1}} => null =>
    spec: Invalid value:
    {"MinAvailable":1,"Selector":null,"MaxUnavailable":1,"UnhealthyPodEvictionPolicy":null}:
    minAvailable and maxUnavailable cannot be both set
PodDisruptionBudget => {metadata: {name: b}, spec: {minAvailable: 101%}} => null =>
    spec.minAvailable: Invalid value: "101%": must not be greater than 100%
Service => {metadata: {name: s}, spec: {}} => null => spec.ports: Required value
Lease => {metadata: {name: l}, spec: {leaseDurationSeconds: 0}} => null =>
    spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0
Event => {metadata: {name: e, namespace: a}, involvedObject: {namespace: b}} => null =>
    involvedObject.namespace: Invalid value: "b": does not match event.namespace
CSINode => {metadata: {name: n}, spec: {drivers: [{name: d}]}} => null =>
    spec.drivers[0].nodeID: Required value
CSINode => {metadata: {name: n}, spec: {drivers: [{name: d, nodeID: n, topologyKeys: [zone]}]}} =>
  {metadata: {name: n}, spec: {drivers: [{name: d, nodeID: n, topologyKeys: [rack]}]}} =>
    spec.drivers: Invalid value: {"name":"d","nodeID":"n","topologyKeys":["zone"]}: field is
    immutable
PersistentVolume => {metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], capacity: {storage:
    1Gi}, hostPath: null, csi: {driver: d}}} => null => spec.csi.volumeHandle: Required value
PersistentVolume => {metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], capacity: {storage:
  1Gi}, hostPath: {path: /a}, volumeMode: Block}} => {metadata: {name: v}, spec: {accessModes:
  [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /a}, volumeMode: Filesystem}} =>
    volumeMode: Invalid value: "Block": field is immutable
PersistentVolume => {metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], capacity: {storage:
  1Gi}, hostPath: {path: /a}}} => {metadata: {name: v}, spec: {accessModes: [ReadWriteOnce],
  capacity: {storage: 1Gi}, hostPath: {path: /a}, nodeAffinity: {required: {nodeSelectorTerms:
  [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}} =>
    nodeAffinity: Invalid value: null: field is immutable, except for updating from beta label to GA
StorageClass => {metadata: {name: s}, provisioner: p, allowedTopologies: [{matchLabelExpressions:
    [{key: zone}]}]} => null => allowedTopologies[0].matchLabelExpressions[0].values: Required value
StorageClass => {metadata: {name: s}, provisioner: p, allowedTopologies: [{matchLabelExpressions:
  [{key: zone, values: [a, a]}]}]} => null =>
    allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "a"
StorageClass => {metadata: {name: s}, provisioner: p, allowedTopologies: [{matchLabelExpressions:
  [{key: zone, values: [a]}, {key: zone, values: [b]}]}]} => null =>
    allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "zone"
CSIDriver => {metadata: {name: d}, spec: {attachRequired: false}} => {metadata: {name: d}, spec:
    {attachRequired: true}} => spec.attachedRequired: Invalid value: false: field is immutable
CSIDriver => {metadata: {name: d}, spec: {fsGroupPolicy: Some}} => null => spec.fsGroupPolicy:
    Unsupported value: "Some": supported values: "File", "None", "ReadWriteOnceWithFSType"
CSIStorageCapacity => {metadata: {name: c}, storageClassName: s, capacity: '-1'} => null =>
    capacity: Invalid value: "-1": must be greater than or equal to 0
CSIStorageCapacity => {metadata: {name: c}, storageClassName: t} => {metadata: {name: c},
    storageClassName: s} => storageClassName: Invalid value: "t": field is immutable
VolumeAttachment => {metadata: {name: a}, spec: {attacher: '', nodeName: n, source:
    {persistentVolumeName: v}}} => null => spec.attacher: Required value
VolumeAttachment => {metadata: {name: a}, spec: {attacher: d, nodeName: n, source: {}}} => null =>
    spec.source: Required value: must specify exactly one of inlineVolumeSpec and
    persistentVolumeName
"""),
        (
            "PersistentVolume",
            volume(hostPath=None, csi={"driver": "d/e", "volumeHandle": "h"}),
            None,
            invalid("spec.csi.driver", "d/e", dns_subdomain("d/e")[0]),
        ),
    ],
)
def test_other_kinds_with_one_thing_wrong(
    kind: str, document: dict[str, Any], before: dict[str, Any] | None, expected: str
) -> None:
    assert problems(kind, document, before) == [expected]


def test_the_volume_limit_of_a_node_may_change() -> None:
    before = csi_node(allocatable={"count": 3})
    assert problems("CSINode", csi_node(allocatable={"count": 1}), before) == []
    assert problems("CSINode", {"metadata": {"name": "n"}, "spec": {"drivers": []}}, before) == []


def test_a_volume_may_get_its_node_affinity_later() -> None:
    assert problems("PersistentVolume", volume(nodeAffinity=in_zone("a")), volume()) == []


def test_binding_a_claim_sets_its_volume_and_may_set_its_class() -> None:
    bound = claim(volumeName="v", storageClassName="s")
    assert problems("PersistentVolumeClaim", bound, claim()) == []


def test_a_claim_grows_once_it_is_bound_and_never_below_what_it_has() -> None:
    larger, smaller = claim("2Gi"), claim("1Mi")
    (problem,) = problems("PersistentVolumeClaim", larger, claim())
    assert problem.startswith("spec: Forbidden: spec is immutable")
    status = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    before = {**claim(), "status": status}
    assert problems("PersistentVolumeClaim", {**larger, "status": status}, before) == []
    assert problems("PersistentVolumeClaim", {**smaller, "status": status}, before) == [
        "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
    ]


def test_the_refusal_lists_each_problem_once() -> None:
    a, b = "spec.a: Required value", 'spec.b: Invalid value: "x": must be: so'
    assert invalid_message("Pod", "p", [a]) == 'Pod "p" is invalid: spec.a: Required value'
    message = invalid_message("Deployment", "d", [a, b, a])
    assert message == f'Deployment.apps "d" is invalid: [{a}, {b}]'
    assert details_of_kind("apps", "Deployment", "d", [a, b]) == {
        "name": "d",
        "group": "apps",
        "kind": "Deployment",
        "causes": [
            {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.a"},
            {
                "reason": "FieldValueInvalid",
                "message": 'Invalid value: "x": must be: so',
                "field": "spec.b",
            },
        ],
    }


def test_a_claim_of_a_pod_is_named_or_made_from_a_template() -> None:
    def refusals(**claim: Any) -> list[str]:
        return problems("Pod", pod(resourceClaims=[{"name": "gpu", **claim}]))

    place, fields = "spec.resourceClaims[0]", "`resourceClaimName`, `resourceClaimTemplateName`"
    assert refusals(resourceClaimTemplateName="t") == []
    (problem,) = refusals()
    assert problem.startswith(f"{place}: Invalid value: ")
    assert problem.endswith(f"must specify one of: {fields}")
    (problem,) = refusals(resourceClaimName="c", resourceClaimTemplateName="t")
    assert problem.endswith(f"at most one of {fields.replace(',', ' or')} may be specified")
    (problem,) = refusals(resourceClaimName="no/claim")
    assert problem.startswith(f'{place}.resourceClaimName: Invalid value: "no/claim"')


def test_a_container_uses_claims_of_its_pod_once() -> None:
    def refusals(*claims: dict[str, Any]) -> list[str]:
        user = {"name": "c", "image": "i", "resources": {"claims": list(claims)}}
        claim = {"name": "gpu", "resourceClaimName": "claim"}
        return problems("Pod", pod(containers=[user], resourceClaims=[claim]))

    place = "spec.containers[0].resources.claims"
    first, second = {"name": "gpu", "request": "a"}, {"name": "gpu", "request": "b"}
    assert refusals(first, second) == []
    assert refusals(first, first) == [f'{place}[1]: Duplicate value: "gpu/a"']
    assert refusals({"name": "gpu"}, first) == [f'{place}[1]: Duplicate value: "gpu"']
    (problem,) = refusals({"name": "disk"})
    assert problem.startswith(f'{place}[0]: Not found: "disk": must be one of the names in')
    assert refusals({"name": ""}) == [f"{place}[0]: Required value"]
