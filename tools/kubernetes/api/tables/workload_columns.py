"""The columns of workloads, disruption budgets, priority and runtime classes, and device claims."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ..types.api_documents import Document
from .column import (
    AGE,
    NAME,
    NONE,
    WIDE,
    Column,
    Read,
    boolean,
    condition,
    entries,
    field,
    flag,
    integer,
    label_selector,
    labels_text,
    mapping,
    number,
    selector_text,
    since,
    text,
    value_at,
)
from .duration import human, moment


def _template_reader(key: str) -> Read:
    """Returns a reader of one field of all containers of the pod template."""
    return lambda document, _: ",".join(
        text(container, key)
        for container in entries(document, "spec", "template", "spec", "containers")
    )


def _plain_template_reader(key: str) -> Read:
    """Returns a reader of one field of all containers of a template that is an object itself."""
    return lambda document, _: ",".join(
        text(container, key) for container in entries(document, "template", "spec", "containers")
    )


def _desired(document: Document, _: datetime) -> int:
    return number(document, "spec", "replicas", default=1)


def _ready_of_desired(document: Document, now: datetime) -> str:
    return f"{number(document, 'status', 'readyReplicas')}/{_desired(document, now)}"


def _equality_selector(document: Document, _: datetime) -> str:
    """Returns a replication controller's selector; the labels of its template if it has none."""
    template = mapping(document, "spec", "template", "metadata", "labels")
    return labels_text(mapping(document, "spec", "selector") or template)


def _node_selector(document: Document, _: datetime) -> str:
    return labels_text(mapping(document, "spec", "template", "spec", "nodeSelector"))


def _deployment_selector(document: Document, _: datetime) -> str:
    return selector_text(mapping(document, "spec", "selector"))


JOB_CONDITIONS = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def _group_policy(group: Document, _: datetime) -> str:
    return "Basic" if value_at(group, "spec", "schedulingPolicy", "gang") is None else "Gang"


def _group_workload(group: Document, _: datetime) -> str:
    path = "spec", "podGroupTemplateRef", "workload", "workloadName"
    return text(group, *path, default=NONE)


def _group_status(group: Document, _: datetime) -> str:
    told = {text(each, "type"): each for each in entries(group, "status", "conditions")}
    if "DisruptionTarget" in told:
        return text(told["DisruptionTarget"], "reason")
    if "PodGroupScheduled" not in told:
        return "Pending"
    is_scheduled = text(told["PodGroupScheduled"], "status") == "True"
    return "Scheduled" if is_scheduled else "Unschedulable"


def _job_status(job: Document, _: datetime) -> str:
    """Returns Terminating for a deleted unfinished job; otherwise the true condition, or
    Running.
    """
    met = [type_ for type_ in JOB_CONDITIONS if condition(job, type_) == "True"]
    if job["metadata"].get("deletionTimestamp") and not {"Complete", "Failed"}.intersection(met):
        return "Terminating"
    return next(iter(met), "Running")


def _completions(job: Document, _: datetime) -> str:
    succeeded, parallelism = (
        number(job, "status", "succeeded"),
        number(job, "spec", "parallelism", default=1),
    )
    if value_at(job, "spec", "completions") is not None:
        return f"{succeeded}/{number(job, 'spec', 'completions')}"
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Document, now: datetime) -> str:
    start = moment(text(job, "status", "startTime"))
    return (
        ""
        if start is None
        else human((moment(text(job, "status", "completionTime")) or now) - start)
    )


def _claim_state(claim: Document, _: datetime) -> str:
    deleted = ["deleted"] if claim["metadata"].get("deletionTimestamp") else []
    if value_at(claim, "status", "allocation") is None:
        return ",".join(deleted or ["pending"])
    used = ["reserved"] if entries(claim, "status", "reservedFor") else []
    if not used and value_at(claim, "status", "deallocationRequested"):
        used = ["deallocating"]
    return ",".join([*deleted, "allocated", *used])


