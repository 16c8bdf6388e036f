"""What an update of a volume may change."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.api.rules.storage_rules import volume_update
from berth.tools.kubernetes.api.types.api_documents import Document

RULE = "field is immutable, except for updating from beta label to GA"
BETA, FINAL = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"


def volume(key: str, value: str = "a") -> Document:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}


def test_a_label_may_get_its_final_name() -> None:
    assert volume_update(volume(FINAL), volume(BETA)) == []
    assert volume_update(volume(BETA), volume(BETA)) == []


@pytest.mark.parametrize(
    ("after", "before"),
    [
        (volume(BETA), volume(FINAL)),
        (volume(FINAL, "b"), volume(BETA)),
        (volume("kubernetes.io/os"), volume(BETA)),
        ({}, volume(BETA)),
    ],
)
def test_nothing_else_about_the_nodes_may_change(after: Document, before: Document) -> None:
    (problem,) = volume_update(after, before)
    assert problem.startswith("nodeAffinity: Invalid value: ")
    assert problem.endswith(RULE)
