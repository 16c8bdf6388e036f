"""`berth whatif sweep` from the command line, its what-ifs done in this process."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from berth.tools.answers.whatif.sweep import process_pool, ray_pool
from berth.tools.answers.whatif.sweep.cell import Outcome, WhatIfs
from berth.tools.answers.whatif.sweep.plan import Cell
from berth.tools.views.commands.whatif import whatif

CLUSTER = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: node-1, labels: {kubernetes.io/hostname: node-1}}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
- apiVersion: v1
  kind: Node
  metadata: {name: node-2, labels: {kubernetes.io/hostname: node-2}}
  status: {allocatable: {cpu: "8", memory: 16Gi, pods: "10"}}
- apiVersion: v1
  kind: Pod
  metadata: {name: stuck}
  spec: {nodeSelector: {no: such}, containers: [{name: c, image: nginx}]}
"""
WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 9
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx, resources: {requests: {cpu: "3"}}}]}
"""
SWEEP = """
cluster: [cluster.yaml]
workload: [web.yaml]
nodeTypes:
- {name: small, like: node-1, price: 0.125, counts: 4-7}
- {name: large, like: node-2, price: 0.3, counts: [2, 3]}
"""
HUGE = """
apiVersion: v1
kind: Node
metadata: {name: huge, labels: {kubernetes.io/hostname: huge, size: huge}}
status: {allocatable: {cpu: "64", memory: 8Gi, pods: "100"}}
"""
AGENT = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      nodeSelector: {size: huge}
      containers: [{name: c, image: nginx, resources: {requests: {cpu: "32"}}}]
"""

MOST = """
from berth.plugin import SUCCESS, Code, NodeFilterPlugin, Status

class Most(NodeFilterPlugin):
    name = "Most"

    def filter_node(self, state, info, node):
        full = len(node.pods) >= {most}
        return Status(Code.UNSCHEDULABLE, ("full",)) if full else SUCCESS
"""


class Done:
    """The engine of these tests. It counts its cells, and can be interrupted after some."""

    def __init__(self) -> None:
        self.cells: list[int] = []
        self.stop_after = -1

    def outcomes(self, plan: bytes, cells: Sequence[Cell], jobs: int) -> Iterator[Outcome]:
        what_ifs = WhatIfs(plan)
        for cell in cells:
            if len(self.cells) == self.stop_after:
                raise KeyboardInterrupt
            self.cells.append(cell.number)
            yield what_ifs.outcome(cell)


@pytest.fixture
def done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Done:
    files = {"cluster": CLUSTER, "web": WEB, "sweep": SWEEP, "huge": HUGE, "agent": AGENT}
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    engine = Done()
    monkeypatch.setattr(process_pool, "outcomes", lambda *args: (o for o in engine.outcomes(*args)))
    return engine


