"""Tables: objects as the rows that kubectl prints, with the columns that Kubernetes gives each kind.

Mirrors the printers of the API server. A column is a name and a function of the document; wide columns have priority 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from tools.apiserver.resources import Kind
from tools.apiserver.store import Document

Cell = str | int | bool
NONE, UNSET, UNKNOWN = "<none>", "<unset>", "<unknown>"
ROLE = "node-role.kubernetes.io/"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
LOST_CONTACT = "NodeLost"


class Column(msgspec.Struct, frozen=True):
    """`cell` makes the cell of a document at a moment; `priority` 1 is for wide output only."""

    name: str
    cell: Callable[[Document, datetime], Cell]
    type: str = "string"
    priority: int = 0


def table(
    kind: Kind,
    documents: Iterable[Document],
    *,
    revision: str,
    now: datetime,
    include: str = "Metadata",
    continue_: str = "",
) -> Document:
    """A meta.k8s.io/v1 Table; `include` says what a row carries: Metadata, Object or None."""
    columns = COLUMNS.get((kind.group, kind.kind), (NAME, AGE))
    rows = []
    for document in documents:
        row: Document = {"cells": [column.cell(document, now) for column in columns]}
        if include == "Object":
            row["object"] = document
        elif include != "None":
            part = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
            row["object"] = {**part, "metadata": document["metadata"]}
        rows.append(row)
    definitions = [
        {
            "name": c.name,
            "type": c.type,
            "format": "name" if c.name == "Name" else "",
            "description": c.name,
            "priority": c.priority,
        }
        for c in columns
    ]
    metadata = {"resourceVersion": revision, **({"continue": continue_} if continue_ else {})}
    head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    return {**head, "columnDefinitions": definitions, "rows": rows}


# ------------------------------------------------------------------------------------------------ times


def human_duration(seconds: float) -> str:
    """A duration as kubectl writes ages: two units at most, coarser the longer it is."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    if whole < 120:
        return f"{whole}s"
    minutes, hours, days, years = whole // 60, whole // 3600, whole // 86400, whole // 86400 // 365
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if years < 8:
        return _two(years, "y", days % 365, "d")
    return f"{years}y"


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def since(stamp: object, now: datetime) -> str:
    """How long ago an RFC 3339 time was."""
    if not isinstance(stamp, str) or not stamp:
        return UNKNOWN
    try:
        then = datetime.fromisoformat(stamp)
    except ValueError:
        return "<invalid>"
    return human_duration((now - (then if then.tzinfo else then.replace(tzinfo=UTC))).total_seconds())


# ------------------------------------------------------------------------------------------------ columns


def at(path: str, default: Cell = NONE) -> Callable[[Document, datetime], Cell]:
    """The value at a dotted path."""
    steps = path.split(".")

    def cell(document: Document, _now: datetime) -> Cell:
        found: Any = document
        for step in steps:
            found = found.get(step) if isinstance(found, dict) else None
        return found if isinstance(found, str | int | bool) and found != "" else default

    return cell


def labels_at(path: str) -> Callable[[Document, datetime], Cell]:
    """A map of labels, or a label selector, as kubectl writes them."""
    steps = path.split(".")

    def cell(document: Document, _now: datetime) -> Cell:
        found: Any = document
        for step in steps:
            found = found.get(step) if isinstance(found, dict) else None
        return selector_text(found)

    return cell


def selector_text(selector: Any) -> str:
    if not isinstance(selector, dict):
        return NONE
    plain = selector.get("matchLabels", selector if "matchExpressions" not in selector else {})
    parts = [f"{key}={value}" for key, value in sorted((plain or {}).items())]
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression.get("key", ""), expression.get("operator", "")
        values = ",".join(expression.get("values") or ())
        match operator:
            case "In":
                parts.append(f"{key} in ({values})")
            case "NotIn":
                parts.append(f"{key} notin ({values})")
            case "Exists":
                parts.append(key)
            case _:
                parts.append(f"!{key}")
    return ",".join(parts) or NONE


def _spec(document: Document) -> dict[str, Any]:
    return document.get("spec") or {}


def _status(document: Document) -> dict[str, Any]:
    return document.get("status") or {}


def _name(document: Document, _now: datetime) -> str:
    return str(document["metadata"].get("name", ""))


