"""`berth whatif` from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.framework.cycle_state import CycleState
from berth.actors.scheduling.framework.status import Code, Status
from berth.actors.scheduling.model.pod_info import PodInfo
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
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}
- apiVersion: v1
  kind: Pod
  metadata:
    name: old
    ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: old, uid: x, controller: true}]
  spec:
    nodeName: node-1
    containers: [{name: c, image: nginx, resources: {requests: {cpu: "3"}}}]
"""
WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      priorityClassName: high
      containers: [{name: c, image: nginx, resources: {requests: {cpu: "2"}}}]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "web.yaml").write_text(WEB)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tried(*steps: str, code: int = 0) -> Any:
    result = CliRunner().invoke(whatif, ["-f", "cluster.yaml", "-o", "json", *steps])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_a_pod_of_lower_priority_makes_room_and_its_replacement_waits(folder: Path) -> None:
    answer = tried("apply web.yaml", code=1)
    assert len(answer["placed"]) == 3
    assert [(e["pod"], e["node"], e["reason"]) for e in answer["evicted"]] == [
        ("default/old", "node-1", "preempted by default/web-new-3")
    ]
    assert [pending["pods"] for pending in answer["pending"]] == [["default/old-new-1"]]
    assert "of 2 nodes, 2 lack cpu" in answer["pending"][0]["reason"]


def test_several_pods_on_one_node_are_counted_beside_its_name(folder: Path) -> None:
    shown = CliRunner().invoke(whatif, ["-f", "cluster.yaml", "apply web.yaml"]).stdout
    assert "node-2 (2), node-1 " in shown


def test_an_object_without_a_spec_is_applied_like_any_other(folder: Path) -> None:
    low = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": -1,
    }
    (folder / "low.json").write_text(json.dumps(low))
    answer = tried("apply low.json", "apply web.yaml", code=1)
    assert answer["evicted"] == []
    assert len(answer["placed"]) == 2


def test_a_node_like_another_one_holds_what_was_left_over(folder: Path) -> None:
    answer = tried("apply web.yaml", "add 1 like node-1")
    assert answer["allPlaced"]
    last = answer["placed"][-1]
    assert (last["pod"], last["node"], last["step"]) == (
        "default/old-new-1",
        "node-1-copy-1",
        2,
    )


def test_a_drained_node_is_left_by_its_pods(folder: Path) -> None:
    answer = tried("drain node-1")
    assert [e["replacement"] for e in answer["evicted"]] == ["default/old-new-1"]
    assert [p["node"] for p in answer["placed"]] == ["node-2"]
    fullness = {node["node"]: node["after"]["cpu"] for node in answer["nodes"]}
    assert fullness == {"node-1": 0, "node-2": 75}


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "Job"])
def test_a_drain_leaves_a_pod_that_comes_back(folder: Path, kind: str) -> None:
    selector = "nodeSelector: {kubernetes.io/hostname: node-1}"
    here = f"tolerations: [{{operator: Exists}}]\n    {selector}\n    containers"
    tolerant = CLUSTER.replace("containers", here)
    (folder / "cluster.yaml").write_text(tolerant.replace("kind: ReplicaSet", f"kind: {kind}"))
    answer = tried("drain node-1", "cordon node-2")
    name = "default/old" if kind == "StatefulSet" else "default/old-new-1"
    assert [(of["pod"], of["replacement"]) for of in answer["evicted"]] == [("default/old", name)]
    assert answer["returned"] == [{"pod": name, "node": "node-1"}]
    shown = CliRunner().invoke(whatif, ["-f", "cluster.yaml", "drain node-1"]).stdout
    assert f"\n{name} came to a node after its drain began, and stays there\n" in shown
    # Another drain lists it.
    again = tried("drain node-1", "drain node-1")
    assert len(again["evicted"]) == 2


def test_a_scaled_stateful_set_gets_the_pods_that_it_lacks(folder: Path) -> None:
    db = WEB.replace("Deployment", "StatefulSet").replace("web", "db")
    (folder / "db.yaml").write_text(db.replace("replicas: 3", "replicas: 1"))
    answer = tried("apply db.yaml", "scale statefulset/db 2")
    placed = [(pod["pod"], pod["step"]) for pod in answer["placed"]]
    assert placed == [("default/db-0", 1), ("default/db-1", 2)]