CONTAINERS = Column(
    "Containers", _template_reader("name"), "Names of the template's containers.", priority=WIDE
)
IMAGES = Column(
    "Images", _template_reader("image"), "Images of the template's containers.", priority=WIDE
)
SELECTOR = Column(
    "Selector", label_selector("spec", "selector"), "Which pods it owns.", priority=WIDE
)
DESIRED = Column("Desired", _desired, "How many pods are wanted.", "integer")
CURRENT = Column("Current", integer("status", "replicas"), "How many pods there are.", "integer")
READY = Column("Ready", integer("status", "readyReplicas"), "How many pods are ready.", "integer")
READY_OF_DESIRED = Column("Ready", _ready_of_desired, "How many of the wanted pods are ready.")

POD_TEMPLATES = (
    NAME,
    Column("Containers", _plain_template_reader("name"), "The containers of its pods."),
    Column("Images", _plain_template_reader("image"), "Their images."),
    Column(
        "Pod Labels",
        lambda document, _: labels_text(mapping(document, "template", "metadata", "labels")),
        "The labels of its pods.",
    ),
)
REPLICATION_CONTROLLERS = (
    NAME,
    DESIRED,
    CURRENT,
    READY,
    AGE,
    CONTAINERS,
    IMAGES,
    Column("Selector", _equality_selector, "Which pods it owns.", priority=WIDE),
)
REPLICA_SETS = (NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, SELECTOR)
POD_GROUPS = (
    NAME,
    Column("Policy", _group_policy, "How the pods of the group are scheduled."),
    Column("Workload", _group_workload, "The Workload that the group belongs to."),
    Column("Status", _group_status, "Whether the group is scheduled."),
    AGE,
)
SCALES = (
    msgspec.structs.replace(NAME, format=""),
    Column("Desired", integer("spec", "replicas"), "How many pods there are to be.", "integer"),
    Column("Available", integer("status", "replicas"), "How many pods there are.", "integer"),
    AGE,
)
STATEFUL_SETS = (NAME, READY_OF_DESIRED, AGE, CONTAINERS, IMAGES)
DEPLOYMENTS = (
    NAME,
    READY_OF_DESIRED,
    Column(
        "Up-to-date",
        integer("status", "updatedReplicas"),
        "How many pods have the latest template.",
    ),
    Column(
        "Available",
        integer("status", "availableReplicas"),
        "How many pods have been ready for long enough.",
    ),
    AGE,
    CONTAINERS,
    IMAGES,
    Column("Selector", _deployment_selector, "Which pods it owns.", priority=WIDE),
)


def _controller(document: Document, _: datetime) -> str:
    for owner in entries(document, "metadata", "ownerReferences"):
        if flag(owner, "controller"):
            group, slash, _version = text(owner, "apiVersion").partition("/")
            kind = text(owner, "kind").lower()
            return f"{kind}{f'.{group}' if slash else ''}/{text(owner, 'name')}"
    return NONE


