"""Tables: the cells that kubectl prints for each kind, and the durations in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from berth.tools.kubernetes.api.tables import COLUMNS, table
from berth.tools.kubernetes.api.tables.duration import human
from berth.tools.kubernetes.api.types.api_documents import Document, RefusedError
from berth.tools.kubernetes.api.types.resources import BY_PATH, KINDS, Kind
from tests.kit.cases import documents

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
KIND = {kind.plural: kind for kind in KINDS}


def ago(**span: int) -> str:
    return (NOW - timedelta(**span)).strftime("%Y-%m-%dT%H:%M:%SZ")


def aged(metadata: Document | None = None, **fields: Any) -> Document:
    """Returns an object that is five minutes old."""
    return {
        "metadata": {"name": "it", "creationTimestamp": ago(minutes=5), **(metadata or {})},
        **fields,
    }


def shown(
    plural: str, document: Document, *, wide: bool = False, group: str | None = None
) -> dict[str, Any]:
    """Returns the cells of an object's row by column."""
    kind = KIND[plural] if group is None else Kind(group, "v1", plural, plural, namespaced=True)
    answer = table(kind, [document], revision="7", now=NOW)
    cells = answer["rows"][0]["cells"]
    pairs = zip(answer["columnDefinitions"], cells, strict=True)
    return {column["name"]: cell for column, cell in pairs if wide or column["priority"] == 0}


@pytest.mark.parametrize(
    ("span", "text"),
    [
        ({"seconds": -2}, "<invalid>"),
        ({"milliseconds": -1999}, "0s"),
        ({"seconds": 0}, "0s"),
        ({"milliseconds": 59_999}, "59s"),
        ({"seconds": 119}, "119s"),
        ({"seconds": 120}, "2m"),
        ({"seconds": 330}, "5m30s"),
        ({"seconds": 599}, "9m59s"),
        ({"minutes": 10, "seconds": 59}, "10m"),
        ({"minutes": 179}, "179m"),
        ({"hours": 3}, "3h"),
        ({"hours": 3, "minutes": 12, "seconds": 59}, "3h12m"),
        ({"hours": 7, "minutes": 59}, "7h59m"),
        ({"hours": 8, "minutes": 30}, "8h"),
        ({"hours": 47, "minutes": 59}, "47h"),
        ({"hours": 48}, "2d"),
        ({"days": 2, "hours": 5}, "2d5h"),
        ({"days": 7, "hours": 23}, "7d23h"),
        ({"days": 8, "hours": 23}, "8d"),
        ({"days": 45}, "45d"),
        ({"days": 729}, "729d"),
        ({"days": 730}, "2y"),
        ({"days": 740}, "2y10d"),
        ({"days": 365 * 8 - 1}, "7y364d"),
        ({"days": 365 * 8 + 100}, "8y"),
    ],
)
def test_durations_are_printed_as_in_kubectl(span: dict[str, int], text: str) -> None:
    assert human(timedelta(**span)) == text


# Pods

RUNNING = {"ready": True, "started": True, "state": {"running": {}}}
WAITING = {"state": {"waiting": {"reason": "PodInitializing"}}}
DONE = {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}


def waiting(reason: str) -> Document:
    return {"state": {"waiting": {"reason": reason}}}


def terminated(code: int, reason: str = "", signal: int = 0) -> Document:
    return {"state": {"terminated": {"exitCode": code, "reason": reason, "signal": signal}}}


def restarted(times: int, status: Document, **span: int) -> Document:
    return {
        **status,
        "restartCount": times,
        "lastState": {"terminated": {"finishedAt": ago(**span)}},
    }


def conditions(**statuses: str) -> list[Document]:
    return [{"type": type_, "status": status} for type_, status in statuses.items()]


def pod(
    *containers: Document,
    inits: tuple[Document, ...] = (),
    sidecars: tuple[int, ...] = (),
    metadata: Document | None = None,
    **status: Any,
) -> Document:
    """Returns a pod with these container statuses. `sidecars` are the positions of the init
    containers that always restart.
    """
    init_specs: list[Document] = [{"name": f"i{n}"} for n in range(len(inits))]
    for n in sidecars:
        init_specs[n]["restartPolicy"] = "Always"
    return aged(
        metadata,
        spec={
            "containers": [{"name": f"c{n}"} for n in range(len(containers) or 1)],
            "initContainers": init_specs,
        },
        status={
            "phase": "Running",
            "containerStatuses": [{"name": f"c{n}", **each} for n, each in enumerate(containers)],
            "initContainerStatuses": [{"name": f"i{n}", **each} for n, each in enumerate(inits)],
            **status,
        },
    )