@pytest.mark.parametrize("step", ["remove node-1", "taint node-1 a=b:NoExecute", "drain node-1"])
def test_a_pod_moves_from_a_node_that_is_gone(folder: Path, step: str) -> None:
    assert [p["node"] for p in tried(step)["placed"]] == ["node-2"]


def test_a_scaled_workload_loses_the_pods_that_share_a_node(folder: Path) -> None:
    answer = tried("apply web.yaml", "scale deployment/web 1")
    assert [p["pod"] for p in answer["placed"]] == ["default/web-new-3", "default/old-new-1"]
    assert answer["allPlaced"]  # the pod that was preempted fits again
    assert answer["deleted"] == [
        {
            "pod": f"default/web-new-{number}",
            "workload": "Deployment default/web",
            "node": "node-2",
            "step": 2,
        }
        for number in (1, 2)
    ]


def test_a_deleted_pod_is_named_unless_it_is_replaced(folder: Path) -> None:
    (folder / "alone.yaml").write_text(ALONE)
    answer = tried("apply alone.yaml", "delete alone", "delete waits", "delete old")
    assert answer["deleted"] == [
        {"pod": "default/alone", "workload": "default/alone", "node": "node-2", "step": 2},
        {"pod": "default/waits", "workload": "default/waits", "node": "", "step": 3},
    ]
    assert [e["pod"] for e in answer["evicted"]] == ["default/old"]
    steps = ("apply alone.yaml", "delete alone", "delete waits")
    shown = CliRunner().invoke(whatif, ["-f", "cluster.yaml", *steps]).stdout
    assert shown.startswith("all pods have a node: 0 placed, 2 deleted\n")
    assert "default/waits │ default/waits │ pending" in shown


