"""Which update strategies of workloads the server takes. The rules are Kubernetes'."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.rules.validation import problems

LABELS = {"app": "x"}
OF_EACH = {
    "selector": {"matchLabels": LABELS},
    "template": {
        "metadata": {"labels": LABELS},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    },
}
ROLLING = "spec.strategy.rollingUpdate"


def problems_of(kind: str, spec: dict[str, Any]) -> list[str]:
    return problems(kind, {"metadata": {"name": "w"}, "spec": {**OF_EACH, **spec}})


def rolling(**fields: Any) -> dict[str, Any]:
    return {"strategy": {"type": "RollingUpdate", "rollingUpdate": fields}}


def updating(**fields: Any) -> dict[str, Any]:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": fields}}


@pytest.mark.parametrize(
    ("kind", "spec", "problem"),
    [
        ("Deployment", rolling(maxSurge="300%", maxUnavailable=0), ""),
        ("Deployment", rolling(maxSurge=0, maxUnavailable="100%"), ""),
        ("Deployment", rolling(maxSurge=0, maxUnavailable="101%"), "not be greater than 100%"),
        ("Deployment", rolling(maxSurge=0, maxUnavailable="0%"), "may not be 0 when `maxSurge`"),
        ("Deployment", rolling(maxSurge=-1), f"{ROLLING}.maxSurge: Invalid value: -1"),
        ("Deployment", rolling(maxSurge="1e3%", maxUnavailable=1), "a valid percent string"),
        (
            "Deployment",
            rolling(maxSurge="9" * 5000 + "%", maxUnavailable=1),
            "a valid percent string",
        ),
        ("Deployment", {"strategy": {"type": "Recreate"}}, ""),
        ("Deployment", {"strategy": {"type": "Recreate", "rollingUpdate": {}}}, "is 'Recreate'"),
        ("Deployment", {"strategy": {"type": "OnDelete"}}, "spec.strategy: Unsupported"),
        ("DaemonSet", updating(maxSurge=0, maxUnavailable=1), ""),
        ("DaemonSet", updating(maxSurge="50%", maxUnavailable=0), ""),
        ("DaemonSet", updating(maxSurge=1, maxUnavailable=1), "maxUnavailable is non-zero"),
        ("DaemonSet", updating(maxSurge=0, maxUnavailable=0), "cannot be 0 when maxSurge is 0"),
        ("DaemonSet", updating(maxSurge="101%", maxUnavailable=0), "not be greater than 100%"),
        ("DaemonSet", {"updateStrategy": {"type": "OnDelete"}}, ""),
        ("StatefulSet", updating(partition=3), ""),
        ("StatefulSet", updating(partition=-1), "spec.updateStrategy.rollingUpdate.partition"),
        (
            "StatefulSet",
            {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 0}}},
            "only allowed for updateStrategy 'RollingUpdate'",
        ),
        ("ReplicaSet", {}, ""),
    ],
)
def test_a_strategy_can_be_followed(kind: str, spec: dict[str, Any], problem: str) -> None:
    found = problems_of(kind, spec)
    assert len(found) == bool(problem)
    assert problem in "".join(found)


def test_the_deadline_of_a_roll_out_exceeds_the_time_until_a_pod_counts() -> None:
    spec = rolling(maxSurge=1) | {"minReadySeconds": 10, "progressDeadlineSeconds": 10}
    problem = "spec.progressDeadlineSeconds: Invalid value: 10: must be greater than minReady"
    assert any(each.startswith(problem) for each in problems_of("Deployment", spec))
    spec["progressDeadlineSeconds"] = 11
    assert not any("progressDeadline" in each for each in problems_of("Deployment", spec))


def test_a_percentage_with_thousands_of_digits_is_refused() -> None:
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": "9" * 5000 + "%"}}
    (problem,) = problems("PodDisruptionBudget", budget)
    assert "a valid percent string" in problem


def test_the_ordinals_of_a_stateful_set_begin_at_zero_or_later() -> None:
    (problem,) = problems_of("StatefulSet", {"ordinals": {"start": -1}})
    assert problem.startswith("spec.ordinals.start: Invalid value: -1")