DELETED = {"deletionTimestamp": ago(seconds=5)}
GATED = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]


PODS: dict[str, tuple[Document, str]] = {
    "new": (aged(spec={"containers": [{}]}), "0/1 Pending 0"),
    "pending": (pod(phase="Pending"), "0/1 Pending 0"),
    "gated": (pod(phase="Pending", conditions=GATED), "0/1 SchedulingGated 0"),
    "creating": (pod(waiting("ContainerCreating"), phase="Pending"), "0/1 ContainerCreating 0"),
    "running": (pod(RUNNING, RUNNING), "2/2 Running 0"),
    "not ready": (pod({**RUNNING, "ready": False}), "0/1 Running 0"),
    "terminating": (pod(RUNNING, metadata=DELETED), "1/1 Terminating 0"),
    "deleted, node lost": (pod(RUNNING, metadata=DELETED, reason="NodeLost"), "1/1 Unknown 0"),
    "node lost": (pod(RUNNING, reason="NodeLost"), "1/1 NodeLost 0"),
    "completed": (pod(DONE, phase="Succeeded"), "0/1 Completed 0"),
    "deleted, completed": (pod(DONE, phase="Succeeded", metadata=DELETED), "0/1 Completed 0"),
    "evicted": (pod(phase="Failed", reason="Evicted"), "0/1 Evicted 0"),
    "error": (pod(terminated(1, "Error"), phase="Failed"), "0/1 Error 0"),
    "oom": (pod(terminated(137, "OOMKilled")), "0/1 OOMKilled 0"),
    "exit code": (pod(terminated(3)), "0/1 ExitCode:3 0"),
    "signal": (pod(terminated(137, signal=9)), "0/1 Signal:9 0"),
    "first wins": (
        pod(waiting("CrashLoopBackOff"), terminated(1, "Error")),
        "0/2 CrashLoopBackOff 0",
    ),
    "one done, ready": (pod(DONE, RUNNING, conditions=conditions(Ready="True")), "1/2 Running 0"),
    "one done, not ready": (
        pod(DONE, RUNNING, conditions=conditions(Ready="False")),
        "1/2 NotReady 0",
    ),
    "a failure behind a completion": (
        pod(DONE, terminated(1, "Error"), phase="Failed"),
        "0/2 Error 0",
    ),
    "restarts": (
        pod(restarted(3, waiting("CrashLoopBackOff"), minutes=5), restarted(1, RUNNING, hours=9)),
        "1/2 CrashLoopBackOff 4 (5m ago)",
    ),
    "restarts of unknown time": (pod({**RUNNING, "restartCount": 2}), "1/1 Running 2"),
    "init": (pod(WAITING, inits=(DONE, WAITING, WAITING)), "0/1 Init:1/3 0"),
    "init runs": (pod(WAITING, inits=(RUNNING,)), "0/1 Init:0/1 0"),
    "init crashes": (
        pod(WAITING, inits=(restarted(2, waiting("CrashLoopBackOff"), seconds=30),)),
        "0/1 Init:CrashLoopBackOff 2 (30s ago)",
    ),
    "init error": (pod(WAITING, inits=(terminated(1, "Error"),)), "0/1 Init:Error 0"),
    "init exit code": (pod(WAITING, inits=(terminated(2),)), "0/1 Init:ExitCode:2 0"),
    "init signal": (pod(WAITING, inits=(terminated(137, signal=9),)), "0/1 Init:Signal:9 0"),
    "init done": (pod(WAITING, inits=(DONE,)), "0/1 PodInitializing 0"),
    "init restarts forgotten": (
        pod(RUNNING, inits=(restarted(7, DONE, hours=1),)),
        "1/1 Running 0",
    ),
    "sidecar": (
        pod(RUNNING, inits=(restarted(2, RUNNING, minutes=3),), sidecars=(0,)),
        "2/2 Running 2 (3m ago)",
    ),
    "init behind sidecar": (
        pod(WAITING, inits=(RUNNING, WAITING), sidecars=(0,)),
        "1/2 Init:1/2 0",
    ),
    "sidecar crashes later": (
        pod(
            RUNNING,
            inits=(waiting("CrashLoopBackOff"),),
            sidecars=(0,),
            conditions=conditions(Initialized="True"),
        ),
        "1/2 Init:CrashLoopBackOff 0",
    ),
}


