"""When a CronJob creates jobs, and which it deletes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.kube.times import rfc3339
from berth.tools.kubernetes.objects.documents import reference_to
from berth.tools.kubernetes.objects.structs import CronJob, Document, Job, read
from berth.tools.kubernetes.objects.writes import Again, Create, Delete, Look, Patch, Write
from berth.tools.kubernetes.workloads.cron_job import SCHEDULED, reconcile

CREATED = datetime.fromisoformat("2026-01-01T10:17:30Z")


def cron(status: Document | None = None, **spec: Any) -> CronJob:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"parallelism": 2}}
    metadata = {"name": "c", "namespace": "n", "uid": "u", "creationTimestamp": rfc3339(CREATED)}
    whole = {"schedule": "0 * * * *", "jobTemplate": template, **spec}
    return read({"metadata": metadata, "spec": whole, "status": status or {}}, CronJob)


def job(name: str, end: str = "", hour: int = 11, completed: str = "") -> Job:
    time = f"2026-01-01T{hour:02}:00:00Z"
    metadata = {
        "name": name,
        "namespace": "n",
        "uid": f"uid-{name}",
        "annotations": {SCHEDULED: time},
        "ownerReferences": [reference_to(cron())],
    }
    conditions = [{"type": end, "status": "True"}] if end else []
    status = {"conditions": conditions, "startTime": time, "completionTime": completed or None}
    return read({"metadata": metadata, "status": status}, Job)


def at(minutes: float) -> datetime:
    """Returns a time so many minutes after 11:00."""
    return datetime.fromisoformat("2026-01-01T11:00:00Z") + timedelta(minutes=minutes)


def none(_: str) -> bool:
    return False


def created(writes: list[Write]) -> list[str]:
    jobs = [write for write in writes if isinstance(write, Create) and write.kind == "Job"]
    documents = [write.document for write in jobs]
    return [document["metadata"]["annotations"][SCHEDULED][11:16] for document in documents]


def deleted(writes: list[Write]) -> list[str]:
    return [write.name for write in writes if isinstance(write, Delete)]


def test_a_job_is_created_at_its_time() -> None:
    assert reconcile(cron(), [], at(-10), none) == [Again(600.1)]
    create, again = reconcile(cron(), [], at(0.5), none)
    assert isinstance(create, Create)
    minutes = int(at(0).timestamp()) // 60
    assert create.document["metadata"] == {
        "name": f"c-{minutes}",
        "namespace": "n",
        "labels": {"a": "b"},
        "annotations": {SCHEDULED: "2026-01-01T11:00:00Z"},
        "ownerReferences": [reference_to(cron())],
    }
    assert create.document["spec"] == {"parallelism": 2}
    assert again == Again(3570.1)
    assert reconcile(cron(), [], at(0.5), lambda name: name == f"c-{minutes}") == [again]


@pytest.mark.parametrize(
    ("minutes", "spec", "last", "times"),
    [
        (-1, {}, "", []),
        (0, {}, "", ["11:00"]),
        (59, {}, "2026-01-01T11:00:00Z", []),
        (60, {}, "2026-01-01T11:00:00Z", ["12:00"]),
        (5, {"startingDeadlineSeconds": 60}, "", []),
        (5, {"startingDeadlineSeconds": 600}, "", ["11:00"]),
        (5, {"startingDeadlineSeconds": 2**63 - 1}, "", ["11:00"]),
        (305, {}, "", ["16:00"]),
        (60 * 24 * 365, {}, "", ["11:00"]),
        (5, {"suspend": True}, "", []),
        (5, {"timeZone": "Asia/Kolkata", "schedule": "0 16 * * *"}, "", ["16:00"]),
        (5, {"timeZone": "Asia/Kolkata", "schedule": "0 11 * * *"}, "", []),
        (5, {"timeZone": "Asia/Kolkata", "schedule": "31 16 * * *"}, "", ["16:31"]),
        (5, {"schedule": "0 0 30 2 *"}, "", []),
        (5, {"schedule": "nonsense"}, "", []),
        (5, {"timeZone": "Mars/Base"}, "", []),
    ],
)
def test_the_time_of_the_next_job(
    minutes: float, spec: Document, last: str, times: list[str]
) -> None:
    owner = cron({"lastScheduleTime": last} if last else None, **spec)
    assert created(reconcile(owner, [], at(minutes), none)) == times


@pytest.mark.parametrize(
    ("policy", "times", "gone"),
    [("Allow", ["12:00"], []), ("Forbid", [], []), ("Replace", ["12:00"], ["running"])],
)
def test_jobs_at_the_same_time(policy: str, times: list[str], gone: list[str]) -> None:
    writes = reconcile(cron(concurrencyPolicy=policy), [job("running")], at(60), none)
    assert (created(writes), deleted(writes)) == (times, gone)


def test_the_status_tells_of_the_jobs() -> None:
    jobs = [job("a", hour=12), job("b", "Complete", 11, "2026-01-01T11:30:00Z")]
    (write,) = (each for each in reconcile(cron(), jobs, at(65), none) if isinstance(each, Patch))
    status = write.body["status"]
    assert [each["name"] for each in status["active"]] == ["a"]
    assert status["lastScheduleTime"] == "2026-01-01T12:00:00Z"
    assert status["lastSuccessfulTime"] == "2026-01-01T11:30:00Z"


def test_the_oldest_finished_jobs_are_deleted() -> None:
    jobs = [job(f"good{hour}", "Complete", hour) for hour in (9, 7, 8)]
    jobs += [job(f"bad{hour}", "Failed", hour) for hour in (7, 8)] + [job("running", hour=6)]
    owner = cron(successfulJobsHistoryLimit=1, failedJobsHistoryLimit=1)
    assert deleted(reconcile(owner, jobs, at(-30), none)) == ["good7", "good8", "bad7"]


def told(owner: CronJob, *jobs: Job) -> list[str]:
    """Returns the messages of the events and notices for a decision at 12:00."""
    writes = reconcile(owner, jobs, at(60), none)
    events = [w.document for w in writes if isinstance(w, Create) and w.kind == "Event"]
    notices = [notice for w in writes if not isinstance(w, Again | Look) for notice in w.notices]
    return [*(event["message"] for event in events), *(notice.message for notice in notices)]


def test_events_tell_what_became_of_the_jobs() -> None:
    active = [{"name": name, "uid": f"uid-{name}"} for name in ("a", "b", "c")]
    owner = cron({"active": active}, concurrencyPolicy="Forbid")
    assert told(owner, job("a"), job("b", "Failed")) == [
        "Not starting job because prior execution is running and concurrency policy is Forbid",
        "Saw completed job: b, condition: Failed",
        "Active job went missing: c",
    ]
    owner = cron({"active": active[:1]}, concurrencyPolicy="Replace")
    assert told(owner, job("a")) == ["Deleted job {name}", "Created job {name}"]


def test_a_job_that_was_created_by_hand_is_not_counted() -> None:
    by_hand = job("m")
    metadata = msgspec.structs.replace(by_hand.metadata, annotations={})
    by_hand = msgspec.structs.replace(by_hand, metadata=metadata)
    owner = cron(concurrencyPolicy="Forbid")
    assert told(owner, by_hand) == [
        "Saw a job that the controller did not create or forgot: m",
        "Created job {name}",
    ]
    assert not any(isinstance(w, Patch) for w in reconcile(owner, [by_hand], at(60), none))


@pytest.mark.parametrize(
    ("minutes", "schedule", "reasons"),
    [
        (0, "0 0 30 2 *", ["InvalidSchedule"]),
        (98, "* * * * *", []),
        (120, "* * * * *", ["TooManyMissedTimes"]),
    ],
)
def test_events_warn_of_a_schedule(minutes: float, schedule: str, reasons: list[str]) -> None:
    since = {"lastScheduleTime": "2026-01-01T11:00:00Z"}
    writes = reconcile(cron(since, schedule=schedule), [], at(minutes), none)
    events = [w.document for w in writes if isinstance(w, Create) and w.kind == "Event"]
    assert [event["reason"] for event in events] == reasons
