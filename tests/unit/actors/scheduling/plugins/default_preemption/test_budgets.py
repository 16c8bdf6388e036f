"""Budgets are read once and matched by labels, so that their number costs a pod nothing."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import ObjectPut, ObjectRemoved
from berth.actors.scheduling.kube.labels import from_label_selector
from berth.actors.scheduling.kube.policy import PodDisruptionBudget
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.scheduling.plugins.default_preemption import budgets
from berth.actors.scheduling.plugins.default_preemption.budgets import (
    BUDGETS_PER_STEP,
    MOST_WORN,
    REQUIREMENT,
    SLICE,
    STEPS_PER_POD,
    Budget,
    Budgets,
    KeptBudgets,
    read_budget,
    violating,
    violators,
)
from tests.kit import structs
from tests.kit.call_counts import calls_of

APP_A = {"matchLabels": {"app": "a"}}


def budget(
    name: str,
    namespace: str = "ns",
    allowed: int = 0,
    selector: object = APP_A,
    exempt: tuple[str, ...] = (),
) -> PodDisruptionBudget:
    document = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(exempt)},
    }
    return msgspec.convert(document, PodDisruptionBudget)


def pod(name: str, labels: dict[str, str], namespace: str = "ns") -> PodInfo:
    return structs.pod_info(name, namespace=namespace, labels=labels)


def followed(kept: KeptBudgets, snapshot: Snapshot) -> dict[str, int]:
    """Returns what the budgets of the namespace allow."""
    for _ in kept.follow(snapshot):
        pass
    of_namespace = kept.budgets.of("ns")
    return {} if of_namespace is None else {each.name: each.allowed for each in of_namespace}


def test_only_budgets_that_changed_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def reading(item: PodDisruptionBudget) -> Budget | None:
        read.append(item.metadata.name)
        return read_budget(item)

    monkeypatch.setattr(budgets, "read_budget", reading)
    cache, kept = CacheState(), KeptBudgets()
    for name in "abc":
        cache.handle(ObjectPut(budget(name)))
    snapshot = cache.snapshot()
    assert followed(kept, snapshot) == followed(kept, snapshot) == {"a": 0, "b": 0, "c": 0}
    assert read == ["a", "b", "c"]
    version = kept.budgets.version
    cache.handle(ObjectPut(budget("a")))  # nothing of it has changed
    assert followed(kept, snapshot) == {"a": 0, "b": 0, "c": 0}
    assert kept.budgets.version == version
    cache.handle(ObjectPut(budget("b", allowed=1)))
    cache.handle(ObjectRemoved(budget("c")))
    assert followed(kept, snapshot) == {"a": 0, "b": 1}
    assert kept.budgets.version > version
    assert read == ["a", "b", "c", "a", "b"]
    for name in "ab":
        cache.handle(ObjectRemoved(budget(name)))
    assert followed(kept, snapshot) == {}
    assert not kept.budgets


def test_large_budgets_are_read_in_slices_and_a_reading_that_is_left_goes_on() -> None:
    cache, kept = CacheState(), KeptBudgets()
    large = [{"key": "app", "operator": "NotIn", "values": [f"v{i}" for i in range(SLICE)]}]
    for number in range(3):
        cache.handle(ObjectPut(budget(f"b{number}", selector={"matchExpressions": large})))
    snapshot = cache.snapshot()
    reading = kept.follow(snapshot)
    steps = SLICE + 3 * REQUIREMENT
    assert [next(reading), next(reading)] == [0, steps]
    assert list(kept.follow(snapshot)) == [0, steps, steps]
    assert kept.complete
    assert followed(kept, snapshot) == {"b0": 0, "b1": 0, "b2": 0}


def test_budgets_of_which_most_were_replaced_are_read_again_in_slices() -> None:
    cache, kept = CacheState(), KeptBudgets()
    for number in range(2 * MOST_WORN):
        large = [
            {"key": "k", "operator": "NotIn", "values": [f"v{i + number}" for i in range(5000)]}
        ]
        selector = {"matchExpressions": large}
        cache.handle(ObjectPut(budget("a", selector=selector)))
        cache.handle(ObjectPut(budget("b", selector=selector, allowed=1)))
        assert followed(kept, cache.snapshot()) == {"a": 0, "b": 1}
    of_namespace = kept.budgets.of("ns")
    assert of_namespace is not None
    assert of_namespace.numbers <= 2 * 2 + MOST_WORN


def test_another_cache_has_other_budgets() -> None:
    first, second, kept = CacheState(), CacheState(), KeptBudgets()
    first.handle(ObjectPut(budget("a")))
    assert followed(kept, first.snapshot()) == {"a": 0}
    version = kept.budgets.version
    second.handle(ObjectPut(budget("b")))
    assert followed(kept, second.snapshot()) == {"b": 0}
    assert kept.budgets.version > version


def test_a_victim_is_compared_with_the_budgets_of_its_namespace() -> None:
    limits = Budgets([budget("own"), *(budget(f"b{i}", "hostile") for i in range(100))])
    victims = [pod("p", {"app": "a"}), pod("q", {"app": "b"}), pod("r", {"app": "a"}, "else")]
    assert violating(victims, limits) == {"ns/p": ["own"]}
    keys, _ = violators(victims, limits)
    assert keys == ("ns/p",)


def test_a_pod_that_counts_as_disrupted_already_violates_nothing() -> None:
    limits = Budgets([budget("b", exempt=("p",)), budget("c", allowed=1)])
    victims = [pod(name, {"app": "a"}) for name in "pqr"]
    assert violating(victims, limits) == {"ns/q": ["b", "c"], "ns/r": ["b", "c"]}


ABSENT = {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}
OTHER = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}


@pytest.mark.parametrize("selector", [{}, ABSENT, OTHER])
def test_a_pod_without_labels_is_covered_by_selectors_that_ask_for_none(selector: object) -> None:
    victims = [pod("bare", {}), pod("a", {"app": "a"}), pod("other", {"tier": "b"})]
    covered = ["ns/bare", "ns/other"] if selector else ["ns/bare", "ns/a", "ns/other"]
    limits = Budgets([budget("b", selector=selector)])
    assert violating(victims, limits) == {key: ["b"] for key in covered}


@pytest.mark.parametrize(
    "selector",
    [
        None,
        {"matchExpressions": [{"key": "app", "operator": "In"}]},
        {"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["a"]}]},
        {**APP_A, "matchExpressions": [{"key": "app", "operator": "Like", "values": ["a"]}]},
    ],
)
def test_a_budget_whose_selector_is_absent_or_malformed_covers_nothing(selector: object) -> None:
    limits = Budgets([budget("b"), budget("kept")])
    limits.put(budget("b", selector=selector))
    assert violating([pod("p", {"app": "a"})], limits) == {"ns/p": ["kept"]}


def selector(rng: Random) -> dict[str, object]:
    expressions = []
    for _ in range(rng.randrange(5)):
        operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        values = [rng.choice("xyz") for _ in range(rng.randrange(1, 4))]
        expression = {"key": rng.choice("abcd"), "operator": operator}
        expressions.append(
            {**expression, "values": values} if operator in ("In", "NotIn") else expression
        )
    labels = {key: rng.choice("xyz") for key in rng.sample("ab", rng.randrange(2))}
    return {"matchLabels": labels, "matchExpressions": expressions}


def test_budgets_that_come_change_and_go_cover_what_their_selectors_match() -> None:
    rng = Random(1)
    limits, present = Budgets(), dict[str, PodDisruptionBudget]()
    for number in range(300):
        name = f"b{rng.randrange(12)}"
        if rng.random() < 0.3:
            limits.remove(("ns", name))
            present.pop(name, None)
        else:
            allowed = rng.randrange(3) if number % 100 < 50 else 0
            wanted = selector(rng)
            if name in present and rng.random() < 0.5:
                wanted = msgspec.to_builtins(present[name].spec.selector)
            present[name] = budget(name, "ns", allowed, wanted, exempt=(rng.choice("pq"),))
            limits.put(present[name])
        for namespace, name in limits.forget_worn():
            assert namespace == "ns"
            limits.put(present[name])
        labels = {key: rng.choice("xyz") for key in rng.sample("abcde", rng.randrange(5))}
        covering = [
            each.name
            for each in map(read_budget, present.values())
            if each is not None
            and not each.allowed
            and from_label_selector(each.selector).matches(labels)
            and "p" not in each.exempt
        ]
        violated = violating([pod("p", labels)], limits)
        assert sorted(violated.get("ns/p", ())) == sorted(covering)
        more = [pod(f"p{i}", {"a": rng.choice("xyz")}) for i in range(4)]
        assert violators(more, limits)[0] == violators(more, Budgets(present.values()))[0]


def test_a_victim_costs_no_call_for_each_budget() -> None:
    """One namespace has budgets of many requirements, which all cover pods of different labels."""
    many = [{"key": f"k{i}", "operator": "NotIn", "values": [f"v{i}", f"w{i}"]} for i in range(40)]
    limits = Budgets(budget(f"b{i}", selector={"matchExpressions": many}) for i in range(500))
    victims = [pod(f"p{i}", {"k1": f"w{i}", "own": f"v{i}"}) for i in range(100)]
    assert calls_of(lambda: violators(victims, limits)) < 100 * 60
    keys, _ = violators(victims, limits)
    assert len(keys) == 99


def test_only_new_budgets_are_matched_with_pods_that_were_matched_before() -> None:
    """Thousands of budgets of a namespace may come and go while pods of others preempt."""
    limits = Budgets(budget(f"b{i}") for i in range(40 * BUDGETS_PER_STEP))
    victims = [pod(f"p{i}", {"app": "a"}) for i in range(10)]
    limits.put(budget("b99", allowed=5))
    keys, steps = violators(victims, limits)
    assert (len(keys), steps) == (10, 10 * STEPS_PER_POD + 40)
    for number in range(BUDGETS_PER_STEP):
        limits.put(budget(f"c{number}"))
        limits.remove(("ns", f"b{number}"))
    keys, steps = violators(victims, limits)
    assert (len(keys), steps) == (10, 10 * STEPS_PER_POD + 1)
    assert "b0" not in violating(victims[:1], limits)["ns/p0"]
    assert "c0" in violating(victims[:1], limits)["ns/p0"]
    assert "b99" not in violating(victims[:1], limits)["ns/p0"]


def test_pods_under_a_budget_that_stays_are_not_matched_again_while_none_allows_anything() -> None:
    limits = Budgets(budget(f"b{i}", selector={}) for i in range(100 * BUDGETS_PER_STEP))
    victims = [pod(f"p{i}", {"app": f"a{i}"}) for i in range(10)]
    assert violators(victims, limits)[1] == 10 * STEPS_PER_POD + 100
    for number in range(BUDGETS_PER_STEP):
        limits.put(budget(f"c{number}", selector={}))
        limits.remove(("ns", f"b{number}"))
    assert violators(victims, limits) == (tuple(info.key for info in victims), 10 * STEPS_PER_POD)
    limits.put(budget("d", selector={}, allowed=1))
    assert violators(victims, limits)[1] == 10 * STEPS_PER_POD + 1
