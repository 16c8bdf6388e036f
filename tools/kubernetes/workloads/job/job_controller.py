"""The Job controller: runs pods until enough of them have succeeded, or too many have failed.

Each pod is counted exactly once. Its finalizer keeps it until its uid is in the status, among the
uncounted pods; then the finalizer goes, and then the counter takes the place of the uid. Each of
these steps is a decision of its own, which follows from the objects alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from berth.actors.scheduling.kube.times import rfc3339

from ...objects.documents import labels_in, pod_from, status_of
from ...objects.properties import (
    condition_of,
    controls,
    deleting,
    holds,
    is_active,
    is_finished,
    is_ready,
    seconds_since,
)
from ...objects.structs import Condition, Document, Job, Pod
from ...objects.writes import (
    POD_CREATED,
    Again,
    Create,
    Notice,
    Write,
    delete,
    delete_pod,
    patch,
    status_writes,
)
from ..adoption import claim, without_finalizer, would_keep
from ..pod_ranking import by_age
from .backoff import Failures, finish_time, remaining
from .failure_policies import judge, satisfied_rule
from .indexes import first_free, has, parse, single, text_of, total, union

LONGEST_PREFIX = 58  # of a generated name
FINALIZER = "batch.kubernetes.io/job-tracking"
CONTROLLER = "kubernetes.io/job-controller"
INDEX = "batch.kubernetes.io/job-completion-index"
VARIABLE = "JOB_COMPLETION_INDEX"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
BURST = 500  # the most pods that one decision creates, deletes or begins to count
SUCCESS, FAILURE = "SuccessCriteriaMet", "FailureTarget"
_ENDS = {SUCCESS: "Complete", FAILURE: "Failed"}


class JobVerdict(msgspec.Struct, frozen=True):
    """The end of a job: the type, reason and message of its condition."""

    type: str
    reason: str
    message: str


def reconcile(
    job: Job, candidates: Iterable[Pod], now: datetime, failures: Failures, refusal: str = ""
) -> list[Write]:
    """Creates or deletes pods, writes the status, and deletes a job whose time to live is over.

    `failures` belongs to this job, and keeps the failures of pods that are gone. `refusal` says why
    the server refused the last pod; "" if it took it.
    """
    if finished(job):
        mine = [pod for pod in candidates if controls(job, pod)]
        return [*_released(job, mine), *_delete_expired(job, now)]
    if job.spec.managed_by not in (None, CONTROLLER):
        return []
    pods, writes = claim(job, candidates, FINALIZER)
    if deleting(job):
        return [*writes, *_released(job, pods)]
    if not would_keep(job, {**labels_in(job.spec.template), **labels(job)}):
        return writes
    return writes + _Step(job, pods, now, failures, refusal).writes()


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


def without_job_finalizer(pod: Pod) -> list[Write]:
    """Removes the finalizer of a pod that its job need not count any more."""
    left = without_finalizer(pod, FINALIZER)
    return [patch(pod, {"metadata": left}, guarded=True)] if left else []


def _released(job: Job, pods: Iterable[Pod]) -> list[Write]:
    if job.spec.managed_by not in (None, CONTROLLER):
        return []
    return [write for pod in pods for write in without_job_finalizer(pod)]


def _index(pod: Pod) -> int:
    """Returns the completion index of a pod; -1 if it has none."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdecimal() else -1


def _number(pod: Pod, annotation: str) -> int:
    text = pod.metadata.annotations.get(annotation, "")
    return int(text) if text.isdecimal() else 0


def _ends_in_failure(job: Job, pod: Pod) -> bool:
    """True if a pod has failed, or is being deleted and may be replaced before its end."""
    if pod.status.phase == "Failed":
        return True
    only_failed = job.spec.pod_replacement_policy == "Failed"
    return not only_failed and deleting(pod) and pod.status.phase != "Succeeded"


