"""Rules for workloads, whose selector must match their template, and for disruption budgets."""

from __future__ import annotations

from collections.abc import Iterator
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from berth.actors.scheduling.kube.names import dns_label

from .. import cron
from ..types.schema import TYPES, canonical, same
from .fields import (
    IMMUTABLE,
    Document,
    forbidden,
    go_struct,
    invalid,
    label_selector,
    required,
    selects,
    unchanged,
    unsupported,
)
from .job_rules import completion_mode_fields, end_policies
from .strategy_rules import strategy

_CRON_JOB_NAME = 52  # characters; those of its jobs are 11 longer
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


def workload(kind: str, spec: Document, before: Document | None) -> Iterator[str]:
    """Checks a Deployment, ReplicaSet, StatefulSet, DaemonSet or ReplicationController."""
    template, selector = spec.get("template") or {}, spec.get("selector")
    pod_labels = (template.get("metadata") or {}).get("labels") or {}
    if kind == "ReplicationController":
        selector = {"matchLabels": selector or {}}  # the selector is a plain map of labels
    elif selector == {}:
        name = "deployment" if kind == "ReplicaSet" else kind.lower()
        yield invalid("spec.selector", selector, f"empty selector is invalid for {name}")
    malformed = kind != "ReplicationController" and bool(label_selector("", selector))
    if malformed and kind != "DaemonSet":
        detail = "" if kind == "StatefulSet" else "invalid label selector"
        yield invalid("spec.selector", selector, detail).removesuffix(": ")
    # without a selector, it matches nothing
    if not malformed and (selector is None or not selects(selector, pod_labels)):
        detail = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", pod_labels or None, detail)
    yield from _template_problems(kind, template.get("spec") or {})
    if kind == "StatefulSet":
        yield from _stateful_set(spec, before)
    yield from strategy(kind, spec)
    if kind == "Deployment":
        deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
        if deadline is not None and deadline <= ready:
            detail = "must be greater than minReadySeconds"
            yield invalid("spec.progressDeadlineSeconds", deadline, detail)


def _template_problems(kind: str, pod: Document) -> Iterator[str]:
    """Yields the problems of a template whose pods must always restart."""
    restart, place = pod.get("restartPolicy") or "Always", "spec.template.spec"
    if restart != "Always":
        yield unsupported(f"{place}.restartPolicy", restart, ("Always",))
    if pod.get("activeDeadlineSeconds") is not None:
        name = "ReplicaSet" if kind == "Deployment" else kind
        detail = f"activeDeadlineSeconds in {name} is not Supported"
        yield forbidden(f"{place}.activeDeadlineSeconds", detail)


def _stateful_set(spec: Document, before: Document | None) -> Iterator[str]:
    policy = spec.get("podManagementPolicy") or "OrderedReady"
    if policy not in ("OrderedReady", "Parallel"):
        yield invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    name = spec.get("serviceName")
    if before is None:
        messages = dns_label(name) if name else ()
        yield from (invalid("spec.serviceName", name, message) for message in messages)
        return
    kept = {*spec, *before} - {*_STATEFUL, "persistentVolumeClaimRetentionPolicy"}
    if any(not same("StatefulSetSpec", spec.get(f), before.get(f), f) for f in kept):
        yield forbidden("spec", _STATEFUL_RULE)


