"""Revisions of the templates of workloads, as the controllers of real clusters keep them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from berth.tools.kubernetes.api.rules.validation import problems
from berth.tools.kubernetes.api.tables import table
from berth.tools.kubernetes.api.types.discovery import discovery
from berth.tools.kubernetes.api.types.resources import BY_KIND
from tests.kit.cases import documents
from tests.kit.documents import Document

REVISION: Document = {"metadata": {"name": "it"}, "data": {"spec": {}}, "revision": 1}


@pytest.mark.parametrize(
    ("change", "problem"),
    documents("""
data: null => data: Required value: data is mandatory
data: text => data: Required value: data must be a valid JSON object
revision: -1 => revision: Invalid value: -1: must be greater than or equal to 0
"""),
)
def test_a_revision_with_one_thing_wrong(change: Document, problem: str) -> None:
    assert problems("ControllerRevision", {**REVISION, **change}) == [problem]


def test_the_data_of_a_revision_may_not_change() -> None:
    later = {**REVISION, "revision": 2}
    assert problems("ControllerRevision", later, REVISION) == []
    assert problems("ControllerRevision", {**later, "data": {}}, REVISION) == [
        "data: Invalid value: {}: field is immutable"
    ]


def test_the_table_shows_the_controller() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}
    created = {"name": "it", "creationTimestamp": "2026-01-01T00:00:00Z"}

    def cells(**metadata: Any) -> list[Any]:
        now = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
        document = {**REVISION, "metadata": {**created, **metadata}}
        kind = BY_KIND["apps/v1", "ControllerRevision"]
        row: list[Any] = table(kind, [document], revision="1", now=now)["rows"][0]["cells"]
        return row

    assert cells(ownerReferences=[{**owner, "controller": True}]) == [
        "it",
        "daemonset.apps/d",
        1,
        "5m",
    ]
    assert cells(ownerReferences=[owner]) == ["it", "<none>", 1, "5m"]


def test_get_all_shows_workloads_and_not_their_revisions() -> None:
    categories = {
        entry["name"]: entry.get("categories")
        for path in ("/api/v1", "/apis/apps/v1", "/apis/admissionregistration.k8s.io/v1")
        for entry in (discovery(path) or {})["resources"]
    }
    for plural in ("pods", "services", "replicationcontrollers", "deployments", "daemonsets"):
        assert categories[plural] == ["all"]
    assert categories["controllerrevisions"] is None
    assert categories["validatingadmissionpolicies"] == ["api-extensions"]