class _Step:
    """One decision on a job that has neither ended nor been deleted."""

    def __init__(
        self, job: Job, pods: list[Pod], now: datetime, failures: Failures, refusal: str
    ) -> None:
        self.job = job
        self.refusal = refusal
        self.now = now
        self.failures = failures
        spec, status = job.spec, job.status
        self.indexed = spec.completion_mode == "Indexed"
        self.per_index = spec.backoff_limit_per_index
        self.parallelism = 1 if spec.parallelism is None else spec.parallelism
        alone = spec.completions is None and spec.parallelism is None
        self.completions = 1 if alone else spec.completions
        self.pods = pods
        self.active = [pod for pod in pods if is_active(pod)]
        self.ready = sum(map(is_ready, self.active))
        self.ending = [pod for pod in pods if deleting(pod) and not is_finished(pod)]
        self.terminating = len(self.ending)
        self.tracked = [pod for pod in pods if FINALIZER in pod.metadata.finalizers]
        self.stored = status.uncounted_terminated_pods
        known_good, known_bad = set(self.stored.succeeded), set(self.stored.failed)
        valid = [pod for pod in self.tracked if self._is_valid(pod)]
        good = [
            pod
            for pod in valid
            if pod.status.phase == "Succeeded" and pod.metadata.uid not in known_good
        ]
        bad = [
            pod for pod in valid if _ends_in_failure(job, pod) and pod.metadata.uid not in known_bad
        ]
        failures.note(good, bad, now)
        self.succeeded = status.succeeded + len(known_good) + len(good)
        self.failed = status.failed + len(known_bad) + sum(judge(job, pod).counts for pod in bad)
        self.indexes: list[range] = []  # that have succeeded
        self.lost: list[range] = []  # indexes that have failed for good
        self.before: list[range] = []  # succeeded indexes in the status
        self.held: dict[int, Pod] = {}  # failed pods that stay until they are replaced
        if self.indexed:
            self._judge_indexes(valid)

    def _is_valid(self, pod: Pod) -> bool:
        return not self.indexed or 0 <= _index(pod) < (self.completions or 0)

    def _judge_indexes(self, valid: list[Pod]) -> None:
        status, completions = self.job.status, self.completions or 0
        self.before = parse(status.completed_indexes, completions)
        done = (_index(pod) for pod in valid if pod.status.phase == "Succeeded")
        self.indexes = union(self.before, single(done))
        self.succeeded = total(self.indexes)
        if self.per_index is None:
            return
        lost = (_index(pod) for pod in valid if self._fails_index(pod))
        self.lost = union(parse(status.failed_indexes, completions), single(lost))
        running = {_index(pod) for pod in self.active}
        for pod in valid:
            index = _index(pod)
            over = has(self.indexes, index) or has(self.lost, index) or index in running
            if over or not _ends_in_failure(self.job, pod):
                continue
            last = self.held.get(index)
            if last is None or (_rank(last) <= _rank(pod)):
                self.held[index] = pod

    def _fails_index(self, pod: Pod) -> bool:
        """True if the failure of a pod makes its index fail for good."""
        if not _ends_in_failure(self.job, pod):
            return False
        verdict = judge(self.job, pod)
        most = self.per_index or 0
        return verdict.action == "FailIndex" or (verdict.counts and _number(pod, FAILURES) >= most)

    def writes(self) -> list[Write]:
        job, now = self.job, self.now
        status: Document = {**status_of(job)}
        suspended = job.spec.suspend
        if not suspended:
            status.setdefault("startTime", rfc3339(now))
        conditions: list[Document] = msgspec.to_builtins(list(job.status.conditions))
        end = self._end(status)
        writes: list[Write] = []
        count = len(self.active)
        if end is not None:
            writes += map(delete_pod, self.active)
            self._count_as_terminating(self.active)
            count = 0
        else:
            writes, count = self._manage()
            if self._is_complete(count):
                end = JobVerdict(
                    SUCCESS, "CompletionsReached", "Reached expected number of succeeded pods"
                )
            else:
                conditions = self._suspension(conditions, status)
        steps = self._count(status, end)
        if end is not None:
            uncounted = status["uncountedTerminatedPods"]
            conditions = self._ended(conditions, status, end, over=not any(uncounted.values()))
        status |= {
            "active": count,
            "ready": self.ready,
            "terminating": self.terminating,
            "conditions": conditions,
        }
        notices = tuple(self._notices(conditions, status))
        return [
            *writes,
            *steps,
            *status_writes(job, status, notices),
            *self._deadline(status, end),
        ]

    def _notices(self, conditions: list[Document], status: Document) -> Iterator[Notice]:
        """Yields the notices about new conditions: an end, a suspension, a resumption."""
        for condition in conditions:
            kind, is_true = condition["type"], condition["status"] == "True"
            if holds(self.job.status.conditions, kind) == is_true:
                continue
            if kind == "Suspended":
                yield Notice("Suspended" if is_true else "Resumed", condition["message"])
            elif kind == "Complete":
                completions = self.job.spec.completions
                if completions is not None and status["succeeded"] > completions:
                    message = "Too many succeeded pods running after completion count reached"
                    yield Notice("TooManySucceededPods", message, "Warning")
                yield Notice("Completed", "Job completed")
            elif kind == "Failed":
                yield Notice(condition["reason"], condition["message"], "Warning")

    def _end(self, status: Document) -> JobVerdict | None:
        """Returns why the job ends; None if it does not, or only through enough completions."""
        job, spec = self.job, self.job.spec
        for type_ in (SUCCESS, FAILURE):
            condition = condition_of(job.status.conditions, type_)
            if condition is not None and condition.status == "True":
                return JobVerdict(type_, condition.reason, condition.message)
        if spec.pod_failure_policy is not None:
            for pod in self.pods:
                message = judge(job, pod).message if _ends_in_failure(job, pod) else ""
                if message:
                    return JobVerdict(FAILURE, "PodFailurePolicy", message)
        if self._exceeds_limit():
            message = "Job has reached the specified backoff limit"
            return JobVerdict(FAILURE, "BackoffLimitExceeded", message)
        deadline = spec.active_deadline_seconds
        running = deadline is not None and not spec.suspend
        if running and seconds_since(status["startTime"], self.now) >= (deadline or 0):
            message = "Job was active longer than specified deadline"
            return JobVerdict(FAILURE, "DeadlineExceeded", message)
        return self._end_of_indexes() if self.indexed else None

    def _exceeds_limit(self) -> bool:
        spec = self.job.spec
        default = 6 if self.per_index is None else 2**31 - 1
        limit = default if spec.backoff_limit is None else spec.backoff_limit
        if self.failed > limit:
            return True
        template = spec.template.get("spec") or {}
        if template.get("restartPolicy") != "OnFailure":
            return False
        restarts = sum(
            each.restart_count
            for pod in self.pods
            if pod.status.phase in ("Running", "Pending")
            for each in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        )
        return restarts >= max(limit, 1)

    def _end_of_indexes(self) -> JobVerdict | None:
        spec, completions, lost = self.job.spec, self.completions or 0, total(self.lost)
        if spec.max_failed_indexes is not None and lost > spec.max_failed_indexes:
            message = "Job has exceeded the specified maximal number of failed indexes"
            return JobVerdict(FAILURE, "MaxFailedIndexesExceeded", message)
        if lost and lost + total(self.indexes) >= completions:
            return JobVerdict(FAILURE, "FailedIndexes", "Job has failed indexes")
        rule = satisfied_rule(self.job, completions, self.indexes)
        return JobVerdict(SUCCESS, "SuccessPolicy", rule) if rule else None

    def _is_complete(self, active: int) -> bool:
        if self.completions is None:
            return self.succeeded > 0 and not active
        return self.succeeded >= self.completions and not active

    def _count_as_terminating(self, pods: list[Pod]) -> None:
        """Counts the pods that this decision deletes as terminating."""
        self.terminating += len(pods)
        self.ready -= sum(map(is_ready, pods))

    def _manage(self) -> tuple[list[Write], int]:
        """Returns the writes that create or delete pods, and the number of active pods after
        them.
        """
        active = len(self.active)
        if self.job.spec.suspend:
            desired = 0
        elif self.completions is None:
            desired = active if self.succeeded else self.parallelism
        else:
            desired = max(min(self.parallelism, self.completions - self.succeeded), 0)
        leaving = self._superfluous(active - desired)
        if leaving:
            # without their finalizers, they do not count as failed
            self._count_as_terminating(leaving)
            frees = [write for pod in leaving for write in without_job_finalizer(pod)]
            return [*frees, *map(delete_pod, leaving)], active - len(leaving)
        only_failed = self.job.spec.pod_replacement_policy == "Failed"
        missing = min(desired - active - (self.terminating if only_failed else 0), BURST)
        if missing <= 0:
            return [], active
        if self.per_index is None:
            wait = self.failures.wait(self.now)
            if wait > 0:
                return [Again(wait)], active
        if not self.indexed:
            creates = [Create("Pod", self._pod(None), (POD_CREATED,)) for _ in range(missing)]
            return list(creates), self._with_created(missing)
        return self._next_indexes(missing, only_failed)

    def _superfluous(self, count: int) -> list[Pod]:
        """Returns the active pods to delete: first those without a valid index and duplicates, then
        the surplus.
        """
        if not self.indexed:
            return by_age(self.active, self.now)[: min(max(count, 0), BURST)]
        by_index: dict[int, list[Pod]] = defaultdict(list)
        leaving: list[Pod] = []
        for pod in self.active:
            if self._is_valid(pod):
                by_index[_index(pod)].append(pod)
            else:
                leaving.append(pod)
        left = []
        for same in by_index.values():
            *doubles, kept = by_age(same, self.now)
            leaving += doubles
            left.append(kept)
        surplus = max(count - len(leaving), 0)
        return [*leaving, *by_age(left, self.now)[:surplus]][:BURST]

    def _next_indexes(self, missing: int, only_failed: bool) -> tuple[list[Write], int]:
        busy = [*self.active, *(self.ending if only_failed else ())]
        used = union(self.indexes, self.lost, single(i for i in map(_index, busy) if i >= 0))
        waits: dict[int, float] = {}
        for index in first_free(used, self.completions or 0, missing):
            last = self.held.get(index)
            waits[index] = (
                0.0
                if last is None
                else remaining(sum(_counts(last)) + 1, finish_time(last), self.now)
            )
        ready = [index for index, wait in waits.items() if wait <= 0]
        later: list[Write] = [Again(wait) for wait in sorted(waits.values())[:1] if wait > 0]
        creates = [Create("Pod", self._pod(index), (POD_CREATED,)) for index in ready]
        return [*creates, *later], self._with_created(len(ready))

    def _with_created(self, count: int) -> int:
        """Returns the number of active pods if the server accepts the new ones, which it may
        refuse.
        """
        return len(self.active) + (0 if self.refusal else count)

    def _pod(self, index: int | None) -> Document:
        job = self.job
        pod = pod_from(job, labels=labels(job))
        metadata: Document = pod["metadata"]
        others = [each for each in metadata.get("finalizers") or () if each != FINALIZER]
        metadata["finalizers"] = [*others, FINALIZER]
        if index is None:
            return pod
        end = f"-{index}-"
        name = f"{job.metadata.name}-{index}"
        metadata["generateName"] = f"{job.metadata.name[: LONGEST_PREFIX - len(end)]}{end}"
        annotations = {**metadata.get("annotations", {}), INDEX: str(index)}
        if self.per_index is not None:
            annotations |= self._failure_annotations(self.held.get(index))
        metadata["annotations"] = annotations
        metadata["labels"][INDEX] = str(index)
        pod["spec"] = {**_with_variable(pod["spec"]), "hostname": name}
        return pod

    def _failure_annotations(self, last: Pod | None) -> dict[str, str]:
        """Returns the annotations with the number of failures of an index, for its next pod."""
        failed, ignored = (0, 0) if last is None else _counts(last)
        if last is not None:
            counts = judge(self.job, last).counts
            failed, ignored = failed + counts, ignored + (not counts)
        return {FAILURES: str(failed), **({IGNORED: str(ignored)} if ignored else {})}

    def _count(self, status: Document, end: JobVerdict | None) -> list[Write]:
        """Counts pods that have ended; returns the writes that remove finalizers.

        A finalizer goes only after the status that tells of its pod has been stored.
        """
        here = {pod.metadata.uid for pod in self.tracked}
        good = [uid for uid in self.stored.succeeded if uid in here]
        bad = [uid for uid in self.stored.failed if uid in here]
        recorded = {*good, *bad}
        status["failed"] = self.job.status.failed + len(self.stored.failed) - len(bad)
        counted = len(self.stored.succeeded) - len(good)
        status["succeeded"] = self.job.status.succeeded + counted
        releases: list[Write] = []
        fresh: set[int] = set()
        for pod in self.tracked:
            if not self._needs_no_finalizer(pod, end):
                continue
            kind = "" if pod.metadata.uid in recorded else self._counted_as(pod, end)
            if not kind:
                releases += without_job_finalizer(pod)
            elif len(good) + len(bad) + len(fresh) < BURST:
                if kind == "index":
                    fresh.add(_index(pod))
                else:
                    (good if kind == "succeeded" else bad).append(pod.metadata.uid)
        status["uncountedTerminatedPods"] = {
            field: uids for field, uids in (("succeeded", good), ("failed", bad)) if uids
        }
        if self.indexed:
            indexes = union(self.before, single(fresh))
            status["succeeded"] = total(indexes)
            status["completedIndexes"] = text_of(indexes)
            if self.per_index is not None:
                status["failedIndexes"] = text_of(self.lost)
        return releases

    def _needs_no_finalizer(self, pod: Pod, end: JobVerdict | None) -> bool:
        """True if a pod may be removed once it is counted."""
        if end is not None or pod.status.phase == "Succeeded":
            return True
        held = self.held.get(_index(pod))
        return _ends_in_failure(self.job, pod) and (
            held is None or held.metadata.uid != pod.metadata.uid
        )

    def _counted_as(self, pod: Pod, end: JobVerdict | None) -> str:
        """Returns as what a pod counts: succeeded, failed, of its index, or nothing ("")."""
        valid = self._is_valid(pod)
        if pod.status.phase == "Succeeded":
            if not self.indexed:
                return "succeeded"
            return "index" if valid and not has(self.before, _index(pod)) else ""
        failing = end is not None and end.type == FAILURE
        if (failing or _ends_in_failure(self.job, pod)) and valid and judge(self.job, pod).counts:
            return "failed"
        return ""

    def _suspension(self, conditions: list[Document], status: Document) -> list[Document]:
        """Returns the conditions with Suspended. Starts or stops the active time of the job."""
        was = condition_of(self.job.status.conditions, "Suspended")
        if self.job.spec.suspend:
            if not (was and was.status == "True"):
                status.pop("startTime", None)
            what = (True, "JobSuspended", "Job suspended")
        elif was is None:
            return conditions
        else:
            if was.status == "True":
                status["startTime"] = rfc3339(self.now)
            what = (False, "JobResumed", "Job resumed")
        return _with_condition(conditions, "Suspended", *what, self.now)

    def _ended(
        self, conditions: list[Document], status: Document, end: JobVerdict, *, over: bool
    ) -> list[Document]:
        """Returns the conditions of a job that ends; the last one only when its pods are gone."""
        text = (True, end.reason, end.message)
        if not holds(self.job.status.conditions, end.type):
            conditions = _with_condition(conditions, end.type, *text, self.now)
        if over and not self.terminating:
            conditions = _with_condition(conditions, _ENDS[end.type], *text, self.now)
            if end.type == SUCCESS:
                status["completionTime"] = rfc3339(self.now)
        return conditions

    def _deadline(self, status: Document, end: JobVerdict | None) -> list[Write]:
        deadline = self.job.spec.active_deadline_seconds
        if deadline is None or end is not None or self.job.spec.suspend:
            return []
        return [Again(deadline - seconds_since(status["startTime"], self.now))]


