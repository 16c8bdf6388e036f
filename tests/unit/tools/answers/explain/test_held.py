"""What the tools say about a pod that a plugin of a package holds, by extension point."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from berth.actors.configuration.file import load_file
from berth.config.feature_gates import DEFAULTS
from berth.tools.answers.explain.cluster_source import from_manifests
from berth.tools.answers.feed.story import NOTHING_RECORDED, as_pending, story_of
from berth.tools.views.commands.explain import explain
from berth.tools.views.commands.whatif import whatif
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
        "stays pending: it is rejected on n1 by the plugin Holds: not now",
        1,
    ),
    "Permit": (
        "PermitPlugin",
        '    def permit(self, state, info, node):\n        return unschedulable("not now"), 0.0',
        "stays pending: it is rejected on n1 by the plugin Holds: not now",
        1,
    ),
    "Permit that waits": (
        "PermitPlugin",
        "    def permit(self, state, info, node):\n        return Status(Code.WAIT), 60.0",
        "waits on n1 until Holds permits it",
        0,
    ),
    # The tools write nothing, and therefore do not bind: only a running scheduler tells what these
    # say.
    "PreBind": (
        "PreBindPlugin",
        f"    async def pre_bind(self, state, info, node):\n        {REFUSED}",
        "goes to n1, unless PreBind of Holds refuses, which is not tried here",
        0,
    ),
    "PreBind that has nothing to do": (
        "PreBindPlugin",
        (
            "    def pre_bind_pre_flight(self, state, info, node):\n        return SKIP\n"
            f"    async def pre_bind(self, state, info, node):\n        {REFUSED}"
        ),
        "goes to n1",
        0,
    ),
    "Bind": (
        "BindPlugin",
        f"    async def bind(self, state, info, node):\n        {REFUSED}",
        "goes to n1, unless Bind of Holds refuses, which is not tried here",
        0,
    ),
    "Bind after DefaultBinder": (
        "BindPlugin",
        f"    async def bind(self, state, info, node):\n        {REFUSED}",
        "goes to n1",
        0,
    ),
}
CLAIMING = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: g, exactly: {deviceClassName: gpu}}]}}}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110"}}
---
apiVersion: v1
kind: Pod
metadata: {name: held}
spec:
  containers: [{name: c, image: x, resources: {claims: [{name: g}]}}]
  resourceClaims: [{name: g, resourceClaimTemplateName: TEMPLATE}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: x, resources: {claims: [{name: g}]}}]
      resourceClaims: [{name: g, resourceClaimTemplateName: TEMPLATE}]
"""
GROUP = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: NUMBER
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: x}]}
"""
NOTHING = {"node": "n1", "rejectedBy": "", "message": "", "waitsFor": [], "untried": []}
ON_NODE = {
    "Reserve": {**NOTHING, "rejectedBy": "Holds", "message": "not now"},
    "Permit": {**NOTHING, "rejectedBy": "Holds", "message": "not now"},
    "Permit that waits": {**NOTHING, "waitsFor": ["Holds"]},
    "PreBind": {**NOTHING, "untried": ["PreBind of Holds"]},
    "Bind": {**NOTHING, "untried": ["Bind of Holds"]},
}
ALL = ["all pods have a node: 1 placed", True]
CONCLUSIONS = {
    "Permit that waits": ["no pod is lost or newly pending: 0 placed, 1 waiting in Permit", False],
    "PreBind": ALL,
    "PreBind that has nothing to do": ALL,
    "Bind": ALL,
    "Bind after DefaultBinder": ALL,
}
SHOWN = {
    "Permit that waits": ("1 pod waits in Permit of Holds on its node", "waiting in Permit"),
    "PreBind": ("1 placed PreBind of Holds has a say about 1 of them, and is not tried", "placed"),
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
# DefaultBinder, which comes first otherwise, leaves no pod to later plugins.
INSTEAD = CONFIGURATION.replace(
    "{multiPoint:", "{bind: {enabled: [{name: Holds}], disabled: [{name: '*'}]}, multiPoint:"
)


@pytest.fixture(params=POINTS)
def point(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Installs a plugin that holds every pod at an extension point; returns the point."""
    name: str = request.param
    base, body, *_ = POINTS[name]
    module = f"holds_at_{name.lower().replace(' ', '_')}"
    install(tmp_path, module, PLUGIN.format(base=base, body=body), Holds=f"{module}:Holds")
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "scheduler.yaml").write_text(INSTEAD if name == "Bind" else CONFIGURATION)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return name


