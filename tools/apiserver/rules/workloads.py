"""Rules for workloads, whose selector must match their pod template, and for disruption budgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from .. import cron
from .fields import (
    Document,
    forbidden,
    invalid,
    label_selector,
    non_negative,
    one_of,
    required,
    selects,
    too_long,
    unchanged,
    unsupported,
)
from .percentages import int_or_percent
from .pods import pod_template
from .strategies import strategy

_STATEFUL = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "minReadySeconds",
)
_STATEFUL_RULE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' "
    "and 'minReadySeconds' are forbidden"
)


def workload(kind: str, spec: Document, before: Document | None) -> list[str]:
    """Checks a Deployment, ReplicaSet, StatefulSet, DaemonSet or ReplicationController."""
    problems: list[str] = []
    for field in ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        problems += non_negative(f"spec.{field}", spec.get(field))
    template, selector = spec.get("template"), spec.get("selector")
    pod_labels = ((template or {}).get("metadata") or {}).get("labels") or {}
    if kind == "ReplicationController":
        # the selector is a plain map of labels, and defaults to the labels of the template
        if not selector and not pod_labels:
            problems.append(required("spec.selector"))
        selector = {"matchLabels": selector or {}}
    elif selector is None:
        problems.append(required("spec.selector"))
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        detail = f"empty selector is invalid for {kind.lower()}"
        problems.append(invalid("spec.selector", selector, detail))
    else:
        problems += label_selector("spec.selector", selector)
    if template is None:
        problems.append(required("spec.template"))
    else:
        if selector is not None and not selects(selector, pod_labels):
            detail = "`selector` does not match template `labels`"
            problems.append(invalid("spec.template.metadata.labels", pod_labels, detail))
        problems += pod_template("spec.template", _with_claims(spec, template))
        restart = (template.get("spec") or {}).get("restartPolicy")
        if restart in ("Never", "OnFailure"):
            problems.append(unsupported("spec.template.spec.restartPolicy", restart, ("Always",)))
    problems += strategy(kind, spec)
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if deadline is not None and deadline <= ready:
        detail = "must be greater than minReadySeconds"
        problems.append(invalid("spec.progressDeadlineSeconds", deadline, detail))
    if kind == "StatefulSet":
        problems += one_of(
            "spec.podManagementPolicy",
            spec.get("podManagementPolicy"),
            ("OrderedReady", "Parallel"),
        )
        start = (spec.get("ordinals") or {}).get("start")
        problems += non_negative("spec.ordinals.start", start)
        policy = spec.get("persistentVolumeClaimRetentionPolicy") or {}
        for field in ("whenDeleted", "whenScaled"):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            problems += one_of(path, policy.get(field), ("Delete", "Retain"))
    if before is not None:
        problems += _workload_update(kind, spec, before)
    return problems


def _with_claims(spec: Document, template: Document) -> Document:
    """Returns a stateful set's template with the volumes of its claims, for containers to mount."""
    names = [
        (claim.get("metadata") or {}).get("name")
        for claim in spec.get("volumeClaimTemplates") or ()
    ]
    if not names:
        return template
    of_pod = template.get("spec") or {}
    volumes = [volume for volume in of_pod.get("volumes") or () if volume.get("name") not in names]
    volumes += [{"name": name, "emptyDir": {}} for name in names if name]
    return {**template, "spec": {**of_pod, "volumes": volumes}}


def _workload_update(kind: str, spec: Document, before: Document) -> list[str]:
    if kind == "ReplicationController":
        return []
    if kind != "StatefulSet":
        return unchanged("spec.selector", spec.get("selector"), before.get("selector"))
    kept = {*spec, *before} - {*_STATEFUL, "persistentVolumeClaimRetentionPolicy"}
    changed = any(spec.get(field) != before.get(field) for field in kept)
    return [forbidden("spec", _STATEFUL_RULE)] if changed else []


