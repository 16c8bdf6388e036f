"""How far and how fast autoscalers scale; the facts are those of upstream's controller."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.types.defaults import defaulted
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.autoscaling.scaling_limits import History, PastScale, limit
from berth.tools.kubernetes.objects.autoscalers import (
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
)
from berth.tools.kubernetes.objects.structs import read
from tests.kit.cases import documents, texts

NOW = 100_000.0
KIND = BY_KIND["autoscaling/v2", "HorizontalPodAutoscaler"]


def spec(
    behavior: dict[str, Any] | None = None, least: int = 1, most: int = 1000
) -> HorizontalPodAutoscalerSpec:
    fields: dict[str, Any] = {"minReplicas": least, "maxReplicas": most}
    if behavior is not None:
        fields["behavior"] = behavior
    return read(defaulted(KIND, {"spec": fields}), HorizontalPodAutoscaler).spec


def rules(pods: int, pods_period: int, percent: int, percent_period: int) -> dict[str, Any]:
    policies = [
        {"type": type_, "value": value, "periodSeconds": period}
        for type_, value, period in (
            ("Pods", pods, pods_period),
            ("Percent", percent, percent_period),
        )
        if value
    ]
    return {"policies": policies, "stabilizationWindowSeconds": 0}


def past(changes: list[int], seconds: int) -> list[PastScale]:
    """Returns changes at equal intervals of a period that ends now."""
    interval = seconds / (len(changes) + 1)
    return [PastScale(change, NOW - i * interval) for i, change in enumerate(changes, 1)]


@pytest.mark.parametrize(
    ("least", "most", "current", "desired", "replicas", "reason"),
    texts("""
3 => 8 => 5 => 7 => 7 => DesiredWithinRange
2 => 8 => 3 => 1 => 2 => TooFewReplicas
1 => 10 => 20 => 1000 => 10 => TooManyReplicas
100 => 150 => 100 => 1000 => 150 => TooManyReplicas
1 => 1000 => 10 => 50 => 20 => ScaleUpLimit
1 => 2000 => 1 => 1000 => 4 => ScaleUpLimit
"""),
)
def test_without_a_behavior(
    least: str, most: str, current: str, desired: str, replicas: str, reason: str
) -> None:
    limited = limit(History(), spec(None, int(least), int(most)), int(current), int(desired), NOW)
    assert (str(limited.replicas), limited.limited.reason) == (replicas, reason)
    assert limited.limited.status == (replicas != desired)


@pytest.mark.parametrize(
    ("policies", "added", "removed", "range_", "change", "replicas", "reason"),
    documents("""