ALONE = """
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: waits}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "99"}}}]}
"""
PROTECTED = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: keeper}
spec: {minAvailable: MINIMUM, selector: {matchLabels: {app: web}}}
"""


@pytest.mark.parametrize(("minimum", "kept"), [(3, 2), (2, 0)])
def test_a_drain_waits_for_disruption_budgets(folder: Path, minimum: int, kept: int) -> None:
    (folder / "budget.yaml").write_text(PROTECTED.replace("MINIMUM", str(minimum)))
    steps = ("apply budget.yaml", "apply web.yaml", "add 2 like node-1", "drain node-2")
    answer = tried(*steps)
    pods = [p["pod"] for p in answer["placed"] if p["node"] == "node-2"]
    assert len(pods) == kept
    assert [(each["pod"], each["node"], each["budgets"]) for each in answer["kept"]] == [
        (pod, "node-2", ["keeper"]) for pod in sorted(pods)
    ]
    if kept:
        shown = CliRunner().invoke(whatif, ["-f", "cluster.yaml", *steps]).stdout
        assert "\n2 pods kept by disruption budgets: a drain waits\n" in shown
        assert tried(*steps, "uncordon node-2")["kept"] == []


def test_pods_of_other_schedulers_are_named(folder: Path) -> None:
    spec = WEB.replace("      containers", "      schedulerName: other\n      containers")
    (folder / "web.yaml").write_text(spec)
    answer = tried("apply web.yaml")
    pods = [f"default/web-new-{number}" for number in (1, 2, 3)]
    assert answer["leftAlone"] == [{"scheduler": "other", "pods": pods}]
    shown = CliRunner().invoke(whatif, ["-f", "cluster.yaml", "apply web.yaml"]).stdout
    assert "left alone: 3 pods of the scheduler other\n" in shown


def test_a_pod_that_tolerates_a_taint_for_some_time_goes_after_that(folder: Path) -> None:
    first = "{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: SECONDS}"
    tolerations = f"[{first}, {{operator: Exists}}]"
    for seconds, evicted in (("60", True), ("null", False)):
        spec = f"  spec:\n    tolerations: {tolerations.replace('SECONDS', seconds)}"
        (folder / "cluster.yaml").write_text(CLUSTER.replace("  spec:", spec))
        answer = tried("taint node-1 a=b:NoExecute")
        assert [each["reason"] for each in answer["evicted"]] == (
            ["node-1 is tainted with a:NoExecute, tolerated for 60 seconds"] if evicted else []
        )


def test_a_pod_that_waits_in_permit_keeps_its_room_and_is_told_apart(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = (Status(Code.WAIT), {"Gang": 5.0})
    monkeypatch.setattr(Profile, "permit", lambda *_: waits)
    answer = tried("add 1 like node-1", "delete old")
    assert [(each["pod"], each["waitsFor"]) for each in answer["placed"]] == [
        ("default/old-new-1", ["Gang"])
    ]
    shown = CliRunner().invoke(whatif, ["-f", "cluster.yaml", "delete old"]).stdout
    assert shown.startswith(
        "no pod is lost or newly pending: 0 placed, 1 waiting in Permit, 1 evicted\n"
        "1 pod waits in Permit of Gang on its node\n"
    )


def test_a_pod_that_is_deleted_while_it_waits_in_permit_loses_its_reservations(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def noted(name: str) -> Callable[..., Any]:
        method = getattr(Profile, name)

        def note(profile: Profile, state: CycleState, info: PodInfo, node: str) -> Any:
            calls.append(f"{name} {info.key}")
            return method(profile, state, info, node)

        return note

    monkeypatch.setattr(Profile, "permit", lambda *_: (Status(Code.WAIT), {"Gang": 5.0}))
    for name in ("reserve", "unreserve"):
        monkeypatch.setattr(Profile, name, noted(name))
    tried("delete old", "delete old-new-1")
    assert calls == [
        "reserve default/old-new-1",
        "unreserve default/old-new-1",
        "reserve default/old-new-2",
        "unreserve default/old-new-2",
    ]


def test_steps_of_a_file_may_carry_objects(folder: Path) -> None:
    (folder / "steps.yaml").write_text(
        "- add 1 like node-1\n- apply:\n  - " + WEB.strip().replace("\n", "\n    ")
    )
    assert tried("--steps", "steps.yaml") == tried("add 1 like node-1", "apply web.yaml")


def test_a_file_of_steps_that_is_no_yaml_is_an_error_in_a_line(folder: Path) -> None:
    (folder / "steps.yaml").write_text("- drain node-1\n- {apply: [\n")
    result = CliRunner().invoke(whatif, ["-f", "cluster.yaml", "--steps", "steps.yaml"])
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: steps.yaml: cannot be read: line 3: ")
    assert result.stderr.count("\n") == 1
    (folder / "steps.yaml").write_text("- drain node-1\n---\n- drain node-2\n")
    result = CliRunner().invoke(whatif, ["-f", "cluster.yaml", "--steps", "steps.yaml"])
    assert result.stderr == "Error: steps.yaml: expected one document, found 2\n"


@pytest.mark.parametrize("arguments", [["drain node-1"], ["serve"]])
def test_without_a_cluster_the_files_are_named_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(folder))
    result = CliRunner().invoke(whatif, arguments)
    assert result.stderr.startswith("Error: no API server: expected --kubeconfig, --master or")
    assert result.stderr.endswith(", or -f with the files of a cluster\n")


DAEMON = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: nginx}]}
"""


@pytest.mark.parametrize(("taint", "pods"), [("", 2), ("taint node-2 a=b:NoSchedule", 0)])
def test_a_new_node_has_the_daemon_pods_that_it_takes(folder: Path, taint: str, pods: int) -> None:
    (folder / "daemon.yaml").write_text(DAEMON)
    answer = tried("apply daemon.yaml", *filter(None, [taint]), "add 2 like node-2")
    new = [node["after"]["pods"] for node in answer["nodes"] if "copy" in node["node"]]
    assert sum(new) == pods


