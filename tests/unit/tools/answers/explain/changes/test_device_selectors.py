"""Selectors that fail on devices which lack what they read, and how they would begin."""

from __future__ import annotations

from math import inf

import pytest

from berth.config.feature_gates import defaults_of
from berth.config.versions import VERSIONS
from berth.tools.answers.explain.changes.change import Suggestion
from berth.tools.answers.explain.changes.proof_search import search
from berth.tools.answers.explain.cluster_source import ClusterQuestion
from berth.tools.answers.explain.decider import Explainer, decided
from berth.tools.answers.explain.tried_cluster import asked
from tests.kit.changes import CONFIGURATION, EXPLAINER, fits_after, suggested
from tests.kit.daemon import pod
from tests.kit.devices import DRIVER, claim, device_class, node, request, resource_slice, using
from tests.kit.documents import Document

OF_DRIVER = f'device.attributes["{DRIVER}"]'
OF_CAPACITY = f'device.capacity["{DRIVER}"]'


def device(name: str, **attributes: str) -> Document:
    return {"name": name, "attributes": {key: {"string": v} for key, v in attributes.items()}}


def selecting(expression: str) -> list[Document]:
    return [{"cel": {"expression": expression}}]


def objects(*expressions: str, of_class: str = "") -> list[Document]:
    requests = [
        request(f"r{i}", selectors=selecting(text)) for i, text in enumerate(expressions)
    ] or [request()]
    devices = [device("a"), device("b", model="A", size="L")]
    devices += [device("c", model="A", size="L")]
    devices[1]["capacity"] = {"memory": {"value": "40Gi"}}
    classes = device_class("gpu", *[of_class] * bool(of_class))
    return [classes, node(), resource_slice("n", *devices), claim("c", *requests)]


def only(cluster: list[Document], pending: Document) -> Suggestion:
    changes = suggested(cluster, pending)
    assert changes is not None
    (change,) = changes
    return change


@pytest.mark.parametrize(
    ("expression", "guards"),
    [
        (f'{OF_DRIVER}.model == "A"', f"has({OF_DRIVER}.model)"),
        (f'{OF_DRIVER}["model"] == "A"', f"has({OF_DRIVER}.model)"),
        (
            f'{OF_DRIVER}.model == "A" && {OF_DRIVER}.size.startsWith("L")',
            f"has({OF_DRIVER}.model)",  # the device without it lacks the other one too
        ),
        (
            f'{OF_DRIVER}.model == "B" || {OF_DRIVER}.size == "L"',
            f"has({OF_DRIVER}.model)",
        ),
        (
            f'{OF_CAPACITY}.memory.compareTo(quantity("1Gi")) > 0',
            f"has({OF_CAPACITY}.memory)",
        ),
        (
            f'cel.bind(d, {OF_DRIVER}, d.model == "A" && d.size == "L")',
            f"has({OF_DRIVER}.model)",
        ),
    ],
)
def test_the_selector_asks_first(expression: str, guards: str) -> None:
    pending, cluster = using(pod("p", "0"), "c"), objects(expression)
    change = only(cluster, pending)
    assert change.sentence == (
        f"Let selector #0 of request r0 of the claim c begin with {guards} && "
        "(it fails on the device a): it fits on n."
    )
    assert fits_after(change, cluster, pending) == ["n"]


def test_the_selector_of_a_class_asks_first() -> None:
    pending, cluster = using(pod("p", "0"), "c"), objects(of_class=f'{OF_DRIVER}.model == "A"')
    change = only(cluster, pending)
    assert change.sentence.startswith("Let selector #0 of the class gpu begin with has(")
    assert fits_after(change, cluster, pending) == ["n"]


def test_two_attributes_of_which_each_device_lacks_another() -> None:
    pending = using(pod("p", "0"), "c")
    expression = f'{OF_DRIVER}.model == "A" && {OF_DRIVER}.size == "L"'
    devices = [device("a", size="L"), device("b", model="A"), device("c", model="A", size="L")]
    cluster = [
        device_class(),
        node(),
        resource_slice("n", *devices),
        claim("c", request(selectors=selecting(expression))),
    ]
    change = only(cluster, pending)
    assert f"has({OF_DRIVER}.model) && has({OF_DRIVER}.size) &&" in change.sentence
    assert fits_after(change, cluster, pending) == ["n"]


def test_nothing_is_said_of_other_kinds_of_changes_if_the_attempt_fails() -> None:
    question = ClusterQuestion(
        using(pod("p", "0"), "c"), objects(f"{OF_DRIVER}.model == 1"), CONFIGURATION
    )
    of = asked(EXPLAINER, question)
    assert not search(of, decided(of.attempt).outcome).says_something


def test_two_selectors_ask_first() -> None:
    pending, cluster = using(pod("p", "0"), "c"), objects(*[f'{OF_DRIVER}.model == "A"'] * 2)
    change = only(cluster, pending)
    assert "(it fails on the device a) and selector #0 of request r1 of" in change.sentence
    assert fits_after(change, cluster, pending) == ["n"]


@pytest.mark.parametrize(
    "expressions",
    [
        (f"{OF_DRIVER}.model == 1",),  # an attribute of another type
        (f'{OF_DRIVER}.model == "B"',),  # which no device meets
        (f'{OF_DRIVER}.model == "A"',) * 3,  # which two devices meet
    ],
)
def test_no_change_is_named_that_does_not_help(expressions: tuple[str, ...]) -> None:
    assert suggested(objects(*expressions), using(pod("p", "0"), "c")) == []


def test_a_selector_of_a_list_in_1_37() -> None:
    lists = device("a"), {"name": "b", "attributes": {"modes": {"strings": ["x", "y"]}}}
    of_list = request(selectors=selecting(f'{OF_DRIVER}.modes.includes("y")'))
    cluster = [device_class("gpu"), node(), resource_slice("n", *lists), claim("c", of_list)]
    question = ClusterQuestion(using(pod("p"), "c"), cluster, CONFIGURATION)
    of = asked(Explainer(CONFIGURATION, defaults_of(VERSIONS[37])), question)
    (change,) = search(of, decided(of.attempt).outcome, inf).suggestions
    assert f"begin with has({OF_DRIVER}.modes) && (it fails on the device a)" in change.sentence
    assert change.nodes == ("n",)


def test_a_guard_that_is_not_enough_comes_with_what_is_missing_then() -> None:
    three = request("r0", count=3, selectors=selecting(f'{OF_DRIVER}.model == "A"'))
    cluster = [*objects()[:-1], claim("c", three)]
    pending = using(pod("p", "1"), "c")
    change = only(cluster, pending)
    assert change.sentence == (
        f"Let selector #0 of request r0 of the claim c begin with has({OF_DRIVER}.model) && (it "
        "fails on the device a), and ask for 2 instead of 3 devices in request r0 of the claim c: "
        "it fits on n."
    )
    assert fits_after(change, cluster, pending) == ["n"]