def job(place: str, spec: Document, before: Document | None) -> list[str]:
    """Checks the spec of a job, which is at `place`."""
    problems: list[str] = []
    fields = (
        "parallelism",
        "completions",
        "backoffLimit",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
    )
    for field in fields:
        problems += non_negative(f"{place}.{field}", spec.get(field))
    problems += one_of(
        f"{place}.completionMode", spec.get("completionMode"), ("NonIndexed", "Indexed")
    )
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        problems.append(required(f"{place}.completions", "when completion mode is Indexed"))
    problems += _policies(place, spec)
    template = spec.get("template") or {}
    problems += pod_template(f"{place}.template", template)
    if (template.get("spec") or {}).get("restartPolicy") not in ("OnFailure", "Never"):
        problems.append(
            required(f"{place}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
        )
    if before is not None:
        problems += unchanged(f"{place}.selector", spec.get("selector"), before.get("selector"))
        problems += unchanged(
            f"{place}.completionMode", spec.get("completionMode"), before.get("completionMode")
        )
        if not before.get("suspend"):  # a suspended job may still change where its pods run
            problems += unchanged(f"{place}.template", template, before.get("template"))
    return problems


def _policies(place: str, spec: Document) -> list[str]:
    """Checks how a job judges pods that have ended."""
    problems: list[str] = []
    indexed, per_index = spec.get("completionMode") == "Indexed", spec.get("backoffLimitPerIndex")
    if per_index is not None and not indexed:
        detail = "requires indexed completion mode"
        problems.append(invalid(f"{place}.backoffLimitPerIndex", per_index, detail))
    if spec.get("maxFailedIndexes") is not None and per_index is None:
        detail = "when maxFailedIndexes is specified"
        problems.append(required(f"{place}.backoffLimitPerIndex", detail))
    success = spec.get("successPolicy")
    if success is not None:
        if not indexed:
            detail = "requires indexed completion mode"
            problems.append(invalid(f"{place}.successPolicy", success, detail))
        if not success.get("rules"):
            detail = "at least one rules must be specified when the successPolicy is specified"
            problems.append(required(f"{place}.successPolicy.rules", detail))
    replacement, failure = spec.get("podReplacementPolicy"), spec.get("podFailurePolicy")
    choices = ("Failed",) if failure is not None else ("Failed", "TerminatingOrFailed")
    problems += one_of(f"{place}.podReplacementPolicy", replacement, choices)
    if failure is None:
        return problems
    pod = (spec.get("template") or {}).get("spec") or {}
    if pod.get("restartPolicy") != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        problems.append(
            invalid(f"{place}.template.spec.restartPolicy", pod.get("restartPolicy"), detail)
        )
    containers = [*(pod.get("containers") or ()), *(pod.get("initContainers") or ())]
    names = {each.get("name") for each in containers}
    for number, rule in enumerate(failure.get("rules") or ()):
        path = f"{place}.podFailurePolicy.rules[{number}]"
        problems += _failure_rule(path, rule, names, per_index=per_index is not None)
    return problems


def _failure_rule(path: str, rule: Document, containers: set[Any], *, per_index: bool) -> list[str]:
    actions = ("Count", "FailIndex", "FailJob", "Ignore")
    action, codes = rule.get("action"), rule.get("onExitCodes")
    problems = [] if action else [required(f"{path}.action", f"valid values: {_quoted(actions)}")]
    problems += one_of(f"{path}.action", action or None, actions)
    if action == "FailIndex" and not per_index:
        detail = "requires the backoffLimitPerIndex to be set"
        problems.append(invalid(f"{path}.action", action, detail))
    patterns = rule.get("onPodConditions") or ()
    if (codes is None) == (not patterns):
        which = "one of OnExitCodes and OnPodConditions is required"
        both = "specifying both OnExitCodes and OnPodConditions is not supported"
        problems.append(invalid(path, rule, which if codes is None else both))
    if codes is not None:
        values = codes.get("values") or []
        place = f"{path}.onExitCodes"
        problems += one_of(f"{place}.operator", codes.get("operator"), ("In", "NotIn"))
        name = codes.get("containerName")
        if name is not None and name not in containers:
            detail = "must be one of the container or initContainer names in the pod template"
            problems.append(invalid(f"{place}.containerName", name, detail))
        if not values:
            problems.append(invalid(f"{place}.values", values, "at least one value is required"))
        elif values != sorted(set(values)):
            problems.append(invalid(f"{place}.values", values, "must be ordered"))
        elif codes.get("operator") == "In" and 0 in values:
            detail = "must not be 0 for the In operator"
            problems.append(invalid(f"{place}.values[{values.index(0)}]", 0, detail))
    return problems


def _quoted(words: Sequence[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def cron_job(document: Document) -> list[str]:
    spec, name = document.get("spec") or {}, document["metadata"].get("name") or ""
    problems = [too_long("metadata.name", 52)] if len(name) > 52 else []
    schedule, zone = spec.get("schedule"), spec.get("timeZone")
    if not schedule:
        problems.append(required("spec.schedule"))
    elif "TZ" in schedule:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        problems.append(invalid("spec.schedule", schedule, detail))
    else:
        try:
            cron.parse(schedule)
        except ValueError as why:
            problems.append(invalid("spec.schedule", schedule, str(why)))
    if zone is not None:
        try:
            ZoneInfo(zone)
        except (ValueError, OSError, ZoneInfoNotFoundError):
            problems.append(invalid("spec.timeZone", zone, f"unknown time zone {zone}"))
    problems += non_negative("spec.startingDeadlineSeconds", spec.get("startingDeadlineSeconds"))
    for limit in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        problems += non_negative(f"spec.{limit}", spec.get(limit))
    policies = ("Allow", "Forbid", "Replace")
    problems += one_of("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), policies)
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    return problems + job("spec.jobTemplate.spec", template, None)


def revision(document: Document, before: Document | None) -> list[str]:
    data = document.get("data")
    problems = non_negative("revision", document.get("revision"))
    if before is not None:
        return problems + unchanged("data", data, before.get("data"))
    if data is None:
        problems.append(required("data", "data is mandatory"))
    elif not isinstance(data, dict):
        problems.append(required("data", "data must be a valid JSON object"))
    return problems


def disruption_budget(spec: Document) -> list[str]:
    problems = label_selector("spec.selector", spec.get("selector"))
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        problems.append(invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    for field in ("minAvailable", "maxUnavailable"):
        problems += int_or_percent(f"spec.{field}", spec.get(field))
    policies = ("AlwaysAllow", "IfHealthyBudget")
    return problems + one_of(
        "spec.unhealthyPodEvictionPolicy", spec.get("unhealthyPodEvictionPolicy"), policies
    )
