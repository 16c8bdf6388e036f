"""The breaker of a plugin: when it is switched off, and when it is asked again."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.framework.breaker import (
    Breaker,
    BreakerLimits,
    BreakerStep,
    Circuit,
)
from berth.actors.scheduling.framework.patience import Patience
from tests.kit.examples import examples

LIMITS = BreakerLimits(3, call_seconds=1.0, attempt_seconds=2.0, first_rest=10.0, longest_rest=40.0)


class Story:
    """A breaker with its steps; the time is set by hand."""

    def __init__(self, limits: BreakerLimits = LIMITS) -> None:
        self.now = 0.0
        self.steps: list[BreakerStep] = []
        self.breaker = Breaker("Wrong", "p", limits, lambda: self.now, self.steps.append)

    def fail(self, *pods: str, point: str = "Filter") -> None:
        for pod in pods:
            self.breaker.failed(point, pod, "OSError: x", self.now)
            self.breaker.validate()

    def circuits(self) -> list[tuple[Circuit, float]]:
        return [(step.circuit, step.rest) for step in self.steps]


@pytest.fixture
def story() -> Story:
    return Story()


def test_failures_in_a_row_about_two_pods_switch_it_off(story: Story) -> None:
    story.fail("a", "b")
    assert story.breaker.admits(0.0)
    story.fail("c")
    assert not story.breaker.admits(9.9)
    assert story.circuits() == [(Circuit.OPEN, 10.0)]
    (step,) = story.steps
    assert (step.point, step.why, step.failures) == ("Filter", "OSError: x", 3)
    assert story.breaker.in_words(4.0).endswith(
        "(the last time: OSError: x); it is tried again in 6 s"
    )


def test_one_pod_alone_switches_nothing_off(story: Story) -> None:
    story.fail(*["a"] * 50)
    assert story.breaker.admits(0.0)
    story.fail("b")
    assert not story.breaker.admits(0.0)


def test_a_success_at_the_same_point_ends_the_row(story: Story) -> None:
    story.fail("a", "b")
    story.breaker.succeeded("Score", 0.0)
    story.breaker.succeeded("Filter", 0.0)
    story.fail("a", "b")
    assert story.breaker.admits(0.0)


def test_the_first_success_where_it_failed_closes_it(story: Story) -> None:
    story.fail("a", "b", "c", point="Score")
    assert story.breaker.admits(10.0)
    story.breaker.succeeded("Filter", 10.0)
    assert story.breaker.circuit is Circuit.PROBING
    story.breaker.succeeded("Score", 10.0)
    assert story.circuits() == [
        (Circuit.OPEN, 10.0),
        (Circuit.PROBING, 0.0),
        (Circuit.CLOSED, 0.0),
    ]


def test_a_probe_that_fails_doubles_the_rest(story: Story) -> None:
    story.fail("a", "b", "c")
    rests = []
    for _ in range(4):
        story.now = story.breaker.until
        assert story.breaker.admits(story.now)
        story.fail("a")
        rests.append(story.breaker.until - story.now)
    assert rests == [20.0, 40.0, 40.0, 40.0]


def test_slow_calls_count_whatever_the_pods(story: Story) -> None:
    for _ in range(3):
        assert not story.breaker.took(None, "Filter", 1.5, "a", 0.0, None)
    assert not story.breaker.admits(0.0)
    assert (story.steps[0].why, story.breaker.overruns) == ("took 1.5 s", 3)


def test_one_call_that_had_to_be_interrupted_suffices(story: Story) -> None:
    assert not story.breaker.took(None, "Filter", 5.0, "a", 0.0, None, "interrupted")
    assert not story.breaker.admits(0.0)
    assert (story.steps[0].why, story.steps[0].failures) == ("interrupted", 3)
    story.breaker.validate()


def test_the_calls_of_an_attempt_are_summed(story: Story) -> None:
    one, other = object(), object()
    assert story.breaker.took(one, "Filter", 0.9, "a", 0.0, None)
    assert story.breaker.took(one, "Score", 0.9, "a", 0.0, None)
    assert story.breaker.took(other, "Filter", 0.9, "b", 0.0, None)
    assert story.breaker.took(other, "Score", 0.9, "b", 0.0, None)
    assert not story.breaker.took(other, "Reserve", 0.9, "b", 0.0, None)
    assert story.breaker.overruns == 1


def test_without_a_limit_it_is_never_switched_off() -> None:
    story = Story(BreakerLimits(0))
    story.fail(*map(str, range(50)))
    assert story.breaker.admits(0.0)
    assert story.breaker.failures == 50


class Crowd:
    """Plugins that all block from the start, each asked again and again in one scheduler. A call
    takes `seconds`, unless it is interrupted. `blocked` are the calls: when, for how long.
    """

    def __init__(self, seconds: list[float]) -> None:
        self.now = 0.0
        self.seconds = seconds
        self.limits = BreakerLimits()
        patience = Patience(self.limits.failures * self.limits.attempt_seconds)
        self.breakers = [
            Breaker(f"P{number}", "p", self.limits, lambda: self.now, self.tell, patience=patience)
            for number in range(len(seconds))
        ]
        self.blocked: list[tuple[float, float]] = []
        self.probed: set[str] = set()

    def tell(self, step: BreakerStep) -> None:
        if step.circuit is Circuit.PROBING:
            self.probed.add(step.plugin)

    def go_on(self, until: float) -> None:
        while self.now < until:
            for breaker, seconds in zip(self.breakers, self.seconds, strict=True):
                if not breaker.admits(self.now):
                    continue
                took = min(seconds, breaker.longest_call(self.now) + 0.25)
                self.blocked.append((self.now, took))
                self.now += took
                breaker.took(object(), "Filter", took, "a", self.now, None)
                breaker.validate()
            self.now += 0.5

    def taken(self, begin: float, end: float) -> float:
        return sum(seconds for at, seconds in self.blocked if begin <= at < end)


def test_many_plugins_that_block_at_once_take_a_small_part_of_the_time() -> None:
    """18 sleep for 1.5 s and 18 loop for ever: each is found out once, and tried again in turn."""
    crowd = Crowd([1.5, 1e9] * 18)
    crowd.go_on(3600.0)
    assert crowd.taken(0, 100) < 60, "half of it is one call of each"
    assert crowd.taken(100, 3600) < 3500 / 15
    assert all(seconds < 1.6 for at, seconds in crowd.blocked if at > 30)
    assert len(crowd.probed) == 36


def test_a_few_that_block_are_tried_as_soon_as_one_alone() -> None:
    crowd = Crowd([1.5])
    crowd.go_on(60.0)
    assert [round(at) for at, _ in crowd.blocked] == [0, 2, 4, 6, 8, 20, 41]


POINTS, PODS = st.sampled_from(["Filter", "Score"]), st.sampled_from("abc")
CALLS = st.lists(
    st.tuples(st.floats(0.0, 30.0), POINTS, PODS, st.sampled_from(["well", "fails", "slow"])),
    max_size=60,
)


@examples()
@given(CALLS)
def test_a_history_of_calls(calls: list[tuple[float, str, str, str]]) -> None:
    """A slow model: the rows of failures by point, and what may follow them."""
    story, rows = Story(), dict[str, list[tuple[str, str]]]()
    breaker = story.breaker
    for pause, point, pod, how in calls:
        story.now += pause
        before, until, failed_at = breaker.circuit, breaker.until, breaker.point
        if not breaker.admits(story.now):
            assert (before, story.now < until) == (Circuit.OPEN, True)
            continue
        assert before is not Circuit.OPEN or story.now >= until
        probing = breaker.circuit is Circuit.PROBING
        if how == "well":
            breaker.succeeded(point, story.now)
            rows.pop(point, None)
            closes = probing and point == failed_at
            if closes:
                rows.clear()
            assert (breaker.circuit is Circuit.CLOSED) == (closes or before is Circuit.CLOSED)
        else:
            rows.setdefault(point, []).append((pod, how))
            if how == "slow":
                assert not breaker.took(None, point, 1.1, pod, story.now, None)
            else:
                breaker.failed(point, pod, "OSError", story.now)
            row = rows[point]
            enough = len(row) >= LIMITS.failures and (
                how == "slow" or len({each for each, _ in row}) > 1
            )
            assert (breaker.circuit is Circuit.OPEN) == (probing or enough)
            if breaker.circuit is Circuit.OPEN:
                rows.clear()
                assert LIMITS.first_rest <= breaker.until - story.now <= LIMITS.longest_rest
        breaker.validate()
    states = [step.circuit for step in story.steps]
    assert all(
        (one, other)
        in {
            (Circuit.OPEN, Circuit.PROBING),
            (Circuit.PROBING, Circuit.OPEN),
            (Circuit.PROBING, Circuit.CLOSED),
            (Circuit.CLOSED, Circuit.OPEN),
        }
        for one, other in pairwise(states)
    )