@pytest.mark.parametrize(("document", "text"), PODS.values(), ids=PODS)
def test_the_status_column_of_a_pod(document: Document, text: str) -> None:
    cells = shown("pods", document)
    assert (cells.pop("Name"), cells.pop("Age")) == ("it", "5m")
    assert list(cells) == ["Ready", "Status", "Restarts"]
    assert " ".join(cells.values()) == text


def test_a_pods_wide_cells() -> None:
    bound = pod(
        RUNNING,
        podIPs=[{"ip": "10.0.0.7"}, {"ip": "fd00::7"}],
        conditions=conditions(a="True", b="False"),
    )
    bound["spec"] |= {
        "nodeName": "n1",
        "readinessGates": [{"conditionType": gate} for gate in "abc"],
    }
    assert list(shown("pods", bound, wide=True).values())[5:] == ["10.0.0.7", "n1", "<none>", "1/3"]
    nominated = pod(phase="Pending", nominatedNodeName="n2")
    expected = ["<none>", "<none>", "n2", "<none>"]
    assert list(shown("pods", nominated, wide=True).values())[5:] == expected


def test_rows_of_finished_pods_have_a_condition() -> None:
    pods = [pod(RUNNING), pod(DONE, phase="Succeeded"), pod(phase="Failed")]
    rows = table(KIND["pods"], pods, revision="1", now=NOW)["rows"]
    reasons = [[(c["type"], c["reason"]) for c in row.get("conditions", [])] for row in rows]
    assert reasons == [[], [("Completed", "Succeeded")], [("Completed", "Failed")]]


# Other kinds


