"""The structs of objects of the other programs."""

from __future__ import annotations

from berth.tools.kubernetes import objects
from tests.kit.zero_values import other_defaults


def test_a_field_that_is_left_out_has_the_zero_value_of_go_or_the_servers_default() -> None:
    assert other_defaults(objects) == {
        "HorizontalPodAutoscalerSpec.min_replicas": 1,
        "OnPodCondition.status": "True",
        "Rules.select_policy": "Max",
    }
