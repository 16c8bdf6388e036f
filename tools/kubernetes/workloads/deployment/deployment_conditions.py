"""The status of a Deployment, and the conditions that report its roll-out."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from berth.actors.scheduling.kube.times import rfc3339

from ...objects.documents import documents_of
from ...objects.properties import condition_of, replicas_of, seconds_since
from ...objects.structs import Condition, Deployment, DeploymentStatus, Document, ReplicaSet
from ...objects.writes import Again, Write, status_writes
from ..replica_set import FAILURE
from .sizes import limits

_NO_DEADLINE = 2**31 - 1
_PAUSED, _EXCEEDED = "DeploymentPaused", "ProgressDeadlineExceeded"
_COMPLETE, _REFUSED = "NewReplicaSetAvailable", "ReplicaSetCreateError"


class Conditions:
    """The conditions of a Deployment; each keeps its times until its status or reason changes."""

    def __init__(self, conditions: Iterable[Condition], now: datetime) -> None:
        self._conditions = list(conditions)
        self._now = now

    def find(self, kind: str) -> Condition | None:
        return condition_of(self._conditions, kind)

    def set(self, kind: str, status: str, reason: str, message: str, since: str = "") -> None:
        """Sets a condition, unless it already has this status and reason.

        `since` is the time of the change, which is now by default.
        """
        before = self.find(kind)
        if before is not None and (before.status, before.reason) == (status, reason):
            return
        self.renew(kind, status, reason, message, since)

    def renew(self, kind: str, status: str, reason: str, message: str, since: str = "") -> None:
        before, at = self.find(kind), since or rfc3339(self._now)
        same = before is not None and before.status == status
        self.remove(kind)
        self._conditions.append(
            Condition(
                type=kind,
                status=status,
                reason=reason,
                message=message,
                last_update_time=at,
                last_transition_time=before.last_transition_time if before and same else at,
            )
        )

    def remove(self, kind: str) -> None:
        self._conditions = [each for each in self._conditions if each.type != kind]

    def documents(self) -> list[Document]:
        return documents_of(self._conditions)


class Step(msgspec.Struct, frozen=True):
    """A decision about a Deployment, from which its status follows.

    The roll-out goes on only if it `rolls`. `creates` is the name of the ReplicaSet that it
    creates, "" if none, and `refusal` is the server's reason for refusing the last one.
    """

    new: ReplicaSet | None
    sets: list[ReplicaSet]
    rolls: bool = False
    creates: str = ""
    refusal: str = ""
    collisions: int | None = None


def status_after(deployment: Deployment, step: Step, now: datetime) -> list[Write]:
    """Returns the writes of the status, and a reminder for the deadline of the roll-out."""
    status, conditions = _counted(step, deployment), Conditions(deployment.status.conditions, now)
    if _has_deadline(deployment):
        _report_start(deployment, step, conditions)
    enough = status.available_replicas >= replicas_of(deployment) - limits(deployment).unavailable
    conditions.set(
        "Available",
        str(enough),
        "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        f"Deployment {'has' if enough else 'does not have'} minimum availability.",
    )
    again: list[Write] = []
    if step.rolls:
        again = _report_progress(deployment, step.new, status, conditions, now)
        _copy_failure([*([step.new] if step.new else []), *step.sets], conditions)
    document = {**msgspec.to_builtins(status), "conditions": conditions.documents()}
    return status_writes(deployment, document) + again


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """True if all replicas are updated and available, and no old replicas are left."""
    counts = status.updated_replicas, status.replicas, status.available_replicas
    observed = status.observed_generation >= deployment.metadata.generation
    return observed and set(counts) == {replicas_of(deployment)}


def _counted(step: Step, deployment: Deployment) -> DeploymentStatus:
    new, statuses = step.new, [each.status for each in step.sets]
    available = sum(each.available_replicas for each in statuses)
    return DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(each.replicas for each in statuses),
        updated_replicas=0 if new is None else new.status.replicas,
        ready_replicas=sum(each.ready_replicas for each in statuses),
        available_replicas=available,
        unavailable_replicas=max(sum(map(replicas_of, step.sets)) - available, 0),
        terminating_replicas=sum(each.terminating_replicas or 0 for each in statuses),
        collision_count=step.collisions,
    )


def _has_deadline(deployment: Deployment) -> bool:
    return deployment.spec.progress_deadline_seconds not in (None, _NO_DEADLINE)


def _report_start(deployment: Deployment, step: Step, conditions: Conditions) -> None:
    """Reports in Progressing that a roll-out begins, pauses or resumes, which restarts its
    deadline.
    """
    before, paused = conditions.find("Progressing"), deployment.spec.paused
    reason = "" if before is None else before.reason
    if paused and reason not in (_PAUSED, _EXCEEDED):
        conditions.set("Progressing", "Unknown", _PAUSED, "Deployment is paused")
    elif not paused and reason == _PAUSED:
        conditions.set("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed")
    name = step.creates or (step.new.metadata.name if step.new is not None else "")
    if step.refusal:
        why = f'Failed to create new replica set "{name}": {step.refusal}'
        conditions.set("Progressing", "False", _REFUSED, why)
    elif step.creates or (step.new is not None and reason == _REFUSED):
        created = f'Created new replica set "{name}"'
        conditions.set("Progressing", "True", "NewReplicaSetCreated", created)
    elif step.new is not None and conditions.find("Progressing") is None:
        message = f'Found new replica set "{name}"'
        conditions.set("Progressing", "True", "FoundNewReplicaSet", message)


def _report_progress(
    deployment: Deployment,
    new: ReplicaSet | None,
    status: DeploymentStatus,
    conditions: Conditions,
    now: datetime,
) -> list[Write]:
    """Sets Progressing, and returns a reminder for the deadline.

    Once complete, a roll-out stays complete until the template changes, even if pods are lost.
    """
    if not _has_deadline(deployment):
        conditions.remove("Progressing")
        return []
    before = conditions.find("Progressing")
    reason = "" if before is None else before.reason
    if reason == _COMPLETE and status.replicas == status.updated_replicas:
        return []
    who = (
        f'Deployment "{deployment.metadata.name}"'
        if new is None
        else f'ReplicaSet "{new.metadata.name}"'
    )
    left = _seconds_left(deployment, before, now)
    if is_complete(deployment, status):
        conditions.set("Progressing", "True", _COMPLETE, f"{who} has successfully progressed.")
        return []
    if _has_progressed(deployment.status, status):
        conditions.renew("Progressing", "True", "ReplicaSetUpdated", f"{who} is progressing.")
    elif before is None or reason == _COMPLETE:
        return []
    elif reason == _EXCEEDED or left < 0:
        conditions.set("Progressing", "False", _EXCEEDED, f"{who} has timed out progressing.")
        return []
    return [Again(max(_seconds_left(deployment, conditions.find("Progressing"), now), 0) + 1)]


def _seconds_left(deployment: Deployment, progressing: Condition | None, now: datetime) -> float:
    deadline = deployment.spec.progress_deadline_seconds or 0
    since = None if progressing is None else progressing.last_update_time
    return deadline - seconds_since(since, now)


def _has_progressed(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    """True if more pods are updated, ready or available than before, or fewer old ones are left."""
    return (
        after.updated_replicas > before.updated_replicas
        or after.ready_replicas > before.ready_replicas
        or after.available_replicas > before.available_replicas
        or after.replicas - after.updated_replicas < before.replicas - before.updated_replicas
    )


def _copy_failure(sets: list[ReplicaSet], conditions: Conditions) -> None:
    """Copies the first ReplicaFailure of the ReplicaSets, or removes the condition."""
    failures = (condition_of(each.status.conditions, FAILURE) for each in sets)
    failure = next((each for each in failures if each is not None), None)
    if failure is None:
        conditions.remove(FAILURE)
    else:
        since = failure.last_transition_time or ""
        conditions.set(FAILURE, failure.status, failure.reason, failure.message, since)