def test_a_node_without_its_taint_gets_the_pods_of_daemon_sets(folder: Path) -> None:
    (folder / "daemon.yaml").write_text(DAEMON)
    steps = ("taint node-2 a=b:NoSchedule", "apply daemon.yaml", "taint node-2 a:NoSchedule-")
    placed = [(pod["node"], pod["step"]) for pod in tried(*steps)["placed"]]
    assert placed == [("node-1", 2), ("node-2", 3)]


def test_the_same_seed_gives_the_same_answer(folder: Path) -> None:
    steps = ("apply web.yaml", "add 3 like node-2", "scale deployment/web 7", "--seed", "7")
    assert tried(*steps) == tried(*steps)


def test_the_table_fits_80_columns(folder: Path) -> None:
    result = CliRunner().invoke(whatif, ["-f", "cluster.yaml", "apply web.yaml"])
    assert result.exit_code == 1
    assert result.stdout.startswith("1 pod is newly pending: 3 placed, 1 evicted\n")
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("flip node-1", "expected one of add, remove,"),
        ("add few like node-1", "expected a number, got 'few'"),
        ("drain", "expected 'drain NODE'"),
        ("drain node-9", "Node node-9 does not exist"),
        ("delete odl", "Pod default/odl does not exist, did you mean old?"),
        ("taint node-1 a=b", "expected KEY[=VALUE]:EFFECT"),
        ("scale daemonset/x 3", "expected KIND/NAME of a workload"),
    ],
)
def test_a_wrong_step_is_a_usage_error(folder: Path, step: str, problem: str) -> None:
    result = CliRunner().invoke(whatif, ["-f", "cluster.yaml", step])
    assert result.exit_code == 2
    assert problem in result.output


def test_the_result_as_html(folder: Path) -> None:
    result = CliRunner().invoke(
        whatif, ["-f", "cluster.yaml", "-o", "html", "apply web.yaml", "add 1 like node-1"]
    )
    assert result.exit_code == 0, result.output
    assert "<h1>what if: apply web.yaml; add 1 like node-1</h1>" in result.stdout
    assert "<p>all pods have a node: 4 placed, 1 evicted</p>" in result.stdout


def test_an_error_names_its_step(folder: Path) -> None:
    result = CliRunner().invoke(whatif, ["-f", "cluster.yaml", "drain node-1", "drain node-9"])
    assert result.exit_code == 2
    assert "Error: step 2, 'drain node-9': Node node-9 does not exist" in result.output
    result = CliRunner().invoke(whatif, ["-f", "cluster.yaml", "drian node-1"])
    assert "Error: step 1, 'drian node-1': expected one of add, remove," in result.output


BARE = """
apiVersion: v1
kind: Pod
metadata: {name: bare}
spec: {nodeName: node-1, containers: [{name: c, image: i}]}
"""
WAITS = ALONE.split("---")[1]


def test_a_drain_tells_whose_empty_dirs_it_takes(folder: Path) -> None:
    scratch = BARE.replace("image: i}]", "image: i}], volumes: [{name: v, emptyDir: {}}]")
    (folder / "cluster.yaml").write_text(f"{scratch}---{CLUSTER}")
    (evicted,) = (of for of in tried("drain node-1", code=1)["evicted"] if "bare" in of["pod"])
    assert "kubectl refuses that without --delete-emptydir-data" in evicted["reason"]


@pytest.mark.parametrize("step", ["drain node-1", "remove node-1", "taint node-1 a=b:NoExecute"])
def test_a_pod_that_nothing_makes_anew_is_lost(folder: Path, step: str) -> None:
    (folder / "cluster.yaml").write_text(f"{BARE}---{CLUSTER}")
    answer = tried(step, code=1)
    assert (answer["hurts"], answer["allPlaced"]) == (True, False)
    ((pod, node, number, why),) = (
        (of["pod"], of["node"], of["step"], of["reason"]) for of in answer["lost"]
    )
    assert (pod, node, number) == ("default/bare", "node-1", 1)
    assert "no controller makes another one" in why
    assert ("kubectl refuses that without --force" in why) == step.startswith("drain")
    assert answer["conclusion"] == "1 pod is lost: 1 placed, 2 evicted"
    shown = CliRunner().invoke(whatif, ["-f", "cluster.yaml", step]).stdout
    assert shown.startswith(
        f"{answer['conclusion']}\nlost: default/bare, which nothing makes anew\n"
    )


