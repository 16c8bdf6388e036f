"""Pods and nodes keep the JSON of the API server, and are sent with it."""

from __future__ import annotations

from typing import Any

import msgspec

from berth.actors.informer.stand_ins import node_without_new_pods
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.policy import PodDisruptionBudget
from berth.actors.scheduling.kube.whole import json_of, with_json

MANAGED = [{"manager": "kubectl", "operation": "Update"}]


def document(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "x", "managedFields": MANAGED}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}


def sent(item: Pod | Node) -> Any:
    return msgspec.json.decode(json_of(item))


def test_the_json_of_a_pod_is_sent_without_managed_fields() -> None:
    raw = msgspec.json.encode(document("Pod", {"serviceAccountName": "robot"}))
    pod = with_json(msgspec.json.decode(raw, type=Pod), raw)
    assert sent(pod) == {"metadata": {"name": "x"}, "spec": {"serviceAccountName": "robot"}}


def test_the_json_of_a_node_is_sent_with_managed_fields() -> None:
    raw = msgspec.json.encode(document("Node", {"podCIDR": "10.0.0.0/24"}))
    node = with_json(msgspec.json.decode(raw, type=Node), raw)
    metadata = {"name": "x", "managedFields": MANAGED}
    assert sent(node) == {"metadata": metadata, "spec": {"podCIDR": "10.0.0.0/24"}}


def test_an_assumed_pod_is_sent_with_its_node() -> None:
    for spec, left in (({"hostname": "h"}, {"hostname": "h"}), (None, {}), ({"nodeName": ""}, {})):
        raw = msgspec.json.encode({"metadata": {"name": "x"}, "spec": spec})
        pod = with_json(Pod(), raw)
        assumed = msgspec.structs.replace(
            pod, spec=msgspec.structs.replace(pod.spec, node_name="n")
        )
        assert sent(assumed) == {"metadata": {"name": "x"}, "spec": {**left, "nodeName": "n"}}


def test_of_an_object_without_json_the_fields_of_scheduling_are_sent() -> None:
    fields = {"spec": {"hostNetwork": True, "nodeName": "n"}}
    assert sent(msgspec.convert(fields, Pod)) == fields


def test_other_kinds_are_never_kept_whole() -> None:
    budget = PodDisruptionBudget()
    assert with_json(budget, b"{}") is budget


def test_a_whole_node_has_a_stand_in() -> None:
    node = with_json(Node(), b'{"metadata": {}}')
    stale = node_without_new_pods(node, Node())
    assert stale is not None
    assert stale.spec == node.spec