@pytest.mark.parametrize(
    ("plural", "document", "expected"),
    [
        *(
            (plural, aged(**fields), yaml.safe_load(cells))
            for plural, fields, cells in documents("""
namespaces => {status: {phase: Terminating}} => [it, Terminating, 5m]
nodes => {} => [it, Unknown, <none>, 5m, '']
nodes => {metadata: {labels: {node-role.kubernetes.io/worker: '', node-role.kubernetes.io/edge: '',
  a: b}}, spec: {unschedulable: true}, status: {conditions: [{type: Ready, status: 'True'}],
  nodeInfo: {kubeletVersion: v1.36.2}}} =>
    [it, 'Ready,SchedulingDisabled', 'edge,worker', 5m, v1.36.2]
nodes => {metadata: {labels: {kubernetes.io/role: m}}, status: {conditions: [{type: Ready, status:
    Unknown}]}} => [it, NotReady, m, 5m, '']
services => {} => [it, ClusterIP, <none>, <none>, <none>, 5m]
services => {spec: {type: LoadBalancer, clusterIPs: [10.1.0.1], ports: [{port: 80, nodePort: 30080},
  {port: 53, protocol: UDP}]}} =>
    [it, LoadBalancer, 10.1.0.1, <pending>, '80:30080/TCP,53/UDP', 5m]
deployments => {spec: {replicas: 3}, status: {readyReplicas: 1, updatedReplicas: 2,
    availableReplicas: 1}} => [it, 1/3, 2, 1, 5m]
deployments => {spec: {}} => [it, 0/1, 0, 0, 5m]
statefulsets => {spec: {replicas: 0}} => [it, 0/0, 5m]
replicasets => {spec: {replicas: 2}, status: {replicas: 2, readyReplicas: 1}} => [it, 2, 2, 1, 5m]
daemonsets => {spec: {template: {spec: {nodeSelector: {b: '2', a: '1'}}}}, status:
  {desiredNumberScheduled: 3, currentNumberScheduled: 2, numberReady: 1}} =>
    [it, 3, 2, 1, 0, 0, 'a=1,b=2', 5m]
jobs => {} => [it, Running, 0/1, '', 5m]
jobs => {spec: {completions: 5}, status: {succeeded: 2, startTime: '2026-03-01T11:58:30Z'}} =>
    [it, Running, 2/5, 90s, 5m]
jobs => {spec: {parallelism: 4}, status: {succeeded: 1, startTime: '2026-03-01T11:56:00Z',
    completionTime: '2026-03-01T11:59:00Z', conditions: [{type: SuccessCriteriaMet, status: 'True'},
    {type: Complete, status: 'True'}]}} => [it, Complete, 1/1 of 4, 3m, 5m]
jobs => {metadata: {deletionTimestamp: '2026-03-01T11:59:55Z'}, status: {conditions: [{type:
    Suspended, status: 'True'}]}} => [it, Terminating, 0/1, '', 5m]
jobs => {metadata: {deletionTimestamp: '2026-03-01T11:59:55Z'}, status: {conditions: [{type: Failed,
    status: 'True'}]}} => [it, Failed, 0/1, '', 5m]
jobs => {status: {conditions: [{type: Suspended, status: 'True'}]}} => [it, Suspended, 0/1, '', 5m]
cronjobs => {spec: {schedule: '@daily', suspend: true}, status: {active: [{name: j}]}} =>
    [it, '@daily', <none>, 'True', 1, <none>, 5m]
cronjobs => {spec: {schedule: '@daily', timeZone: UTC}, status:
    {lastScheduleTime: '2026-03-01T11:59:00Z'}} => [it, '@daily', UTC, 'False', 0, 60s, 5m]
poddisruptionbudgets => {spec: {minAvailable: 0}} => [it, '0', N/A, 0, 5m]
poddisruptionbudgets => {spec: {maxUnavailable: 25%}} => [it, N/A, 25%, 0, 5m]
priorityclasses => {value: 1000} => [it, 1000, false, 5m, PreemptLowerPriority]
ingresses => {spec: {ingressClassName: c, rules: [{host: a}, {host: b}, {}, {host: d}], tls: [{}]},
    status: {loadBalancer: {ingress: [{ip: 10.0.0.2}, {hostname: b.example.com}]}}} =>
    [it, c, 'a,b + 1 more...', '10.0.0.2,b.ex...', '80, 443', 5m]
ingresses => {} => [it, <none>, '*', '', '80', 5m]
ingressclasses => {metadata: {annotations: {ingressclass.kubernetes.io/is-default-class: 'true'}},
    spec: {controller: a.b/c, parameters: {apiGroup: g, kind: K, name: n}}} =>
    [it (default), a.b/c, K.g/n, 5m]
networkpolicies => {spec: {podSelector: {matchLabels: {a: b}}}} => [it, a=b, 5m]
servicecidrs => {spec: {cidrs: [10.0.0.0/16, 'fd00::/64']}} => [it, '10.0.0.0/16,fd00::/64', 5m]
ipaddresses => {spec: {parentRef: {resource: services, namespace: n, name: s}}} =>
    [it, services/n/s, 5m]
endpointslices => {addressType: IPv4, ports: [{port: 80}, {name: x}], endpoints: [{addresses: [a,
    b]}, {addresses: [c]}, {addresses: [d]}]} => [it, IPv4, '80,x', 'a,b,c + 1 more...', 5m]
endpointslices => {addressType: IPv4} => [it, IPv4, <unset>, <unset>, 5m]
certificatesigningrequests => {spec: {signerName: s, username: u, expirationSeconds: 3600}, status:
    {conditions: [{type: Approved}, {type: Failed}], certificate: eA==}} =>
    [it, 5m, s, u, 60m, 'Approved,Failed,Issued']
certificatesigningrequests => {} => [it, 5m, <none>, '', <none>, Pending]
flowschemas => {spec: {matchingPrecedence: 9, priorityLevelConfiguration: {name: p}}, status:
    {conditions: [{type: Dangling, status: 'False'}]}} => [it, p, 9, <none>, 5m, 'False']
prioritylevelconfigurations => {spec: {type: Limited, limited: {nominalConcurrencyShares: 5,
    limitResponse: {queuing: {queues: 2, handSize: 1, queueLengthLimit: 3}}}}} =>
    [it, Limited, 5, 2, 1, 3, 5m]
prioritylevelconfigurations => {spec: {type: Exempt}} =>
    [it, Exempt, <none>, <none>, <none>, <none>, 5m]
apiservices => {spec: {service: {name: s, namespace: n}}, status: {conditions: [{type: Available,
    status: 'False', reason: Missing}]}} => [it, n/s, False (Missing), 5m]
apiservices => {} => [it, Local, Unknown, 5m]
validatingwebhookconfigurations => {webhooks: [{}, {}]} => [it, 2, 5m]
mutatingadmissionpolicies => {spec: {mutations: [{}]}} => [it, 1, <unset>, 5m]
volumeattributesclasses => {driverName: d} => [it, d, 5m]
podtemplates => {template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image:
    i}]}}} => [it, c, i, a=b]
configmaps => {data: {a: '1', b: '2'}, binaryData: {c: ''}} => [it, 3, 5m]
leases => {spec: {holderIdentity: me}} => [it, me, 5m]
persistentvolumes => {spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteMany, ReadWriteOnce],
  claimRef: {namespace: ns, name: c}, storageClassName: fast}, status: {phase: Bound}} =>
    [it, 1Gi, 'RWO,RWX', Retain, Bound, ns/c, fast, <unset>, '', 5m]
persistentvolumeclaims => {spec: {volumeName: pv, storageClassName: fast}, status: {phase: Bound,
  accessModes: [ReadWriteOncePod], capacity: {storage: 1Gi}}} =>
    [it, Bound, pv, 1Gi, RWOP, fast, <unset>, 5m]
persistentvolumeclaims => {metadata: {deletionTimestamp: '2026-03-01T11:59:55Z'}} =>
    [it, Terminating, '', '', '', '', <unset>, 5m]
storageclasses => {metadata: {annotations: {storageclass.kubernetes.io/is-default-class: 'true'}},
    provisioner: p} => [it (default), p, Delete, Immediate, false, 5m]
csinodes => {spec: {drivers: [{}, {}]}} => [it, 2, 5m]
csidrivers => {spec: {}} => [it, true, false, false, <unset>, false, Persistent, 5m]
csistoragecapacities => {storageClassName: fast, capacity: 5Gi} => [it, fast, 5Gi]
volumeattachments => {spec: {attacher: d, nodeName: n, source: {persistentVolumeName: pv}}} =>
    [it, d, pv, n, false, 5m]
runtimeclasses => {handler: runc} => [it, runc, 5m]
resourceclaims => {} => [it, pending, 5m]
resourceclaims => {metadata: {deletionTimestamp: '2026-03-01T11:59:55Z'}, status: {allocation: {},
    reservedFor: [{name: p}]}} => [it, 'deleted,allocated,reserved', 5m]
resourceslices => {spec: {nodeName: n, driver: d, pool: {name: p}}} => [it, n, d, p, 5m]
deviceclasses => {} => [it, 5m]
devicetaintrules => {spec: {taint: {key: k, value: v, effect: NoExecute,
    timeAdded: '2026-03-01T11:58:00Z'}}} => [it, k, v, NoExecute, 2m, 5m]
""")
        ),
        ("deviceclasses", {"metadata": {"name": "it"}}, ["it", "<unknown>"]),
    ],
)
def test_cells(plural: str, document: Document, expected: list[Any]) -> None:
    assert list(shown(plural, document).values()) == expected


