"""The answer of `berth why` for programs: what was recorded of a pod, with the codes of reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, UnsetType, field

from berth.actors.attempt.attempts_page import AttemptsPage, RecordedAttempt, Rejection

from ..explain.cause import Cause
from ..explain.reasons.recorded_causes import attempt_causes, causes_now, rejection_causes
from .latest_events import EventNow


class RejectedNodes(Rejection, frozen=True, rename="camel"):
    """The nodes that one plugin rejected for the same reasons. `causes` are the codes of these, in
    their order.
    """

    causes: list[Cause] = field(default_factory=list)


class PastDecision(RecordedAttempt, frozen=True, rename="camel"):
    """A recorded attempt. `causes` are the reasons why it did not place the pod, each once."""

    rejections: tuple[RejectedNodes, ...] = ()
    causes: list[Cause] = field(default_factory=list)


class WhyAnswer(AttemptsPage, frozen=True):
    """What is recorded of a pod. `causes` are the reasons why it waits now; `events` are missing if
    they were not read.
    """

    attempts: tuple[PastDecision, ...]
    causes: list[Cause] = field(default_factory=list)
    events: Sequence[EventNow] | UnsetType = UNSET


def why_answer(
    page: AttemptsPage, events: Sequence[EventNow] | None, *, is_latest: bool
) -> WhyAnswer:
    """Returns the answer. Unless the page `is_latest`, it has no cause of the pod now."""
    parts = _fields(page) | {"attempts": tuple(map(_decision, page.attempts))}
    causes = causes_now(page) if is_latest else []
    return WhyAnswer(**parts, causes=causes, events=UNSET if events is None else events)


def _decision(attempt: RecordedAttempt) -> PastDecision:
    rejections = tuple(
        RejectedNodes(**_fields(each), causes=rejection_causes(each)) for each in attempt.rejections
    )
    parts = _fields(attempt) | {"rejections": rejections}
    return PastDecision(**parts, causes=attempt_causes(attempt))


def _fields(struct: AttemptsPage | RecordedAttempt | Rejection) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}
