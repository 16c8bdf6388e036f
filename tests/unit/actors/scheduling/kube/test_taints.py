"""Tolerations that compare numbers."""

from __future__ import annotations

import pytest

from berth.actors.scheduling.kube.core import Taint, Toleration
from berth.actors.scheduling.kube.taints import Tolerations, tolerates

LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("operator", "bound", "value", "expected"),
    [
        ("Gt", "700", "701", True),
        ("Gt", "700", "700", False),
        ("Lt", "700", "699", True),
        ("Lt", "700", "700", False),
        ("Gt", "-5", "0", True),
        ("Gt", "10", "9", False),
        ("Lt", str(LARGEST), str(LARGEST - 1), True),
        ("Lt", str(LARGEST + 1), "1", False),
        ("Gt", "1", str(LARGEST + 1), False),
        ("Gt", "07", "9", False),
        ("Gt", "7", "+9", False),
        ("Lt", "7", "-0", False),
        ("Lt", "7", "", False),
        ("Lt", "x", "1", False),
        ("Lt", "7", "٣", False),
        ("lt", "7", "1", False),
    ],
)
def test_comparison(operator: str, bound: str, value: str, expected: bool) -> None:
    toleration = Toleration(key="sla", operator=operator, value=bound)
    for key, tolerated in (("sla", expected), ("other", False)):
        taint = Taint(key=key, value=value, effect="NoSchedule")
        assert tolerates(toleration, taint) == tolerated
        assert Tolerations([toleration]).tolerate(taint) == tolerated
