"""DefaultPreemption: plugins that fail in its dry runs, and what it says.

The rows of messages are those of TestPostFilter in Kubernetes'
defaultpreemption/default_preemption_test.go, 1.36.2, with the texts of 1.37 (kubernetes#140180 and
#140222 have the sentences).
"""

from __future__ import annotations

import msgspec
import pytest

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.config.feature_gates import defaults_of
from berth.config.versions import VERSIONS
from berth.tools.answers.explain.decision import Decision, decide
from tests.kit.devices import (
    DRIVER,
    claim,
    cluster,
    device_class,
    node,
    pod,
    request,
    resource_slice,
    using,
)
from tests.kit.documents import Document
from tests.kit.handle import NoApi
from tests.kit.profiles import profile_of


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
    profile = profile_of()
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


ONE_POD, SMALL = {"pods": "1"}, {"pods": "10", "cpu": "200m", "memory": "400"}
LARGE_NODE = {"pods": "10", "cpu": "600m", "memory": "1000"}
NOTHING: dict[str, str] = {}
LARGE, MEDIUM = {"cpu": "600m", "memory": "1000"}, {"cpu": "300m", "memory": "500"}


def placed(name: str, node: str, priority: int, requests: dict[str, str]) -> Document:
    document = pod(requests, name, node)
    document["spec"]["priority"] = priority
    return document


def without_room(
    minor: int,
    priority: int,
    requests: dict[str, str],
    nodes: dict[str, dict[str, str]],
    pods: list[tuple[str, int, dict[str, str]]],
) -> str:
    """Returns the message about a pod; `pods` have their node, priority and requests."""
    objects = [{**node(name), "status": {"allocatable": room}} for name, room in nodes.items()]
    objects += [placed(f"p{i}", *where) for i, where in enumerate(pods)]
    handle = NoApi(defaults_of(VERSIONS[minor]))
    profile = profile_of(handle=handle)
    document = placed("p", "", priority, requests)
    decision = decide(profile, PodInfo(msgspec.convert(document, Pod)), cluster(*objects))
    assert isinstance(decision, Decision)
    assert decision.message is not None
    return decision.message


@pytest.mark.parametrize(
    ("priority", "requests", "nodes", "pods", "head", "tail"),
    [
        (
            1000,
            NOTHING,
            {"node1": ONE_POD},
            [("node1", 0, NOTHING)],
            "0/1 nodes are available: 1 Too many pods.",
            "found a potential placement for pod on node node1, preempting 1 victims",
        ),
        (
            0,
            NOTHING,
            {"node1": ONE_POD},
            [("node1", 0, NOTHING)],
            "0/1 nodes are available: 1 Too many pods.",
            "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
        ),
        (
            100,
            NOTHING,
            {"node1": ONE_POD, "node2": ONE_POD},
            [("node1", 1000, NOTHING), ("node2", 10, NOTHING)],
            "0/2 nodes are available: 2 Too many pods.",
            "found a potential placement for pod on node node2, preempting 1 victims",
        ),
        (
            1000,
            LARGE,
            {"node1": SMALL, "node2": SMALL},
            [("node1", 0, NOTHING), ("node2", 0, NOTHING)],
            "0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient memory.",
            "0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
        ),
        (
            1000,
            LARGE,
            {"node1": LARGE_NODE},
            [("node1", 0, MEDIUM), ("node1", 1, MEDIUM)],
            "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.",
            "found a potential placement for pod on node node1, preempting 2 victims",
        ),
        (
            1000,
            LARGE,
            {"node1": LARGE_NODE, "node2": SMALL},
            [("node1", 0, {"cpu": "100m"}), ("node1", 0, {"memory": "1"})],
            "0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient memory.",
            "found a potential placement for pod on node node1, preempting 2 victims",
        ),
    ],
)
def test_the_message_says_where_room_is_made(
    priority: int,
    requests: dict[str, str],
    nodes: dict[str, dict[str, str]],
    pods: list[tuple[str, int, dict[str, str]]],
    head: str,
    tail: str,
) -> None:
    message = without_room(37, priority, requests, nodes, pods)
    assert message == f"{head} preemption: {tail}"
    before = without_room(36, priority, requests, nodes, pods)
    if tail.startswith("found"):
        assert before == head
    else:
        assert before == f"{head} no new claims to deallocate, preemption: {tail}"
