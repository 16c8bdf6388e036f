"""The Job controller: runs pods until enough of them have succeeded, or too many have failed.

Finished pods are counted only while they exist: no finalizer keeps them until they are counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from berth.actors.scheduling.kube.core import Pod

from .claim import claim
from .documents import pod_from, stamp, status_of, with_condition
from .objects import (
    Document,
    Job,
    condition_of,
    deleting,
    holds,
    is_active,
    is_ready,
    seconds_since,
)
from .replica_set import surplus
from .writes import Again, Create, Write, delete, status_writes

INDEX = "batch.kubernetes.io/job-completion-index"


def reconcile(job: Job, candidates: Iterable[Pod], now: datetime) -> list[Write]:
    """Creates or deletes pods, writes the status, and deletes a job whose time to live is over."""
    if finished(job):
        return _expire(job, now)
    pods, writes = claim(job, candidates)
    if deleting(job):
        return writes
    active = [pod for pod in pods if is_active(pod)]
    succeeded = [pod for pod in pods if pod.status.phase == "Succeeded"]
    failed = [pod for pod in pods if pod.status.phase == "Failed"]
    if _indexed(job):
        succeeded = list({_index(pod): pod for pod in succeeded}.values())
    status: Document = {
        **status_of(job),
        "active": len(active),
        "ready": sum(map(is_ready, active)),
        "succeeded": len(succeeded),
        "failed": len(failed),
    }
    status.setdefault("startTime", stamp(now))
    if _indexed(job):
        status["completedIndexes"] = _ranges(sorted(_index(pod) for pod in succeeded))
    suspended = _suspended(job, status, active, now)
    if suspended is not None:
        return writes + suspended
    conditions = job.status.conditions
    if condition_of(conditions, "Suspended") is not None:
        status["conditions"] = with_condition(
            conditions, "Suspended", False, "JobResumed", "Job resumed", now
        )
    end = _end(job, status, now)
    if end is not None:
        return [*writes, *map(delete, active), *status_writes(job, end)]
    writes += _pods(job, active, succeeded) + status_writes(job, status)
    deadline = job.spec.active_deadline_seconds
    return (
        writes
        if deadline is None
        else [*writes, Again(deadline - seconds_since(status["startTime"], now))]
    )


def finished(job: Job) -> bool:
    return any(holds(job.status.conditions, kind) for kind in ("Complete", "Failed"))


def labels(job: Job) -> dict[str, str]:
    """Returns the labels that mark a job's pods."""
    uid, name = job.metadata.uid, job.metadata.name
    return {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }


def _indexed(job: Job) -> bool:
    return job.spec.completion_mode == "Indexed"


def _index(pod: Pod) -> int:
    return int(pod.metadata.annotations.get(INDEX, -1))


def _completions(job: Job) -> int | None:
    """Returns None for a work queue; 1 if the job sets neither completions nor parallelism."""
    if job.spec.completions is None and job.spec.parallelism is None:
        return 1
    return job.spec.completions


def _pods(job: Job, active: list[Pod], succeeded: list[Pod]) -> list[Write]:
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    completions = _completions(job)
    if completions is None:
        desired = min(len(active), parallelism) if succeeded else parallelism
    else:
        desired = min(parallelism, completions - len(succeeded))
    missing = desired - len(active)
    if missing <= 0:
        return [delete(pod) for pod in surplus(active, -missing)]
    if not _indexed(job):
        return [Create("Pod", _pod(job, None)) for _ in range(missing)]
    taken = {_index(pod) for pod in [*active, *succeeded]}
    free = [index for index in range(completions or 0) if index not in taken]
    return [Create("Pod", _pod(job, index)) for index in free[:missing]]


def _pod(job: Job, index: int | None) -> Document:
    pod = pod_from(job, labels=labels(job))
    if index is not None:
        metadata, name = pod["metadata"], f"{job.metadata.name}-{index}"
        metadata["generateName"] = f"{name}-"
        metadata["annotations"] = {**metadata.get("annotations", {}), INDEX: str(index)}
        metadata["labels"][INDEX] = str(index)
        pod["spec"] = {**pod["spec"], "hostname": name}
    return pod


def _suspended(job: Job, status: Document, active: list[Pod], now: datetime) -> list[Write] | None:
    """Returns the writes for a suspended job, which has no pods; None if it is not suspended."""
    if not job.spec.suspend:
        return None
    conditions = job.status.conditions
    suspended = with_condition(conditions, "Suspended", True, "JobSuspended", "Job suspended", now)
    rest = {field: value for field, value in status.items() if field != "startTime"}
    return [*map(delete, active), *status_writes(job, {**rest, "conditions": suspended})]


def _end(job: Job, status: Document, now: datetime) -> Document | None:
    """Returns the status of a job that has just completed or failed; None if it continues."""
    completions, deadline = _completions(job), job.spec.active_deadline_seconds
    if status["failed"] > (6 if job.spec.backoff_limit is None else job.spec.backoff_limit):
        why = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        kinds = ("FailureTarget", "Failed")
    elif deadline is not None and seconds_since(status["startTime"], now) >= deadline:
        why = ("DeadlineExceeded", "Job was active longer than specified deadline")
        kinds = ("FailureTarget", "Failed")
    elif (
        status["succeeded"] >= completions
        if completions is not None
        else status["succeeded"] > 0 and not status["active"]
    ):
        why = ("CompletionsReached", "Reached expected number of succeeded pods")
        kinds = ("SuccessCriteriaMet", "Complete")
        status = {**status, "completionTime": stamp(now)}
    else:
        return None
    end = {**status, "active": 0, "ready": 0}
    for kind in kinds:
        end["conditions"] = with_condition(end.get("conditions") or (), kind, True, *why, now)
    return end


def _expire(job: Job, now: datetime) -> list[Write]:
    seconds, conditions = job.spec.ttl_seconds_after_finished, job.status.conditions
    if seconds is None or deleting(job):
        return []
    end = condition_of(conditions, "Complete") or condition_of(conditions, "Failed")
    left = seconds - seconds_since(end.last_transition_time if end else None, now)
    return [Again(left)] if left > 0 else [delete(job)]


def _ranges(indexes: list[int]) -> str:
    """Returns indexes in the notation of completedIndexes, such as `0-2,5`."""
    ranges: list[list[int]] = []
    for index in indexes:
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)