def swept(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(whatif, ["sweep", *arguments])
    assert result.exit_code == code, result.output
    return result


def answer(*arguments: str, code: int = 0) -> Any:
    return json.loads(swept(*arguments, "-o", "json", code=code).stdout)


def test_the_first_line_names_the_cheapest_fleet_that_holds_the_workload(done: Done) -> None:
    printed = swept("sweep.yaml").stdout
    expected = "3 large hold the workload for 0.900 per hour, the least of 6 fleets\n"
    # 6 small ones cost less, but one of their pods waits: each node takes one pod, node-2 two.
    assert printed.startswith(expected.replace("3 large", "6 small").replace("0.900", "0.750"))
    assert max(map(len, printed.splitlines())) <= 80


def test_a_pod_that_waits_without_the_workload_does_not_count(done: Done) -> None:
    results = answer("sweep.yaml")["results"]
    pods = {(*r["fleet"].items(),): sum(p["pods"] for p in r["pending"]) for r in results}
    assert pods == {
        (("small", 4),): 2,
        (("small", 5),): 1,
        (("small", 6),): 0,
        (("small", 7),): 0,
        (("large", 2),): 2,
        (("large", 3),): 0,
    }


def test_without_a_workload_the_pending_pods_are_asked_for(done: Done) -> None:
    arguments = ["-f", "cluster.yaml", "--type", "a=node-1:1", "--counts", "1,2"]
    printed = swept(*arguments, code=1).stdout
    assert printed.startswith("none of 2 fleets holds the workload: 1 a leaves 1 pod pending\n")
    assert "default/stuck (1): stays pending: of 3 nodes, 3 " in printed


def test_a_cell_is_the_what_if_with_the_same_steps(done: Done) -> None:
    swept_cell = answer("sweep.yaml", code=0)["results"][0]
    steps = ["add 4 like node-1", "apply web.yaml"]
    arguments = ["-f", "cluster.yaml", "-o", "json", *steps]
    tried = json.loads(CliRunner().invoke(whatif, arguments).stdout)
    assert swept_cell["placed"] == len(tried["placed"])
    by_workload = {of["workload"]: (len(of["pods"]), of["reason"]) for of in tried["pending"]}
    by_workload.pop("default/stuck")
    pending = {of["workload"]: (of["pods"], of["reason"]) for of in swept_cell["pending"]}
    assert pending == by_workload


def test_mixtures_are_tried_on_demand(done: Done) -> None:
    arguments = ["-f", "cluster.yaml", "--workload", "web.yaml", "--mix", "--counts", "0-2"]
    types = ["--type", "small=node-1:0.1", "--type", "large=node-2:0.3"]
    result = answer(*arguments, *types)
    assert len(result["results"]) == 9
    assert result["cheapest"] == {
        "fleet": {"small": 2, "large": 2},
        "configuration": "default",
        "cost": 0.8,
    }


def test_a_type_of_a_manifest_gets_the_pods_of_daemon_sets(done: Done) -> None:
    arguments = ["--workload", "web.yaml", "--type", "huge=huge.yaml:1", "-o", "json"]
    (alone,) = json.loads(swept(*arguments).stdout)["results"]
    assert (alone["nodes"], alone["cpu"], alone["placed"]) == (1, 42, 9)
    shared = answer("-f", "cluster.yaml", "-f", "agent.yaml", *arguments)["results"][0]
    assert (shared["nodes"], shared["cpu"]) == (3, 77)  # 32 of 76 for the agent


# The agent came before the taint: its controller leaves it there, and creates none on a new node.
TAINTED = """
apiVersion: v1
kind: Node
metadata: {name: node-3, labels: {kubernetes.io/hostname: node-3, size: huge}}
spec: {taints: [{key: a, effect: NoSchedule}]}
status: {allocatable: {cpu: "32", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata:
  name: agent-1
  labels: {app: agent}
  ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: a, controller: true}]
spec: {nodeName: node-3, containers: [{name: c, image: i, resources: {requests: {cpu: "32"}}}]}
"""


def test_a_copy_of_a_node_has_the_daemon_pods_that_it_takes(done: Done, tmp_path: Path) -> None:
    (tmp_path / "tainted.yaml").write_text(TAINTED)
    files = ["-f", "cluster.yaml", "-f", "agent.yaml", "-f", "tainted.yaml"]
    arguments = [*files, "--type", "like=node-3:1", "--counts", "2", "--workload", "web.yaml"]
    (of,) = answer(*arguments, code=1)["results"]
    assert (of["nodes"], of["cpu"]) == (5, 100 * (32 + 9) // (32 * 3 + 12))


def test_configurations_and_seeds_are_cells(done: Done, tmp_path: Path) -> None:
    (tmp_path / "packed.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    )
    configurations = ["--config", "packed.yaml", "--seeds", "1-2", "--results", "r.jsonl"]
    rows = list(
        csv.DictReader(swept("sweep.yaml", *configurations, "-o", "csv").stdout.split("\n"))
    )
    assert [(r["configuration"], r["seed"]) for r in rows[:2]] == [("packed", "1"), ("packed", "2")]
    assert (rows[0]["small"], rows[0]["large"], rows[0]["pending"]) == ("4", "0", "2")
    printed = swept("sweep.yaml", *configurations).stdout
    assert "2 of 2" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_a_plugin_of_a_file_counts_and_its_change_begins_a_sweep_anew(
    done: Done, tmp_path: Path
) -> None:
    for most in (1, 2):
        (tmp_path / f"most_{most}.py").write_text(MOST.format(most=most))
    one = ("sweep.yaml", "--plugin", "most_1.py:Most")
    assert answer("sweep.yaml")["cheapest"]["fleet"] == {"small": 6}
    for _ in range(2):
        assert answer(*one, "--results", "r.jsonl")["cheapest"]["fleet"] == {"small": 7}
    assert len(done.cells) == 2 * 6
    other = swept("sweep.yaml", "--plugin", "most_2.py:Most", "--results", "r.jsonl", code=2)
    assert "another sweep" in other.output
    ray = ("--engine", "ray", "--engine-address", "HOST:1")
    assert "install the plugin as a package" in swept(*one, *ray, code=2).output


def test_a_sweep_that_was_stopped_goes_on(done: Done) -> None:
    whole = answer("sweep.yaml")
    done.cells.clear()
    done.stop_after = 2
    stopped = swept("sweep.yaml", "--results", "r.jsonl", code=130)
    assert "stopped after 2 of 6 what-ifs; they are in r.jsonl: the same command" in stopped.stderr
    done.stop_after = -1
    assert answer("sweep.yaml", "--results", "r.jsonl") == whole
    assert done.cells == [0, 1, 2, 3, 4, 5]
    other = swept("sweep.yaml", "--results", "r.jsonl", "--seeds", "5", code=2)
    assert "it is of another sweep" in other.stderr


def test_the_plot_has_a_dot_for_each_fleet(done: Done) -> None:
    page = swept("sweep.yaml", "-o", "html").stdout
    dots = re.findall(r'<circle cx="([^"]*)" cy="([^"]*)" r="3" class="(green|red)"', page)
    assert [colour for _, _, colour in dots] == ["green"] * 3 + ["red"] * 3
    (ring,) = re.findall(r'<circle class="line" cx="([^"]*)" cy="([^"]*)" r="7"', page)
    assert ring == dots[0][:2]
    assert "<title>6 small: 0.750, 0 pending</title>" in page


def test_a_cell_that_cannot_be_tried_is_an_error(done: Done, tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: stuck}\n"
        "spec: {containers: [{name: c, image: nginx}]}\n"
    )
    failed = swept("sweep.yaml", code=2)
    assert failed.stdout.startswith("no answer: each of 6 what-ifs failed\n")
    assert "6 of the what-ifs failed: Pod default/stuck exists already" in failed.stdout
    pods = "metadata: {labels: {app: web}}, spec: {runtimeClassName: gone, containers: [ONE]}"
    (tmp_path / "web.yaml").write_text(
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector: {"
        f"matchLabels: {{app: web}}}}, template: {{{pods}}}}}}}".replace(
            "ONE", "{name: c, image: i}"
        )
    )
    failed = swept("sweep.yaml", code=2)
    refused = "Deployment default/web gets no pods: Pod web-new: "
    assert f"6 of the what-ifs failed: {refused}" in failed.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--type", "a=node-9:1"], "node type 'a': Node node-9 does not exist"),
        (["--type", "small=node-1:1"], "node type 'small': expected once, found twice"),
        (["--type", "a=cluster.yaml:1"], "cluster.yaml: expected one Node, found 2"),
        (["--seeds", "x"], "seeds 'x': expected numbers"),
        (["--counts", "0-99999", "--seeds", "0-99", "--type", "a=node-1:1"], "at most 1000000"),
        (["--workload", "none.yaml"], "none.yaml"),
    ],
)
def test_a_wrong_sweep_is_a_usage_error(done: Done, arguments: list[str], problem: str) -> None:
    assert problem in swept("sweep.yaml", *arguments, code=2).stderr
    assert done.cells == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "expected a workload: no cluster is named (-f, --kubeconfig, --master), whose"),
        (
            ["--workload", "web.yaml", "--type", "a=node-1:1"],
            "node type 'a': expected a manifest: no cluster is named (-f, --kubeconfig, --master)",
        ),
    ],
)
def test_what_only_a_cluster_can_give_is_an_error_without_one(
    done: Done, arguments: list[str], problem: str
) -> None:
    assert problem in swept(*arguments, code=2).stderr
    assert done.cells == []


def test_without_ray_the_command_to_install_it_is_named(
    done: Done, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    refused = swept("sweep.yaml", "--engine", "ray", code=2)
    assert f"pip install '{ray_pool.EXTRA}'" in refused.stderr
