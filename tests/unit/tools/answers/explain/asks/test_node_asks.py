"""The first sentence about a pending pod names what to change, and the first change what would
help: the tables of docs/explain.md.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from berth.tools.views.commands.explain import explain

PAGE = Path(__file__).parents[6] / "docs/explain.md"
NODES = """
{apiVersion: v1, kind: Node,
 metadata: {name: node-1, labels: {zone: a, disk: ssd, kubernetes.io/arch: amd64}},
 status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}}
---
{apiVersion: v1, kind: Node,
 metadata: {name: node-2, labels: {zone: b, disk: hdd, kubernetes.io/arch: amd64}},
 status: {allocatable: {cpu: "2", memory: 8Gi, pods: "110"}}}
"""
BUSY = """
{apiVersion: v1, kind: Pod, metadata: {name: NAME, labels: {app: LABEL}},
 spec: {nodeName: NODE, containers: [{name: c, image: i, ports: [{hostPort: 80, containerPort: 80}],
 resources: {requests: {cpu: 1500m, memory: 6Gi}}}]}}
"""
TAINT = "{key: dedicated, value: batch, effect: NoSchedule}"
WORDED = "dedicated=batch:NoSchedule"
TAINTED = NODES.replace("status:", f"spec: {{taints: [{TAINT}]}}, status:")
CORDONED = NODES.replace("status:", "spec: {unschedulable: true}, status:")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SPREAD = (
    "{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: DoNotSchedule,"
    " labelSelector: {matchLabels: {app: web}}}"
)
NAMED = "{matchFields: [{key: metadata.name, operator: In, values: [node-11]}]}"
APP = "labelSelector: {matchLabels: {app: db}}, topologyKey: zone"


def busy(name: str, node: str, label: str = "web") -> str:
    return BUSY.replace("NAME", name).replace("NODE", node).replace("LABEL", label)


def requesting(requests: str) -> str:
    return f"containers: [{{name: c, image: i, resources: {{requests: {{{requests}}}}}}}]"


AFFINITY = f"{{{REQUIRED}: [{{{APP}}}]}}"
DATABASES = "---".join((NODES, busy("db-0", "node-1", "db"), busy("db-1", "node-2", "db")))
RUNNING = "---".join((NODES, busy("a", "node-1"), busy("b", "node-2")))
PLAIN = "containers: [{name: c, image: i}]"
GPU = requesting("nvidia.com/gpu: 1").replace("requests", "limits")
# The cluster and the spec of the pod, by the row of the table.
CASES = {
    "cpu": (RUNNING, requesting("cpu: 3")),
    "memory": (RUNNING, requesting("memory: 3Gi")),
    "a resource that no node has": (NODES, GPU),
    "a typing mistake in the node selector": (NODES, f"nodeSelector: {{disk: sdd}}, {PLAIN}"),
    "another architecture": (NODES, f"nodeSelector: {{kubernetes.io/arch: arm64}}, {PLAIN}"),
    "affinity to nobody": (RUNNING, f"affinity: {{podAffinity: {AFFINITY}}}, {PLAIN}"),
    "anti-affinity": (DATABASES, f"affinity: {{podAntiAffinity: {AFFINITY}}}, {PLAIN}"),
    "spreading over a label that is missing": (
        NODES,
        f"topologySpreadConstraints: [{SPREAD}], {PLAIN}",
    ),
    "a host port": (
        RUNNING,
        "containers: [{name: c, image: i, ports: [{hostPort: 80, containerPort: 80}]}]",
    ),
    "a taint": (TAINTED, PLAIN),
    "a cordon": (CORDONED, PLAIN),
    "a node that does not exist": (
        NODES,
        f"affinity: {{nodeAffinity: {{{REQUIRED}: {{nodeSelectorTerms: [{NAMED}]}}}}}}, {PLAIN}",
    ),
    "a scheduling gate": (NODES, f"schedulingGates: [{{name: example.com/quota}}], {PLAIN}"),
    "another scheduler": (NODES, f"schedulerName: volcano, {PLAIN}"),
    "a claim that does not exist": (
        NODES,
        f"volumes: [{{name: v, persistentVolumeClaim: {{claimName: data}}}}], {PLAIN}",
    ),
}  # fmt: skip


def table_of(heading: str) -> dict[str, str]:
    """Returns the sentences by kind in the section of the page with this heading."""
    section = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|`]+) \| `([^`]+)` \|$", section, re.MULTILINE)
    return dict(rows)


FIRST_SENTENCES = table_of("Why is it pending?")
FIRST_CHANGES = table_of("What would change it")


def asked(cluster: str, spec: str) -> str:
    """Returns what is printed about a pod, with single spaces."""
    metadata = "{name: web, labels: {app: web}}"
    pod = f"{{apiVersion: v1, kind: Pod, metadata: {metadata}, spec: {{{spec}}}}}"
    runner = CliRunner(env={"COLUMNS": "300"})
    result = runner.invoke(explain, ["-f", "-", "web"], input=f"{cluster}---\n{pod}\n")
    return " ".join(result.output.removeprefix("Error: ").replace("│", " ").split())


def test_the_table_has_all_kinds() -> None:
    assert FIRST_SENTENCES.keys() == CASES.keys()


@pytest.mark.parametrize("kind", CASES)
def test_the_first_sentence_names_what_to_change(kind: str) -> None:
    assert asked(*CASES[kind]).startswith(FIRST_SENTENCES[kind])


@pytest.mark.parametrize("kind", FIRST_CHANGES)
def test_the_first_change_is_named(kind: str) -> None:
    *_, changes = asked(*CASES[kind]).partition("what would change it - ")
    assert changes.startswith(FIRST_CHANGES[kind])


def test_only_what_no_change_helps_has_none() -> None:
    assert CASES.keys() - FIRST_CHANGES == {"another scheduler", "a claim that does not exist"}


SHY = busy("shy", "node-1").replace(
    "spec: {", f"spec: {{affinity: {{podAntiAffinity: {AFFINITY}}}, "
)
SELECTED = "labelSelector: {matchLabels: {app: web}}"
SKEWED = f"{{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, {SELECTED}}}"
SECOND = 'status: {allocatable: {cpu: "2"'
LARGE_TAINTED = NODES.replace("status:", f"spec: {{taints: [{TAINT}]}}, status:", 1)
GPU_TAINTED = LARGE_TAINTED.replace('pods: "110"', 'pods: "110", nvidia.com/gpu: "1"', 1)
THIRD = """
{apiVersion: v1, kind: Node, metadata: {name: node-3},
 status: {allocatable: {cpu: "3", memory: 8Gi, pods: "110"}}}
