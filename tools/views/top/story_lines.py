"""The story of a pod in the form of the page, and as lines for a terminal."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

from ...answers.explain.decision import Failure
from ...answers.feed.story import PastAttempt, Story
from .columns import Line, number_of_things

MOST_NODES = 200
_FRACTION = re.compile(r"\.\d+Z\Z")
WHO = {"wait": "nobody has to do it", "owner": "the pod's owner", "admin": "an admin"}


def lines_of(story: Story) -> Iterator[Line]:
    """Returns the lines of a story, which may be longer than the terminal is wide."""
    yield ((f"{story.node or 'no node'}, {story.phase or 'Pending'}, ", ""), _priority(story))
    for condition in () if story.sentence else story.conditions:
        if condition.type == "PodScheduled" and condition.status != "True" and condition.message:
            yield ((condition.message, "warn"),)
    if story.sentence:
        yield ((f"It {story.sentence}.", "warn"),)
    if story.changes is not None:
        yield from _section("What would change it")
        yield from _changes(story)
    yield from _section("Recorded attempts")
    if not story.attempts:
        yield (("No attempt is recorded.", "dim"),)
    for attempt in story.attempts:
        yield from _attempt(attempt)
    yield from _section("If it were decided now")
    yield from _decision(story)
    yield from _section("Events")
    if not story.events:
        yield (("No event.", "dim"),)
    for happening in story.events or ():
        kind = "warn" if happening.type == "Warning" else ""
        times = f" x {happening.count:,}" if happening.count > 1 else ""
        at = _FRACTION.sub("Z", happening.time)
        yield ((f"{at} {happening.reason}{times}: {happening.message}", kind),)
    yield from _section("Conditions")
    for condition in story.conditions:
        why = ": ".join(filter(None, (condition.reason, condition.message)))
        yield ((f"{condition.type} {condition.status} since {condition.time} {why}", ""),)


def _priority(story: Story) -> tuple[str, str]:
    scheduler = story.scheduler or "no scheduler"
    return f"priority {story.priority:,}, {scheduler}, created {story.created}", "dim"


def _section(title: str) -> Iterator[Line]:
    yield (("", ""),)
    yield ((title, "head"),)


def _changes(story: Story) -> Iterator[Line]:
    for change in story.changes or ():
        yield ((change.sentence, "good"), (f" ({WHO.get(change.who, change.who)})", "dim"))
    if story.changes_problem:
        yield ((story.changes_problem, "dim"),)
    elif not story.changes:
        yield (("Nothing, nor two things together, of the kinds that are tried.", "dim"),)


def _attempt(attempt: PastAttempt) -> Iterator[Line]:
    at = datetime.fromtimestamp(attempt.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kind = "good" if attempt.result == "placed" else "warn"
    yield ((f"{at} attempt {attempt.number}: ", ""), (attempt.conclusion, kind))
    took = f"waited {attempt.waited:.3f} s, decided in {attempt.seconds * 1000:.3f} ms"
    yield ((f"  {took}" + f", woken by {attempt.woken_by}" * bool(attempt.woken_by), "dim"),)
    for reason in attempt.reasons:
        words = "; ".join(reason.reasons)
        yield ((f"  {number_of_things(reason.nodes, 'node')}: {words} [{reason.plugin}]", ""),)
    if attempt.nominated:
        victims = ", ".join(attempt.victims) or "nobody"
        yield ((f"  nominated to {attempt.nominated}; evicts {victims}", ""),)
    if attempt.best:
        yield (("  " + ", ".join(f"{best.node} {best.score:,}" for best in attempt.best), ""),)
    if attempt.message and not attempt.reasons:
        yield ((f"  {attempt.message}", ""),)


def _decision(story: Story) -> Iterator[Line]:
    decision = story.decision
    if decision is None or isinstance(decision, Failure):
        yield ((story.problem if decision is None else decision.error, "warn"),)
        return
    if decision.total:
        best = (
            f"{len(decision.best):,} tie for the best score; chance decides."
            if len(decision.best) > 1
            else f"{decision.hosts[0]} has the best score."
        )
        nodes = number_of_things(len(decision.filter), "node")
        yield ((f"{len(decision.total):,} of {nodes} fit. {best}", ""),)
    else:
        condition_messages = {condition.message for condition in story.conditions}
        message = "" if decision.message in condition_messages else decision.message
        yield ((message or "No node fits.", "warn"),)
    if decision.prefilter is not None:
        reasons = "; ".join(decision.prefilter.reasons)
        yield ((f"{decision.prefilter.plugin}: {reasons}", "warn"),)
    if decision.preemption is not None:
        victims = ", ".join(decision.preemption.victims)
        evicts = f"would evict {victims} from {decision.preemption.nominated_node}"
        yield ((f"Preemption {evicts}.", ""),)
    elif decision.preemption_message and decision.preemption_message not in (
        decision.message or ""
    ):
        yield ((decision.preemption_message, "dim"),)
    refused = Counter(
        f"{verdict.plugin}: {'; '.join(verdict.reasons) or verdict.code}"
        for verdict in decision.filter.values()
        if verdict.plugin
    )
    for why, number in refused.most_common():
        yield ((f"  {number_of_things(number, 'node')}  {why}", "warn"),)
    ranked = sorted(decision.total.items(), key=lambda item: (-item[1], item[0]))
    for name, score in islice(ranked, MOST_NODES):
        here = " (runs here)" if name == story.node else ""
        yield ((f"  {score:>8,}  {name}{here}", "good" if name in decision.best else ""),)
