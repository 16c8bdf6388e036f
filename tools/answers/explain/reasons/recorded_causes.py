"""The causes in what a scheduler has recorded of a pod: of each attempt, and of the pod now."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from berth.actors.attempt.attempts_page import AttemptsPage, RecordedAttempt, Rejection
from berth.actors.messages.queue import Place

from ..cause import Cause
from ..recorded_attempts import unbound_yet
from .cause_search import cause_of, causes_of
from .pod_causes import failed, message_causes, preemption_part, summary
from .reason_table import REJECTED


def rejection_causes(rejection: Rejection) -> list[Cause]:
    """Returns the cause of each reason for which a plugin rejected some nodes, in their order."""
    number = len(rejection.nodes)
    causes = causes_of(rejection.plugin, rejection.reasons)
    return [replace(cause, nodes=number) for cause in causes]


def attempt_causes(attempt: RecordedAttempt) -> list[Cause]:
    """Returns the causes for which an attempt did not place the pod; none if it did."""
    if attempt.result == "placed":
        return []
    if attempt.result != "unschedulable":
        causes = message_causes(attempt.message)
        if not causes or (causes[0].code == REJECTED and not causes[0].nodes):
            causes = [failed(attempt.message)]
        return [replace(cause, node=attempt.node, nodes=0) for cause in causes]
    by_node = [cause for each in attempt.rejections for cause in rejection_causes(each)]
    if not by_node:
        return message_causes(attempt.message)
    return [*summary(by_node), *preemption_part(attempt.message)]


def causes_now(page: AttemptsPage) -> list[Cause]:
    """Returns why a pod that has no node waits now: what holds it, or else its last attempt, or
    else what its condition says.
    """
    if page.waiting is None and page.pod is not None and page.pod.node:
        return []
    held = list(_holds(page))
    if held:
        return held
    if page.attempts:
        return attempt_causes(page.attempts[-1])
    if page.pod is not None and page.pod.scheduled == "False":
        return message_causes(page.pod.message)
    return []


def _holds(page: AttemptsPage) -> Iterator[Cause]:
    if page.waiting is not None:
        plugins = ", ".join(sorted(page.waiting.waits_for))
        yield cause_of("", f"waits on {page.waiting.node} until {plugins} permits it")
    elif unbound := unbound_yet(page):
        yield cause_of("", unbound)
    step = page.story[-1] if page.story else None
    if step is not None and step.queue == Place.GATED:
        yield cause_of(step.plugin, step.message)
