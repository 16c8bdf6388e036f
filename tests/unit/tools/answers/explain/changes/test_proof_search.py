"""Changes of each kind after which a pending pod fits: each is applied and decided from scratch."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.answers.explain.changes import world
from berth.tools.answers.explain.changes.change import Suggestion, Who
from berth.tools.answers.explain.changes.proof_search import ChangeSearch, changes_to_show, search
from berth.tools.answers.explain.cluster_source import ClusterQuestion
from berth.tools.answers.explain.decider import decided
from berth.tools.answers.explain.tried_cluster import asked
from tests.kit.changes import CONFIGURATION, EXPLAINER, fits_after, suggested
from tests.kit.daemon import node, pod
from tests.kit.documents import Document, thing

HOSTNAME = "kubernetes.io/hostname"
OVER_HOSTNAME = f"the spread constraint over {HOSTNAME}"
TAINT = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
WEB = {"matchLabels": {"app": "web"}}


def with_spec(document: Document, **spec: Any) -> Document:
    return {**document, "spec": {**document["spec"], **spec}}


def labelled(document: Document, **metadata: Any) -> Document:
    return {**document, "metadata": {**document["metadata"], **metadata}}


def placed(name: str, cpu: str = "1", on: str = "n1", **metadata: Any) -> Document:
    labels = {"app": "web"}
    return labelled(pod(name, cpu, nodeName=on), **{"labels": labels, **metadata})


def anti(kind: str, key: str = "kubernetes.io/hostname") -> Document:
    term = {"labelSelector": WEB, "topologyKey": key}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def on_nodes(*expressions: Document) -> Document:
    terms = [{"matchExpressions": [*expressions]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def ports(port: int) -> list[Document]:
    return [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": port}]}]


def with_hugepages(document: Document, amount: str) -> Document:
    """Returns the node with so much of them, or the pod that asks for it."""
    pages = {"hugepages-4Mi": amount}
    if document["kind"] == "Node":
        allocatable = {**document["status"]["allocatable"], **pages}
        return {**document, "status": {"allocatable": allocatable}}
    (container,) = document["spec"]["containers"]
    requests = {**container["resources"]["requests"], **pages}
    resources = {"requests": requests, "limits": pages}
    return with_spec(document, containers=[{**container, "resources": resources}])


SPREAD = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": WEB,
}
LATER = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
GONE = "2026-01-01T00:00:00Z"
IN_SDD = {"key": "disk", "operator": "In", "values": ["sdd"]}
CASES: list[tuple[list[Document], Document, list[str]]] = [
    (
        [node("n1", disk="ssd")],
        pod("web", nodeSelector={"disk": "sdd"}),
        [
            "Select disk=ssd instead of disk=sdd in the node selector: it fits on n1.",
            "Label n1 with disk=sdd: it fits on n1.",
        ],
    ),
    (
        [node("n1", disk="ssd")],
        pod("web", nodeSelector={"dsik": "ssd"}),
        [
            "Select disk=ssd instead of dsik=ssd in the node selector: it fits on n1.",
            "Label n1 with dsik=ssd: it fits on n1.",
        ],
    ),
    (
        [node("n1")],
        pod("web", nodeSelector={"kubernetes.io/arch": "arm64"}),
        ["Drop kubernetes.io/arch=arm64 from the node selector: it fits on n1."],
    ),
    (
        [node("n1", disk="ssd")],
        pod("web", **on_nodes(IN_SDD)),
        [
            "Allow disk=ssd too in the node affinity: it fits on n1.",
            "Label n1 with disk=sdd: it fits on n1.",
        ],
    ),
    (
        [node("n1"), placed("db", namespace="data"), placed("db-2", namespace="data")],
        pod("web", **anti("podAffinity")),
        [
            "Let the pod affinity to app=web look in the namespace data too: it fits on n1.",
            "Drop the pod affinity to app=web in the same kubernetes.io/hostname: it fits on n1.",
        ],
    ),
    (
        [node("n1", disk="ssd")],
        pod("web", **on_nodes({"key": "disk", "operator": "DoesNotExist"})),
        [
            "Drop the required node affinity: it fits on n1.",
            "Remove the label disk from n1: it fits on n1.",
        ],
    ),
    (
        [node("n1", gen="3", size="9", disk="ssd")],
        pod(
            "web",
            **on_nodes(
                {"key": "gen", "operator": "Gt", "values": ["5"]},
                {"key": "size", "operator": "Lt", "values": ["8"]},
                {"key": "disk", "operator": "NotIn", "values": ["ssd", "hdd"]},
            ),
        ),
        [
            "Drop the required node affinity: it fits on n1.",
            "Label n1 with gen=6 and size=7, and remove its label disk: it fits on n1.",
        ],
    ),
    (
        [node("n1", disk="ssd")],
        pod("web", **on_nodes(IN_SDD, {"key": "disk", "operator": "Exists"})),
        [
            "Allow disk=ssd too in the node affinity: it fits on n1.",
            "Label n1 with disk=sdd: it fits on n1.",
        ],
    ),
    (
        [with_spec(node("n1", "9"), unschedulable=True), node("n1-copy")],
        pod("web", "9"),
        [
            "Lower the cpu request of container c to 4: it fits on n1-copy.",
            "Uncordon n1: it fits on n1.",
            "Add a node like n1: it fits on n1-copy-copy.",
        ],
    ),
    (
        [with_spec(node("n1"), taints=[TAINT])],
        pod("web"),
        [
            "Tolerate the taint dedicated=batch:NoSchedule: it fits on n1.",
            "Remove the taint dedicated=batch:NoSchedule from n1: it fits on n1.",
        ],
    ),
    (
        [with_spec(node("n1"), unschedulable=True)],
        pod("web"),
        ["Uncordon n1: it fits on n1.", "Add a node like n1: it fits on n1-copy."],
    ),
    (
        [node("n1"), placed("a", "3")],
        pod("web", "2"),
        [
            "Lower the cpu request of container c to 1: it fits on n1.",
            "Move default/a away from n1: it fits on n1.",
            "Add a node like n1: it fits on n1-copy.",
        ],
    ),
    (
        [node("n1"), placed("a", "3", deletionTimestamp=GONE)],
        pod("web", "2", priority=0),
        ["Wait until default/a, which is being deleted, has left: it fits on n1."],
    ),
    (
        [
            node("n1"),
            placed("a", "3"),
            {**LATER, "metadata": {"name": "high"}, "value": 100},
            {**LATER, "metadata": {"name": "higher"}, "value": 1000},
        ],
        pod("web", "2"),
        [
            "Use the priority class high, which preempts default/a on n1: it fits on n1.",
        ],
    ),
    (
        [node("n1"), placed("a", "3")],
        pod("web", "2", priority=10),
        ["Wait for the preemption of default/a on n1: it fits on n1."],
    ),
    (
        [node("n1"), placed("a")],
        pod("web", **anti("podAntiAffinity")),
        [
            f"Drop the pod anti-affinity to app=web in the same {HOSTNAME}: it fits on n1.",
            "Move default/a away from n1: it fits on n1.",
        ],
    ),
    (
        [
            with_spec(node("n1", zone="a"), unschedulable=True),
            with_spec(node("n2", zone="a"), taints=[]),
            placed("a"),
        ],
        pod("web", **anti("podAntiAffinity", "zone")),
        [
            "Drop the pod anti-affinity to app=web in the same zone: it fits on n2.",
            "Move default/a out of the way: it fits on n2.",
        ],
    ),
    (
        [node("n1")],
        pod("web", "1", resources={"requests": {"cpu": "6"}}),
        ["Lower the cpu request of the pod to 4: it fits on n1."],
    ),
    (
        [with_hugepages(node("n1"), "10Mi")],
        with_hugepages(pod("web"), "16Mi"),
        ["Lower the hugepages-4Mi request of container c to 8Mi: it fits on n1."],
    ),
    (
        [node("n1")],
        pod("other", **anti("podAffinity")),
        ["Drop the pod affinity to app=web in the same kubernetes.io/hostname: it fits on n1."],
    ),
    (
        [node("n1"), with_spec(node("n2"), unschedulable=True), placed("a"), placed("b")],
        labelled(pod("web", topologySpreadConstraints=[SPREAD]), labels={"app": "web"}),
        [
            f"Raise maxSkew of the spread constraint over {HOSTNAME} to 3: it fits on n1.",
            f"Let the spread constraint over {HOSTNAME} be ScheduleAnyway: it fits on n1.",
            "Uncordon n2: it fits on n2.",
        ],
    ),
    (
        [node("n1", disk="ssd"), node("n2"), placed("a")],
        labelled(
            pod(
                "web",
                nodeSelector={"disk": "ssd"},
                topologySpreadConstraints=[{**SPREAD, "nodeAffinityPolicy": "Ignore"}],
            ),
            labels={"app": "web"},
        ),
        [
            f"Set nodeAffinityPolicy of {OVER_HOSTNAME} to Honor: it fits on n1.",
            f"Raise maxSkew of the spread constraint over {HOSTNAME} to 2: it fits on n1.",
        ],
    ),
    (
        [node("n1"), with_spec(node("n2"), taints=[TAINT]), placed("a")],
        labelled(pod("web", topologySpreadConstraints=[SPREAD]), labels={"app": "web"}),
        [
            f"Set nodeTaintsPolicy of {OVER_HOSTNAME} to Honor: it fits on n1.",
            f"Raise maxSkew of the spread constraint over {HOSTNAME} to 2: it fits on n1.",
            "Tolerate the taint dedicated=batch:NoSchedule: it fits on n2.",
        ],
    ),
    (
        [
            node("n1", disk="ssd"),
            node("n2"),
            with_spec(node("n3", disk="ssd"), taints=[TAINT]),
            placed("a"),
        ],
        labelled(
            pod(
                "web",
                nodeSelector={"disk": "ssd"},
                topologySpreadConstraints=[{**SPREAD, "nodeAffinityPolicy": "Ignore"}],
            ),
            labels={"app": "web"},
        ),
        [
            (
                "Set nodeAffinityPolicy and nodeTaintsPolicy of the spread constraint over "
                f"{HOSTNAME} to Honor: it fits on n1."
            )
        ],
    ),
    (
        [node("n1"), node("n2"), placed("a"), placed("b", on="n2")],
        labelled(
            pod("web", topologySpreadConstraints=[{**SPREAD, "minDomains": 9}]),
            labels={"app": "web"},
        ),
        [
            f"Raise maxSkew of the spread constraint over {HOSTNAME} to 2: it fits on n1, n2.",
            f"Lower minDomains of the spread constraint over {HOSTNAME} to 2: it fits on n1, n2.",
        ],
    ),
    (
        [node("n1"), node("n2", rack="r"), placed("a"), placed("b", "4", "n2")],
        labelled(
            pod("web", topologySpreadConstraints=[{**SPREAD, "topologyKey": "rack"}]),
            labels={"app": "web"},
        ),
        [
            "Let the spread constraint over rack be ScheduleAnyway: it fits on n1.",
            "Label n1 with rack=r: it fits on n1.",
        ],
    ),
    (
        [node("n1"), with_spec(placed("a"), containers=ports(80))],
        pod("web", containers=ports(80)),
        [
            "Use the host port 81 instead of 80: it fits on n1.",
            "Drop the host port 80: it fits on n1.",
            "Move default/a away from n1: it fits on n1.",
        ],
    ),
    (
        [node("n1")],
        pod("web", schedulingGates=[{"name": "example.com/quota"}]),
        ["Wait until the scheduling gate is removed (example.com/quota): it fits on n1."],
    ),
    (
        [node("n1", disk="ssd", size="large")],
        pod("web", nodeSelector={"disk": "sdd", "size": "larg"}),
        ["Label n1 with disk=sdd and size=larg: it fits on n1."],
    ),
    (
        [node("n1", disk="ssd", **{"kubernetes.io/arch": "amd64"})],
        pod("web", nodeSelector={"disk": "sdd", "kubernetes.io/arch": "arm64"}),
        [
            (
                "Drop kubernetes.io/arch=arm64 from the node selector, "
                "and select disk=ssd instead of disk=sdd in the node selector: it fits on n1."
            ),
        ],
    ),
    (
        [node("n1")],
        pod(
            "web",
            affinity={
                **anti("podAffinity")["affinity"],
                **on_nodes({"key": "disk", "operator": "Exists"})["affinity"],
            },
        ),
        [
            (
                f"Drop the pod affinity to app=web in the same {HOSTNAME}, "
                "and drop the required node affinity: it fits on n1."
            ),
        ],
    ),
    (
        [node("n1", disk="ssd")],
        pod("web", "9", nodeSelector={"disk": "sdd"}),
        [
            (
                "Lower the cpu request of container c to 4, "
                "and select disk=ssd instead of disk=sdd in the node selector: it fits on n1."
            ),
        ],
    ),
    (
        [with_spec(node("n1", disk="ssd"), taints=[TAINT])],
        pod("web", "9", nodeSelector={"disk": "sdd"}),
        [
            (
                "Select disk=ssd instead of disk=sdd in the node selector, "
                "tolerate the taint dedicated=batch:NoSchedule, "
                "and lower the cpu request of container c to 4: it fits on n1."
            ),
        ],
    ),
    (
        [with_spec(node("n1", disk="ssd"), taints=[TAINT]), placed("a", "1")],
        with_spec(
            pod("web", "9", nodeSelector={"disk": "sdd"}),
            **anti("podAntiAffinity"),
        ),
        [
            (
                "Select disk=ssd instead of disk=sdd in the node selector, "
                f"drop the pod anti-affinity to app=web in the same {HOSTNAME}, "
                "tolerate the taint dedicated=batch:NoSchedule, "
                "and lower the cpu request of container c to 3: it fits on n1."
            ),
        ],
    ),
]


@pytest.mark.parametrize(("objects", "pending", "sentences"), CASES)
def test_the_changes_place_the_pod(
    objects: list[Document], pending: Document, sentences: list[str]
) -> None:
    changes = suggested(objects, pending)
    assert changes is not None
    said = [change.sentence for change in changes]
    assert [sentence for sentence in said if sentence in sentences] == sentences, said
    for change in changes:
        assert fits_after(change, objects, pending) == list(change.nodes)


def budget(name: str, app: str, allowed: int) -> Document:
    return thing(
        "PodDisruptionBudget",
        name,
        spec={"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        status={"disruptionsAllowed": allowed},
    )


@pytest.mark.parametrize(
    ("objects", "sentence"),
    [
        ([budget("web", "web", 1)], "Move default/a away from n1"),
        ([budget("web", "web", 0)], "Move default/b away from n1"),
        (
            [budget("web", "web", 0), budget("other", "other", 0)],
            "Move default/a away from n1, once the disruption budget default/web allows it",
        ),
    ],
    ids=["allowed", "another pod", "forbidden"],
)
def test_a_disruption_budget_is_respected_or_named(objects: list[Document], sentence: str) -> None:
    pods = [placed("a", "1"), placed("b", "1", labels={"app": "other"})]
    changes = suggested([node("n1", "2"), *pods, *objects], pod("new", "1"))
    assert changes is not None
    assert [change.sentence for change in changes if change.kind == "room"] == [
        f"{sentence}: it fits on n1."
    ]


def test_many_taints_and_two_more_problems() -> None:
    nodes = [
        with_spec(node(f"n{number}"), taints=[{**TAINT, "key": f"t{number}-{k}"} for k in range(9)])
        for number in range(50)
    ]
    pending = pod("web", "9", nodeSelector={"disk": "sdd"})
    changes = suggested(nodes, pending)
    assert changes is not None
    assert [change.kind for change in changes] == ["selector and toleration and requests"]
    assert fits_after(changes[0], nodes, pending) == list(changes[0].nodes)


def test_the_search_says_that_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "MOST_DECISIONS", 3)
    question = ClusterQuestion(pod("web", "9"), [node("n1")], CONFIGURATION)
    of = asked(EXPLAINER, question)
    result = search(of, decided(of.attempt).outcome)
    assert result == ChangeSearch([], "the search stopped before it tried all changes")


def test_a_pod_of_a_scenario_needs_no_kind() -> None:
    pending = pod("web", "9")
    del pending["kind"], pending["apiVersion"]
    changes = suggested([node("n1")], pending)
    assert changes is not None
    assert [change.kind for change in changes] == ["requests"]


def test_each_side_is_shown() -> None:
    def changes(who: Who, number: int) -> list[Suggestion]:
        return [Suggestion(f"{who.value}{n}", who, "", (), ()) for n in range(number)]

    def kinds(owners: int, admins: int) -> list[str]:
        both = changes(Who.OWNER, owners) + changes(Who.ADMIN, admins)
        return [change.kind for change in changes_to_show(both)]

    assert kinds(9, 9) == ["owner0", "owner1", "owner2", "admin0", "admin1"]
    assert kinds(9, 1) == ["owner0", "owner1", "owner2", "owner3", "admin0"]
    assert kinds(1, 9) == ["owner0", "admin0", "admin1", "admin2", "admin3"]


MISSING = [{"key": key, "operator": "Exists"} for key in ("disk", "rack")]


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (on_nodes(*MISSING), "Drop the required node affinity"),
        (
            {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "labelSelector": {"matchLabels": {"app": name}},
                                "topologyKey": HOSTNAME,
                            }
                            for name in ("a", "b", "c")
                        ]
                    }
                }
            },
            "Drop the required pod affinity",
        ),
    ],
)
def test_an_affinity_of_which_no_part_can_be_met_is_dropped_as_a_whole(
    spec: Document, sentence: str
) -> None:
    cluster = [node("n1", cpu="4")]
    pending = with_spec(pod("p", "1"), **spec)
    alone = suggested(cluster, pending)
    assert alone
    assert alone[0].sentence == f"{sentence}: it fits on n1."
    large = with_spec(pod("p", "9"), **spec)
    changes = suggested(cluster, large)
    assert changes is not None
    both = f"{sentence[0].lower()}{sentence[1:]}"
    assert changes[0].sentence == (
        f"Lower the cpu request of container c to 4, and {both}: it fits on n1."
    )
    assert fits_after(changes[0], cluster, large) == ["n1"]