def _with_variable(spec: Document) -> Document:
    """Returns a pod's spec whose containers have the completion index as an environment variable,
    unless they have one of this name.
    """
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    changed = {}
    for field in ("initContainers", "containers"):
        if containers := spec.get(field):
            changed[field] = [
                container
                if any(each["name"] == VARIABLE for each in container.get("env") or ())
                else {
                    **container,
                    "env": [
                        *(container.get("env") or ()),
                        {"name": VARIABLE, "valueFrom": source},
                    ],
                }
                for container in containers
            ]
    return {**spec, **changed}


def _with_condition(
    conditions: list[Document], kind: str, status: bool, reason: str, message: str, now: datetime
) -> list[Document]:
    """Returns the conditions with this one set; its times change with anything that it says."""
    word = "True" if status else "False"
    said = {"type": kind, "status": word, "reason": reason, "message": message}
    if any(said.items() <= each.items() for each in conditions):
        return conditions
    condition = {**said, "lastProbeTime": rfc3339(now), "lastTransitionTime": rfc3339(now)}
    if all(each["type"] != kind for each in conditions):
        return [*conditions, condition]
    return [condition if each["type"] == kind else each for each in conditions]


def _counts(pod: Pod) -> tuple[int, int]:
    """Returns how many earlier failures of its index a pod tells of: counted, and ignored."""
    return _number(pod, FAILURES), _number(pod, IGNORED)


def _rank(pod: Pod) -> tuple[int, datetime]:
    return sum(_counts(pod)), finish_time(pod)


def _delete_expired(job: Job, now: datetime) -> list[Write]:
    seconds, conditions = job.spec.ttl_seconds_after_finished, job.status.conditions
    if seconds is None or deleting(job):
        return []
    end: Condition | None = condition_of(conditions, "Complete")
    end = end or condition_of(conditions, "Failed")
    left = seconds - seconds_since(end.last_transition_time if end else None, now)
    return [Again(left)] if left > 0 else [delete(job, propagation="Foreground")]