[0, 0, 1, 60] => [] => [] => [1, 2000] => [3, 1000] => 4 => ScaleUpLimit
[100, 60, 100, 60] => [] => [] => [1, 1000] => [10, 500] => 110 => ScaleUpLimit
[2, 60, 100, 60] => [] => [] => [1, 1000] => [10, 500] => 20 => ScaleUpLimit
[100, 60, 0, 0] => [] => [] => [1, 1000] => [10, 50] => 50 => DesiredWithinRange
[30, 60, 0, 0] => [] => [] => [1, 1000] => [10, 50] => 40 => ScaleUpLimit
[0, 0, 200, 60] => [] => [] => [1, 1000] => [10, 50] => 30 => ScaleUpLimit
[300, 60, 0, 0] => [1, 5, 9] => [] => [1, 200] => [100, 500] => 200 => TooManyReplicas
[5, 120, 0, 0] => [1, 5, 9] => [] => [1, 1000] => [100, 500] => 100 => ScaleUpLimit
[150, 120, 0, 0] => [1, 5, 9] => [] => [1, 1000] => [100, 500] => 235 => ScaleUpLimit
[0, 0, 200, 120] => [1, 5, 9] => [] => [1, 1000] => [100, 500] => 255 => ScaleUpLimit
[0, 0, 300, 300] => [4] => [2] => [1, 1000] => [6, 24] => 16 => ScaleUpLimit
[20, 60, 0, 0] => [] => [] => [3, 2000] => [1000, 3] => 980 => ScaleDownLimit
[20, 60, 1, 60] => [] => [] => [1, 1000] => [100, 2] => 80 => ScaleDownLimit
[2, 60, 1, 60] => [] => [] => [1, 1000] => [100, 2] => 98 => ScaleDownLimit
[100, 60, 0, 0] => [] => [] => [1, 1000] => [10, 0] => 1 => TooFewReplicas
[0, 0, 100, 60] => [] => [] => [5, 1000] => [10, 2] => 5 => TooFewReplicas
[5, 60, 0, 0] => [] => [] => [1, 1000] => [10, 2] => 5 => ScaleDownLimit
[0, 0, 50, 60] => [] => [] => [1, 1000] => [10, 5] => 5 => DesiredWithinRange
[115, 120, 0, 0] => [] => [1, 5, 9] => [1, 1000] => [100, 0] => 1 => TooFewReplicas
[5, 120, 0, 0] => [] => [1, 5, 9] => [1, 1000] => [100, 0] => 100 => ScaleDownLimit
"""),
)
def test_policies(
    policies: list[int],
    added: list[int],
    removed: list[int],
    range_: list[int],
    change: list[int],
    replicas: int,
    reason: str,
) -> None:
    history, direction = History(), "scaleUp" if change[1] > change[0] else "scaleDown"
    history.added, history.removed = past(added, 120), past(removed, 120)
    limits = spec({direction: rules(*policies)}, *range_)
    limited = limit(history, limits, change[0], change[1], NOW)
    assert (limited.replicas, limited.limited.reason) == (replicas, reason)


@pytest.mark.parametrize(
    ("policy", "up", "down"), [("Max", 20, 5), ("Min", 14, 8), ("Disabled", 10, 10)]
)
def test_the_policy_that_is_selected(policy: str, up: int, down: int) -> None:
    two = {**rules(4, 60, 100, 60), "selectPolicy": policy}
    assert limit(History(), spec({"scaleUp": two}), 10, 100, NOW).replicas == up
    two = {**rules(2, 60, 50, 60), "selectPolicy": policy}
    assert limit(History(), spec({"scaleDown": two}), 10, 1, NOW).replicas == down


def test_the_highest_recommendation_of_five_minutes_counts() -> None:
    history, limits = History(), spec()
    history.begin(8, NOW)
    held = limit(history, limits, 8, 3, NOW + 300)
    assert (held.replicas, held.able.reason) == (8, "ScaleDownStabilized")
    done = limit(history, limits, 8, 3, NOW + 301)
    assert (done.replicas, done.able.reason) == (3, "ReadyForNewScale")


def test_windows_of_a_behavior() -> None:
    windows = {
        "scaleUp": {"stabilizationWindowSeconds": 60},
        "scaleDown": {"stabilizationWindowSeconds": 120},
    }
    history = History()
    history.recommendations = [PastScale(4, NOW - 90), PastScale(6, NOW - 30)]
    up = limit(history, spec(windows), 5, 9, NOW)
    assert (up.replicas, up.able.reason) == (6, "ScaleUpStabilized")
    down = limit(history, spec(windows), 7, 3, NOW)
    assert (down.replicas, down.able.reason) == (7, "ScaleDownStabilized")
    later = limit(history, spec(windows), 7, 3, NOW + 119)
    assert later.replicas == 7
    assert limit(history, spec(windows), 7, 3, NOW + 120).replicas == 3


def test_history_forgets_what_no_window_reaches() -> None:
    history = History()
    for hour in range(5):
        history.recommend(hour, NOW + 3601 * hour)
        history.scaled(1, 2 + hour, NOW + 3601 * hour)
        history.scaled(9, 2, NOW + 3601 * hour)
    assert [past.replicas for past in history.recommendations] == [4]
    assert (len(history.added), len(history.removed)) == (1, 1)
    assert history.at_start(10, 60, NOW + 4 * 3601 + 59) == 10 - 5 + 7
