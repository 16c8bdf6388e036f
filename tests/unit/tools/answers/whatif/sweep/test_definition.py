"""What a sweep compares."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.tools.answers.explain.cluster_source import SourceError
from berth.tools.answers.whatif.sweep.definition import Numbers, definition_of, numbers, type_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (3, [3]),
        ("3", [3]),
        ("1, 2,4-6", [1, 2, 4, 5, 6]),
        ("10-50/20", [10, 30, 50]),
        ("2,1-3", [2, 1, 3]),
        ([4, 0], [4, 0]),
    ],
)
def test_numbers_are_listed_or_ranges(text: Numbers, expected: list[int]) -> None:
    assert numbers(text, "counts") == expected


@pytest.mark.parametrize("text", ["", "x", "1-", "5-1", "1-5/0", "-1", [], [-1], "0-999999999"])
def test_other_texts_are_no_numbers(text: Numbers) -> None:
    with pytest.raises(SourceError, match="counts"):
        numbers(text, "counts")


def test_a_range_begins_with_its_smaller_number() -> None:
    with pytest.raises(SourceError, match="counts '5-1': expected the smaller number of a range"):
        numbers("5-1", "counts")


def test_a_node_type_is_like_a_node_or_a_manifest() -> None:
    small, large = type_of("small=node-1:0.10"), type_of("large=types/large.yaml:.5")
    assert (small.name, small.like, small.manifest, small.price) == ("small", "node-1", "", 0.1)
    assert (large.like, large.manifest, large.price) == ("", "types/large.yaml", 0.5)


@pytest.mark.parametrize("text", ["small", "small=node-1", "=node-1:1", "a=b:-1", "a=b:nan"])
def test_another_text_is_no_node_type(text: str) -> None:
    with pytest.raises(SourceError, match="expected NAME=NODE:PRICE"):
        type_of(text)


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(
        "cluster: [a.yaml]\n"
        "workload: [/b.yaml]\n"
        "nodeTypes:\n"
        "- {name: x, like: node-1, price: 1}\n"
        "- {name: z, manifest: z.yaml, price: 1}\n"
        "configurations: [{name: default}, {name: packed, file: packed.yaml}]\n"
    )
    definition = definition_of(tmp_path / "sweep.yaml")
    assert definition.cluster == [str(tmp_path / "a.yaml")]
    assert definition.workload == ["/b.yaml"]
    assert [of.manifest for of in definition.node_types] == ["", str(tmp_path / "z.yaml")]
    files = [of.file for of in definition.configurations]
    assert files == ["", str(tmp_path / "packed.yaml")]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nodeType: []", "unknown field `nodeType`"),
        ("nodeTypes: [{name: x, like: node-1, price: -1}]", ">= 0"),
        ("[", "cannot be read"),
        ("a: b\n---\nc: d", "expected one document"),
        ("", "expected one document"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "sweep.yaml").write_text(text)
    with pytest.raises(SourceError, match="sweep.yaml: .*" + problem):
        definition_of(tmp_path / "sweep.yaml")
