"""Which budgets a change concerns: those that select the pod, found without a walk."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.kube.labels import Selector, selector_or_nothing
from berth.actors.scheduling.kube.meta import HasMetadata, LabelSelector
from berth.tools.cluster.controllers import disruption_controllers
from berth.tools.cluster.controllers.controller_table import ControllerTable
from berth.tools.kubernetes.object_index import ObjectChange, ObjectIndex
from berth.tools.kubernetes.objects.documents import reference_to
from berth.tools.kubernetes.objects.structs import (
    Deployment,
    Document,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    read,
)
from berth.tools.kubernetes.objects.writes import Create

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = {row.name for row in disruption_controllers.DISRUPTION}
TABLE = ControllerTable(lambda: NOW, names=NAMES)


def metadata(name: str, *owners: HasMetadata, namespace: str = "n", **more: Any) -> Document:
    references = [reference_to(owner) for owner in owners]
    named = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", **more}
    return {"resourceVersion": "1", **named, "ownerReferences": references}


def pod(name: str, labels: Document, *owners: HasMetadata, **more: Any) -> Pod:
    return read({"metadata": metadata(name, *owners, labels=labels, **more)}, Pod)


def budget(name: str, selector: Document | None, namespace: str = "n") -> PodDisruptionBudget:
    document = {
        "metadata": metadata(name, namespace=namespace),
        "spec": {"minAvailable": 1, **({} if selector is None else {"selector": selector})},
    }
    return read(document, PodDisruptionBudget)


def filled(*objects: HasMetadata) -> ObjectIndex:
    cluster = ObjectIndex()
    for obj in objects:
        cluster.put(obj)
    return cluster


def touched(
    cluster: ObjectIndex, before: HasMetadata | None, after: HasMetadata | None
) -> list[str]:
    items = TABLE.touched(cluster, ObjectChange(before, after))
    return sorted({f"{item.controller} {item.name}" for item in items})


WEB, DB = {"app": "web", "tier": "front"}, {"app": "db", "tier": "back"}


def test_a_pod_touches_the_budgets_that_select_it_before_and_after_a_change() -> None:
    cluster = filled(
        budget("web", {"matchLabels": {"app": "web"}}),
        budget("db", {"matchLabels": {"app": "db", "tier": "back"}}),
        budget("all", {}),
        budget("none", None),
        budget("web", {}, namespace="other"),
    )
    of = "PodDisruptionBudget"
    several = f"{disruption_controllers.SEVERAL} p"
    assert touched(cluster, None, pod("p", WEB)) == [f"{of} all", f"{of} web", several]
    assert touched(cluster, pod("p", DB), None) == [f"{of} all", f"{of} db"]
    assert touched(cluster, pod("p", WEB), pod("p", DB)) == [
        *(f"{of} {n}" for n in ("all", "db", "web")),
        several,
    ]
    assert touched(cluster, None, pod("p", {})) == [f"{of} all"]


def test_a_workload_touches_budgets_only_if_its_scale_or_owner_changes() -> None:
    def replica_set(replicas: int, *owners: HasMetadata, ready: int = 0) -> ReplicaSet:
        status = {"readyReplicas": ready}
        document = {"metadata": metadata("r", *owners), "spec": {"replicas": replicas}}
        return read({**document, "status": status}, ReplicaSet)

    def deployment(replicas: int) -> Deployment:
        return read({"metadata": metadata("d"), "spec": {"replicas": replicas}}, Deployment)

    above, before = deployment(2), replica_set(2, deployment(2))
    cluster = filled(
        above, before, pod("p", WEB, before), budget("web", {"matchLabels": {"app": "web"}}),
        budget("db", {"matchLabels": {"app": "db"}}),
    )  # fmt: skip
    web = ["PodDisruptionBudget web"]
    assert touched(cluster, before, replica_set(3, above)) == web
    assert touched(cluster, before, replica_set(2)) == web
    assert touched(cluster, before, None) == web
    assert touched(cluster, None, before) == web
    assert touched(cluster, before, replica_set(2, above, ready=1)) == []
    assert touched(cluster, above, deployment(5)) == web


def test_a_pod_with_a_disruption_target_is_looked_at() -> None:
    def targeted(status: str) -> Pod:
        conditions = [{"type": "DisruptionTarget", "status": status}]
        return read({"metadata": metadata("p"), "status": {"conditions": conditions}}, Pod)

    assert touched(ObjectIndex(), None, targeted("True")) == ["disruption-target p"]
    assert touched(ObjectIndex(), targeted("True"), targeted("False")) == []
    assert touched(ObjectIndex(), targeted("True"), None) == []


KEYS, VALUES = st.sampled_from("abc"), st.sampled_from(("", "x", "yy"))
LABELS = st.dictionaries(KEYS, VALUES)
EXPRESSIONS = st.one_of(
    st.fixed_dictionaries(
        {
            "key": KEYS,
            "operator": st.sampled_from(("In", "NotIn")),
            "values": st.lists(VALUES, min_size=1),
        }
    ),
    st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(("Exists", "DoesNotExist"))}),
)
SELECTORS = st.none() | st.fixed_dictionaries(
    {"matchLabels": LABELS, "matchExpressions": st.lists(EXPRESSIONS, max_size=2)}
)
NAMESPACES = st.sampled_from(("n", "m"))


@given(
    st.lists(st.tuples(LABELS, NAMESPACES), max_size=6),
    st.lists(st.tuples(SELECTORS, NAMESPACES), max_size=6),
)
def test_the_index_leads_to_the_same_pairs_as_a_walk(
    pods: list[tuple[Document, str]], budgets: list[tuple[Document | None, str]]
) -> None:
    there = [pod(f"p{i}", labels, namespace=at) for i, (labels, at) in enumerate(pods)]
    over = [budget(f"b{i}", selector, at) for i, (selector, at) in enumerate(budgets)]
    cluster = filled(*there, *over)
    pairs = {
        (p.metadata.name, b.metadata.name)
        for p in there
        for b in over
        if p.metadata.namespace == b.metadata.namespace
        and selector_or_nothing(b.spec.selector).matches(p.metadata.labels)
    }
    to_budgets = {
        (p.metadata.name, item.name)
        for p in there
        for item in TABLE.touched(cluster, ObjectChange(None, p))
        if item.kind == "PodDisruptionBudget"
    }
    to_pods = [
        (p.metadata.name, b.metadata.name)
        for b in over
        for p in disruption_controllers.candidates(cluster, b)
        if selector_or_nothing(b.spec.selector).matches(p.metadata.labels)
    ]
    assert to_budgets == pairs
    assert sorted(to_pods) == sorted(pairs), "each pod once"


def test_a_change_looks_at_few_of_many_budgets_and_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    budgets = [budget(f"b{i}", {"matchLabels": {"app": f"app-{i}"}}) for i in range(300)]
    pods = [pod(f"p{i}", {"app": f"app-{i}", "env": "prod"}) for i in range(300)]
    cluster = filled(*budgets, *pods)
    read_selectors = []

    def counted(selector: LabelSelector | None) -> Selector:
        read_selectors.append(selector)
        return selector_or_nothing(selector)

    monkeypatch.setattr(disruption_controllers, "selector_or_nothing", counted)
    assert touched(cluster, None, pods[7]) == ["PodDisruptionBudget b7"]
    assert read_selectors == 2 * [budgets[7].spec.selector], "once for each controller"
    assert disruption_controllers.candidates(cluster, budgets[7]) == [pods[7]]


def test_a_pod_of_several_budgets_gets_an_event() -> None:
    both = pod("p", WEB)
    budgets = budget("web", {"matchLabels": {"app": "web"}}), budget("all", {})
    assert touched(filled(budgets[0], both), None, both) == ["PodDisruptionBudget web"]
    cluster = filled(*budgets, both)
    assert "several-budgets p" in touched(cluster, None, both)
    (event,) = disruption_controllers.report_several(cluster, both, NOW)
    assert isinstance(event, Create)
    assert event.document["reason"] == "MultiplePodDisruptionBudgets"
    assert event.document["message"] == (
        'Pod "n"/"p" matches multiple PodDisruptionBudgets.  Chose "all" arbitrarily.'
    )
    # one of them may have gone meanwhile
    assert disruption_controllers.report_several(filled(budgets[0], both), both, NOW) == []