def test_a_pod_of_an_unknown_controller_may_be_lost(folder: Path) -> None:
    owner = "{apiVersion: argoproj.io/v1alpha1, kind: Workflow, name: w, uid: w, controller: true}"
    owned = BARE.replace("{name: bare}", f"{{name: bare, ownerReferences: [{owner}]}}")
    (folder / "cluster.yaml").write_text(f"{owned}---{CLUSTER}")
    (lost,) = tried("drain node-1", code=1)["lost"]
    assert "nobody here knows whether its controller Workflow w replaces it" in lost["reason"]


def test_pods_that_were_pending_before_do_not_hurt(folder: Path) -> None:
    (folder / "cluster.yaml").write_text(f"{WAITS}---{CLUSTER}")
    answer = tried("drain node-1")
    assert (answer["hurts"], answer["allPlaced"]) == (False, False)
    assert [(of["pods"], of["before"]) for of in answer["pending"]] == [(["default/waits"], True)]
    assert answer["conclusion"] == "no pod is lost or newly pending: 1 placed, 1 evicted"
    shown = CliRunner().invoke(whatif, ["-f", "cluster.yaml", "drain node-1"]).stdout
    assert "\n1 pod was pending before and still is\n" in shown
    without_steps = tried(code=1)
    assert without_steps["conclusion"] == "1 pod stays pending: 0 placed"
    assert [of["before"] for of in without_steps["pending"]] == [False]


def test_the_replacement_of_a_pending_pod_was_pending_before(folder: Path) -> None:
    waits = CLUSTER.replace("    nodeName: node-1\n", "").replace('cpu: "3"', 'cpu: "99"')
    (folder / "cluster.yaml").write_text(waits)
    answer = tried("delete old")
    assert [(of["pods"], of["before"]) for of in answer["pending"]] == [
        (["default/old-new-1"], True)
    ]


def test_a_pod_of_a_daemon_comes_back_to_its_node(folder: Path) -> None:
    of_daemon = CLUSTER.replace("kind: ReplicaSet", "kind: DaemonSet")
    (folder / "cluster.yaml").write_text(of_daemon)
    (placed,) = tried("delete old")["placed"]
    assert (placed["pod"], placed["node"]) == ("default/old-new-1", "node-1")
    assert not tried("remove node-1")["lost"]
    preempted = tried("cordon node-2", "apply web.yaml", code=1)
    assert [(of["pods"], of["before"]) for of in preempted["pending"]][-1:] == [
        (["default/old-new-1"], False)
    ]


IDLE = """
apiVersion: apps/v1
kind: KIND
metadata: {name: idle}
spec:
  selector: {matchLabels: {app: idle}}
  template:
    metadata: {labels: {app: idle}}
    spec: {containers: [{name: c, image: busybox, resources: {requests: {cpu: "CPU"}}}]}
"""
NIGHTLY = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 0 * * *"
  jobTemplate:
    spec:
      template:
        spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}
