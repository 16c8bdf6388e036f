"""The request after a list or a watch has ended: which one, and after which delay."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from berth.actors.client.reflector_state import Next, ReflectorState, RequestEnd, Streaming


def steps(how: RequestEnd, retry_after: float | None = None, version: str = "7") -> Iterator[Next]:
    """Yields what follows from requests that all end in this way, the last delay after the last."""
    state, now = ReflectorState(Random(1), Streaming(works=False)), 0.0
    while True:
        state.resource_version = version
        step = state.ended(how, now, retry_after)
        yield step
        now += step.delay


def delays(how: RequestEnd, retry_after: float | None = None) -> list[float]:
    following = steps(how, retry_after)
    return [next(following).delay for _ in range(8)]


@pytest.mark.parametrize("retry_after", [None, 0.0, 0.5])
def test_the_backoff_doubles_up_to_half_a_minute(retry_after: float | None) -> None:
    for delay, least in zip(
        delays(RequestEnd.BUSY, retry_after),
        (0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0),
        strict=True,
    ):
        assert least <= delay <= 2 * least


def test_the_server_may_ask_for_a_longer_delay() -> None:
    assert delays(RequestEnd.BUSY, 60.0) == [60.0] * 8
    assert delays(RequestEnd.REFUSED, 60.0) == [60.0] * 8


@pytest.mark.parametrize("how", [RequestEnd.GONE, RequestEnd.SHORT])
def test_only_the_first_of_some_ends_is_followed_at_once(how: RequestEnd) -> None:
    first, second, third, *_ = delays(how)
    assert first == 0.0
    assert 1.6 <= second <= 3.2 <= third <= 6.4


def test_a_quiet_end_needs_no_delay() -> None:
    assert delays(RequestEnd.QUIETLY) == [0.0] * 8


def test_after_two_minutes_without_a_failure_the_backoff_starts_over() -> None:
    state = ReflectorState(Random(1), Streaming(works=False))
    state.resource_version = "7"
    for _ in range(5):
        state.ended(RequestEnd.SHORT, 0.0)
    assert state.ended(RequestEnd.SHORT, 120.0).delay > 0.0
    assert state.ended(RequestEnd.SHORT, 241.0).delay == 0.0


@pytest.mark.parametrize("how", [*RequestEnd])
def test_a_lost_resource_version_means_a_new_list(how: RequestEnd) -> None:
    lost = how in (
        RequestEnd.GONE,
        RequestEnd.UNSUPPORTED,
        RequestEnd.REFUSED,
        RequestEnd.ABSENT,
        RequestEnd.OLDER,
    )
    assert next(steps(how)).relist is lost
    assert next(steps(how, version="")).relist


def test_a_watch_that_brought_changes_is_opened_again_a_few_times_a_second() -> None:
    assert delays(RequestEnd.NEWS) == [0.0, *[0.25] * 7]
    state = ReflectorState(Random(1), Streaming(works=False))
    state.resource_version = "7"
    state.ended(RequestEnd.NEWS, 0.0)
    assert state.ended(RequestEnd.NEWS, 10.0) == Next(relist=False, delay=0.0)


@pytest.mark.parametrize("how", [*RequestEnd])
def test_what_a_server_cannot_do_is_known_for_all_kinds(how: RequestEnd) -> None:
    streaming = Streaming(works=True)
    state, other = ReflectorState(Random(1), streaming), ReflectorState(Random(1), streaming)
    step = state.ended(how, 0.0, while_streaming=True)
    if how in (RequestEnd.BUSY, RequestEnd.GONE, RequestEnd.OLDER):
        assert step.relist
        assert state.streams
    else:
        assert step == Next(relist=True, delay=0.0), "a plain list follows at once"
        assert not state.streams
    assert other.streams is (how not in (RequestEnd.STALLED, RequestEnd.UNSUPPORTED))
    state.resource_version = "8"
    state.ended(RequestEnd.GONE, 300.0)
    assert state.streams is other.streams


def test_a_list_that_is_older_than_what_was_seen_is_taken_at_the_fourth_time() -> None:
    state = ReflectorState(Random(1), Streaming(works=False))
    assert state.takes("10")
    state.resource_version = "12"  # of an event
    state.ended(RequestEnd.GONE, 0.0)
    assert [state.takes("11") for _ in range(4)] == [False, False, False, True]
    assert state.resource_version == "11"
    assert state.takes("11")


@pytest.mark.parametrize("version", ["12", "13", "", "0", "of-another-server", "\u0665"])
def test_a_list_is_taken_unless_it_is_older(version: str) -> None:
    state = ReflectorState(Random(1), Streaming(works=False))
    assert state.takes("12")
    state.ended(RequestEnd.GONE, 0.0)
    assert state.takes(version)
