"""Terms give the same results for all nodes at once as for each node alone, for any number of
terms.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.kube.core import Node, NodeSelectorRequirement, NodeSelectorTerm, Pod
from berth.actors.scheduling.kube.node_selector import integer, node_selector_matches
from berth.actors.scheduling.model.node_selection import NodeTerms, pod_affinity_matches
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from tests.kit.snapshots import snapshot_of

KEYS = ["zone", "rank", "gone"]
VALUES = [
    "a",
    "b",
    "",
    "-1",
    "0",
    "7",
    "+7",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
]
OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like"]
NAMES = ["n0", "n1", "n2", "n3", "nowhere"]

VALUE = st.sampled_from(VALUES)
LABELS = st.dictionaries(st.sampled_from(KEYS[:2]), VALUE)
EXPRESSION = st.builds(
    lambda key, operator, values: NodeSelectorRequirement(
        key=key, operator=operator, values=tuple(values)
    ),
    st.sampled_from(KEYS),
    st.sampled_from(OPERATORS),
    st.lists(VALUE, max_size=3),
)
FIELD = st.builds(
    lambda operator, names: NodeSelectorRequirement(
        key="metadata.name", operator=operator, values=tuple(names)
    ),
    st.sampled_from(["In", "NotIn"]),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=2),
)
TERM = st.builds(
    lambda expressions, fields: NodeSelectorTerm(
        match_expressions=tuple(expressions), match_fields=tuple(fields)
    ),
    st.lists(EXPRESSION, max_size=2),
    st.lists(FIELD, max_size=1),
)
WEIGHED = st.lists(st.tuples(TERM, st.sampled_from([1, 2, 100, -3, (1 << 31) - 1])), max_size=8)


def cluster(labels: list[dict[str, str]]) -> tuple[Snapshot, list[Node]]:
    documents: list[dict[str, object]] = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{i}", "labels": have}}
        for i, have in enumerate(labels)
    ]
    return snapshot_of(documents), [msgspec.convert(document, Node) for document in documents]


@given(st.lists(LABELS, min_size=1, max_size=4), WEIGHED)
def test_weights(labels: list[dict[str, str]], weighed: list[tuple[NodeSelectorTerm, int]]) -> None:
    snapshot, nodes = cluster(labels)
    view = snapshot.rows(snapshot.columns.order)
    expected = [
        sum(weight for term, weight in weighed if node_selector_matches([term], node))
        for node in nodes
    ]
    by_name = dict(zip((node.metadata.name for node in nodes), expected, strict=True))
    weights = NodeTerms(weighed).weigh(view)
    assert {view.name(i): int(weight) for i, weight in enumerate(weights)} == by_name
    matching = NodeTerms([(term, 1) for term, _ in weighed]).match(view)
    anywhere = {
        node.metadata.name: node_selector_matches([term for term, _ in weighed], node)
        for node in nodes
    }
    assert {view.name(i): bool(matches) for i, matches in enumerate(matching)} == anywhere


@given(st.lists(LABELS, min_size=1, max_size=4), LABELS, st.none() | st.lists(TERM, max_size=3))
def test_a_pod(
    labels: list[dict[str, str]], selector: dict[str, str], terms: list[NodeSelectorTerm] | None
) -> None:
    snapshot, nodes = cluster(labels)
    required = None if terms is None else {"nodeSelectorTerms": msgspec.to_builtins(terms)}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    pod = msgspec.convert({"spec": {"nodeSelector": selector, "affinity": affinity}}, Pod)
    view = snapshot.rows(snapshot.columns.order)
    expected = {
        node.metadata.name: node.metadata.labels.items() >= selector.items()
        and (terms is None or node_selector_matches(terms, node))
        for node in nodes
    }
    assert {
        view.name(i): bool(fits) for i, fits in enumerate(pod_affinity_matches(PodInfo(pod), view))
    } == expected


def test_a_label_is_taken_into_account_when_the_first_node_with_it_comes() -> None:
    snapshot, (node,) = cluster([{}])
    columns = snapshot.columns
    assert columns.label("zone") is columns.label("any other")
    assert columns.label("zone").codes.tolist()[:1] == [-1]
    info = columns.infos[0]
    assert info is not None
    for labels in ({"zone": "a"}, {"zone": "b"}, {}, {"zone": "a"}):
        metadata = msgspec.structs.replace(node.metadata, labels=labels)
        info.set_node(msgspec.structs.replace(node, metadata=metadata))
        columns.refresh(info)
        label = columns.label("zone")
        assert label.nodes == len(labels)
        values = [*label.values]
        assert [values[code] for code in label.codes[:1] if code >= 0] == [*labels.values()]
    columns.remove("n0")
    assert columns.label("zone").nodes == 0


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-0", 0),
        ("+12", 12),
        ("000000000000000000000000000012", 12),
        ("9223372036854775807", (1 << 63) - 1),
        ("-9223372036854775808", -(1 << 63)),
        ("9223372036854775808", None),
        ("-9223372036854775809", None),
        ("9" * 10_000, None),
        ("", None),
        ("-", None),
        ("1_0", None),
        ("1.0", None),
        ("\u0661", None),
    ],
)
def test_integers(text: str, number: int | None) -> None:
    assert integer(text) == number


def test_thousands_of_terms_are_evaluated_together() -> None:
    """The terms do not each cost an operation over all nodes."""
    snapshot, _ = cluster([{"rank": str(i)} for i in range(4)])
    terms = [
        NodeSelectorTerm(
            match_expressions=(
                NodeSelectorRequirement(key="rank", operator="Gt", values=(str(i),)),
            )
        )
        for i in range(-5000, 5000)
    ]
    weights = NodeTerms([(term, 1) for term in terms]).weigh(snapshot.rows(snapshot.columns.order))
    assert np.array_equal(np.sort(weights), [5000, 5001, 5002, 5003])
