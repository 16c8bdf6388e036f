"""The classes and values that no node has any more go, and no answer changes when they do."""

from __future__ import annotations

from random import Random
from weakref import ref

import msgspec

from berth.actors.scheduling.kube.core import Node
from berth.actors.scheduling.model.class_column import FEW_UNUSED, ClassColumn
from berth.actors.scheduling.model.columns import NodeColumns
from berth.actors.scheduling.model.label_column import LabelColumn
from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.pod_counts import Column

ROWS = 40


def most(used: set[str | None]) -> int:
    """Returns how many classes there may be."""
    return max(2 * len(used) + 2, len(used) + FEW_UNUSED + 1)


def test_a_row_keeps_its_value_while_others_come_and_go() -> None:
    column, rng = ClassColumn[str](ROWS, ""), Random(1)
    values: list[str | None] = [None] * ROWS
    for number in range(5_000):
        row = rng.randrange(ROWS)
        values[row] = None if rng.random() < 0.1 else f"v{number}"
        column.set(row, values[row])
        assert len(column.classes) <= most({*values})
    assert [[*column.classes][code] for code in column.codes] == [each or "" for each in values]
    assert [*column.classes.values()] == [*range(len(column.classes))]
    assert column.classes[""] == 0
    for row in range(ROWS):
        column.set(row, None)
    assert len(column.classes) <= most(set())


def test_many_values_that_are_in_use_are_not_looked_through_for_each_new_one() -> None:
    column, codes = ClassColumn[int](5_000, -1), 0
    for row in range(5_000):
        column.set(row, row)
        codes += column.classes[row]
    assert codes == sum(range(1, 5_001))
    renumbered = 0
    for row in range(5_000):
        before = column.classes
        column.set(row, None)
        renumbered += column.classes is not before
    assert renumbered < 13  # once each time half of them are gone


def test_a_label_keeps_its_values_and_numbers_while_others_come_and_go() -> None:
    label, rng = LabelColumn(ROWS), Random(1)
    values: list[str | None] = [None] * ROWS
    for number in range(5_000):
        row = rng.randrange(ROWS)
        values[row] = None if rng.random() < 0.1 else str(number) if number % 2 else f"v{number}"
        before, version = label.values, label.version
        label.set(row, values[row])
        assert label.values is before or label.version > version
        assert len(label.values) <= most({*values})
        numbers, valid = label.numbers()
        assert len(numbers) == len(valid) == len(label.values)
    texts = [*label.values]
    assert [texts[code] if code >= 0 else None for code in label.codes] == values
    assert [int(n) for n, ok in zip(numbers, valid, strict=True) if ok] == [
        int(text) for text in texts if text.isdecimal()
    ]
    assert label.nodes == sum(value is not None for value in values)


def info(name: str, **labels: str) -> NodeInfo:
    node = NodeInfo(name)
    node.set_node(msgspec.convert({"metadata": {"name": name, "labels": labels}}, Node))
    return node


def test_a_label_that_no_node_has_leaves_nothing_behind() -> None:
    columns = NodeColumns()
    for number in range(200):
        key = f"job-{number}"
        columns.refresh(info("n", zone="a", **{key: "x"}))
        columns.reorder(["n"])
        assert columns.label(key).nodes == columns.label("zone").nodes == 1
    assert columns.labels.keys() == {"zone", "job-199"}
    columns.remove("n")
    assert not columns.labels
    columns.refresh(info("m", zone="b"))
    assert columns.label("zone").code("b") == 0
    assert columns.label("zone").code("a") is None


def test_a_count_forgets_the_sums_of_labels_that_are_gone() -> None:
    label, other, column = LabelColumn(ROWS), LabelColumn(ROWS), Column(ROWS)
    label.set(0, "a")
    other.set(0, "b")
    column.add(0, 1)
    column.by_domain(label)
    gone = ref(label)
    label.set(0, None)
    del label
    assert column.by_domain(other).sums.tolist() == [1, 0]
    assert gone() is None


def test_the_time_of_a_taint_makes_no_class() -> None:
    columns = NodeColumns()
    for number in range(10):
        node = NodeInfo("n")
        taint = {"key": "k", "effect": "NoSchedule", "timeAdded": f"2026-01-01T00:00:0{number}Z"}
        document = {"metadata": {"name": "n"}, "spec": {"taints": [taint]}}
        node.set_node(msgspec.convert(document, Node))
        columns.refresh(node)
    assert len(columns.taint_classes) == 2
