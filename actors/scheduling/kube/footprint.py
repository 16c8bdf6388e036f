"""The requests of a pod part by part, with the rule by which each part counts.

The parts explain the sum of requests.py: for every resource, what counts of them adds up to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

import msgspec

from .core import Container, Pod
from .requests import (
    Amounts,
    add,
    counts_at_pod_level,
    in_units,
    nanos,
    pod_requests,
    resize_is_infeasible,
    unit_of,
)


class Rule(StrEnum):
    """The rule by which a part of a pod counts, or replaces others."""

    CONTAINER = "Container"
    SIDECAR = "Sidecar"
    INIT_CONTAINER = "InitContainer"
    POD_LEVEL = "PodLevel"
    OVERHEAD = "Overhead"
    RESIZE = "Resize"


SENTENCES: Mapping[Rule, str] = {
    Rule.CONTAINER: "containers run together: their requests are added",
    Rule.SIDECAR: "a sidecar runs beside them, and beside the init containers after it",
    Rule.INIT_CONTAINER: "runs before them, beside the sidecars so far: counts where that is more",
    Rule.POD_LEVEL: "the pod's own requests replace the sum of its containers'",
    Rule.OVERHEAD: "the overhead of its RuntimeClass is added",
    Rule.RESIZE: "while it is resized, the largest of spec, allocated and in effect counts",
}
INFEASIBLE = "its resize is infeasible: what is allocated and in effect counts"


class Part(msgspec.Struct, frozen=True):
    """A part of a pod. `requests` are exact amounts in billionths, by resource; `counts` has the
    resources of which this part is in the sum. The rule tells how; `sentence` says it in words.
    """

    rule: Rule
    name: str
    requests: Mapping[str, int]
    counts: tuple[str, ...]
    sentence: str


class Footprint(msgspec.Struct, frozen=True):
    """What a pod asks for: cpu in thousandths of a core, all else in whole units, as the scheduler
    compares them with a node; and the parts that made it.
    """

    requests: Mapping[str, int]
    parts: tuple[Part, ...]


def footprint(pod: Pod) -> Footprint:
    """Returns what a pod asks for. Raises QuantityError."""
    own, overhead = _own_requests(pod), nanos(pod.spec.overhead)
    by_spec, requests = pod_requests(pod, status=False), pod_requests(pod)
    resized = {
        name: requests.get(name, 0)
        for name in {*by_spec, *requests}
        if requests.get(name, 0) != by_spec.get(name, 0)
    }
    parts = [
        *_parts_of_containers(pod, {*own, *resized}),
        *_part_of_container(Rule.POD_LEVEL, own, resized),
        *_part_of_container(Rule.OVERHEAD, overhead, resized),
    ]
    if resized:
        exact = {name: amount * unit_of(name) for name, amount in resized.items()}
        sentence = INFEASIBLE if resize_is_infeasible(pod) else SENTENCES[Rule.RESIZE]
        parts.append(Part(Rule.RESIZE, "", exact, tuple(sorted(exact)), sentence))
    return Footprint(requests, tuple(parts))


def total_of(parts: Iterable[Part]) -> Amounts:
    """Returns the sum of the parts that count, in the units of a footprint."""
    total: Amounts = {}
    for part in parts:
        add(total, {name: part.requests[name] for name in part.counts})
    return in_units(total)


def _part_of_container(
    rule: Rule, requests: Amounts, replaced: Mapping[str, int]
) -> Iterator[Part]:
    if requests:
        counts = tuple(sorted(requests.keys() - replaced.keys()))
        yield Part(rule, "", requests, counts, SENTENCES[rule])


def _own_requests(pod: Pod) -> Amounts:
    """Returns the requests of the pod's own that replace a sum."""
    resources = pod.spec.resources
    requests = {} if resources is None else nanos(resources.requests)
    return {name: amount for name, amount in requests.items() if counts_at_pod_level(name)}


def _parts_of_containers(pod: Pod, replaced: set[str]) -> Iterator[Part]:
    """Yields a part for each container. For each resource, either all containers that run together
    count, or the init container that needs more, together with the sidecars before it.
    """
    containers = [(Rule.CONTAINER, each) for each in pod.spec.containers]
    containers += [(_rule_of(each), each) for each in pod.spec.init_containers]
    running: Amounts = {}
    for rule, container in containers:
        if rule is not Rule.INIT_CONTAINER:
            add(running, _requests(container))
    peaks = {
        name: peak
        for name, peak in _peaks(pod.spec.init_containers).items()
        if peak.amount > running.get(name, 0) or name not in running
    }
    for rule, container in containers:
        requests = _requests(container)
        counts = (
            name
            for name in requests
            if name not in replaced
            and (
                container.name in peaks[name].containers
                if name in peaks
                else rule is not Rule.INIT_CONTAINER
            )
        )
        yield Part(rule, container.name, requests, tuple(sorted(counts)), SENTENCES[rule])


class _Peak(msgspec.Struct, frozen=True):
    """The largest need of a resource by an init container and the sidecars before it."""

    amount: int
    containers: tuple[str, ...]


def _peaks(init_containers: Iterable[Container]) -> dict[str, _Peak]:
    peaks: dict[str, _Peak] = {}
    sidecars: dict[str, _Peak] = {}
    for container in init_containers:
        for name, amount in _requests(container).items():
            before = sidecars.get(name, _Peak(0, ()))
            peak = _Peak(before.amount + amount, (*before.containers, container.name))
            if _rule_of(container) is Rule.SIDECAR:
                sidecars[name] = peak
            elif name not in peaks or peak.amount > peaks[name].amount:
                peaks[name] = peak
    return peaks


def _rule_of(container: Container) -> Rule:
    return Rule.SIDECAR if container.restart_policy == "Always" else Rule.INIT_CONTAINER


def _requests(container: Container) -> Amounts:
    return nanos(container.resources.requests)
