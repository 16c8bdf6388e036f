"""Pods that the default constraints of the configuration spread."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from berth.tools.views.commands.explain import explain
from tests.kit.daemon import node, pod
from tests.kit.documents import thing

SERVICE = thing("Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]})


def web(name: str, **spec: Any) -> dict[str, Any]:
    document = pod(name, "1", **spec)
    document["metadata"]["labels"] = {"app": "web"}
    return document


@pytest.mark.parametrize(
    ("key", "lack"),
    [
        (
            "kubernetes.io/hostname",
            "1 would have too many of the pods that the default constraints spread",
        ),
        ("rack", "2 do not have a label that the default constraints spread by"),
    ],
)
def test_the_default_constraints_are_named(tmp_path: Path, key: str, lack: str) -> None:
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    args = {"defaultingType": "List", "defaultConstraints": [constraint]}
    profile = {"pluginConfig": [{"name": "PodTopologySpread", "args": args}]}
    configuration = tmp_path / "scheduler.yaml"
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    configuration.write_text(json.dumps({**head, "profiles": [profile]}))
    cordoned = {**node("n2"), "spec": {"unschedulable": key != "rack"}}
    items = [node("n1"), cordoned, SERVICE, web("a", nodeName="n1"), web("b")]
    result = CliRunner(env={"COLUMNS": "300"}).invoke(
        explain,
        ["-f", "-", "--config", str(configuration), "b"],
        input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}),
    )
    assert lack in result.output
    change = "Give the pod a spread constraint of its own over kubernetes.io/hostname that is"
    assert f"- {change} ScheduleAnyway: it fits on " in result.output
