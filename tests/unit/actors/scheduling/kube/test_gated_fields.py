"""The parts of pods that count only with a feature gate."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.gated_fields import GatedFields
from berth.config.feature_gates import DEFAULTS

REQUESTS = {"requests": {"cpu": "2"}}


def pod(**parts: Any) -> Pod:
    return msgspec.convert({"metadata": {"name": "p"}, **parts}, Pod)


def spread(*keys: str) -> dict[str, Any]:
    return {"topologyKey": "zone", "maxSkew": 1, "matchLabelKeys": keys}


def tolerations(*operators: str) -> list[dict[str, str]]:
    return [{"key": "k", "operator": operator, "value": "1"} for operator in operators]


@pytest.mark.parametrize(
    ("gate", "whole", "left"),
    [
        (
            "PodLevelResources",
            {"spec": {"resources": REQUESTS, "nodeName": "n"}},
            {"spec": {"nodeName": "n"}},
        ),
        (
            "InPlacePodLevelResourcesVerticalScaling",
            {"status": {"phase": "Running", "resources": REQUESTS}},
            {"status": {"phase": "Running"}},
        ),
        (
            "InPlacePodLevelResourcesVerticalScaling",
            {"status": {"allocatedResources": {"cpu": "1"}}},
            {},
        ),
        (
            "TaintTolerationComparisonOperators",
            {"spec": {"tolerations": tolerations("Lt", "Equal", "Gt")}},
            {"spec": {"tolerations": tolerations("Equal")}},
        ),
        (
            "MatchLabelKeysInPodTopologySpread",
            {"spec": {"topologySpreadConstraints": [spread("a"), spread()]}},
            {"spec": {"topologySpreadConstraints": [spread(), spread()]}},
        ),
    ],
)
def test_parts_that_a_gate_drops(gate: str, whole: Any, left: Any) -> None:
    on, off = ({**DEFAULTS, gate: value} for value in (True, False))
    assert GatedFields(on).drop(pod(**whole)) == pod(**whole)
    assert GatedFields(off).drop(pod(**whole)) == pod(**left)


def test_a_pod_without_such_parts_stays_the_same_object() -> None:
    off = dict.fromkeys(DEFAULTS, False)
    plain = pod(
        spec={"tolerations": tolerations("Exists"), "topologySpreadConstraints": [spread()]}
    )
    assert GatedFields(off).drop(plain) is plain
