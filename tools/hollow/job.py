"""The Job controller: runs pods until enough of them have succeeded, or too many have failed.

Finished pods are counted only while they exist: no finalizer keeps them until they are counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from .claim import claim
from .documents import (
    Document,
    annotations_of,
    condition_of,
    deleting,
    is_active,
    is_ready,
    name_of,
    phase_of,
    pod_from,
    seconds_since,
    stamp,
    status_of,
    uid_of,
    with_condition,
)
from .replica_set import surplus
from .writes import Again, Create, Write, delete, status_writes

INDEX = "batch.kubernetes.io/job-completion-index"


def reconcile(job: Document, candidates: Iterable[Document], now: datetime) -> list[Write]:
    """Creates or deletes pods, writes the status, and deletes a job whose time to live is over."""
    if finished(job):
        return _expire(job, now)
    pods, writes = claim(job, candidates)
    if deleting(job):
        return writes
    active = [pod for pod in pods if is_active(pod)]
    succeeded = [pod for pod in pods if phase_of(pod) == "Succeeded"]
    failed = [pod for pod in pods if phase_of(pod) == "Failed"]
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
    if condition_of(job, "Suspended") is not None:
        status["conditions"] = with_condition(
            job, "Suspended", False, "JobResumed", "Job resumed", now
        )
        job = {**job, "status": status}
    end = _end(job, status, now)
    if end is not None:
        return [*writes, *map(delete, active), *status_writes(job, end)]
    writes += _pods(job, active, succeeded) + status_writes(job, status)
    deadline = job["spec"].get("activeDeadlineSeconds")
    return (
        writes
        if deadline is None
        else [*writes, Again(deadline - seconds_since(status["startTime"], now))]
    )


def finished(job: Document) -> bool:
    return any(
        (condition_of(job, kind) or {}).get("status") == "True" for kind in ("Complete", "Failed")
    )


def labels(job: Document) -> dict[str, str]:
    """The labels that mark a job's pods."""
    uid, name = uid_of(job), name_of(job)
    return {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }


def _indexed(job: Document) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def _index(pod: Document) -> int:
    return int(annotations_of(pod).get(INDEX, -1))


def _number(job: Document, field: str, default: int) -> int:
    given = job["spec"].get(field)
    return default if given is None else int(given)


def _completions(job: Document) -> int | None:
    """None for a work queue; 1 if the job sets neither completions nor parallelism."""
    given = job["spec"].get("completions")
    if given is None and job["spec"].get("parallelism") is None:
        return 1
    return None if given is None else int(given)


def _pods(job: Document, active: list[Document], succeeded: list[Document]) -> list[Write]:
    parallelism, completions = _number(job, "parallelism", 1), _completions(job)
    if completions is None:
        wanted = min(len(active), parallelism) if succeeded else parallelism
    else:
        wanted = min(parallelism, completions - len(succeeded))
    missing = wanted - len(active)
    if missing <= 0:
        return [delete(pod) for pod in surplus(active, -missing)]
    if not _indexed(job):
        return [Create("Pod", _pod(job, None)) for _ in range(missing)]
    taken = {_index(pod) for pod in [*active, *succeeded]}
    free = [index for index in range(completions or 0) if index not in taken]
    return [Create("Pod", _pod(job, index)) for index in free[:missing]]


def _pod(job: Document, index: int | None) -> Document:
    pod = pod_from(job, job["spec"]["template"], labels=labels(job))
    if index is not None:
        metadata, name = pod["metadata"], f"{name_of(job)}-{index}"
        metadata["generateName"] = f"{name}-"
        metadata["annotations"] = {**metadata.get("annotations", {}), INDEX: str(index)}
        metadata["labels"][INDEX] = str(index)
        pod["spec"] = {**pod["spec"], "hostname": name}
    return pod


def _suspended(
    job: Document, status: Document, active: list[Document], now: datetime
) -> list[Write] | None:
    """The writes for a suspended job, which has no pods; None if it is not suspended."""
    if not job["spec"].get("suspend"):
        return None
    conditions = with_condition(job, "Suspended", True, "JobSuspended", "Job suspended", now)
    rest = {field: value for field, value in status.items() if field != "startTime"}
    return [*map(delete, active), *status_writes(job, {**rest, "conditions": conditions})]


def _end(job: Document, status: Document, now: datetime) -> Document | None:
    """The status of a job that has just completed or failed; None if it continues."""
    completions, deadline = _completions(job), job["spec"].get("activeDeadlineSeconds")
    if status["failed"] > _number(job, "backoffLimit", 6):
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
        end["conditions"] = with_condition({"status": end}, kind, True, *why, now)
    return end


def _expire(job: Document, now: datetime) -> list[Write]:
    seconds = job["spec"].get("ttlSecondsAfterFinished")
    if seconds is None or deleting(job):
        return []
    end = condition_of(job, "Complete") or condition_of(job, "Failed") or {}
    left = seconds - seconds_since(end.get("lastTransitionTime"), now)
    return [Again(left)] if left > 0 else [delete(job)]


def _ranges(indexes: list[int]) -> str:
    """Indexes in the notation of completedIndexes, such as `0-2,5`."""
    ranges: list[list[int]] = []
    for index in indexes:
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)