CONTROLLER_REVISIONS = (
    NAME,
    Column("Controller", _controller, "The workload whose template it keeps."),
    Column("Revision", integer("revision"), "The later, the greater."),
    AGE,
)
DAEMON_SETS = (
    NAME,
    Column(
        "Desired",
        integer("status", "desiredNumberScheduled"),
        "How many nodes should run a pod.",
        "integer",
    ),
    Column(
        "Current",
        integer("status", "currentNumberScheduled"),
        "How many of these nodes have one.",
        "integer",
    ),
    Column("Ready", integer("status", "numberReady"), "How many pods are ready.", "integer"),
    Column(
        "Up-to-date",
        integer("status", "updatedNumberScheduled"),
        "How many pods have the latest template.",
        "integer",
    ),
    Column(
        "Available",
        integer("status", "numberAvailable"),
        "How many pods have been ready for long enough.",
        "integer",
    ),
    Column("Node Selector", _node_selector, "Which nodes should run a pod."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)


def _job_template_reader(key: str) -> Read:
    """Returns a reader of one field of all containers in the pod template of a cron job."""
    path = ("spec", "jobTemplate", "spec", "template", "spec", "containers")
    return lambda document, _: ",".join(text(each, key) for each in entries(document, *path))


def _suspended(document: Document, _: datetime) -> str:
    return str(value_at(document, "spec", "suspend") is True)


def _active_jobs(document: Document, _: datetime) -> int:
    return len(entries(document, "status", "active"))


def _last_schedule(document: Document, now: datetime) -> str:
    last = moment(text(document, "status", "lastScheduleTime"))
    return NONE if last is None else human(now - last)


JOBS = (
    NAME,
    Column("Status", _job_status, "The state of the job."),
    Column("Completions", _completions, "How many of the wanted pods succeeded."),
    Column("Duration", _job_duration, "How long the job has been running, or ran."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)
CRON_JOBS = (
    NAME,
    Column("Schedule", field("spec", "schedule"), "When its jobs are created."),
    Column("Timezone", field("spec", "timeZone", default=NONE), "The time zone of the schedule."),
    Column("Suspend", _suspended, "Whether no more jobs are created.", "boolean"),
    Column("Active", _active_jobs, "How many of its jobs run.", "integer"),
    Column("Last Schedule", _last_schedule, "How long ago its last job was created."),
    AGE,
    Column(
        "Containers", _job_template_reader("name"), "The names of the containers.", priority=WIDE
    ),
    Column("Images", _job_template_reader("image"), "The images of the containers.", priority=WIDE),
    Column("Selector", lambda *_: NONE, "The selector of its pods.", priority=WIDE),
)
POD_DISRUPTION_BUDGETS = (
    NAME,
    Column(
        "Min Available", field("spec", "minAvailable", default="N/A"), "How many pods must stay."
    ),
    Column(
        "Max Unavailable",
        field("spec", "maxUnavailable", default="N/A"),
        "How many pods may be missing.",
    ),
    Column(
        "Allowed Disruptions",
        integer("status", "disruptionsAllowed"),
        "How many pods may be evicted now.",
        "integer",
    ),
    AGE,
)
PRIORITY_CLASSES = (
    NAME,
    Column("Value", integer("value"), "The priority its pods get.", "integer"),
    Column(
        "Global-Default",
        boolean("globalDefault"),
        "Whether pods that name no class get it.",
        "boolean",
    ),
    AGE,
    Column(
        "PreemptionPolicy",
        field("preemptionPolicy", default="PreemptLowerPriority"),
        "Whether its pods may preempt others.",
    ),
)
RUNTIME_CLASSES = (
    NAME,
    Column("Handler", field("handler"), "The container runtime's name for it."),
    AGE,
)
RESOURCE_CLAIMS = (
    NAME,
    Column("State", _claim_state, "Whether it is allocated and reserved for pods."),
    AGE,
)
# Of resource.k8s.io/v1alpha2.
RESOURCE_CLASSES = (
    NAME,
    Column("DriverName", field("driverName"), "The driver that allocates its claims."),
    AGE,
)
NEGOTIATED_CLAIMS = (
    NAME,
    Column("ResourceClassName", field("spec", "resourceClassName"), "The class it names."),
    Column("AllocationMode", field("spec", "allocationMode"), "When it is allocated."),
    Column("State", _claim_state, "Whether it is allocated and reserved for pods."),
    AGE,
)
POD_SCHEDULING_CONTEXTS = (
    NAME,
    Column("SelectedNode", field("spec", "selectedNode"), "The node to allocate for."),
    AGE,
)
RESOURCE_SLICES = (
    NAME,
    Column("Node", field("spec", "nodeName"), "The node whose devices these are."),
    Column("Driver", field("spec", "driver"), "The driver that offers them."),
    Column("Pool", field("spec", "pool", "name"), "The pool they belong to."),
    AGE,
)
DEVICE_TAINT_RULES = (
    NAME,
    Column("Key", field("spec", "taint", "key"), "The key of the taint."),
    Column("Value", field("spec", "taint", "value"), "The value of the taint."),
    Column("Effect", field("spec", "taint", "effect"), "What the taint does to claims and pods."),
    Column("TimeAdded", since("spec", "taint", "timeAdded"), "Time since the effect was added."),
    AGE,
)
