"""No namespace keeps the pods of others waiting with searches for devices, and each of its searches
goes on where it was interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from berth.actors.scheduling.plugins.dynamic_resources import plugin as plugin_of_devices
from berth.actors.scheduling.plugins.dynamic_resources.plugin import DynamicResources
from berth.actors.scheduling.plugins.steps import (
    EARNED_PER_SECOND,
    FREE,
    MOST_NAMESPACES,
    MOST_SAVED,
    STEPS_PER_SECOND,
    StepBudget,
    Steps,
    TimedOutError,
)
from berth.plugin import (
    Code,
    CycleState,
    Pod,
    PodInfo,
    PreFilterResult,
    ResourceSlice,
    Snapshot,
)
from tests.kit.devices import (
    DRIVER,
    claim,
    cluster,
    device_class,
    handle,
    node,
    pod,
    request,
    resource_slice,
    using,
)
from tests.kit.documents import Document
from tests.kit.handle import NoApi

# A selector that takes about 30,000 steps for each device.
TWELVE = str([*range(12)])
SLOW = f"{TWELVE}.all(a, {TWELVE}.all(b, {TWELVE}.all(c, a + b + c + size(device.driver) > 0)))"
TIMED_OUT = "timed out trying to allocate devices"
LONGEST = 10 * STEPS_PER_SECOND
# The steps of an attempt if the namespace has saved the most.
WHOLE = range(FREE + MOST_SAVED - 1, FREE + MOST_SAVED + 1)


def attempt(plugin: DynamicResources, snapshot: Snapshot, document: Document) -> str:
    """Returns the message of an attempt at a pod, "fits" if every node passes."""
    info, state = PodInfo(msgspec.convert(document, Pod)), CycleState()
    status = plugin.pre_filter(state, info, snapshot)
    assert not isinstance(status, PreFilterResult)
    if not status.ok:
        return status.message
    verdicts = plugin.filter(state, info, snapshot.all())
    if verdicts is None:
        return "fits"
    keys = verdicts.keys.tolist()
    failed = [key for key, code in zip(keys, verdicts.codes, strict=True) if code == Code.ERROR]
    return verdicts.explain((failed or keys)[0])[0]


def attempts(snapshot: Snapshot, document: Document) -> list[str]:
    """Returns the messages of the attempts at a pod, one in two seconds, until one does not time
    out.
    """
    time = handle()
    plugin = DynamicResources({}, time)
    said = [attempt(plugin, snapshot, document)]
    while said[-1].endswith(TIMED_OUT):
        time.seconds += 2
        said.append(attempt(plugin, snapshot, document))
        assert len(said) < 100
    return said


@contextmanager
def counted() -> Iterator[list[int]]:
    """Appends the steps of each call that takes some."""
    taken: list[int] = []
    take = Steps.take

    def count(steps: Steps, number: int = 1) -> bool:
        taken.append(number)
        return take(steps, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Steps, "take", count)
        yield taken


def insoluble(name: str, devices: int = 28) -> Document:
    """Returns a claim for which the search tries many combinations; each name needs its own."""
    return claim(
        name,
        request(name, count=devices // 2 + 1),
        constraints=[{"matchAttribute": f"{DRIVER}/a"}],
    )


def halves(count: int = 28) -> list[str | Document]:
    """Returns devices of two kinds."""
    return [{"name": f"d{n}", "attributes": {"a": {"int": n % 2}}} for n in range(count)]


def spend(steps: Steps) -> int:
    """Takes all steps, and returns their number."""
    number = 0
    while not steps.take():
        number += 1
    return number


def test_no_steps_are_left() -> None:
    steps = Steps(3)
    assert not steps.take(2)
    assert not steps.take()
    assert steps.take()
    with pytest.raises(TimedOutError):
        steps.spend(1)


def test_each_attempt_has_free_steps_and_those_of_its_namespace() -> None:
    time = NoApi()
    budget = StepBudget(time.now)
    assert spend(budget.attempt("a", LONGEST)) in WHOLE
    assert spend(budget.attempt("a", LONGEST)) in range(FREE - 10, FREE + 1)
    assert spend(budget.attempt("b", LONGEST)) in WHOLE
    time.seconds = 0.5
    assert spend(budget.attempt("a", LONGEST)) in range(FREE, FREE + EARNED_PER_SECOND // 2)
    time.seconds = 100
    assert spend(budget.attempt("a", LONGEST)) in WHOLE


def test_ordinary_attempts_take_nothing_from_their_namespace() -> None:
    budget = StepBudget(NoApi().now)
    for _ in range(1000):
        assert not budget.attempt("a", LONGEST).take(FREE)
    assert spend(budget.attempt("a", LONGEST)) in WHOLE


def test_what_was_taken_too_much_is_paid_back() -> None:
    time = NoApi()
    budget = StepBudget(time.now)
    assert budget.attempt("a", LONGEST).take(FREE + MOST_SAVED + EARNED_PER_SECOND)
    time.seconds = 0.9
    assert budget.attempt("a", LONGEST).take()
    time.seconds = 2
    assert not budget.attempt("a", LONGEST).take()
    assert budget.attempt("a", LONGEST).take(100 * MOST_SAVED)
    time.seconds += 2 * MOST_SAVED / EARNED_PER_SECOND
    assert spend(budget.attempt("a", LONGEST)) in WHOLE


def test_the_filter_timeout_limits_an_attempt() -> None:
    budget = StepBudget(NoApi().now)
    for most in FREE // 2, FREE + MOST_SAVED // 2:
        assert spend(budget.attempt("a", most)) == most


def test_an_attempt_ends_by_the_clock_where_steps_take_long() -> None:
    """On a machine that is overloaded, a step takes a hundred times as long as it should."""
    time = NoApi()
    budget = StepBudget(time.now, longest=0.5)
    for _ in range(3):
        began, steps = time.seconds, budget.attempt("a", LONGEST)
        while not steps.take():
            time.seconds += 100 / STEPS_PER_SECOND
        assert 0.5 < time.seconds - began < 0.6
    assert spend(budget.attempt("a", LONGEST)) > MOST_SAVED * 0.9


@pytest.mark.parametrize(("factor", "price"), [(0, 1), (1.9, 1), (4, 4)])
def test_slow_steps_are_paid_by_the_clock(factor: float, price: float) -> None:
    """A step takes this many times as long as it should."""
    time = NoApi()
    budget = StepBudget(time.now, by_clock=True)

    def taken() -> int:
        number, steps = 0, budget.attempt("a", LONGEST)
        while not steps.take(10):
            number += 10
            time.seconds += 10 * factor / STEPS_PER_SECOND
        return number

    assert taken() == pytest.approx(MOST_SAVED / price, abs=2 * FREE)
    time.seconds += 1.0
    earned = time.seconds * EARNED_PER_SECOND
    assert taken() == pytest.approx(earned / price, rel=0.1)


def test_few_namespaces_are_remembered() -> None:
    budget = StepBudget(NoApi().now)
    for number in range(MOST_NAMESPACES + 1):
        assert budget.attempt(str(number), LONGEST).take(2 * MOST_SAVED)
    assert budget.attempt("1", LONGEST).take()
    assert spend(budget.attempt("0", LONGEST)) in WHOLE


def test_all_nodes_share_the_steps_of_an_attempt() -> None:
    names = [f"n{number}" for number in range(5)]
    snapshot = cluster(
        *map(node, names),
        *(resource_slice(name, *halves(24)) for name in names),
        device_class(),
        insoluble("c", 24),
    )
    said = attempts(snapshot, using(pod({}), "c"))
    assert len(said) > 1
    assert said[-1] == "cannot allocate all claims"


def test_slow_selectors_take_steps() -> None:
    devices: list[str | Document] = [
        {"name": f"d{number}", "attributes": {"a": {"int": number}}} for number in range(80)
    ]
    snapshot = cluster(
        node(),
        resource_slice("n", *devices),
        device_class("gpu", SLOW),
        *(claim(name, request(count=32)) for name in ("c", "d")),
    )
    said = attempts(snapshot, using(pod({}), "c", "d"))
    assert len(said) > 2
    assert said[-1] == "fits"


def test_a_pod_with_many_claims() -> None:
    devices = [f"d{number}" for number in range(1280)]
    names = [f"c{number}" for number in range(40)]
    claims = [claim(name, request(count=32)) for name in names]
    snapshot = cluster(node(), resource_slice("n", *devices), device_class(), *claims)
    assert attempts(snapshot, using(pod({}), *names)) == ["fits"]


@pytest.mark.full("long")
def test_a_search_of_a_node_goes_on_where_it_was_interrupted() -> None:
    snapshot = cluster(node(), resource_slice("n", *halves(32)), device_class(), insoluble("c", 32))
    with counted() as taken:
        said = attempts(snapshot, using(pod({}), "c"))
    assert len(said) > 2
    assert said[-1] == "cannot allocate all claims"
    assert sum(taken) > 2 * (FREE + MOST_SAVED)


def test_a_search_starts_again_after_a_change_of_the_node() -> None:
    time = handle()
    plugin = DynamicResources({}, time)
    snapshot = cluster(node(), resource_slice("n", *halves()), device_class(), insoluble("c"))
    document = using(pod({}), "c")
    assert attempt(plugin, snapshot, document).endswith(TIMED_OUT)
    enough = resource_slice("n", *halves(30))
    snapshot.objects.put(msgspec.convert(enough, ResourceSlice))
    time.seconds = 10
    assert attempt(plugin, snapshot, document) == "fits"


@pytest.mark.full("long")
def test_hostile_pods_leave_time_to_the_pods_of_other_namespaces() -> None:
    names = [f"c{number}" for number in range(100)]
    snapshot = cluster(
        node(),
        resource_slice("n", *halves()),
        device_class(),
        *map(insoluble, names),
        claim("ordinary"),
        {**claim("other"), "metadata": {"name": "other", "namespace": "other"}},
    )
    plugin = DynamicResources({}, handle())
    with counted() as taken:
        for name in names:
            assert attempt(plugin, snapshot, using(pod({}), name)).endswith(TIMED_OUT)
    assert sum(taken) < 1.1 * (MOST_SAVED + len(names) * FREE)
    other = using(pod({}, "other"), "other")
    other["metadata"]["namespace"] = "other"
    assert attempt(plugin, snapshot, using(pod({}), "ordinary")) == "fits"
    assert attempt(plugin, snapshot, other) == "fits"


def test_a_pod_with_too_many_claims_to_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_of_devices, "CLAIM_STEPS", FREE)
    snapshot = cluster(
        node(),
        resource_slice("n", *halves()),
        device_class(),
        insoluble("c"),
    )
    plugin = DynamicResources({}, handle())
    many = using(pod({}), *["c"] * 250)
    assert attempt(plugin, snapshot, using(pod({}), "c")).endswith(TIMED_OUT)
    with counted() as taken:
        assert attempt(plugin, snapshot, many) == TIMED_OUT
    assert len(taken) < 10
