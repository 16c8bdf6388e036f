"""The parts of what a pod asks for: they add up to the scheduler's own sum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.footprint import SENTENCES, Footprint, Rule, footprint, total_of
from berth.actors.scheduling.kube.requests import pod_requests, resized_at_once

RESOURCES = ("cpu", "memory", "hugepages-2Mi", "example.com/gpu")
amounts = st.dictionaries(
    st.sampled_from(RESOURCES), st.sampled_from(["0", "100m", "0.5m", "1", "2", "3Gi"]), max_size=3
)
statuses = st.lists(st.tuples(st.integers(0, 5), amounts, amounts), max_size=3)


def containers(kinds: list[tuple[str, dict[str, str]]]) -> list[dict[str, Any]]:
    return [
        {
            "name": f"c{i}",
            "resources": {"requests": requests},
            "restartPolicy": "Always" if kind == "sidecar" else None,
        }
        for i, (kind, requests) in enumerate(kinds)
    ]


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    kinds = st.lists(st.tuples(st.sampled_from(["init", "sidecar"]), amounts), max_size=4)
    apps = st.lists(st.tuples(st.just("app"), amounts), min_size=1, max_size=3)
    every = containers([*draw(apps), *draw(kinds)])
    split = next((i for i, each in enumerate(every) if i and each["restartPolicy"]), len(every))
    spec: dict[str, Any] = {
        "containers": every[:split],
        "initContainers": every[split:],
        "overhead": draw(amounts),
    }
    if draw(st.booleans()):
        spec["resources"] = {"requests": draw(amounts)}
    reported = [
        {"name": f"c{i}", "allocatedResources": allocated, "resources": {"requests": actual}}
        for i, allocated, actual in draw(statuses)
    ]
    status: dict[str, Any] = {"containerStatuses": reported}
    if draw(st.booleans()):
        status["conditions"] = [{"type": "PodResizePending", "reason": "Infeasible"}]
    read = msgspec.convert({"spec": spec, "status": status}, Pod)
    if draw(st.booleans()):
        return msgspec.structs.replace(read, status=resized_at_once(read.status))
    return read


def nonzero(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}


@given(pods())
def test_what_counts_adds_up_to_the_requests(pod: Pod) -> None:
    asked = footprint(pod)
    assert asked.requests == pod_requests(pod)
    assert nonzero(total_of(asked.parts)) == nonzero(asked.requests)
    for part in asked.parts:
        assert {*part.counts} <= part.requests.keys()
        assert part.sentence


def of(
    apps: list[dict[str, str]],
    inits: list[tuple[str, dict[str, str]]] | None = None,
    **spec: Any,
) -> Footprint:
    every = containers([*(("app", each) for each in apps), *(inits or [])])
    whole = {"containers": every[: len(apps)], "initContainers": every[len(apps) :], **spec}
    return footprint(msgspec.convert({"spec": whole}, Pod))


def counting(asked: Footprint) -> list[tuple[str, str]]:
    return [(part.rule, part.name) for part in asked.parts if part.counts]


@pytest.mark.parametrize(
    ("asked", "cpu", "counted"),
    [
        (
            of([{"cpu": "1"}, {"cpu": "2"}]),
            3000,
            [(Rule.CONTAINER, "c0"), (Rule.CONTAINER, "c1")],
        ),
        (
            of([{"cpu": "1"}], [("init", {"cpu": "1"})]),
            1000,
            [(Rule.CONTAINER, "c0")],
        ),
        (
            of(
                [{"cpu": "1"}],
                [("sidecar", {"cpu": "100m"}), ("init", {"cpu": "2"}), ("sidecar", {"cpu": "5m"})],
            ),
            2100,
            [(Rule.SIDECAR, "c1"), (Rule.INIT_CONTAINER, "c2")],
        ),
        (
            of([{"cpu": "1"}], resources={"requests": {"cpu": "500m"}}, overhead={"cpu": "1m"}),
            501,
            [(Rule.POD_LEVEL, ""), (Rule.OVERHEAD, "")],
        ),
    ],
)
def test_which_parts_count(asked: Footprint, cpu: int, counted: list[tuple[str, str]]) -> None:
    assert asked.requests["cpu"] == cpu
    assert counting(asked) == counted


def test_every_rule_has_a_sentence() -> None:
    assert SENTENCES.keys() == {*Rule}
