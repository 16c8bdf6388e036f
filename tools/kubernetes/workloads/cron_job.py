"""The CronJob controller: creates a Job at each time of a schedule, and deletes old Jobs.

A job is named after its time, so no time gets two jobs. The status follows from the jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from berth.actors.scheduling.kube.times import rfc3339

from ..api.cron import Schedule, parse
from ..objects.documents import reference_to, status_of
from ..objects.object_events import Reporter, event_about
from ..objects.properties import controller_of, deleting, holds
from ..objects.structs import CronJob, Document, Job, read
from ..objects.writes import Again, Create, Delete, Notice, Write, delete, status_writes
from .job.job_controller import finished

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
REPORTER = Reporter("cronjob-controller")
_CREATED = Notice("SuccessfulCreate", "Created job {name}")
PADDING = 0.1  # seconds after a time at which the controller decides
MANY = 100  # missed times, from which on an event warns of them


def reconcile(
    owner: CronJob, candidates: Iterable[Job], now: datetime, exists: Callable[[str], bool]
) -> list[Write]:
    """Creates and deletes jobs, and writes the status.

    `exists` returns True if there is a job of this name, whoever owns it.
    """
    uid = owner.metadata.uid
    jobs = [job for job in candidates if (by := controller_of(job)) and by.uid == uid]
    writes = _delete_old_jobs(owner, jobs)
    running = [job for job in jobs if not finished(job)]
    active = sorted(filter(_scheduled, running), key=lambda job: _scheduled(job) or "")
    # such as those of kubectl create job --from
    writes += (_unexpected(owner, job, now) for job in running if job not in active)
    notices = tuple(_notices_of_ended(owner, jobs))
    if not deleting(owner) and not owner.spec.suspend:
        last = _status(owner, jobs, active).get("lastScheduleTime")
        writes += _create_due_job(owner, active, last, now, exists)
    deleted = {write.uid for write in writes if isinstance(write, Delete)}
    active = [job for job in active if job.metadata.uid not in deleted]
    return writes + status_writes(owner, _status(owner, jobs, active), notices)


def _unexpected(owner: CronJob, job: Job, now: datetime) -> Create:
    why = f"Saw a job that the controller did not create or forgot: {job.metadata.name}"
    return _warning(owner, "UnexpectedJob", why, now)


def _warning(owner: CronJob, reason: str, why: str, now: datetime) -> Create:
    return Create("Event", event_about(owner, "Warning", reason, why, REPORTER, now))


def _notices_of_ended(owner: CronJob, jobs: list[Job]) -> Iterator[Notice]:
    """Yields the notices about active jobs that have ended or are gone."""
    by_uid = {job.metadata.uid: job for job in jobs}
    for reference in owner.status.active:
        job = by_uid.get(reference.uid)
        if job is None:
            yield Notice("MissingJob", f"Active job went missing: {reference.name}")
        elif finished(job):
            end = "Complete" if holds(job.status.conditions, "Complete") else "Failed"
            message = f"Saw completed job: {reference.name}, condition: {end}"
            yield Notice("SawCompletedJob", message)


def _status(owner: CronJob, jobs: list[Job], active: list[Job]) -> Document:
    status = {
        **status_of(owner),
        "active": [
            {
                **{
                    field: reference_to(job)[field]
                    for field in ("apiVersion", "kind", "name", "uid")
                },
                "namespace": job.metadata.namespace,
                "resourceVersion": _first_seen_version(owner, job),
            }
            for job in active
        ],
    }
    times = [status.get("lastScheduleTime"), *map(_scheduled, jobs)]
    ends = [
        status.get("lastSuccessfulTime"),
        *(job.status.completion_time for job in jobs if holds(job.status.conditions, "Complete")),
    ]
    for field, values in (("lastScheduleTime", times), ("lastSuccessfulTime", ends)):
        latest_time = max((value for value in values if value), default=None)
        if latest_time is not None:
            status[field] = latest_time
    return status


def _first_seen_version(owner: CronJob, job: Job) -> str:
    """Returns the resource version of a job in the status: that at which it was first seen."""
    versions = (
        each.resource_version for each in owner.status.active if each.uid == job.metadata.uid
    )
    return next(versions, job.metadata.resource_version)


def _scheduled(job: Job) -> str | None:
    """Returns the time, in UTC, that a job was created for."""
    text = job.metadata.annotations.get(SCHEDULED)
    return rfc3339(datetime.fromisoformat(text)) if text else None


def _create_due_job(
    owner: CronJob,
    active: list[Job],
    last: str | None,
    now: datetime,
    exists: Callable[[str], bool],
) -> list[Write]:
    """Creates the job of the latest time, and asks to be called again at the next."""
    spec = owner.spec
    try:
        schedule, zone = parse(spec.schedule), ZoneInfo(spec.time_zone or "UTC")
    except (ValueError, ZoneInfoNotFoundError):
        return []
    start = datetime.fromisoformat(last or owner.metadata.creation_timestamp or rfc3339(now))
    deadline = spec.starting_deadline_seconds
    if deadline is not None and deadline < (now - start).total_seconds():
        start = now - timedelta(seconds=deadline)
    first = schedule.after(start, zone)
    if first is None:
        why = f"invalid schedule: {spec.schedule} : it names no time"
        return [_warning(owner, "InvalidSchedule", why, now)]
    due, missed = latest_time(schedule, zone, first, now)
    following = schedule.after(due or max(start, now - timedelta(seconds=1)), zone)
    while following is not None and following <= now:
        following = schedule.after(following, zone)
    again: list[Write] = (
        [Again((following - now).total_seconds() + PADDING)] if following is not None else []
    )
    if due is None or rfc3339(due) == last:
        return again
    job = _job(owner, due, zone)
    if exists(job["metadata"]["name"]):
        return again
    if spec.concurrency_policy == "Forbid" and active:
        why = "Not starting job because prior execution is running and concurrency policy is Forbid"
        event = event_about(owner, "Normal", "JobAlreadyActive", why, REPORTER, now)
        return [Create("Event", event), *again]
    replaced = active if spec.concurrency_policy == "Replace" else []
    why = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check "
    why += "clock skew"
    warnings = [_warning(owner, "TooManyMissedTimes", why, now)] if missed > MANY else []
    return [*warnings, *map(_deletion, replaced), Create("Job", job, (_CREATED,)), *again]


def _deletion(job: Job) -> Delete:
    return delete(job, notices=(Notice("SuccessfulDelete", "Deleted job {name}"),))


def latest_time(
    schedule: Schedule, zone: ZoneInfo, first: datetime, now: datetime
) -> tuple[datetime | None, int]:
    """Returns the latest past time of a schedule, and about how many past times there are.

    The time is None if not even `first` has passed. If many have passed, most of them are skipped
    by the interval between the first two.
    """
    second = schedule.after(first, zone)
    if first > now:
        return None, 0
    if second is None or second > now:
        return first, 1
    interval = second - first
    missed = (now - first) // interval + 1
    time = schedule.after(first + (missed - 2) * interval, zone)
    due = None
    while time is not None and time <= now:
        due, time = time, schedule.after(time, zone)
    return due, missed


def first_job(owner: CronJob) -> Job:
    """Returns a job as its CronJob would create it, with a made-up name and uid."""
    document = _job(owner, datetime.fromtimestamp(0, UTC), ZoneInfo("UTC"))
    metadata = {**document["metadata"], "uid": f"{owner.metadata.uid}-job"}
    return read({**document, "metadata": metadata}, Job)


def _job(owner: CronJob, time: datetime, zone: ZoneInfo) -> Document:
    template = owner.spec.job_template
    metadata = template.get("metadata") or {}
    local = time.astimezone(zone).isoformat(timespec="seconds").replace("+00:00", "Z")
    minutes = int(time.astimezone(UTC).timestamp()) // 60
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{owner.metadata.name}-{minutes}",
            "namespace": owner.metadata.namespace,
            "labels": metadata.get("labels") or {},
            "annotations": {**(metadata.get("annotations") or {}), SCHEDULED: local},
            "ownerReferences": [reference_to(owner)],
        },
        "spec": template.get("spec") or {},
    }


def _delete_old_jobs(owner: CronJob, jobs: list[Job]) -> list[Write]:
    """Deletes the oldest finished jobs beyond the limits of the history."""
    spec, writes = owner.spec, list[Write]()
    for kind, limit in (
        ("Complete", spec.successful_jobs_history_limit),
        ("Failed", spec.failed_jobs_history_limit),
    ):
        ended = [job for job in jobs if holds(job.status.conditions, kind) and not deleting(job)]
        ended.sort(key=lambda job: (job.status.start_time or "~", job.metadata.name))
        if limit is not None:
            writes += map(_deletion, ended[: max(len(ended) - limit, 0)])
    return writes