def _age(document: Document, now: datetime) -> str:
    return since(document["metadata"].get("creationTimestamp"), now)


def wide(name: str, cell: Callable[[Document, datetime], Cell]) -> Column:
    return Column(name, cell, priority=1)


NAME = Column("Name", _name)
AGE = Column("Age", _age)


# ------------------------------------------------------------------------------------------------ pods


def _pod_ready(pod: Document, _now: datetime) -> str:
    statuses = _status(pod).get("containerStatuses") or ()
    sidecars = {c["name"] for c in _spec(pod).get("initContainers") or () if c.get("restartPolicy") == "Always"}
    started = [s for s in _status(pod).get("initContainerStatuses") or () if s.get("name") in sidecars]
    ready = sum(bool(s.get("ready")) for s in (*statuses, *started))
    return f"{ready}/{len(_spec(pod).get('containers') or ()) + len(sidecars)}"


def _pod_status(pod: Document, _now: datetime) -> str:
    status = _status(pod)
    reason = str(status.get("reason") or status.get("phase") or "")
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    if conditions.get("PodScheduled", {}).get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    if _spec(pod).get("schedulingGates") and status.get("phase") == "Pending":
        reason = "SchedulingGated"
    initialising = _init_reason(pod)
    if initialising:
        reason = initialising
    else:
        running = False
        for container in reversed(status.get("containerStatuses") or ()):
            state = container.get("state") or {}
            waiting, terminated = state.get("waiting") or {}, state.get("terminated")
            if waiting.get("reason"):
                reason = str(waiting["reason"])
            elif terminated is not None:
                reason = _ended(terminated, "")
            elif container.get("ready") and "running" in state:
                running = True
        if reason == "Completed" and running:
            reason = "Running" if conditions.get("Ready", {}).get("status") == "True" else "NotReady"
    if pod["metadata"].get("deletionTimestamp"):
        return UNKNOWN if status.get("reason") == LOST_CONTACT else "Terminating"
    return reason


def _init_reason(pod: Document) -> str:
    """What an init container that is not through says; "" if all are."""
    specs = {c["name"]: c for c in _spec(pod).get("initContainers") or ()}
    for number, container in enumerate(_status(pod).get("initContainerStatuses") or ()):
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        sidecar = specs.get(container.get("name"), {}).get("restartPolicy") == "Always"
        if terminated is not None and terminated.get("exitCode") == 0:
            continue
        if sidecar and container.get("started"):
            continue
        if terminated is not None:
            return f"Init:{_ended(terminated, 'Init:')}".replace("Init:Init:", "Init:")
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}"
        return f"Init:{number}/{len(specs)}"
    return ""


def _ended(terminated: dict[str, Any], prefix: str) -> str:
    if terminated.get("reason"):
        return f"{prefix}{terminated['reason']}"
    if terminated.get("signal"):
        return f"{prefix}Signal:{terminated['signal']}"
    return f"{prefix}ExitCode:{terminated.get('exitCode', 0)}"


def _pod_restarts(pod: Document, now: datetime) -> str:
    statuses = [*(_status(pod).get("containerStatuses") or ()), *(_status(pod).get("initContainerStatuses") or ())]
    restarts = sum(int(s.get("restartCount") or 0) for s in statuses)
    ends = [((s.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for s in statuses]
    last = max((end for end in ends if end), default=None)
    return f"{restarts} ({since(last, now)} ago)" if restarts and last else str(restarts)


def _readiness_gates(pod: Document, _now: datetime) -> str:
    gates = [gate.get("conditionType") for gate in _spec(pod).get("readinessGates") or ()]
    if not gates:
        return NONE
    true = {c.get("type") for c in _status(pod).get("conditions") or () if c.get("status") == "True"}
    return f"{sum(gate in true for gate in gates)}/{len(gates)}"


# ------------------------------------------------------------------------------------------------ nodes


def _node_status(node: Document, _now: datetime) -> str:
    conditions = {c.get("type"): c.get("status") for c in _status(node).get("conditions") or ()}
    said = "Unknown" if "Ready" not in conditions else "Ready" if conditions["Ready"] == "True" else "NotReady"
    return f"{said},SchedulingDisabled" if _spec(node).get("unschedulable") else said


def _node_roles(node: Document, _now: datetime) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(ROLE) for key in labels if key.startswith(ROLE)}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(roles)) or NONE


