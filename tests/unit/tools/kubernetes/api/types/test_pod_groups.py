"""Workloads and PodGroups, which an API server of 1.36 serves on request."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from berth.tools.kubernetes.api.tables import table
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.catalog import Catalog
from berth.tools.kubernetes.api.types.releases import CURRENT_RELEASE, RELEASES
from berth.tools.kubernetes.api.types.runtime_config import kinds_on_request
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document

VERSION = "scheduling.k8s.io/v1alpha2"
WORKLOADS, GROUPS = kinds_on_request([VERSION])
GANG: Document = {"schedulingPolicy": {"gang": {"minCount": 3}}}


@pytest.fixture
def served(api: Api) -> Api:
    api.store.catalog = Catalog(CURRENT_RELEASE, (WORKLOADS, GROUPS))
    return api


def test_a_group_is_stored_and_shown_with_its_status(served: Api) -> None:
    workload = {"podGroupTemplates": [{"name": "t", **GANG}]}
    served.create(WORKLOADS, "default", {"metadata": {"name": "w"}, "spec": workload})
    reference = {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}
    spec = {**GANG, "podGroupTemplateRef": reference}
    group = served.create(GROUPS, "default", {"metadata": {"name": "g"}, "spec": spec}).document
    assert group["metadata"]["generation"] == 1

    def cells() -> list[object]:
        shown = served.store.get(GROUPS, "default", "g")
        rows = table(GROUPS, [shown], revision="1", now=datetime.now(UTC))["rows"]
        return [*rows[0]["cells"][:4]]

    assert cells() == ["g", "Gang", "w", "Pending"]
    done = {
        "type": "PodGroupScheduled",
        "status": "True",
        "reason": "Scheduled",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {**group, "status": {"conditions": [done]}}
    served.update(GROUPS, "default", "g", status, "status")
    assert cells() == ["g", "Gang", "w", "Scheduled"]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"schedulingPolicy": {}}, "spec.schedulingPolicy: Invalid value: null: must specify one"),
        ({"schedulingPolicy": {"gang": {"minCount": 0}}}, "spec.schedulingPolicy.gang.minCount"),
        ({**GANG, "disruptionMode": "All"}, "spec.disruptionMode: Unsupported value"),
    ],
)
def test_a_group_with_one_thing_wrong_is_refused(served: Api, spec: Document, problem: str) -> None:
    with pytest.raises(RefusedError) as refused:
        served.create(GROUPS, "default", {"metadata": {"name": "g"}, "spec": spec})
    assert problem in str(refused.value)


def test_the_alpha_version_ends_with_1_36() -> None:
    assert RELEASES["1.36"].serves(GROUPS)
    assert not RELEASES["1.37"].serves(GROUPS)