"""
FIRST_OPEN = NODES.replace(SECOND, f"spec: {{unschedulable: true}}, {SECOND}")


@pytest.mark.parametrize(
    ("cluster", "spec", "lack"),
    [
        (
            f"{NODES}---{SHY.replace('app: db', 'app: web')}",
            f"nodeSelector: {{zone: a}}, {PLAIN}",
            "1 is kept free by another pod's anti-affinity (in the way: default/shy)",
        ),
        (  # No node has the label of the first one's term, which keeps nobody off.
            "---".join(
                (
                    NODES,
                    SHY.replace("app: db", "app: web")
                    .replace("name: shy", "name: harmless")
                    .replace("topologyKey: zone", "topologyKey: rack"),
                    SHY.replace("app: db", "app: web"),
                )
            ),
            f"nodeSelector: {{zone: a}}, {PLAIN}",
            "1 is kept free by another pod's anti-affinity (in the way: default/shy)",
        ),
        (
            "---".join((FIRST_OPEN, busy("a", "node-1"), busy("b", "node-1"))),
            f"topologySpreadConstraints: [{SKEWED}], {PLAIN}",
            "1 would have too many of the pods that are spread over zone (maxSkew 1)",
        ),
        (
            "---".join((NODES, busy("a", "node-1"), busy("b", "node-2"))),
            f"topologySpreadConstraints: [{SKEWED.replace('{', '{minDomains: 3, ', 1)}], {PLAIN}",
            (
                "2 would have too many of the pods that are spread over zone (maxSkew 1, counted "
                "from 0, with 2 of minDomains 3)"
            ),
        ),
        (
            "---".join((NODES, busy("db-0", "node-1", "db"))),
            f"nodeSelector: {{zone: b}}, affinity: {{podAffinity: {AFFINITY}}}, {PLAIN}",
            "1 has no pod with app=db in the same zone",
        ),
        (
            "---".join((NODES.replace('"110"', '"1"'), busy("a", "node-1"))),
            f"nodeSelector: {{zone: a}}, {PLAIN}",
            "1 has all the pods that it may have (at most 1)",
        ),
        (NODES, f"nodeSelector: {{dsk: ssd}}, {PLAIN}",
         "(no node has the label dsk; did you mean disk?)"),
        (NODES, f"nodeSelector: {{disk: nvme}}, {PLAIN}",
         "Drop disk=nvme from the node selector"),
        (NODES, f"nodeSelector: {{kubernetes.io/arch: arm64}}, {PLAIN}",
         "(nodes have amd64) Drop kubernetes.io/arch=arm64 from the node selector"),
        (NODES, f"nodeSelector: {{node.kubernetes.io/instance-type: m5}}, {PLAIN}",
         "Drop node.kubernetes.io/instance-type=m5 from the node selector"),
        (TAINTED.replace("dedicated", "node.kubernetes.io/memory-pressure"), PLAIN,
         "NoSchedule Repair node-1, so that it loses the taint"),
        (TAINTED, PLAIN,
         f"Tolerate the taint {WORDED}, or remove the taint {WORDED} from node-1"),
        (CORDONED, PLAIN, "are cordoned Uncordon node-1"),
        (RUNNING, requesting("cpu: 3"),
         "Lower the cpu request of container c to 2500m, or move default/a away from node-1"),
        (LARGE_TAINTED, requesting("cpu: 9"), "1 lacks cpu (9 requested, it has 2)"),
        (f"{LARGE_TAINTED}---{THIRD}", requesting("cpu: 9"),
         "2 lack cpu (9 requested, the largest of them has 3)"),
        (f"{LARGE_TAINTED}---{THIRD}", requesting("cpu: 9"),
         "Lower the cpu request of container c to 3"),
        (GPU_TAINTED, GPU, "1 lacks nvidia.com/gpu (it has none)"),
        (f"{GPU_TAINTED}---{THIRD}", GPU, "2 lack nvidia.com/gpu (none of them has any)"),
        (GPU_TAINTED, GPU, "Drop the nvidia.com/gpu request of container c"),
    ],
)  # fmt: skip
def test_what_nodes_lack_and_what_would_help(cluster: str, spec: str, lack: str) -> None:
    assert lack in asked(cluster, spec)