def test_explain_and_whatif_tell_what_holds_a_pod(point: str) -> None:
    _, _, sentence, code = POINTS[point]
    files = ["-f", "cluster.yaml", "--config", "scheduler.yaml"]
    arguments = [*files, "-o", "json"]
    listed = CliRunner().invoke(explain, [*arguments, "-A"])
    (pod,) = msgspec.json.decode(listed.stdout)["items"]
    assert sentence in "; ".join((*pod["standing"], pod["decision"]))
    one = CliRunner().invoke(explain, [*files, "--pod", "held"])
    assert sentence in " ".join(one.stdout.split())
    assert "held it " not in one.stdout
    assert ("held goes to n1" in one.stdout) == ("Bind" in point)
    whole = msgspec.json.decode(CliRunner().invoke(explain, [*arguments, "held"]).stdout)
    assert whole.get("onNode") == ON_NODE.get(point)
    configuration = load_file("scheduler.yaml")
    objects = from_manifests([Path("cluster.yaml")])
    document = next(each for each in objects if each["kind"] == "Pod")
    ask = partial(as_pending, document, objects, configuration, DEFAULTS)
    story = story_of(document, None, NOTHING_RECORDED, ask)
    assert sentence in story.sentence
    held: list[tuple[str, str, tuple[str, ...]]] = [("PluginRejected", "Holds", ())] if code else []
    held += [("WaitingOnPermit", "", ("Holds",))] if point == "Permit that waits" else []
    for causes in (pod["causes"], whole["causes"], msgspec.to_builtins(story.causes)):
        assert by_plugins(causes) == held
    tried = CliRunner().invoke(whatif, arguments)
    answer = msgspec.json.decode(tried.stdout)
    if code:
        assert sentence in answer["pending"][0]["reason"]
        assert by_plugins(answer["pending"][0]["causes"]) == held
    else:
        (placed,) = answer["placed"]
        on_node = ON_NODE.get(point, NOTHING)
        assert [placed[of] for of in ("waitsFor", "untried")] == [
            on_node[of] for of in ("waitsFor", "untried")
        ]
    assert [answer["conclusion"], answer["allPlaced"]] == CONCLUSIONS.get(
        point, ["1 pod stays pending: 0 placed", False]
    )
    assert tried.exit_code == code


