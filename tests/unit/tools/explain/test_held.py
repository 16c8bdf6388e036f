"""What the tools say about a pod that a plugin of a package holds, by extension point."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from berth.tools.explain.command import explain
from berth.tools.whatif.command import whatif
from tests.kit.processes import install

PLUGIN = """
from berth.plugin import *

class Holds({base}):
    name = "Holds"
{body}
"""
REFUSED = 'return unschedulable("not now")'
# By extension point: the base class, the method, and how explain and what-if begin about the pod.
POINTS = {
    "PreEnqueue": (
        "PreEnqueuePlugin",
        f"    def pre_enqueue(self, pod):\n        {REFUSED}",
        "is kept out of the queue by the plugin Holds: not now",
        1,
    ),
    "PreFilter": (
        "PreFilterPlugin",
        f"    def pre_filter(self, state, info, snapshot):\n        {REFUSED}",
        "not now",
        1,
    ),
    "Filter": (
        "NodeFilterPlugin",
        f"    def filter_node(self, state, info, node):\n        {REFUSED}",
        "not now",
        1,
    ),
    "Reserve": (
        "ReservePlugin",
        (
            f"    def reserve(self, state, info, node):\n        {REFUSED}\n"
            "    def unreserve(self, state, info, node): ..."
        ),
        "is rejected on n1 by the plugin Holds: not now",
        1,
    ),
    "Permit": (
        "PermitPlugin",
        '    def permit(self, state, info, node):\n        return unschedulable("not now"), 0.0',
        "is rejected on n1 by the plugin Holds: not now",
        1,
    ),
}
CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110"}}
---
apiVersion: v1
kind: Pod
metadata: {name: held}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: "1"}}}]}
"""
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Holds}]}}}]
"""


@pytest.fixture(params=POINTS)
def point(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Installs a plugin that holds every pod at an extension point; returns the point."""
    name: str = request.param
    base, body, *_ = POINTS[name]
    module = f"holds_at_{name.lower()}"
    install(tmp_path, module, PLUGIN.format(base=base, body=body), Holds=f"{module}:Holds")
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "scheduler.yaml").write_text(CONFIGURATION)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return name


def test_explain_and_whatif_tell_what_holds_a_pod(point: str) -> None:
    _, _, sentence, code = POINTS[point]
    arguments = ["-f", "cluster.yaml", "--config", "scheduler.yaml", "-o", "json"]
    listed = CliRunner().invoke(explain, [*arguments, "-A"])
    (pod,) = msgspec.json.decode(listed.stdout)["items"]
    assert sentence in "; ".join((*pod["standing"], pod["decision"]))
    one = CliRunner().invoke(explain, [*arguments, "--pod", "held"])
    assert sentence in one.stdout
    tried = CliRunner().invoke(whatif, arguments)
    (pending,) = msgspec.json.decode(tried.stdout)["pending"]
    assert sentence in pending["reason"]
    assert tried.exit_code == code