def _address(kind: str) -> Callable[[Document, datetime], Cell]:
    def cell(node: Document, _now: datetime) -> Cell:
        addresses = _status(node).get("addresses") or ()
        return next((str(a["address"]) for a in addresses if a.get("type") == kind), NONE)

    return cell


# ------------------------------------------------------------------------------------------------ workloads


def _containers(document: Document, _now: datetime) -> str:
    containers = ((_spec(document).get("template") or {}).get("spec") or {}).get("containers") or ()
    return ",".join(c.get("name", "") for c in containers)


def _images(document: Document, _now: datetime) -> str:
    containers = ((_spec(document).get("template") or {}).get("spec") or {}).get("containers") or ()
    return ",".join(c.get("image", "") for c in containers)


TEMPLATE = (wide("Containers", _containers), wide("Images", _images))


def _ready_of_replicas(document: Document, _now: datetime) -> str:
    return f"{_status(document).get('readyReplicas') or 0}/{_spec(document).get('replicas') or 0}"


def _number(name: str, path: str) -> Column:
    return Column(name, at(path, 0), "integer")


def _job_status(job: Document, _now: datetime) -> str:
    conditions = {c.get("type"): c.get("status") for c in _status(job).get("conditions") or ()}
    for kind, word in (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")):
        if conditions.get(kind) == "True":
            return word
    return "Terminating" if job["metadata"].get("deletionTimestamp") else "Running"


def _job_completions(job: Document, _now: datetime) -> str:
    succeeded = _status(job).get("succeeded") or 0
    wanted = _spec(job).get("completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallelism = _spec(job).get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Document, now: datetime) -> str:
    begun, ended = _status(job).get("startTime"), _status(job).get("completionTime")
    if not begun:
        return ""
    until = datetime.fromisoformat(ended) if ended else now
    return since(begun, until)


# ------------------------------------------------------------------------------------------------ the others


def _ports(service: Document, _now: datetime) -> str:
    parts = []
    for port in _spec(service).get("ports") or ():
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        parts.append(f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(parts) or NONE


def _external_ip(service: Document, _now: datetime) -> str:
    spec = _spec(service)
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", NONE))
    given = [
        i.get("ip") or i.get("hostname") for i in (_status(service).get("loadBalancer") or {}).get("ingress") or ()
    ]
    waiting = "<pending>" if spec.get("type") == "LoadBalancer" else NONE
    return ",".join((*filter(None, given), *(spec.get("externalIPs") or ()))) or waiting


def _endpoints(document: Document, _now: datetime) -> str:
    parts = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in document.get("subsets") or ()
        for address in subset.get("addresses") or ()
        for port in subset.get("ports") or [cast("dict[str, Any]", {})]
    ]
    return ",".join(parts[:3]) + (f" + {len(parts) - 3} more..." if len(parts) > 3 else "") or NONE


def _event_age(event: Document, now: datetime) -> str:
    series = event.get("series") or {}
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    first = event.get("firstTimestamp") or event.get("eventTime")
    count = series.get("count") or event.get("count") or 1
    if count > 1 and first:
        return f"{since(last, now)} (x{count} over {since(first, now)})"
    return since(last or event["metadata"].get("creationTimestamp"), now)


def _event_object(event: Document, _now: datetime) -> str:
    involved = event.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def _event_source(event: Document, _now: datetime) -> str:
    source = event.get("source") or {}
    parts = [source.get("component") or event.get("reportingComponent") or "", source.get("host") or ""]
    return ", ".join(filter(None, parts))


def _size(path: str) -> Callable[[Document, datetime], Cell]:
    steps = path.split(".")

    def cell(document: Document, _now: datetime) -> Cell:
        found: Any = document
        for step in steps:
            found = found.get(step) if isinstance(found, dict) else None
        return len(found or ())

    return cell


def _access_modes(document: Document, _now: datetime) -> str:
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    status = _status(document).get("accessModes") if document.get("kind") == "PersistentVolumeClaim" else None
    modes = status or (_spec(document).get("accessModes") if document.get("kind") == "PersistentVolume" else ()) or ()
    return ",".join(short.get(mode, mode) for mode in modes)


def _claim(volume: Document, _now: datetime) -> str:
    claim = _spec(volume).get("claimRef") or {}
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _storage_class_name(storage_class: Document, _now: datetime) -> str:
    default = (storage_class["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true"
    return f"{storage_class['metadata']['name']} (default)" if default else str(storage_class["metadata"]["name"])


def _claim_state(claim: Document, _now: datetime) -> str:
    states = []
    if claim["metadata"].get("deletionTimestamp"):
        states.append("deleted")
    if _status(claim).get("allocation") is None:
        return ",".join((*states, "pending"))
    states.append("allocated")
    if _status(claim).get("reservedFor"):
        states.append("reserved")
    return ",".join(states)


COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    ("", "Pod"): (
        NAME,
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _pod_restarts),
        AGE,
        wide("IP", at("status.podIP")),
        wide("Node", at("spec.nodeName")),
        wide("Nominated Node", at("status.nominatedNodeName")),
        wide("Readiness Gates", _readiness_gates),
    ),
    ("", "Node"): (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        AGE,
        Column("Version", at("status.nodeInfo.kubeletVersion", "")),
        wide("Internal-IP", _address("InternalIP")),
        wide("External-IP", _address("ExternalIP")),
        wide("OS-Image", at("status.nodeInfo.osImage", UNKNOWN)),
        wide("Kernel-Version", at("status.nodeInfo.kernelVersion", UNKNOWN)),
        wide("Container-Runtime", at("status.nodeInfo.containerRuntimeVersion", UNKNOWN)),
    ),
    ("", "Namespace"): (NAME, Column("Status", at("status.phase", "")), AGE),
    ("", "Service"): (
        NAME,
        Column("Type", at("spec.type", "")),
        Column("Cluster-IP", at("spec.clusterIP")),
        Column("External-IP", _external_ip),
        Column("Port(s)", _ports),
        AGE,
        wide("Selector", labels_at("spec.selector")),
    ),
    ("", "Event"): (
        Column("Last Seen", _event_age),
        Column("Type", at("type", "")),
        Column("Reason", at("reason", "")),
        Column("Object", _event_object),
        wide("Subobject", at("involvedObject.fieldPath", "")),
        wide("Source", _event_source),
        Column("Message", at("message", "")),
        wide("First Seen", lambda e, now: since(e.get("firstTimestamp") or e.get("eventTime"), now)),
        Column("Count", at("count", 1), "integer", 1),
        wide("Name", _name),
    ),
    ("", "ConfigMap"): (NAME, Column("Data", _size("data"), "integer"), AGE),
    ("", "Secret"): (NAME, Column("Type", at("type", "Opaque")), Column("Data", _size("data"), "integer"), AGE),
    ("", "ServiceAccount"): (NAME, Column("Secrets", _size("secrets"), "integer"), AGE),
    ("", "Endpoints"): (NAME, Column("Endpoints", _endpoints), AGE),
    ("", "PersistentVolume"): (
        NAME,
        Column("Capacity", at("spec.capacity.storage", "")),
        Column("Access Modes", _access_modes),
        Column("Reclaim Policy", at("spec.persistentVolumeReclaimPolicy", "")),
        Column("Status", at("status.phase", "")),
        Column("Claim", _claim),
        Column("StorageClass", at("spec.storageClassName", "")),
        Column("VolumeAttributesClass", at("spec.volumeAttributesClassName", UNSET)),
        Column("Reason", at("status.reason", "")),
        AGE,
        wide("VolumeMode", at("spec.volumeMode", UNSET)),
    ),
    ("", "PersistentVolumeClaim"): (
        NAME,
        Column("Status", at("status.phase", "")),
        Column("Volume", at("spec.volumeName", "")),
        Column("Capacity", at("status.capacity.storage", "")),
        Column("Access Modes", _access_modes),
        Column("StorageClass", at("spec.storageClassName", "")),
        Column("VolumeAttributesClass", at("spec.volumeAttributesClassName", UNSET)),
        AGE,
        wide("VolumeMode", at("spec.volumeMode", UNSET)),
    ),
    ("", "ReplicationController"): (
        NAME,
        _number("Desired", "spec.replicas"),
        _number("Current", "status.replicas"),
        _number("Ready", "status.readyReplicas"),
        AGE,
        *TEMPLATE,
        wide("Selector", labels_at("spec.selector")),
    ),
    ("apps", "Deployment"): (
        NAME,
        Column("Ready", _ready_of_replicas),
        _number("Up-to-date", "status.updatedReplicas"),
        _number("Available", "status.availableReplicas"),
        AGE,
        *TEMPLATE,
        wide("Selector", labels_at("spec.selector")),
    ),
    ("apps", "ReplicaSet"): (
        NAME,
        _number("Desired", "spec.replicas"),
        _number("Current", "status.replicas"),
        _number("Ready", "status.readyReplicas"),
        AGE,
        *TEMPLATE,
        wide("Selector", labels_at("spec.selector")),
    ),
    ("apps", "StatefulSet"): (NAME, Column("Ready", _ready_of_replicas), AGE, *TEMPLATE),
    ("apps", "DaemonSet"): (
        NAME,
        _number("Desired", "status.desiredNumberScheduled"),
        _number("Current", "status.currentNumberScheduled"),
        _number("Ready", "status.numberReady"),
        _number("Up-to-date", "status.updatedNumberScheduled"),
        _number("Available", "status.numberAvailable"),
        Column("Node Selector", labels_at("spec.template.spec.nodeSelector")),
        AGE,
        *TEMPLATE,
        wide("Selector", labels_at("spec.selector")),
    ),
    ("batch", "Job"): (
        NAME,
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        AGE,
        *TEMPLATE,
        wide("Selector", labels_at("spec.selector")),
    ),
    ("coordination.k8s.io", "Lease"): (NAME, Column("Holder", at("spec.holderIdentity", "")), AGE),
    ("policy", "PodDisruptionBudget"): (
        NAME,
        Column("Min Available", at("spec.minAvailable", "N/A")),
        Column("Max Unavailable", at("spec.maxUnavailable", "N/A")),
        _number("Allowed Disruptions", "status.disruptionsAllowed"),
        AGE,
    ),
    ("scheduling.k8s.io", "PriorityClass"): (
        NAME,
        _number("Value", "value"),
        Column("Global-Default", at("globalDefault", False), "boolean"),
        AGE,
        Column("PreemptionPolicy", at("preemptionPolicy", "")),
    ),
    ("storage.k8s.io", "StorageClass"): (
        Column("Name", _storage_class_name),
        Column("Provisioner", at("provisioner", "")),
        Column("ReclaimPolicy", at("reclaimPolicy", "")),
        Column("VolumeBindingMode", at("volumeBindingMode", "")),
        Column("AllowVolumeExpansion", at("allowVolumeExpansion", False), "boolean"),
        AGE,
    ),
    ("storage.k8s.io", "CSINode"): (NAME, Column("Drivers", _size("spec.drivers"), "integer"), AGE),
    ("storage.k8s.io", "CSIDriver"): (
        NAME,
        Column("AttachRequired", at("spec.attachRequired", True), "boolean"),
        Column("PodInfoOnMount", at("spec.podInfoOnMount", False), "boolean"),
        Column("StorageCapacity", at("spec.storageCapacity", False), "boolean"),
        AGE,
    ),
    ("storage.k8s.io", "CSIStorageCapacity"): (
        NAME,
        Column("StorageClassName", at("storageClassName", "")),
        Column("Capacity", at("capacity", UNSET)),
        AGE,
    ),
    ("storage.k8s.io", "VolumeAttachment"): (
        NAME,
        Column("Attacher", at("spec.attacher", "")),
        Column("PV", at("spec.source.persistentVolumeName", "")),
        Column("Node", at("spec.nodeName", "")),
        Column("Attached", at("status.attached", False), "boolean"),
        AGE,
    ),
    ("node.k8s.io", "RuntimeClass"): (NAME, Column("Handler", at("handler", "")), AGE),
    ("resource.k8s.io", "ResourceClaim"): (NAME, Column("State", _claim_state), AGE),
    ("resource.k8s.io", "ResourceSlice"): (
        NAME,
        Column("Node", at("spec.nodeName", UNSET)),
        Column("Driver", at("spec.driver", "")),
        Column("Pool", at("spec.pool.name", "")),
        AGE,
    ),
}
