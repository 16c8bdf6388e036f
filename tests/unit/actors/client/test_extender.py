"""The pure part of the extenders: the JSON of extender/v1 both ways, and the effects of answers."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import numpy as np
import pytest

from berth.actors.client.extender.calls import (
    arguments,
    binding,
    manages_resource,
    preemption_arguments,
    sent_whole,
)
from berth.actors.client.extender.merging import RemainingNodes, merged_scores, remaining_victims
from berth.actors.client.extender.wire import (
    ENCODER,
    ExtenderBindingResult,
    ExtenderError,
    ExtenderFilterResult,
    ExtenderPreemptionResult,
    HostPriority,
    HostPriorityList,
    MetaPod,
    MetaVictims,
    read,
)
from berth.actors.scheduling.framework.questions import Victims
from berth.actors.scheduling.framework.status import Status, unresolvable, unschedulable
from berth.actors.scheduling.framework.verdicts import Diagnosis
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import NodeView
from berth.config.types import Extender, ExtenderManagedResource
from berth.tools.kubernetes.api.types.schema import unknown_and_mistyped
from tests.kit import documents, structs
from tests.kit.snapshots import snapshot_of

BY_NAME = Extender("http://x", node_cache_capable=True, weight=2)
WHOLE = Extender("http://y", weight=3)


NOT_SENT = "which is not found in the input node list"


def node(name: str) -> dict[str, Any]:
    about: dict[str, Any] = {"labels": {"zone": "a"}, "metadata": {"annotations": {"price": "3"}}}
    tainted = [{"key": "k", "effect": "NoSchedule"}]
    return documents.node(name, "8", memory="32Gi", taints=tainted, **about)


def pod(name: str = "p", **container: Any) -> Pod:
    containers = [documents.container(**container)]
    return structs.pod(name, uid=f"uid-{name}", annotations={"a": "b"}, containers=containers)


def nodes(*names: str) -> NodeView:
    """Returns a view of these nodes in this order; the cluster has more nodes."""
    snapshot = snapshot_of([node(name) for name in (*sorted(names), "other")], set())
    return snapshot.rows(np.array([snapshot.columns.row_of[name] for name in names]))


def wire(value: object) -> Any:
    return msgspec.json.decode(ENCODER.encode(value))


# ------------------------------------------------------------------------------------- what is sent


def test_an_extender_with_a_cache_gets_only_names() -> None:
    sent = wire(arguments(BY_NAME, pod(), nodes("b", "a")))
    assert sent == {"Pod": wire(pod()), "Nodes": None, "NodeNames": ["b", "a"]}


def test_an_extender_without_a_cache_gets_whole_nodes() -> None:
    sent = wire(arguments(WHOLE, pod(), nodes("b", "a")))
    assert sent["NodeNames"] is None
    assert sent["Nodes"]["metadata"] == {}
    first = sent["Nodes"]["items"][0]
    assert first == {
        field: value for field, value in node("b").items() if field not in ("apiVersion", "kind")
    }


@pytest.mark.parametrize(
    ("extender", "pending", "bound", "nodes_too"),
    [
        (Extender("http://x", filter_verb="f", node_cache_capable=True), True, False, False),
        (Extender("http://x", prioritize_verb="p"), True, False, True),
        (Extender("http://x", preempt_verb="p", node_cache_capable=True), True, False, False),
        (Extender("http://x", preempt_verb="p"), True, True, False),
    ],
)
def test_only_what_extenders_may_get_is_kept_whole(
    extender: Extender, pending: bool, bound: bool, nodes_too: bool
) -> None:
    kept = sent_whole([Extender("http://y", bind_verb="b"), extender])
    assert kept is not None
    on_a_node = msgspec.convert({"spec": {"nodeName": "n"}}, Pod)
    assert (kept(pod()), kept(on_a_node), kept(Node())) == (pending, bound, nodes_too)


def test_without_extenders_that_decide_nothing_is_kept_whole() -> None:
    assert sent_whole([]) is None
    assert sent_whole([Extender("http://x", bind_verb="b")]) is None


def test_pods_are_sent_as_core_v1() -> None:
    resources = {
        "requests": {"cpu": "1", "example.com/gpu": "2"},
        "limits": {"example.com/gpu": "2"},
    }
    sent = wire(arguments(BY_NAME, pod(resources=resources), nodes("a")))["Pod"]
    expected = {"name": "p", "namespace": "ns", "uid": "uid-p", "annotations": {"a": "b"}}
    assert sent["metadata"] == expected
    assert sent["spec"]["containers"] == [{"name": "c", "image": "i", "resources": resources}]
    findings = unknown_and_mistyped("Pod", {"apiVersion": "v1", "kind": "Pod", **sent})
    assert not findings.unknown
    assert not findings.mistyped


def test_a_binding_names_pod_and_node() -> None:
    expected = {"PodName": "p", "PodNamespace": "ns", "PodUID": "uid-p", "Node": "n"}
    assert wire(binding(pod(), "n")) == expected


def test_candidates_for_preemption_are_sent_by_uid_or_whole() -> None:
    candidates = {"n": Victims((PodInfo(pod("v")),), 1)}
    metas = {"n": {"Pods": [{"UID": "uid-v"}], "NumPDBViolations": 1}}
    whole = {"n": {"Pods": [wire(pod("v"))], "NumPDBViolations": 1}}
    named = wire(preemption_arguments(BY_NAME, pod(), candidates))
    assert named == {"Pod": wire(pod()), "NodeNameToVictims": None, "NodeNameToMetaVictims": metas}
    sent = wire(preemption_arguments(WHOLE, pod(), candidates))
    assert sent == {"Pod": wire(pod()), "NodeNameToVictims": whole, "NodeNameToMetaVictims": None}


# ------------------------------------------------------------------------------------- what is read


@pytest.mark.parametrize(
    "raw",
    [
        '{"NodeNames": ["a"], "FailedNodes": {"b": "no"}}',
        (
            '{"nodenames": ["a"], "failedNodes": {"b": "no"}, "nodes": null, "extra": {"x": '
            '[1]}, "Error": null}\n'
        ),
        '{"NODENAMES": ["a"], "FAILEDNODES": {"b": "no"}, "FailedAndUnresolvableNodes": null}',
    ],
)
def test_field_names_are_read_in_any_case_and_null_is_absent(raw: str) -> None:
    answer = read(raw.encode(), ExtenderFilterResult)
    assert answer == ExtenderFilterResult(node_names=("a",), failed_nodes={"b": "no"})


def test_nodes_are_read_by_their_names() -> None:
    raw = {"nodes": {"metadata": {}, "items": [node("a"), {"metadata": {"name": "b", "uid": "u"}}]}}
    answer = read(msgspec.json.encode(raw), ExtenderFilterResult)
    assert answer.nodes is not None
    assert [item.metadata.name for item in answer.nodes.items] == ["a", "b"]


@pytest.mark.parametrize(
    ("raw", "into", "expected"),
    [
        ("null", HostPriorityList, ()),
        ("[]", HostPriorityList, ()),
        (
            '[{"host": "a", "score": 7}, {"Host": "b"}]',
            HostPriorityList,
            (HostPriority("a", 7), HostPriority("b", 0)),
        ),
        ("{}", ExtenderBindingResult, ExtenderBindingResult()),
        ('{"error": "no"}', ExtenderBindingResult, ExtenderBindingResult("no")),
        (
            '{"FailedNodes": {"a": null}}',
            ExtenderFilterResult,
            ExtenderFilterResult(failed_nodes={"a": ""}),
        ),
        (
            '{"nodeNameToMetaVictims": {"n": {"pods": [{"uid": "u"}], "numPDBViolations": 2}}}',
            ExtenderPreemptionResult,
            ExtenderPreemptionResult({"n": MetaVictims((MetaPod("u"),), 2)}),
        ),
    ],
)
def test_valid_answers_are_read(raw: str, into: type[Any], expected: object) -> None:
    assert read(raw.encode(), into) == expected


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html>",
        b"[]",
        b'"text"',
        b'{"NodeNames": "a"}',
        b'{"NodeNames": [1]}',
        b'{"FailedNodes": ["a"]}',
        b'{"Nodes": []}',
        b'{"Error": {}}',
        b'{"Error": "\xff"}',
        b'{"x": ' + b"[" * 100_000,
    ],
)
def test_an_invalid_answer_is_refused(raw: bytes) -> None:
    with pytest.raises(ExtenderError, match="unexpected answer"):
        read(raw, ExtenderFilterResult)


# --------------------------------------------------------------------------------- whom it concerns


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({}, False),
        ({"resources": {"requests": {"example.com/gpu": "1"}}}, True),
        ({"resources": {"limits": {"example.com/gpu": "1"}}}, True),
        ({"resources": {"requests": {"example.com/tpu": "1"}}}, False),
    ],
)
def test_an_extender_with_managed_resources_is_interested_in_pods_that_request_them(
    container: dict[str, Any], expected: bool
) -> None:
    extender = Extender("http://x", managed_resources=(ExtenderManagedResource("example.com/gpu"),))
    assert manages_resource(extender, pod(**container)) is expected
    assert manages_resource(WHOLE, pod(**container))
    document = {
        "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i", **container}]}
    }
    assert manages_resource(extender, msgspec.convert(document, Pod)) is expected


# ------------------------------------------------------------------------------------------- filter


def named(*names: str, **fields: Any) -> ExtenderFilterResult:
    return ExtenderFilterResult(node_names=names, **fields)


def test_each_extender_removes_nodes_and_the_order_stays() -> None:
    remaining = RemainingNodes(nodes("d", "a", "c", "b"))
    remaining.take(BY_NAME, named("a", "b", "d", failed_nodes={"c": "dear"}))
    remaining.take(
        BY_NAME,
        named("b", "d", failed_nodes={"a": "no"}, failed_and_unresolvable_nodes={"a": "never"}),
    )
    left = remaining.left
    assert [left.name(i) for i in range(left.size)] == ["d", "b"]
    filtered = remaining.result()
    names = left.columns.names
    assert [names[row] for row in filtered.rows] == ["d", "b"]
    reasons = {names[row]: status for row, status in filtered.rejected.items()}
    assert reasons == {"c": unschedulable("dear"), "a": unresolvable("never")}


def test_preemption_does_not_help_on_a_node_removed_without_a_reason() -> None:
    remaining = RemainingNodes(nodes("a"))
    remaining.take(BY_NAME, named())
    assert list(remaining.result().rejected.values()) == [unresolvable()]


def test_the_form_of_the_answer_follows_the_extender() -> None:
    """Names are read only from an extender with a cache. Without names, nodes are read."""
    whole = read(
        b'{"Nodes": {"items": [{"metadata": {"name": "a"}}]}, "NodeNames": ["b"]}',
        ExtenderFilterResult,
    )
    for extender, expected in ((WHOLE, "a"), (BY_NAME, "b")):
        remaining = RemainingNodes(nodes("a", "b"))
        remaining.take(extender, whole)
        assert remaining.left.name(0) == expected
    remaining = RemainingNodes(nodes("a", "b"))
    remaining.take(BY_NAME, msgspec.structs.replace(whole, node_names=None))
    assert remaining.left.name(0) == "a"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (
            named("a", "z"),
            f'extender "http://x" claims a filtered node "z" {NOT_SENT}',
        ),
        (named("a", error="no"), "no"),
    ],
)
def test_an_unusable_answer_changes_nothing(answer: ExtenderFilterResult, problem: str) -> None:
    remaining = RemainingNodes(nodes("a", "b"))
    with pytest.raises(ExtenderError, match=f"^{re.escape(problem)}$"):
        remaining.take(BY_NAME, answer)
    assert remaining.left.size == 2
    assert not remaining.result().rejected


def test_rejections_are_added_to_the_diagnosis_of_the_plugins() -> None:
    view = nodes("a", "b", "c")
    diagnosis = Diagnosis(view)
    diagnosis.put(0, Status(unschedulable().code, ("full",), "Fit"))
    remaining = RemainingNodes(view.snapshot.rows(np.asarray(view.rows)[1:]))
    remaining.take(BY_NAME, named("c", failed_nodes={"b": "dear"}))
    before, diagnosis = diagnosis, remaining.result().added_to(diagnosis)
    assert before.status(1).ok
    assert diagnosis.status(0).reasons == ("full",)
    assert (diagnosis.status(1).plugin, diagnosis.status(1).reasons) == ("Extender", ("dear",))
    assert diagnosis.status(2).ok
    assert diagnosis.rejecting_plugins(np.ones(3, dtype=np.bool_)) == {"Fit", "Extender"}


# --------------------------------------------------------------------------------------- prioritize


def test_scores_are_weighted_scaled_and_added() -> None:
    answers = [
        (BY_NAME, (HostPriority("a", 10), HostPriority("b", 1), HostPriority("who", 5))),
        (WHOLE, (HostPriority("b", 4),)),
    ]
    expected = [1 * 2 * 10 + 4 * 3 * 10, 10 * 2 * 10, 0]
    assert merged_scores(answers, nodes("b", "a", "c")).tolist() == expected
    assert merged_scores([], nodes("a")).tolist() == [0]


def test_a_score_out_of_range_does_no_harm() -> None:
    huge = merged_scores(
        [(BY_NAME, (HostPriority("a", 1 << 80), HostPriority("b", -(1 << 80))))], nodes("a", "b")
    )
    assert (huge + 1000).tolist()[0] > 0 > (huge - 1000).tolist()[1]


# ------------------------------------------------------------------------------------------ preempt

ON = {"n": [PodInfo(pod("v")), PodInfo(pod("w"))], "m": [PodInfo(pod("x"))]}


def result(**victims: list[str]) -> ExtenderPreemptionResult:
    metas = {
        name: MetaVictims(tuple(MetaPod(f"uid-{pod}") for pod in pods), 1)
        for name, pods in victims.items()
    }
    return ExtenderPreemptionResult(metas)


def test_the_remaining_victims_are_mapped_back_to_pods() -> None:
    remaining = remaining_victims(BY_NAME, result(n=["w", "v"], m=["x"]), ON.get)
    assert list(remaining) == ["m", "n"]
    assert [info.pod.metadata.name for info in remaining["n"].pods] == ["w", "v"]
    assert remaining["n"].pdb_violations == 1
    assert remaining_victims(BY_NAME, result(), ON.get) == {}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (result(z=["v"]), 'nodeinfo not found for node name "z"'),
        (
            result(n=["x"]),
            (
                "extender: http://x claims to preempt pod (UID: &{uid-x}) on node: n, but the pod "
                "is not found on that node"
            ),
        ),
        (result(n=[]), 'expected at least one victim pod on node "n"'),
    ],
)
def test_impossible_candidates_are_refused(answer: ExtenderPreemptionResult, problem: str) -> None:
    with pytest.raises(ExtenderError, match=f"^{re.escape(problem)}$"):
        remaining_victims(BY_NAME, answer, ON.get)


def test_a_node_without_victims_is_left_out_for_an_ignorable_extender() -> None:
    ignorable = msgspec.structs.replace(BY_NAME, ignorable=True)
    assert list(remaining_victims(ignorable, result(n=[], m=["x"]), ON.get)) == ["m"]
