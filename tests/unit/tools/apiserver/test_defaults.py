"""The fields that the API server fills in."""

from __future__ import annotations

from typing import Any

from berth.tools.apiserver.defaults import defaulted
from berth.tools.apiserver.resources import BY_KIND

JOBS = BY_KIND["batch/v1", "Job"]


def job(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"image": "i"}]}}
    metadata = {"name": "j", "namespace": "n", "uid": "u"}
    spec = {"template": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def test_a_job_selects_its_pods_and_has_its_older_labels_too() -> None:
    spec = defaulted(JOBS, job())["spec"]
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}
    assert spec["template"]["metadata"]["labels"] == {
        "app": "x",
        "controller-uid": "u",
        "job-name": "j",
        "batch.kubernetes.io/controller-uid": "u",
        "batch.kubernetes.io/job-name": "j",
    }


def test_a_job_with_a_manual_selector_is_left_alone() -> None:
    selector = {"matchLabels": {"app": "x"}}
    spec = defaulted(JOBS, job(manualSelector=True, selector=selector))["spec"]
    assert (spec["selector"], spec["template"]["metadata"]["labels"]) == (selector, {"app": "x"})