def test_a_nodes_wide_cells() -> None:
    addresses = [
        {"type": "Hostname", "address": "n"},
        {"type": "InternalIP", "address": "10.0.0.1"},
    ]
    cells = shown(
        "nodes", aged(status={"addresses": addresses, "nodeInfo": {"osImage": "Linux"}}), wide=True
    )
    assert list(cells.values())[5:] == ["10.0.0.1", "<none>", "Linux", "<unknown>", "<unknown>"]


def test_a_deployments_wide_cells() -> None:
    expressions = [
        {"key": "b", "operator": "In", "values": ["y", "x"]},
        {"key": "d", "operator": "DoesNotExist"},
        {"key": "c", "operator": "Exists"},
        {"key": "e", "operator": "NotIn", "values": ["z"]},
    ]
    template = {
        "spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}]}
    }
    spec = {
        "template": template,
        "selector": {"matchLabels": {"app": "web"}, "matchExpressions": expressions},
    }
    cells = shown("deployments", aged(spec=spec), wide=True)
    assert list(cells.values())[5:] == ["a,b", "a:1,b:2", "app=web,b in (x,y),c,!d,e notin (z)"]
    assert shown("jobs", aged(), wide=True)["Selector"] == "<none>"
    service = aged(spec={"selector": {"app": "web", "tier": "front"}})
    assert shown("services", service, wide=True)["Selector"] == "app=web,tier=front"


