"""The families: those that kube-scheduler printed, with its types, texts, stability and buckets."""

from __future__ import annotations

from berth.actors.telemetry.families import Families
from berth.actors.telemetry.measures import AnyFamily, Registry
from berth.config.feature_gates import DEFAULTS, defaults_of
from berth.config.versions import VERSIONS

# What kube-scheduler 1.36.2 printed as families: the type, the stability and the labels.
PRINTED = {
    "leader_election_master_status": ("gauge", "ALPHA", {"name"}),
    "scheduler_batch_attempts_total": ("counter", "ALPHA", {"profile", "result"}),
    "scheduler_batch_cache_flushed_total": ("counter", "ALPHA", {"profile", "reason"}),
    "scheduler_cache_size": ("gauge", "ALPHA", {"type"}),
    "scheduler_event_handling_duration_seconds": ("histogram", "ALPHA", {"event"}),
    "scheduler_framework_extension_point_duration_seconds": (
        "histogram",
        "STABLE",
        {"extension_point", "profile", "status"},
    ),
    "scheduler_get_node_hint_duration_seconds": ("histogram", "ALPHA", {"hinted", "profile"}),
    "scheduler_goroutines": ("gauge", "BETA", {"operation"}),
    "scheduler_inflight_events": ("gauge", "ALPHA", {"event"}),
    "scheduler_pending_pods": ("gauge", "STABLE", {"queue"}),
    "scheduler_plugin_evaluation_total": (
        "counter",
        "BETA",
        {"extension_point", "plugin", "profile"},
    ),
    "scheduler_plugin_execution_duration_seconds": (
        "histogram",
        "ALPHA",
        {"extension_point", "plugin", "status"},
    ),
    "scheduler_pod_scheduled_after_flush_total": ("counter", "ALPHA", set()),
    "scheduler_pod_scheduling_attempts": ("histogram", "STABLE", set()),
    "scheduler_pod_scheduling_sli_duration_seconds": ("histogram", "BETA", {"attempts"}),
    "scheduler_preemption_attempts_total": ("counter", "STABLE", set()),
    "scheduler_preemption_victims": ("histogram", "STABLE", set()),
    "scheduler_queue_incoming_pods_total": ("counter", "STABLE", {"event", "queue"}),
    "scheduler_schedule_attempts_total": ("counter", "STABLE", {"profile", "result"}),
    "scheduler_scheduling_algorithm_duration_seconds": ("histogram", "ALPHA", set()),
    "scheduler_scheduling_attempt_duration_seconds": ("histogram", "STABLE", {"profile", "result"}),
    "scheduler_store_schedule_results_duration_seconds": ("histogram", "ALPHA", {"profile"}),
    "scheduler_unschedulable_pods": ("gauge", "BETA", {"plugin", "profile"}),
}


def families(**gates: bool) -> dict[str, AnyFamily]:
    registry = Registry()
    Families(registry, {**DEFAULTS, **gates})
    return {family.name: family for family in registry.families()}


def test_each_family_that_kube_scheduler_printed_is_there_with_its_labels() -> None:
    by_name = families()
    assert {
        name: (family.kind, family.stability, set(family.labels))
        for name, family in by_name.items()
        if name in PRINTED
    } == PRINTED


def test_the_first_and_the_last_bucket_are_those_of_kube_scheduler() -> None:
    bounds = {name: family.buckets for name, family in families().items() if family.buckets}
    assert {name: (len(b), b[0], round(b[-1], 6)) for name, b in bounds.items()} == {
        "scheduler_dra_bindingconditions_wait_duration_seconds": (14, 0.1, 819.2),
        "scheduler_event_handling_duration_seconds": (12, 0.0001, 0.2048),
        "scheduler_framework_extension_point_duration_seconds": (12, 0.0001, 0.2048),
        "scheduler_get_node_hint_duration_seconds": (12, 0.00001, 0.02048),
        "scheduler_permit_wait_duration_seconds": (15, 0.001, 16.384),
        "scheduler_plugin_execution_duration_seconds": (20, 0.00001, 0.022168),
        "scheduler_pod_scheduling_attempts": (5, 1, 16),
        "scheduler_pod_scheduling_sli_duration_seconds": (20, 0.01, 5242.88),
        "scheduler_preemption_goroutines_duration_seconds": (20, 0.01, 5242.88),
        "scheduler_preemption_victims": (7, 1, 64),
        "scheduler_queueing_hint_execution_duration_seconds": (20, 0.00001, 0.022168),
        "scheduler_scheduling_algorithm_duration_seconds": (15, 0.001, 16.384),
        "scheduler_scheduling_attempt_duration_seconds": (15, 0.001, 16.384),
        "scheduler_store_schedule_results_duration_seconds": (12, 0.00001, 0.02048),
    }


def test_a_family_of_a_gate_is_there_only_while_the_gate_is_on() -> None:
    for gate, name in (
        ("SchedulerQueueingHints", "scheduler_inflight_events"),
        ("SchedulerAsyncPreemption", "scheduler_preemption_goroutines_duration_seconds"),
        ("DRAExtendedResource", "scheduler_resourceclaim_creates_total"),
        ("DRADeviceBindingConditions", "scheduler_dra_bindingconditions_allocations_total"),
    ):
        assert name in families(**{gate: True})
        assert name not in families(**{gate: False})


# The rows in which pkg/scheduler/metrics/metrics.go and resourceclaim/metrics/metrics.go of 1.37
# differ from 1.36.2: the stability, the labels, and words of the text.
SINCE = {
    "dynamic_resource_allocation_resourceclaim_creates_total": (
        "ALPHA",
        ["status", "admin_access", "owner_api_group", "owner_api_kind"],
        "ResourceClaims creation requests",
    ),
    "scheduler_pending_pods": ("STABLE", ["queue"], "'incomplete' means number of pods in incomp"),
    "scheduler_plugin_execution_duration_seconds": (
        "BETA",
        ["plugin", "extension_point", "status"],
        "Duration for running a plugin",
    ),
    "scheduler_pod_scheduled_after_flush_total": ("ALPHA", [], "from unschedulableEntities due"),
    "scheduler_preemption_goroutines_duration_seconds": (
        "ALPHA",
        ["result"],
        "(Deprecated since 1.37.0) Duration in seconds",
    ),
    "scheduler_preemption_victims": ("STABLE", [], "for preemption initiated by a single pod"),
    "scheduler_queue_incoming_entities_total": (
        "ALPHA",
        ["queue", "event", "type"],
        "Number of scheduling entities added",
    ),
    "scheduler_queued_entities": ("ALPHA", ["queue", "type"], "entities in activeQ"),
    "scheduler_scheduling_algorithm_duration_seconds": ("BETA", [], "Scheduling algorithm latency"),
    "scheduler_store_schedule_results_duration_seconds": (
        "ALPHA",
        ["profile"],
        "Latency for storing scheduling results.",
    ),
}


def test_the_families_that_1_37_changed() -> None:
    since = {}
    for minor in (36, 37):
        registry = Registry()
        Families(registry, defaults_of(VERSIONS[minor]))
        since[minor] = {
            family.name: (str(family.stability), list(family.labels), family.help)
            for family in registry.families()
        }
    differing = {name for name, form in since[37].items() if since[36].get(name) != form}
    assert differing == SINCE.keys()
    assert since[36].keys() - since[37].keys() == {"scheduler_resourceclaim_creates_total"}
    for name, (stability, labels, words) in SINCE.items():
        assert since[37][name][:2] == (stability, labels)
        assert words in since[37][name][2]
        assert words not in since[36].get(name, ("", [], ""))[2] or "BETA" in stability
