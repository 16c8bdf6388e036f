"""The families of kube-scheduler, with its names, texts, labels, buckets and stability.

Mirrors pkg/scheduler/metrics and what client-go registers for the leader election. A family that
needs a feature gate, or a change of a version, is registered only if this is on. Where a version
has changed a family, each form has a row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple, get_args, get_type_hints

from .measures import Counter, Family, Gauge, Histogram, Registry, Stability, exponential

# For each field its family with its labels; the stability, the buckets as first*factor^number, and
# the gates and changes that must be on, or off after a minus; the text.
TABLE = """
attempts: scheduler_schedule_attempts_total{result,profile}
    STABLE
    Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be
    scheduled, while 'error' means an internal scheduler problem.
event_handling: scheduler_event_handling_duration_seconds{event}
    ALPHA 0.0001*2^12
    Event handling latency in seconds.
attempt_duration: scheduler_scheduling_attempt_duration_seconds{result,profile}
    STABLE 0.001*2^15
    Scheduling attempt latency in seconds (scheduling algorithm + binding)
algorithm_duration: scheduler_scheduling_algorithm_duration_seconds
    ALPHA 0.001*2^15 -MetricStages
    Scheduling algorithm latency in seconds
algorithm_duration: scheduler_scheduling_algorithm_duration_seconds
    BETA 0.001*2^15 MetricStages
    Scheduling algorithm latency in seconds
preemption_victims: scheduler_preemption_victims
    STABLE 1*2^7 -MetricTexts
    Number of selected preemption victims
preemption_victims: scheduler_preemption_victims
    STABLE 1*2^7 MetricTexts
    Number of selected preemption victims for preemption initiated by a single pod
preemption_attempts: scheduler_preemption_attempts_total
    STABLE
    Total preemption attempts in the cluster till now
pending_pods: scheduler_pending_pods{queue}
    STABLE MetricTexts
    Number of pending pods, by the queue type. 'active' means number of pods in activeQ;
    'backoff' means number of pods in backoffQ; 'unschedulable' means number of pods in
    unschedulableEntities that the scheduler attempted to schedule and failed; 'gated' is the
    number of unschedulable pods that the scheduler never attempted to schedule because they are
    gated; 'incomplete' means number of pods in incompletePodGroupPods; 'pending' means number of
    pods in pendingPodGroupPods.
queued_entities: scheduler_queued_entities{queue,type}
    ALPHA QueuedEntities
    Number of queued scheduling entities ('pod' or 'podgroup'; 'pod' stands for individual pods
    that are not members of any podgroup) by the queue type. 'active' means number of entities in
    activeQ; 'backoff' means number of entities in backoffQ; 'unschedulable' means number of
    entities in unschedulableEntities that the scheduler attempted to schedule and failed; 'gated'
    is the number of unschedulable entities that the scheduler never attempted to schedule because
    they are gated.
pending_pods: scheduler_pending_pods{queue}
    STABLE -MetricTexts
    Number of pending pods, by the queue type. 'active' means number of pods in activeQ;
    'backoff' means number of pods in backoffQ; 'unschedulable' means number of pods in
    unschedulablePods that the scheduler attempted to schedule and failed; 'gated' is the number
    of unschedulable pods that the scheduler never attempted to schedule because they are gated.
goroutines: scheduler_goroutines{operation}
    BETA
    Number of running goroutines split by the work they do such as binding.
batch_attempts: scheduler_batch_attempts_total{profile,result}
    ALPHA
    Counts of results when we attempt to use batching.
batch_flushed: scheduler_batch_cache_flushed_total{profile,reason}
    ALPHA
    Counts of cache flushes by reason.
sli_duration: scheduler_pod_scheduling_sli_duration_seconds{attempts}
    BETA 0.01*2^20
    E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and
    might involve multiple scheduling attempts.
pod_attempts: scheduler_pod_scheduling_attempts
    STABLE 1*2^5
    Number of attempts to successfully schedule a pod.
after_flush: scheduler_pod_scheduled_after_flush_total
    ALPHA MetricTexts
    Number of pods that were successfully scheduled after being flushed from
    unschedulableEntities due to timeout. This metric helps detect potential queueing hint
    misconfigurations or event handling issues.
