"""The details of a refusal name the field of each problem."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.api.rules.validation import details_of_kind


@pytest.mark.parametrize(
    ("problem", "field", "message", "reason"),
    [
        ("spec.a: Required value", "spec.a", "Required value", "FieldValueRequired"),
        (
            'data[b: c]: Invalid value: "x: y": no',
            "data[b: c]",
            'Invalid value: "x: y": no',
            "FieldValueInvalid",
        ),
        ("odd: text", "odd", "text", "FieldValueInvalid"),
    ],
)
def test_a_cause(problem: str, field: str, message: str, reason: str) -> None:
    details = details_of_kind("", "ConfigMap", "c", [problem])
    assert details["causes"] == [{"field": field, "message": message, "reason": reason}]
