"""A decision does not stand still for long, and the next one goes on where it ended."""

from __future__ import annotations

import msgspec
import pytest

from berth.actors.scheduling.plugins.dynamic_resources.plugin import DynamicResources
from berth.actors.scheduling.plugins.dynamic_resources.steps import Steps, TimedOutError
from berth.plugin import Code, CycleState, Pod, PodInfo, Snapshot
from tests.kit.devices import (
    DRIVER,
    Document,
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

# About a tenth of the work of selectors in a decision, for each device.
TWELVE = str([*range(12)])
SLOW = f"{TWELVE}.all(a, {TWELVE}.all(b, {TWELVE}.all(c, a + b + c + size(device.driver) > 0)))"


def attempts(snapshot: Snapshot, document: Document) -> list[str]:
    """Returns the messages of the attempts at a pod, until one of them ends in time."""
    plugin = DynamicResources({}, handle())
    info = PodInfo(msgspec.convert(document, Pod))
    said: list[str] = []
    while not said or said[-1].endswith("timed out trying to allocate devices"):
        state = CycleState()
        plugin.pre_filter(state, info, snapshot)
        verdicts = plugin.filter(state, info, snapshot.all())
        if verdicts is None:
            return [*said, "fits"]
        keys = verdicts.keys.tolist()
        failed = [key for key, code in zip(keys, verdicts.codes, strict=True) if code == Code.ERROR]
        said += verdicts.explain((failed or keys)[0])
        assert len(said) < 100
    return said


def test_no_steps_are_left() -> None:
    steps = Steps(3)
    steps.take(2)
    steps.take()
    with pytest.raises(TimedOutError):
        steps.take()


def test_all_nodes_share_the_steps_of_a_decision() -> None:
    names = [f"n{number}" for number in range(5)]
    devices: list[str | Document] = [
        {"name": f"d{number}", "attributes": {"a": {"int": number % 2}}} for number in range(26)
    ]
    snapshot = cluster(
        *map(node, names),
        *(resource_slice(name, *devices) for name in names),
        device_class(),
        claim("c", request(count=14), constraints=[{"matchAttribute": f"{DRIVER}/a"}]),
    )
    said = attempts(snapshot, using(pod({}), "c"))
    assert len(said) > 1
    assert said[-1] == "cannot allocate all claims"


def test_slow_selectors_take_steps() -> None:
    devices: list[str | Document] = [
        {"name": f"d{number}", "attributes": {"a": {"int": number}}} for number in range(40)
    ]
    snapshot = cluster(
        node(),
        resource_slice("n", *devices),
        device_class("gpu", SLOW),
        claim("c", request(count=32)),
    )
    said = attempts(snapshot, using(pod({}), "c"))
    assert len(said) > 2
    assert said[-1] == "fits"


def test_a_pod_with_many_claims() -> None:
    devices = [f"d{number}" for number in range(1280)]
    names = [f"c{number}" for number in range(40)]
    claims = [claim(name, request(count=32)) for name in names]
    snapshot = cluster(node(), resource_slice("n", *devices), device_class(), *claims)
    assert attempts(snapshot, using(pod({}), *names)) == ["fits"]