after_flush: scheduler_pod_scheduled_after_flush_total
    ALPHA -MetricTexts
    Number of pods that were successfully scheduled after being flushed from unschedulablePods
    due to timeout. This metric helps detect potential queueing hint misconfigurations or event
    handling issues.
point_duration: scheduler_framework_extension_point_duration_seconds{extension_point,status,profile}
    STABLE 0.0001*2^12
    Latency for running all plugins of a specific extension point.
plugin_duration: scheduler_plugin_execution_duration_seconds{plugin,extension_point,status}
    ALPHA 0.00001*1.5^20 -MetricStages
    Duration for running a plugin at a specific extension point.
plugin_duration: scheduler_plugin_execution_duration_seconds{plugin,extension_point,status}
    BETA 0.00001*1.5^20 MetricStages
    Duration for running a plugin at a specific extension point.
incoming_pods: scheduler_queue_incoming_pods_total{queue,event}
    STABLE
    Number of pods added to scheduling queues by event and queue type.
incoming_entities: scheduler_queue_incoming_entities_total{queue,event,type}
    ALPHA QueuedEntities
    Number of scheduling entities added to scheduling queues by event, queue type, and entity
    type. Entity types are either 'pod' (for individual pods that are not members of any podgroup)
    or 'podgroup'.
permit_wait: scheduler_permit_wait_duration_seconds{result}
    BETA 0.001*2^15
    Duration of waiting on permit.
cache_size: scheduler_cache_size{type}
    ALPHA
    Number of nodes, pods, and assumed (bound) pods in the scheduler cache.
unschedulable_pods: scheduler_unschedulable_pods{plugin,profile}
    BETA
    The number of unschedulable pods broken down by plugin name. A pod will increment the gauge
    for all plugins that caused it to not schedule and so this metric have meaning only when
    broken down by plugin.
plugin_evaluations: scheduler_plugin_evaluation_total{plugin,extension_point,profile}
    BETA
    Number of attempts to schedule pods by each plugin and the extension point (available only
    in PreFilter, Filter, PreScore, and Score).
node_hint_duration: scheduler_get_node_hint_duration_seconds{hinted,profile}
    ALPHA 0.00001*2^12
    Latency for getting a node hint.
store_duration: scheduler_store_schedule_results_duration_seconds{profile}
    ALPHA 0.00001*2^12 -MetricTexts
    Latency for getting a no.
store_duration: scheduler_store_schedule_results_duration_seconds{profile}
    ALPHA 0.00001*2^12 MetricTexts
    Latency for storing scheduling results.
volume_failures: scheduler_volume_scheduling_stage_error_total{operation}
    ALPHA
    Volume scheduling stage error count
hint_duration: scheduler_queueing_hint_execution_duration_seconds{plugin,event,hint}
    ALPHA 0.00001*1.5^20 SchedulerQueueingHints
    Duration for running a queueing hint function of a plugin.
inflight_events: scheduler_inflight_events{event}
    ALPHA SchedulerQueueingHints
    Number of events currently tracked in the scheduling queue.
preemption_duration: scheduler_preemption_goroutines_duration_seconds{result}
    ALPHA 0.01*2^20 SchedulerAsyncPreemption -MetricStages
    Duration in seconds for running goroutines for the preemption.
preemption_duration: scheduler_preemption_goroutines_duration_seconds{result}
    ALPHA 0.01*2^20 SchedulerAsyncPreemption MetricStages
    (Deprecated since 1.37.0) Duration in seconds for running goroutines for the preemption.
preemptions: scheduler_preemption_goroutines_execution_total{result}
    ALPHA SchedulerAsyncPreemption
    Number of preemption goroutines executed.
claim_creates: scheduler_resourceclaim_creates_total{status}
    ALPHA DRAExtendedResource -ClaimCreatesByOwner
    Number of ResourceClaims creation requests within scheduler
claim_creates: dynamic_resource_allocation_resourceclaim_creates_total{status,admin_access,
    owner_api_group,owner_api_kind}
    ALPHA DRAExtendedResource ClaimCreatesByOwner
    Number of ResourceClaims creation requests, categorized by creation status, admin access, and
    owner
