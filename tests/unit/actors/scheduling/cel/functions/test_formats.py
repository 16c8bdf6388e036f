"""Named formats."""

from __future__ import annotations

import pytest

from tests.unit.actors.scheduling.cel.expressions import outcome


@pytest.mark.parametrize(
    "expression",
    [
        "!format.dns1123Label().validate('my-label').hasValue()",
        "format.dns1123Label().validate('-x').hasValue()",
        "format.named('uuid').hasValue()",
        "!format.named('x').hasValue()",
        "!format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()",
        "!format.date().validate('2021-01-01').hasValue()",
        "format.byte().validate('!').hasValue()",
        "!format.qualifiedName().validate('a.b/c').hasValue()",
        "!format.labelValue().validate('').hasValue()",
        "!format.datetime().validate('2021-01-01T00:00:00Z').hasValue()",
        "!format.uri().validate('https://a.b').hasValue()",
    ],
)
def test_is_true(expression: str) -> None:
    assert outcome(expression) is True