def test_events_old_and_new() -> None:
    about = {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"}
    old = aged(
        involvedObject=about,
        type="Warning",
        reason="BackOff",
        message="it waits\n",
        source={"component": "kubelet", "host": "n1"},
        firstTimestamp=ago(hours=4),
        lastTimestamp=ago(seconds=30),
        count=12,
    )
    assert list(shown("events", old).values()) == ["30s", "Warning", "BackOff", "pod/p", "it waits"]
    wide = shown("events", old, wide=True)
    assert [wide[name] for name in ("Subobject", "Source", "First Seen", "Count", "Name")] == [
        "spec.containers{c}",
        "kubelet, n1",
        "4h",
        12,
        "it",
    ]
    new = aged(
        involvedObject={"kind": "Node"},
        eventTime="2026-03-01T11:58:00.250000Z",
        firstTimestamp=None,
        reportingComponent="default-scheduler",
    )
    wide = shown("events", new, wide=True)
    expected = ("119s", "119s", 1, "node")
    assert (wide["Last Seen"], wide["First Seen"], wide["Count"], wide["Object"]) == expected
    assert wide["Source"] == "default-scheduler"
    series = shown(
        "events",
        {**new, "series": {"count": 9, "lastObservedTime": "2026-03-01T11:59:59.5Z"}},
        wide=True,
    )
    assert (series["Last Seen"], series["First Seen"], series["Count"]) == ("0s", "119s", 9)


@pytest.mark.parametrize(
    ("subsets", "text"),
    [
        ([], "<none>"),
        ([{"addresses": [{"ip": "1.1.1.1"}]}], "1.1.1.1"),
        ([{"addresses": [{"ip": "fd00::1"}], "ports": [{"port": 80}]}], "[fd00::1]:80"),
        (
            [{"addresses": [{"ip": "a"}, {"ip": "b"}], "ports": [{"port": 1}, {"port": 2}]}],
            "a:1,b:1,a:2 + 1 more...",
        ),
    ],
)
def test_at_most_three_endpoints_are_shown(subsets: list[Document], text: str) -> None:
    assert shown("endpoints", aged(subsets=subsets), group="")["Endpoints"] == text


# The table itself


def test_the_object_of_a_row() -> None:
    document = aged({"resourceVersion": "3"}, data={"a": "1"})
    rows = {
        include: table(KIND["configmaps"], [document], revision="7", now=NOW, include=include)[
            "rows"
        ][0]
        for include in ("Metadata", "Object", "None")
    }
    assert rows["Metadata"]["object"] == {
        "apiVersion": "meta.k8s.io/v1",
        "kind": "PartialObjectMetadata",
        "metadata": document["metadata"],
    }
    assert rows["Object"]["object"] == document
    assert rows["None"]["object"] is None
    with pytest.raises(RefusedError) as refused:
        table(KIND["configmaps"], [document], revision="7", now=NOW, include="all")
    assert refused.value.code == 400


def test_the_tables_metadata_and_definitions() -> None:
    metadata = {"resourceVersion": "7", "continue": "next"}
    answer = table(KIND["pods"], [], revision="7", now=NOW, metadata=metadata)
    assert (answer["apiVersion"], answer["kind"], answer["rows"]) == ("meta.k8s.io/v1", "Table", [])
    assert answer["metadata"] == metadata
    assert [column["format"] for column in answer["columnDefinitions"]] == ["name", *[""] * 8]
    later = table(KIND["pods"], [pod(RUNNING)], revision="8", now=NOW, definitions=False)
    assert later["metadata"] == {"resourceVersion": "8"}
    assert later["columnDefinitions"] is None
    assert len(later["rows"][0]["cells"]) == 9


WRONG: list[Any] = [None, 5, "text", True, [], [7], {}]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize(("group", "plural"), COLUMNS)
def test_the_tables_of_every_kind_accept_invalid_objects(
    group: str, plural: str, wrong: Any
) -> None:
    kind = BY_PATH.get((group, "v1", plural), Kind(group, "v1", plural, plural, namespaced=True))
    fields = (
        "spec",
        "status",
        "data",
        "subsets",
        "involvedObject",
        "series",
        "source",
        "type",
        "secrets",
    )
    answer = table(kind, [aged(**dict.fromkeys(fields, wrong))], revision="1", now=NOW)
    assert all(isinstance(cell, str | int) for cell in answer["rows"][0]["cells"])


def test_every_served_kind_has_columns() -> None:
    plain = {kind.plural for kind in KINDS if (kind.group, kind.plural) not in COLUMNS}
    assert plain <= {"deviceclasses", "resourceclaimtemplates"}