device_allocations: scheduler_dra_bindingconditions_allocations_total{profile,driver,status}
    ALPHA DRADeviceBindingConditions
    Number of allocations using devices with BindingConditions, counted per driver per
    scheduling attempt
device_wait: scheduler_dra_bindingconditions_wait_duration_seconds{profile,driver,status}
    ALPHA 0.1*2^14 DRADeviceBindingConditions
    Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.
leads: leader_election_master_status{name}
    ALPHA
    Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1
    indicates master. 'name' is the string used to identify the lease. Please make sure to group
    by name.
slow_renewals: leader_election_slowpath_total{name}
    ALPHA
    Total number of slow path exercised in renewing leader leases. 'name' is the string used to
    identify the lease. Please make sure to group by name.
"""
_ROW = re.compile(
    r"(?P<field>\w+): (?P<name>\w+)(?:{(?P<labels>[\w,\s]+)})?\n"
    r" +(?P<stability>[A-Z]+)(?: (?P<buckets>[\d.]+\*[\d.]+\^\d+))?(?P<conditions>(?: -?\w+)*)\n"
    r"(?P<text>(?: .*\n)+)"
)


class Families:
    attempts: Family[Counter]
    event_handling: Family[Histogram]
    attempt_duration: Family[Histogram]
    algorithm_duration: Family[Histogram]
    preemption_victims: Family[Histogram]
    preemption_attempts: Family[Counter]
    pending_pods: Family[Gauge]
    queued_entities: Family[Gauge]
    goroutines: Family[Gauge]
    batch_attempts: Family[Counter]
    batch_flushed: Family[Counter]
    sli_duration: Family[Histogram]
    pod_attempts: Family[Histogram]
    after_flush: Family[Counter]
    point_duration: Family[Histogram]
    plugin_duration: Family[Histogram]
    incoming_pods: Family[Counter]
    incoming_entities: Family[Counter]
    permit_wait: Family[Histogram]
    cache_size: Family[Gauge]
    unschedulable_pods: Family[Gauge]
    plugin_evaluations: Family[Counter]
    node_hint_duration: Family[Histogram]
    store_duration: Family[Histogram]
    volume_failures: Family[Counter]
    hint_duration: Family[Histogram]
    inflight_events: Family[Gauge]
    preemption_duration: Family[Histogram]
    preemptions: Family[Counter]
    claim_creates: Family[Counter]
    device_allocations: Family[Counter]
    device_wait: Family[Histogram]
    leads: Family[Gauge]
    slow_renewals: Family[Counter]

    def __init__(self, registry: Registry, gates: Mapping[str, bool]) -> None:
        apart = Registry()  # for families that are not shown because of a gate or a change
        for row in _rows():
            shown = all(_holds(condition, gates) for condition in row.conditions)
            if not shown and hasattr(self, row.field):
                continue  # Its other form is there.
            family = (registry if shown else apart).add(
                row.kind, row.name, row.text, row.labels, row.stability, buckets=row.buckets
            )
            setattr(self, row.field, family)


class _Row(NamedTuple):
    """A row of the table."""

    field: str
    kind: type[Counter | Gauge | Histogram]
    name: str
    labels: list[str]
    stability: Stability
    buckets: tuple[float, ...]
    conditions: list[str]
    text: str


@cache
def _rows() -> list[_Row]:
    """Reads the table, once for all schedulers of a process."""
    kinds = {field: get_args(hint)[0] for field, hint in get_type_hints(Families).items()}
    return [
        _Row(
            row["field"],
            kinds[row["field"]],
            row["name"],
            re.findall(r"\w+", row["labels"] or ""),
            Stability(row["stability"]),
            _buckets(row["buckets"]) if row["buckets"] else (),
            row["conditions"].split(),
            " ".join(row["text"].split()),
        )
        for row in _ROW.finditer(TABLE)
    ]


def _holds(condition: str, gates: Mapping[str, bool]) -> bool:
    name = condition.removeprefix("-")
    return gates[name] is (name == condition)


def _buckets(text: str) -> tuple[float, ...]:
    first, factor, number = re.split(r"[*^]", text)
    return exponential(float(first), float(factor), int(number))