"""


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"])
@pytest.mark.parametrize(("cpu", "node"), [("99", ""), ("4", "node-2")])
def test_one_pod_is_tried_of_a_workload_without_pods(
    folder: Path, kind: str, cpu: str, node: str
) -> None:
    idle = IDLE.replace("KIND", kind).replace("CPU", cpu)
    (folder / "cluster.yaml").write_text(f"{idle}---{CLUSTER}")
    answer = tried(code=0 if node else 1)
    (of,) = answer["withoutPods"]
    assert (of["workload"], of["asks"], of["node"]) == (f"{kind} default/idle", 1, node)
    assert answer["hurts"] == (not node)
    drained = tried("cordon node-1")
    assert drained["withoutPods"] == [of]
    shown = CliRunner().invoke(whatif, ["-f", "cluster.yaml"]).stdout
    unplaced = int(not node)
    assert (
        f"\n1 workload has no pods here: of one pod of each, {unplaced} could not be placed\n"
        in shown
    )


def test_a_cron_job_has_a_pod_unless_it_rests(folder: Path) -> None:
    (folder / "nightly.yaml").write_text(NIGHTLY)
    answer = tried("apply nightly.yaml")
    assert [(of["workload"], of["node"]) for of in answer["placed"]] == [
        ("CronJob default/nightly", "node-2")
    ]
    (folder / "cluster.yaml").write_text(f"{NIGHTLY}---{CLUSTER}")
    (of,) = tried()["withoutPods"]
    assert (of["workload"], of["pod"]) == ("CronJob default/nightly", "default/nightly-new-1")
    for rests in (
        NIGHTLY.replace("  schedule", "  suspend: true\n  schedule"),
        f'{NIGHTLY}status: {{lastScheduleTime: "2026-01-01T00:00:00Z"}}\n',
    ):
        (folder / "cluster.yaml").write_text(f"{rests}---{CLUSTER}")
        assert tried()["withoutPods"] == []


def test_a_workload_with_pods_is_not_without_them(folder: Path) -> None:
    old = IDLE.replace("KIND", "ReplicaSet").replace("idle", "old").replace("CPU", "3")
    (folder / "cluster.yaml").write_text(f"{old}---{CLUSTER}")
    assert tried()["withoutPods"] == []


SURGE = WEB.replace("  replicas", "  strategy: {rollingUpdate: {maxSurge: many}}\n  replicas")


def test_a_surge_in_words_is_an_error_that_names_the_field(folder: Path) -> None:
    (folder / "surge.yaml").write_text(SURGE)
    for arguments in (["apply surge.yaml"], ["-f", "surge.yaml"]):
        result = CliRunner().invoke(whatif, ["-f", "cluster.yaml", *arguments])
        assert result.exit_code == 1, result.output
        assert "spec.strategy.rollingUpdate.maxSurge" in result.stderr
        assert "Traceback" not in result.output


def test_a_cluster_without_pods_has_none_that_has_a_node(folder: Path) -> None:
    nodes = CLUSTER.partition("- apiVersion: v1\n  kind: Pod")[0]
    (folder / "cluster.yaml").write_text(nodes)
    answer = tried("drain node-1")
    assert (answer["conclusion"], answer["hurts"]) == ("there are no pods: 0 placed", False)


def test_a_workload_whose_pods_admission_refuses_is_told_and_stops_nothing(folder: Path) -> None:
    runtime = "priorityClassName: high\n      runtimeClassName: gone"
    refused = WEB.replace("priorityClassName: high", runtime)
    why = 'pod rejected: RuntimeClass "gone" not found'
    (folder / "cluster.yaml").write_text(f"{CLUSTER}---{refused}")
    answer = tried("drain node-1")
    (without,) = answer["withoutPods"]
    assert (without["workload"], without["pod"], without["node"]) == (
        "Deployment default/web",
        "",
        "",
    )
    (before,) = answer["refused"]
    assert (before["workload"], before["step"], answer["hurts"]) == (
        "Deployment default/web",
        0,
        False,
    )
    assert why in before["reason"]
    assert tried(code=1)["conclusion"] == "1 workload gets no pods: 0 placed"
    (folder / "cluster.yaml").write_text(CLUSTER)
    for kind in ("Deployment", "StatefulSet", "DaemonSet", "Job"):
        text = refused.replace("kind: Deployment", f"kind: {kind}")
        if kind == "Job":
            text = text.replace("apps/v1", "batch/v1").replace("replicas: 3", "parallelism: 3")
            text = text.replace("  selector: {matchLabels: {app: web}}\n", "")
            text = text.replace("containers:", "restartPolicy: Never\n      containers:")
        if kind == "DaemonSet":
            text = text.replace("  replicas: 3\n", "")
        (folder / "refused.yaml").write_text(text)
        answer = tried("apply refused.yaml", "cordon node-1", code=1)
        assert answer["conclusion"] == "1 workload gets no pods: 0 placed", kind
        (of,) = answer["refused"]
        assert (of["workload"], of["step"]) == (f"{kind} default/web", 1)
        assert why in of["reason"]
    shown = CliRunner().invoke(whatif, ["-f", "cluster.yaml", "apply refused.yaml"]).stdout
    assert "workloads that get no pods" in shown


def test_a_file_with_a_space_in_its_name_goes_into_quotes(folder: Path) -> None:
    (folder / "my web.yaml").write_text(WEB)
    result = CliRunner().invoke(whatif, ["-f", "cluster.yaml", "apply my web.yaml"])
    assert result.exit_code == 2
    assert "expected 'apply FILE'; a name with spaces goes into quotes" in result.stderr
    assert len(tried("apply 'my web.yaml'", code=1)["placed"]) == 3


def test_a_set_of_pods_is_evicted_as_budgets_allow_and_the_plan_goes_on(folder: Path) -> None:
    """Of the two pods the second is refused, while the first one's replacement is pending; a later
    step may evict it.
    """
    web = WEB.replace("replicas: 3", "replicas: 2").replace('cpu: "2"', 'cpu: "1"')
    (folder / "web.yaml").write_text(web)
    (folder / "budget.yaml").write_text(PROTECTED.replace("MINIMUM", "1"))
    plan = ("apply budget.yaml", "apply web.yaml", "cordon node-1")
    first = tried(*plan)
    one, other = sorted(of["pod"] for of in first["placed"])
    both = f"evict {one} {other.partition('/')[2]} {one}"
    answer = tried(*plan, both, f"evict {other}")
    assert [(of["pod"], of["step"], of["to"]) for of in answer["evicted"]] == [
        (one, 4, "node-2"),
        (other, 5, "node-2"),
    ]
    assert {of["pod"] for of in answer["placed"]} == {of["replacement"] for of in answer["evicted"]}
    (refused,) = answer["refusedEvictions"]
    assert (refused["pod"], refused["budgets"], refused["step"]) == (other, ["keeper"], 4)
    assert refused["cause"]["code"] == "EvictionRefused"
    assert {of["cause"]["code"] for of in answer["evicted"]} == {"PodEvicted"}
    shown = CliRunner().invoke(whatif, ["-f", "cluster.yaml", *plan, both]).stdout
    assert f"\n1 eviction refused by disruption budgets (429): {other}\n" in shown


def test_pods_that_are_evicted_land_elsewhere_wait_or_are_lost(folder: Path) -> None:
    alone = ALONE.replace("spec: {containers", "spec: {nodeName: node-1, containers", 1)
    (folder / "alone.yaml").write_text(alone)
    plan = ("apply alone.yaml", "cordon node-1", "evict alone old")
    answer = tried(*plan, code=1)
    assert [(of["pod"], of["to"]) for of in answer["evicted"]] == [
        ("default/alone", ""),
        ("default/old", "node-2"),
    ]
    assert [(of["pod"], of["cause"]["code"]) for of in answer["lost"]] == [
        ("default/alone", "PodEvicted")
    ]
    (waits,) = [of for of in answer["pending"] if "default/waits" in of["pods"]]
    assert {"InsufficientResource", "NodeUnschedulable"} <= {c["code"] for c in waits["causes"]}
    wrong = CliRunner().invoke(whatif, ["-f", "cluster.yaml", "evict old nobody"])
    assert wrong.exit_code == 2
    assert "Pod default/nobody does not exist" in wrong.output


def test_departures_have_codes(folder: Path) -> None:
    taint = tried("add 2 like node-1", "taint node-1 a=b:NoExecute")["evicted"][0]["cause"]
    assert (taint["code"], taint["node"], taint["taint"]["key"]) == ("NodeTainted", "node-1", "a")
    drain = tried("drain node-1")["evicted"][0]["cause"]
    assert (drain["code"], drain["node"]) == ("NodeDrained", "node-1")
    preempted = tried("apply web.yaml", code=1)["evicted"][0]["cause"]
    assert preempted["code"] == "PreemptedByPod"
    assert preempted["pod"].startswith("default/web-new-")