def with_claims_as_volumes(spec: Document) -> Document:
    """Returns a StatefulSet's spec as its pods have it: with volumes for its claims, and without
    host names, which it overwrites.
    """
    template = spec.get("template")
    if template is None or template.get("spec") is None:
        return spec
    claims = spec.get("volumeClaimTemplates") or ()
    names = dict.fromkeys((claim.get("metadata") or {}).get("name") or "" for claim in claims)
    pod = {f: v for f, v in template["spec"].items() if f not in ("hostname", "subdomain")}
    volumes = [volume for volume in pod.get("volumes") or () if volume.get("name") not in names]
    volumes += [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    return {**spec, "template": {**template, "spec": {**pod, "volumes": volumes}}}


def job(path: str, spec: Document) -> Iterator[str]:
    """Checks the spec of a Job, also in the template of a CronJob."""
    restart = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
    place = f"{path}.template.spec.restartPolicy"
    if restart in (None, "", "Always"):
        yield required(place, 'valid values: "OnFailure", "Never"')
    elif restart not in ("OnFailure", "Never"):
        yield unsupported(place, restart, ("OnFailure", "Never"))
    elif restart != "Never" and spec.get("podFailurePolicy") is not None:
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        yield invalid(place, restart, detail)
    yield from completion_mode_fields(path, spec)
    yield from end_policies(path, spec)


def whole_job(document: Document, before: Document | None) -> Iterator[str]:
    yield from _own_selector(document, new=before is None)
    if before is None:
        yield from _job_name(document)
    else:
        yield from _job_update(document.get("spec") or {}, before.get("spec") or {})


def _own_selector(document: Document, *, new: bool) -> Iterator[str]:
    """Checks that the selector of a job matches its pods. The selector of a new job must be
    generated, unless it is manual.
    """
    metadata, spec = document.get("metadata") or {}, document.get("spec") or {}
    selector, template = spec.get("selector"), spec.get("template") or {}
    labels = dict(sorted(((template.get("metadata") or {}).get("labels") or {}).items()))
    if selector is None:
        if not (spec.get("manualSelector") and metadata.get("uid")):
            return
        detail = "`selector` does not match template `labels`"
        place = "spec.template.metadata.labels"
        yield required("spec.selector")
        yield invalid(place, labels or None, detail)
        return
    if new and not spec.get("manualSelector"):
        values = {"controller-uid": metadata.get("uid") or "", "job-name": metadata.get("name")}
        expected = {
            f"{prefix}{name}": value or ""
            for prefix in ("", "batch.kubernetes.io/")
            for name, value in values.items()
        }
        for name, value in expected.items():
            place, detail = f"spec.template.metadata.labels[{name}]", f"must be '{value}'"
            if name not in labels:
                yield required(place, detail)
            elif labels[name] != value:
                yield invalid(place, labels, detail)
        if not selects(selector, expected):
            yield invalid("spec.selector", selector, "`selector` not auto-generated")
    if not selects(selector, labels):
        detail = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", labels or None, detail)


def _job_name(document: Document) -> list[str]:
    """Checks that the name of an indexed job, followed by an index, is a valid host name."""
    spec, name = document.get("spec") or {}, (document.get("metadata") or {}).get("name") or ""
    completions = spec.get("completions")
    if spec.get("completionMode") != "Indexed" or not completions or completions < 0:
        return []
    host = f"{name}-{completions - 1}"
    detail = f"will not able to create pod with invalid DNS label: {host}"
    return [invalid("metadata.name", name, detail)] if dns_label(host) else []


def _job_update(spec: Document, before: Document) -> Iterator[str]:
    after, was = spec.get("completions"), before.get("completions")
    if spec.get("completionMode") != "Indexed":
        yield from unchanged("spec.completions", after, was)
    elif after is not None and after not in (was, spec.get("parallelism")):
        detail = "can only be modified in tandem with spec.parallelism"
        yield invalid("spec.completions", after, detail)
    template, had = spec.get("template") or {}, before.get("template") or {}
    if not before.get("suspend"):
        if not same("JobSpec", template, had, "template"):
            yield invalid("spec.template", template, IMMUTABLE)
    elif _immutable_template(template) != _immutable_template(had):
        yield invalid("spec.template.spec", template.get("spec"), IMMUTABLE)


def _immutable_template(template: Document) -> Document:
    """Returns the parts of the template that a suspended job must keep: all but node placement and
    resources.
    """
    pod: Document = canonical(TYPES["PodSpec"], template.get("spec") or {})
    for field in ("nodeSelector", "tolerations", "schedulingGates"):
        pod.pop(field, None)
    affinity = pod.get("affinity", {})
    affinity.pop("nodeAffinity", None)
    if not affinity:
        pod.pop("affinity", None)
    for field in ("containers", "initContainers"):
        for each in pod.get(field, ()):
            each.pop("resources", None)
    return pod


def cron_job(document: Document, before: Document | None) -> Iterator[str]:
    spec, name = document.get("spec") or {}, document["metadata"].get("name") or ""
    if before is None and len(name) > _CRON_JOB_NAME:
        yield invalid("metadata.name", name, f"must be no more than {_CRON_JOB_NAME} characters")
    schedule, zone = spec.get("schedule"), spec.get("timeZone")
    if schedule and "TZ" in schedule:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid("spec.schedule", schedule, detail)
    elif schedule:
        try:
            cron.parse(schedule)
        except ValueError as why:
            yield invalid("spec.schedule", schedule, str(why))
    yield from _time_zone("spec.timeZone", zone)
    job_spec, place = (spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec"
    if job_spec.get("selector") is not None:
        detail = "`selector` will be auto-generated"
        yield invalid(f"{place}.selector", job_spec["selector"], detail)
    if job_spec.get("manualSelector"):
        choices = ("nil", "false")
        yield unsupported(f"{place}.manualSelector", value=True, supported=choices)


def _time_zone(path: str, zone: str | None) -> Iterator[str]:
    if zone is None:
        return
    if not zone:
        yield invalid(path, zone, "timeZone must be nil or non-empty string")
        return
    if zone.lower() == "local":
        place = "https://www.iana.org/time-zones"
        yield invalid(path, zone, f"timeZone must be an explicit time zone as defined in {place}")
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        if zone != "Local":
            yield invalid(path, zone, f"unknown time zone {zone}")


def revision(document: Document, before: Document | None) -> list[str]:
    data = document.get("data")
    if before is not None:
        return []
    if data is None:
        return [required("data", "data is mandatory")]
    if not isinstance(data, dict):
        return [required("data", "data must be a valid JSON object")]
    return []


def disruption_budget(path: str, spec: Document) -> list[str]:
    """Checks that at most one of minAvailable and maxUnavailable is set."""
    if spec.get("minAvailable") is None or spec.get("maxUnavailable") is None:
        return []
    fields = ("MinAvailable", "Selector", "MaxUnavailable", "UnhealthyPodEvictionPolicy")
    detail = "minAvailable and maxUnavailable cannot be both set"
    return [invalid(path, go_struct(spec, fields), detail)]