def by_plugins(causes: list[dict[str, Any]]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Returns the codes of causes in which a plugin of a package holds the pod, and the plugin."""
    codes = ("PluginRejected", "WaitingOnPermit", "AttemptFailed")
    return [
        (cause["code"], cause.get("plugin", ""), tuple(cause.get("plugins", ())))
        for cause in causes
        if cause["code"] in codes
    ]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "Scheduling is blocked by the plugin Frozen: ice, until noon",
            [
                "is kept out of the queue by the plugin Frozen, as its condition says: ",
                "ice, until noon",
            ],
        ),
        ("Scheduling is blocked by the plugin NodePorts: its own says no such thing", []),
        ("Scheduling is blocked due to non-empty scheduling gates", []),
    ],
)
def test_a_plugin_that_is_not_here_holds_a_pod_by_its_condition(
    message: str, said: list[str], tmp_path: Path
) -> None:
    cluster = [*yaml.safe_load_all(CLUSTER)]
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    cluster[-1]["status"] = {"conditions": [{**gated, "message": message}]}
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(cluster))
    arguments = ["-f", str(file), "-o", "json"]
    (pod,) = msgspec.json.decode(CliRunner().invoke(explain, [*arguments, "-A"]).stdout)["items"]
    assert pod["standing"] == (["".join(said)] if said else [])
    held = [("PluginRejected", "Frozen", ())] if said else []
    assert by_plugins(pod["causes"]) == held
    answer = msgspec.json.decode(CliRunner().invoke(whatif, arguments).stdout)
    assert answer["allPlaced"] is not bool(said)
    assert [by_plugins(each["causes"]) for each in answer["pending"]] == [held] * bool(said)
    assert [cause["message"] for each in answer["pending"] for cause in each["causes"]] == said[1:]


@pytest.mark.parametrize("point", ["Permit that waits", "PreBind"], indirect=True)
def test_whatif_tells_placed_pods_from_those_that_plugins_hold(point: str) -> None:
    arguments = ["-f", "cluster.yaml", "--config", "scheduler.yaml"]
    shown = " ".join(CliRunner().invoke(whatif, arguments).stdout.split())
    note, title = SHOWN[point]
    assert (note in shown, title in shown) == (True, True), shown


def test_the_reasons_of_post_filter_are_told_and_a_queue_sort_that_fails_holds_no_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = """
from berth.plugin import *

class Holds(PostFilterPlugin, QueueSortPlugin):
    name = "Holds"
    def post_filter(self, attempt):
        return PostFiltered(unschedulable("not now"))
    def sort_key(self, info, enqueued_at):
        raise ValueError("no order")
"""
    install(tmp_path, "holds_last", plugin, Holds="holds_last:Holds")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    only = "{enabled: [{name: Holds}], disabled: [{name: '*'}]}"
    profile = f"profiles: [{{plugins: {{queueSort: {only}, postFilter: {only}}}}}]"
    head = CONFIGURATION.rpartition("profiles:")[0]
    Path("scheduler.yaml").write_text(f"{head}{profile}\n")
    Path("cluster.yaml").write_text(CLUSTER)
    files = ["-f", "cluster.yaml", "--config", "scheduler.yaml"]
    assert "goes to n1" in CliRunner().invoke(explain, [*files, "held"]).stdout
    Path("cluster.yaml").write_text(CLUSTER.replace('cpu: "1"', 'cpu: "99"'))
    message = "0/1 nodes are available: 1 Insufficient cpu. not now"
    assert message in CliRunner().invoke(explain, [*files, "held"]).stdout


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("reason: SchedulerError, message: the registry is closed", True),
        ("reason: Unschedulable, message: 0/3 nodes are available", False),
        ("reason: SchedulingGated, message: Frozen keeps it", False),
    ],
)
def test_a_pod_that_fits_and_was_not_bound_is_told_by_its_condition(
    condition: str, told: bool, tmp_path: Path
) -> None:
    status = f"status: {{conditions: [{{type: PodScheduled, status: 'False', {condition}}}]}}\n"
    (tmp_path / "cluster.yaml").write_text(f"{CLUSTER}{status}")
    said = "was not bound by its last attempt, as its condition says: the registry is closed"
    for pod in ([], ["--pod", "held"]):
        answer = CliRunner().invoke(explain, ["-f", str(tmp_path / "cluster.yaml"), *pod])
        words = " ".join(answer.stdout.replace("│", " ").split())
        assert "goes to n1" in words, words
        assert (said in words) == told, words


@pytest.mark.parametrize(("template", "missing"), [("none", True), ("gpu", False)])
def test_a_template_of_claims_that_does_not_exist_is_named(
    template: str, missing: bool, tmp_path: Path
) -> None:
    (tmp_path / "cluster.yaml").write_text(CLAIMING.replace("TEMPLATE", template))
    files = ["-f", str(tmp_path / "cluster.yaml")]
    for of in ([], ["pod/held"], ["deployment/web"], None):
        answer = CliRunner().invoke(whatif if of is None else explain, [*files, *(of or [])])
        words = " ".join(answer.stdout.replace("│", " ").split())
        said = "waits for a claim to be created from the ResourceClaimTemplate none, which is not "
        assert (said in words) == missing, words
        assert ("not created yet" in words) == missing, words


NONE_LOST = "no pod is lost or newly pending"
GANG = """
from berth.plugin import *

class Holds(PermitPlugin):
    name = "Holds"
    def permit(self, state, info, node):
        waiting = self.handle.waiting.each()
        if len(waiting) < 2:
            return Status(Code.WAIT), 60.0
        for pod in waiting:
            END
        return SUCCESS, 0.0
"""


@pytest.mark.parametrize(
    ("end", "replicas", "conclusion"),
    [
        ("allow(pod.info.uid, self.name)", 2, "all pods have a node: 3 placed"),
        ("allow(pod.info.uid, self.name)", 1, f"{NONE_LOST}: 0 placed, 2 waiting in Permit"),
        # They are tried again, and wait again.
        ("reject(pod.info.uid, self.name, '')", 2, f"{NONE_LOST}: 1 placed, 2 waiting in Permit"),
    ],
)
def test_whatif_goes_on_with_pods_that_a_permit_plugin_lets_go(
    end: str, replicas: int, conclusion: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"gang_{end[:5]}_{replicas}"
    source = GANG.replace("END", f"self.handle.waiting.{end}")
    install(tmp_path, module, source, Holds=f"{module}:Holds")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("scheduler.yaml").write_text(CONFIGURATION)
    Path("cluster.yaml").write_text(CLUSTER)
    Path("web.yaml").write_text(GROUP.replace("NUMBER", str(replicas)))
    arguments = ["-f", "cluster.yaml", "--config", "scheduler.yaml", "apply web.yaml"]
    tried = CliRunner().invoke(whatif, [*arguments, "-o", "json"])
    answer = msgspec.json.decode(tried.stdout)
    assert answer["conclusion"] == conclusion
