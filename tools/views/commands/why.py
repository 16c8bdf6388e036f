"""`berth why`: tells from the flight recorder of a running scheduler why a pod is where it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from textwrap import TextWrapper
from urllib.parse import quote

import click
import msgspec

from berth.actors.attempt.attempts_page import AttemptsPage, PodNow, RecordedAttempt
from berth.actors.attempt.flight_file import page_of_files
from berth.actors.messages.queue import Place
from berth.actors.scheduling.kube.times import time_of
from berth.actors.telemetry.klog import printable

from ...answers.debug.debug_client import (
    DebugTarget,
    NoAnswerError,
    failures_in_words,
    target_options,
)
from ...answers.debug.latest_events import EventNow, events_about, near_pod
from ...answers.debug.why_answer import why_answer
from ...answers.explain.recorded_attempts import conclusion, unbound_yet, woken_by
from ...answers.terminal.options import output_option

MOST_NODES = 3  # that are named for a reason
_WRAPPER = TextWrapper(80, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


@click.command()
@click.argument("pod", metavar="[NAMESPACE/]NAME")
@click.option(
    "-n", "--namespace", default="default", metavar="NAMESPACE", help="That of a NAME alone."
)
@click.option("--at", metavar="TIME", help="The last attempt up to this time, in ISO 8601.")
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="The attempt of this number.")
@click.option("--all", "every", is_flag=True, help="All recorded attempts.")
@click.option(
    "--file",
    metavar="PATH",
    help="Read a scheduler's --berth-recorder-file, and the older files beside it.",
)
@target_options
@output_option()
def why(
    pod: str,
    namespace: str,
    at: str | None,
    attempt: int | None,
    every: bool,
    file: str | None,
    output: str,
    target: DebugTarget,
) -> None:
    """Tell why a pod is on its node, or why it waits.

    Shows the last attempt unless --at, --attempt or --all says which. A scheduler knows the
    attempts that it made itself, within --berth-recorder-bytes; the files of --berth-recorder-file
    go back further. Of a pod without an attempt it tells what the API server shows. The exit code
    is 2 without an answer.

    \b
    berth why shop/web-1 --leader
    berth why shop/web-1 --all --insecure-skip-tls-verify
    berth why shop/web-1 --at 2026-01-31T12:00:00Z --file /var/log/berth/attempts
    """
    if (at is not None) + (attempt is not None) + every > 1:
        raise click.UsageError("--at, --attempt and --all cannot be combined")
    limit = None if at is None else _time(at)
    key = pod if "/" in pod else f"{namespace}/{pod}"
    if key.count("/") != 1 or not all(key.split("/")):
        raise click.UsageError(f"expected [NAMESPACE/]NAME of a pod, got {pod!r}")
    page = _page(key, target) if file is None else _page_of(key, file)
    chosen = page.attempts
    if limit is not None:
        chosen = _attempts_until(limit, chosen)
    if attempt is not None:
        chosen = tuple(each for each in chosen if each.number == attempt)
    if not page.attempts and file is None and at is None and attempt is None:
        events = events_about(key, "" if page.pod is None else page.pod.uid, target)
        if page.pod is not None or events:
            _print_answer(page, lines_of_pod(key, page, events), output, events, is_latest=True)
            return
    if not chosen:
        near = near_pod(key, target) if file is None and not page.attempts else ""
        raise NoAnswerError(_no_attempt(key, page, file) + near)
    shown, all_attempts = chosen if every else _last(chosen), page.attempts
    page = msgspec.structs.replace(page, attempts=shown)
    uid = shown[-1].uid
    if file is not None or (page.pod is not None and page.pod.uid == uid):
        last = shown[-1] is all_attempts[-1]
        lines = [*lines_of(page, shown), *(_lines_of_holds(page) if last else ())]
        _print_answer(page, lines, output, is_latest=last)
        return
    events = events_about(key, uid, target)
    _print_answer(page, [*lines_of(page, shown), *lines_of_end(page, events)], output, events)


def _attempts_until(
    limit: float, attempts: tuple[RecordedAttempt, ...]
) -> tuple[RecordedAttempt, ...]:
    """Returns the attempts up to a time. The last one has its failure, even a later one."""
    until = tuple(each for each in attempts if each.at <= limit)
    later = attempts[len(until)] if 0 < len(until) < len(attempts) else None
    if later is not None and later.result == "failed" and later.uid == until[-1].uid:
        until = (*until, later)
    return until


def _last(attempts: tuple[RecordedAttempt, ...]) -> tuple[RecordedAttempt, ...]:
    """Returns the last attempt; if it failed after the decision, with the decision."""
    start = len(attempts) - 1
    while start and attempts[start].result == "failed":
        start -= 1
    return attempts[start:]


def _page(key: str, target: DebugTarget) -> AttemptsPage:
    (body,) = target.fetch([f"/debug/attempts/{quote(key)}"])
    with failures_in_words(target.server):
        return msgspec.json.decode(body, type=AttemptsPage)


def _page_of(key: str, file: str) -> AttemptsPage:
    try:
        return page_of_files(file, key)
    except OSError as problem:
        raise NoAnswerError(f"{problem.filename}: {problem.strerror}") from None
    except ValueError as problem:
        raise NoAnswerError(str(problem)) from None


def _time(text: str) -> float:
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except ValueError:
        raise click.UsageError(
            f"--at: expected a time such as 2026-01-31T12:00:00Z, got {text!r}"
        ) from None


def _no_attempt(key: str, page: AttemptsPage, file: str | None) -> str:
    nothing = f"{key}: no such attempt is recorded; "
    if file is not None:
        return f"{nothing}{file} has attempts since {time_of(page.started)}"
    since = (
        "has made no attempt"
        if page.since is None
        else f"knows attempts since {time_of(page.since)}"
    )
    return f"{nothing}this scheduler started at {time_of(page.started)} and {since}"


def _print_answer(
    page: AttemptsPage,
    lines: Iterable[str],
    output: str,
    events: Sequence[EventNow] | None = None,
    *,
    is_latest: bool = False,
) -> None:
    """Prints the lines; as JSON, the page with the events, which are None if they were not read. A
    page that `is_latest` ends with the last attempt of a pod that exists.
    """
    if output == "json":
        click.echo(msgspec.json.encode(why_answer(page, events, is_latest=is_latest)))
        return
    for line in lines:
        for part in _WRAPPER.wrap(printable(line)):
            click.echo(part)


def lines_of_pod(key: str, page: AttemptsPage, events: Sequence[EventNow]) -> Iterator[str]:
    """Returns the lines about a pod without recorded attempts, which may be gone."""
    yield f"{key}: this scheduler started at {time_of(page.started)} and has made no attempt at it"
    if page.pod is None:
        yield "  there is no such pod now; there are events about one"
    else:
        yield from _lines_of_holds(page)
        yield from _lines_of(page.pod)
    yield from _lines_of_events(events)


def _lines_of_holds(page: AttemptsPage) -> Iterator[str]:
    """Returns the lines about the plugins that hold the pod now, before or after its decision."""
    if page.waiting is not None:
        for plugin, seconds in sorted(page.waiting.waits_for.items()):
            left = max(0, round(seconds))
            yield f"  it waits on {page.waiting.node} until {plugin} permits it, at most {left} s"
    if unbound := unbound_yet(page):
        yield f"  it {unbound}"
    step = page.story[-1] if page.story else None
    if page.pod is None or page.pod.node or step is None or step.queue != Place.GATED:
        return
    reasons = f": {step.message}" if step.message else ""
    yield f"  {step.plugin} keeps it out of the queue since {time_of(step.at)}{reasons}"


def lines_of_end(page: AttemptsPage, events: Sequence[EventNow]) -> Iterator[str]:
    """Returns the lines about a pod that is gone."""
    yield (
        "  the pod is gone" if page.pod is None else "  that pod is gone; another one has its name"
    )
    yield from _lines_of_events(events)


def _lines_of_events(events: Iterable[EventNow]) -> Iterator[str]:
    for event in events:
        yield f"  {event.time} {event.reason} by {event.by}: {event.message}"


def _lines_of(pod: PodNow) -> Iterator[str]:
    since = f" since {pod.since}" if pod.since else ""
    if pod.node:
        yield f"  it is on {pod.node}{since}: another scheduler process placed it, or its creator"
    elif pod.scheduled == "False":
        yield f"  it is pending{since}; its condition says: {pod.reason}: {pod.message}"
    else:
        yield f"  it is pending: no scheduler has said why; it asks for {pod.scheduler}"
    if pod.nominated:
        yield f"  nominated to {pod.nominated}"


def lines_of(page: AttemptsPage, attempts: Sequence[RecordedAttempt]) -> Iterator[str]:
    """Returns the lines about these attempts of a page."""
    for attempt in attempts:
        yield f"{time_of(attempt.at)}  attempt {attempt.number}: {conclusion(attempt)}"
        if woken := woken_by(page, attempt):
            yield f"  woken by: {woken}"
        if attempt.result != "failed":
            yield f"  waited {attempt.waited:.3f} s, decided in {attempt.seconds * 1000:.3f} ms"
        if attempt.best:
            yield f"  {'NODE':<60} {'SCORE':>12}"
            yield from (f"  {best.node:<60} {best.score:>12}" for best in attempt.best)
        for rejection in attempt.rejections:
            some = ", ".join(rejection.nodes[:MOST_NODES])
            left = len(rejection.nodes) - MOST_NODES
            more = f" and {left} more" if left > 0 else ""
            yield f"  {'; '.join(rejection.reasons)} [{rejection.plugin}]"
            yield f"    {len(rejection.nodes)}: {some}{more}"
        if attempt.nominated:
            victims = ", ".join(attempt.victims) or "nobody"
            yield f"  nominated to {attempt.nominated}; evicts {victims}"
        if attempt.message:
            yield f"  {attempt.message}"
