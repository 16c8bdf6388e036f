"""Puts recorded attempts of a running scheduler into words."""

from __future__ import annotations

from berth.actors.attempt.attempts_page import AttemptsPage, RecordedAttempt
from berth.actors.messages.queue import Place
from berth.actors.scheduling.plugins.in_tree import IN_TREE

from .words import listed

NO_REASONS = ("BackoffComplete", "PopFromBackoffQ", "ScheduleAttemptFailure")


def woken_by(page: AttemptsPage, attempt: RecordedAttempt) -> str:
    """Returns in words what woke the pod for an attempt; "" if that is no longer known."""
    if attempt.result == "failed":
        return ""
    if attempt.woken_late:
        return "no event, but the limit for parked pods"
    steps = [step for step in page.story if step.at <= attempt.at and step.event not in NO_REASONS]
    if not steps:
        return ""
    by = f" ({steps[-1].plugin})" if steps[-1].plugin else ""
    return f"{steps[-1].cause or steps[-1].event}{by}"


def conclusion(attempt: RecordedAttempt) -> str:
    """Returns how an attempt ended."""
    if attempt.result == "failed":
        return f"failed on {attempt.node} after the decision"
    if attempt.result != "placed":
        return attempt.result
    chosen = f"chose {attempt.node}"
    if not attempt.best:
        return f"{chosen}, the only node that fits of {attempt.evaluated} looked at"
    if attempt.tied > 1:
        return f"{chosen} by lot among {attempt.tied} nodes with the highest score"
    return (
        f"{chosen}, {attempt.best[0].score - attempt.best[1].score} ahead of {attempt.best[1].node}"
    )


def held_now(page: AttemptsPage) -> tuple[str, ...]:
    """Returns what plugins of packages do to the pod now, before or after its decision: sentences
    without their subject.
    """
    if page.waiting is not None:
        plugins = listed(sorted(page.waiting.waits_for))
        seconds = max(0, round(min(page.waiting.waits_for.values())))
        return (f"waits on {page.waiting.node} until {plugins} permits it, at most {seconds} s",)
    step = page.story[-1] if page.story else None
    if step is not None and step.queue == Place.GATED and step.plugin not in ("", *IN_TREE):
        reasons = f": {step.message}" if step.message else ""
        return (f"is kept out of the queue by the plugin {step.plugin}{reasons}",)
    last = page.attempts[-1] if page.attempts else None
    if last is not None and last.result == "failed":
        return (f"failed on {last.node} after the decision: {last.message}",)
    unbound = unbound_yet(page)
    return (unbound,) if unbound else ()


def unbound_yet(page: AttemptsPage) -> str:
    """Returns a sentence without its subject about a pod whose last attempt chose a node that the
    API server does not show; "" for other pods. A plugin may hold it in PreBind or Bind.
    """
    last = page.attempts[-1] if page.attempts else None
    if last is None or last.result != "placed" or page.waiting is not None:
        return ""
    if page.pod is None or page.pod.node or page.pod.uid != last.uid:
        return ""
    return (
        f"is not on {last.node} yet: PreBind and Bind have neither failed there nor reached the "
        "API server"
    )
