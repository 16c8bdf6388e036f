"""The families of kube-scheduler 1.36, with its names, texts, labels, buckets and stability.

Mirrors pkg/scheduler/metrics and what client-go registers for the leader election. A family that
needs a feature gate is registered only if the gate is on.
"""

from __future__ import annotations

from collections.abc import Mapping

from .measures import BETA, STABLE, Registry, exponential


class Families:
    def __init__(self, registry: Registry, gates: Mapping[str, bool]) -> None:
        apart = Registry()  # for families that are not shown because their gate is off

        def by(gate: str) -> Registry:
            return registry if gates[gate] else apart

        self.attempts = registry.counter(
            "scheduler_schedule_attempts_total",
            "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod "
            "could not be scheduled, while 'error' means an internal scheduler problem.",
            ("result", "profile"),
            STABLE,
        )
        self.event_handling = registry.histogram(
            "scheduler_event_handling_duration_seconds",
            "Event handling latency in seconds.",
            ("event",),
            buckets=exponential(0.0001, 2, 12),
        )
        self.attempt_duration = registry.histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
            ("result", "profile"),
            STABLE,
            buckets=exponential(0.001, 2, 15),
        )
        self.algorithm_duration = registry.histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Scheduling algorithm latency in seconds",
            buckets=exponential(0.001, 2, 15),
        )
        self.preemption_victims = registry.histogram(
            "scheduler_preemption_victims",
            "Number of selected preemption victims",
            stability=STABLE,
            buckets=exponential(1, 2, 7),
        )
        self.preemption_attempts = registry.counter(
            "scheduler_preemption_attempts_total",
            "Total preemption attempts in the cluster till now",
            stability=STABLE,
        )
        self.pending_pods = registry.gauge(
            "scheduler_pending_pods",
            "Number of pending pods, by the queue type. 'active' means number of pods in activeQ;"
            " 'backoff' means number of pods in backoffQ; 'unschedulable' means number of pods in"
            " unschedulablePods that the scheduler attempted to schedule and failed; 'gated' is "
            "the number of unschedulable pods that the scheduler never attempted to schedule "
            "because they are gated.",
            ("queue",),
            STABLE,
        )
        self.goroutines = registry.gauge(
            "scheduler_goroutines",
            "Number of running goroutines split by the work they do such as binding.",
            ("operation",),
            BETA,
        )
        self.batch_attempts = registry.counter(
            "scheduler_batch_attempts_total",
            "Counts of results when we attempt to use batching.",
            ("profile", "result"),
        )
        self.batch_flushed = registry.counter(
            "scheduler_batch_cache_flushed_total",
            "Counts of cache flushes by reason.",
            ("profile", "reason"),
        )
        self.sli_duration = registry.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "E2e latency for a pod being scheduled, from the time the pod enters the scheduling "
            "queue and might involve multiple scheduling attempts.",
            ("attempts",),
            BETA,
            buckets=exponential(0.01, 2, 20),
        )
        self.pod_attempts = registry.histogram(
            "scheduler_pod_scheduling_attempts",
            "Number of attempts to successfully schedule a pod.",
            stability=STABLE,
            buckets=exponential(1, 2, 5),
        )
        self.after_flush = registry.counter(
            "scheduler_pod_scheduled_after_flush_total",
            "Number of pods that were successfully scheduled after being flushed from "
            "unschedulablePods due to timeout. This metric helps detect potential queueing hint "
            "misconfigurations or event handling issues.",
        )
        self.point_duration = registry.histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Latency for running all plugins of a specific extension point.",
            ("extension_point", "status", "profile"),
            STABLE,
            buckets=exponential(0.0001, 2, 12),
        )
        self.plugin_duration = registry.histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Duration for running a plugin at a specific extension point.",
            ("plugin", "extension_point", "status"),
            buckets=exponential(0.00001, 1.5, 20),
        )
        self.incoming_pods = registry.counter(
            "scheduler_queue_incoming_pods_total",
            "Number of pods added to scheduling queues by event and queue type.",
            ("queue", "event"),
            STABLE,
        )
        self.permit_wait = registry.histogram(
            "scheduler_permit_wait_duration_seconds",
            "Duration of waiting on permit.",
            ("result",),
            BETA,
            buckets=exponential(0.001, 2, 15),
        )
        self.cache_size = registry.gauge(
            "scheduler_cache_size",
            "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
            ("type",),
        )
        self.unschedulable_pods = registry.gauge(
            "scheduler_unschedulable_pods",
            "The number of unschedulable pods broken down by plugin name. A pod will increment "
            "the gauge for all plugins that caused it to not schedule and so this metric have "
            "meaning only when broken down by plugin.",
            ("plugin", "profile"),
            BETA,
        )
        self.plugin_evaluations = registry.counter(
            "scheduler_plugin_evaluation_total",
            "Number of attempts to schedule pods by each plugin and the extension point "
            "(available only in PreFilter, Filter, PreScore, and Score).",
            ("plugin", "extension_point", "profile"),
            BETA,
        )
        self.node_hint_duration = registry.histogram(
            "scheduler_get_node_hint_duration_seconds",
            "Latency for getting a node hint.",
            ("hinted", "profile"),
            buckets=exponential(0.00001, 2, 12),
        )
        self.store_duration = registry.histogram(
            "scheduler_store_schedule_results_duration_seconds",
            "Latency for getting a no.",
            ("profile",),
            buckets=exponential(0.00001, 2, 12),
        )
        self.volume_failures = registry.counter(
            "scheduler_volume_scheduling_stage_error_total",
            "Volume scheduling stage error count",
            ("operation",),
        )
        hints = by("SchedulerQueueingHints")
        self.hint_duration = hints.histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "Duration for running a queueing hint function of a plugin.",
            ("plugin", "event", "hint"),
            buckets=exponential(0.00001, 1.5, 20),
        )
        self.inflight_events = hints.gauge(
            "scheduler_inflight_events",
            "Number of events currently tracked in the scheduling queue.",
            ("event",),
        )
        preemption = by("SchedulerAsyncPreemption")
        self.preemption_duration = preemption.histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "Duration in seconds for running goroutines for the preemption.",
            ("result",),
            buckets=exponential(0.01, 2, 20),
        )
        self.preemptions = preemption.counter(
            "scheduler_preemption_goroutines_execution_total",
            "Number of preemption goroutines executed.",
            ("result",),
        )
        extended = by("DRAExtendedResource")
        self.claim_creates = extended.counter(
            "scheduler_resourceclaim_creates_total",
            "Number of ResourceClaims creation requests within scheduler",
            ("status",),
        )
        conditions = by("DRADeviceBindingConditions")
        self.device_allocations = conditions.counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "Number of allocations using devices with BindingConditions, counted per driver per "
            "scheduling attempt",
            ("profile", "driver", "status"),
        )
        self.device_wait = conditions.histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.",
            ("profile", "driver", "status"),
            buckets=exponential(0.1, 2, 14),
        )
        self.leads = registry.gauge(
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, "
            "1 indicates master. 'name' is the string used to identify the lease. Please make sure "
            "to group by name.",
            ("name",),
        )
        self.slow_renewals = registry.counter(
            "leader_election_slowpath_total",
            "Total number of slow path exercised in renewing leader leases. 'name' is the string "
            "used to identify the lease. Please make sure to group by name.",
            ("name",),
        )
