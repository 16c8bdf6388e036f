"""DefaultPreemption: plugins that fail in its dry runs."""

from __future__ import annotations

import msgspec

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.wiring.profiles import profiles_of
from berth.config.types import KubeSchedulerConfiguration
from berth.tools.answers.explain.decision import Decision, decide
from tests.kit.devices import (
    DRIVER,
    Document,
    claim,
    cluster,
    device_class,
    node,
    pod,
    request,
    resource_slice,
    using,
)
from tests.kit.handle import NoApi


def preempting(attributes: dict[str, Document]) -> tuple[Decision, int]:
    """Decides for a pod with a claim for a device of size 2, on full nodes.

    `attributes` are those of the device of each node. Returns the decision, and how often a node
    was judged by its devices.
    """
    asking = {"cel": {"expression": f'device.attributes["{DRIVER}"].size == 2'}}
    objects = [device_class(), claim("c", request(selectors=[asking]))]
    for name, of_device in attributes.items():
        device = {"name": "d", "attributes": of_device}
        objects += [node(name, cpu=1), resource_slice(name, device)]
        objects += [pod({"cpu": 1}, f"on-{name}", name)]
    document = using(pod({"cpu": 1}), "c")
    document["spec"]["priority"] = 9
    profile = profiles_of(KubeSchedulerConfiguration(), NoApi())["default-scheduler"]
    info = PodInfo(msgspec.convert(document, Pod))
    decision = decide(profile, info, cluster(*objects))
    assert isinstance(decision, Decision)
    return decision, profile.evaluations["Filter", "DynamicResources"]


FINE, FAILING = {"size": {"int": 2}}, {"other": {"int": 2}}
FAILED = (
    'running "DynamicResources" filter plugin: claim default/c: selector #0: CEL runtime error: '
)


def test_a_filter_that_fails_in_a_dry_run_excludes_its_node_only() -> None:
    decision, _ = preempting({"a": FAILING, "b": FINE, "c": FAILING})
    assert decision.preemption is not None
    assert [*decision.preemption.candidates] == ["b"]


def test_filters_that_fail_in_all_dry_runs_are_an_error_of_post_filter() -> None:
    decision, _ = preempting({"a": FAILING, "b": FAILING})
    assert decision.preemption_message == f"preemption: {FAILED}no such key: size"


def test_different_errors_of_dry_runs_are_listed() -> None:
    decision, _ = preempting({"a": FAILING, "b": {"size": {"version": "two"}}})
    assert decision.preemption_message is not None
    assert decision.preemption_message.startswith("preemption: [running")
    assert decision.preemption_message.endswith("]")
    assert f"{FAILED}no such key: size" in decision.preemption_message
    assert f"{FAILED}attribute size: parse semantic version" in decision.preemption_message


def test_dry_runs_that_fail_everywhere_do_not_take_long() -> None:
    nodes = 600
    decision, judged = preempting({f"n{i}": FAILING for i in range(nodes)})
    assert decision.preemption_message == f"preemption: {FAILED}no such key: size"
    assert judged < 4 * nodes
