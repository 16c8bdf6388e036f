"""The condition EvictionInProgress of DeviceTaintRules: the pods that a rule evicts, or would
evict.

A new spec is told at once; later changes are counted together after some seconds. A rule without an
effect is told what it would do, once. Mirrors Kubernetes' device taint eviction controller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import msgspec

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.devices import NO_EXECUTE
from berth.actors.scheduling.kube.times import rfc3339

from ..objects.properties import condition_of, seconds_since
from ..objects.structs import Condition, DeviceTaintRule
from ..objects.writes import Again, Write, patch

CONDITION = "EvictionInProgress"
PERIOD = 10.0  # seconds between updates of a status
NO_EFFECT = "None"


class Selected(msgspec.Struct, frozen=True):
    """The devices that a rule selects, by number: those in slices, and those of claims."""

    published: int = 0
    allocated: int = 0


class TaintRuleStatus:
    """The rules whose present spec was reported, and the times at which statuses are due."""

    def __init__(self) -> None:
        self._reported: dict[str, tuple[str, int]] = {}  # uids and generations, by name
        self._due: dict[str, datetime] = {}

    def forget(self, name: str) -> str:
        """Forgets a rule that no longer exists. Returns its uid."""
        self._due.pop(name, None)
        uid, _ = self._reported.pop(name, ("", 0))
        return uid

    def reconcile(
        self,
        rule: DeviceTaintRule,
        pending: Callable[[DeviceTaintRule], Sequence[Pod]],
        selected: Callable[[DeviceTaintRule], Selected],
        evicted: int,
        now: datetime,
    ) -> list[Write]:
        """Decides on a rule. `pending` returns the pods that it is to evict; `evicted` is how many
        it has evicted.
        """
        metadata, effect = rule.metadata, rule.spec.taint.effect
        spec = metadata.uid, metadata.generation
        before = condition_of(rule.status.conditions, CONDITION)
        is_written = before is not None and before.observed_generation == metadata.generation
        if is_written and self._reported.get(metadata.name) == spec:
            if effect != NO_EXECUTE:
                return []
            due = self._due.setdefault(metadata.name, now + timedelta(seconds=PERIOD))
            if now < due:
                return [Again((due - now).total_seconds())]
        if before is not None and is_written:
            since = seconds_since(before.last_transition_time, now)
            if since < PERIOD:
                return [Again(PERIOD - since)]
        self._reported[metadata.name] = spec
        self._due.pop(metadata.name, None)
        if effect == NO_EFFECT:
            taint = msgspec.structs.replace(rule.spec.taint, effect=NO_EXECUTE)
            evicting = msgspec.structs.replace(rule.spec, taint=taint)
            pods = pending(msgspec.structs.replace(rule, spec=evicting))
            after = _no_effect_words(pods, selected(rule))
        elif effect == NO_EXECUTE:
            after = _eviction_words(pending(rule), evicted)
        else:
            after = Condition(
                reason="OtherEffect", message="Eviction only happens for the NoExecute effect."
            )
        return _condition_patch(rule, _evicted_words(after, evicted), before, now)


def _eviction_words(pods: Sequence[Pod], evicted: int) -> Condition:
    if pods:
        need = "1 pod needs" if len(pods) == 1 else f"{len(pods)} pods need"
        message = f"{need} to be evicted in {_namespaces(pods)}."
        return Condition(status="True", reason="PodsPendingEviction", message=message)
    return Condition(reason="Completed" if evicted else "NotStarted")


def _no_effect_words(pods: Sequence[Pod], devices: Selected) -> Condition:
    message = (
        f"{_count(devices.published, 'published device')} selected. "
        f"{_count(devices.allocated, 'allocated device')} selected. "
        f"{_count(len(pods), 'pod')} would be evicted in {_namespaces(pods)} "
        "if the effect was NoExecute. This information will not be updated again. "
        "Recreate the DeviceTaintRule to trigger an update."
    )
    return Condition(reason="NoEffect", message=message)


def _evicted_words(condition: Condition, evicted: int) -> Condition:
    if not evicted:
        return condition
    told = f"{_count(evicted, 'pod')} evicted since starting the controller."
    return msgspec.structs.replace(condition, message=f"{condition.message} {told}".lstrip())


def _namespaces(pods: Sequence[Pod]) -> str:
    number = len({pod.metadata.namespace for pod in pods})
    return "1 namespace" if number == 1 else f"{number} different namespaces"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _condition_patch(
    rule: DeviceTaintRule, after: Condition, before: Condition | None, now: datetime
) -> list[Write]:
    """Returns the patch that sets the condition; none if the condition is already so."""
    condition = {
        "type": CONDITION,
        "status": after.status or "False",
        "reason": after.reason,
        "message": after.message,
        "observedGeneration": rule.metadata.generation,
    }
    kept: list[dict[str, object]] = msgspec.to_builtins(rule.status.conditions)
    if before is not None and condition.items() <= {"message": "", **_document(before)}.items():
        return []
    others = [each for each in kept if each["type"] != CONDITION]
    conditions = [*others, {**condition, "lastTransitionTime": rfc3339(now)}]
    return [patch(rule, {"status": {"conditions": conditions}}, "status")]


def _document(condition: Condition) -> dict[str, object]:
    document: dict[str, object] = msgspec.to_builtins(condition)
    return document
