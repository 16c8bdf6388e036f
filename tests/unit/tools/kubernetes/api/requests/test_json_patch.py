"""JSON patches, where Kubernetes' library differs from the RFC."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.requests.json_patch import UnfitError, json_patched


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "replace", "path": "/new", "value": 1}, {"a": 1, "l": [1, 2], "new": 1}),
        ({"op": "add", "path": "/new"}, {"a": 1, "l": [1, 2], "new": None}),
        ({"op": "copy", "from": "/nothing", "path": "/a"}, {"a": None, "l": [1, 2]}),
        ({"op": "remove", "path": "/l/-1"}, {"a": 1, "l": [1]}),
        ({"op": "add", "path": "/l/-", "value": 3}, {"a": 1, "l": [1, 2, 3]}),
        ({"op": "add", "path": "/l/-1", "value": 3}, {"a": 1, "l": [1, 2, 3]}),
        ({"op": "add", "path": "/l/2", "value": 3}, {"a": 1, "l": [1, 2, 3]}),
        ({"op": "replace", "path": "/l/-2", "value": 3}, {"a": 1, "l": [3, 2]}),
        ({"op": "move", "from": "/a", "path": "/l/0"}, {"l": [1, 1, 2]}),
        ({"op": "add", "path": "/x~1y~0", "value": 1}, {"a": 1, "l": [1, 2], "x/y~": 1}),
        ({"op": "test", "path": "/nothing"}, {"a": 1, "l": [1, 2]}),
        ({"op": "replace", "path": "", "value": []}, []),
    ],
)
def test_an_operation(operation: dict[str, Any], expected: Any) -> None:
    before = {"a": 1, "l": [1, 2]}
    assert json_patched(before, [operation]) == expected
    assert before == {"a": 1, "l": [1, 2]}, "the original was changed"


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 1.0},
        {"op": "test", "path": "/a", "value": True},
        {"op": "remove", "path": ""},
        {"op": "add", "path": "", "value": {}},
        {"op": "replace", "path": "", "value": 1},
        {"op": "remove", "path": "/l/2"},
        {"op": "replace", "path": "/l/x", "value": 1},
        {"op": "add", "path": "/l/3", "value": 1},
        {"op": "add", "path": "/a/b", "value": 1},
        {"op": "move", "from": "/nothing", "path": "/b"},
        {"op": "copy", "path": "/b"},
        {"op": "no", "path": "/b"},
        {},
    ],
)
def test_an_operation_that_does_not_fit(operation: dict[str, Any]) -> None:
    with pytest.raises(UnfitError):
        json_patched({"a": 1, "l": [1, 2]}, [operation])


def test_null_is_a_patch_without_operations() -> None:
    assert json_patched({"a": 1}, None) == {"a": 1}
