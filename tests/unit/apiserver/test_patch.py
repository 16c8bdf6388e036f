"""The three kinds of patch."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tools.apiserver.patch import JSON_PATCH, MERGE, STRATEGIC, patched
from tools.apiserver.resources import BY_KIND
from tools.apiserver.store import Refused

POD = BY_KIND["v1", "Pod"]
A, B = {"name": "a", "image": "i"}, {"name": "b", "image": "i"}


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "labels": {"l": "1"}}, "spec": {"containers": [A, B], **spec}}


def containers(*items: Any, **beside: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(items), **beside}}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        (containers({"name": "b", "image": "j"}), [A, {"name": "b", "image": "j"}]),
        (containers({"name": "c"}), [A, B, {"name": "c"}]),
        (containers({"name": "a", "$patch": "delete"}), [B]),
        (containers({"name": "z", "$patch": "delete"}), [A, B]),
        (containers({"$patch": "replace"}, {"name": "c"}), [{"name": "c"}]),
        (containers({"name": "b", "image": None}), [A, {"name": "b"}]),
        (containers({"name": "c"}, **{"$setElementOrder/containers": [{"name": n} for n in "cab"]}),
         [{"name": "c"}, A, B]),
        ({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}, [B, A]),
        (containers({"name": "c"}, **{"$setElementOrder/containers": [{"name": "c"}, {"name": "b"}]}),
         [A, {"name": "c"}, B]),
        ({"spec": {"containers": None}}, None),
    ],
)  # fmt: skip
def test_a_strategic_patch_merges_lists_by_their_key(patch: Any, expected: Any) -> None:
    before = pod()
    frozen = copy.deepcopy(before)
    assert patched(POD, before, patch, STRATEGIC)["spec"].get("containers") == expected
    assert before == frozen, "a document is never changed in place"


def test_a_strategic_patch_heeds_its_directives_elsewhere() -> None:
    document = {**pod(), "metadata": {"name": "p", "labels": {"l": "1", "m": "2"}, "finalizers": ["f", "g"]}}
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["f"], "finalizers": ["h"], "labels": {"l": None}}}
    metadata = patched(POD, document, patch, STRATEGIC)["metadata"]
    assert metadata == {"name": "p", "labels": {"m": "2"}, "finalizers": ["g", "h"]}
    replaced = patched(POD, document, {"metadata": {"labels": {"$patch": "replace", "n": "3"}}}, STRATEGIC)
    assert replaced["metadata"]["labels"] == {"n": "3"}
    gone = patched(POD, document, {"metadata": {"labels": {"$patch": "delete"}}}, STRATEGIC)
    assert "labels" not in gone["metadata"]
    volumes = [{"name": "v", "emptyDir": {}}]
    retained = {"volumes": [{"name": "v", "hostPath": {"path": "/"}, "$retainKeys": ["name", "hostPath"]}]}
    after = patched(POD, pod(volumes=volumes), {"spec": retained}, STRATEGIC)
    assert after["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/"}}]
    atomic = patched(POD, pod(tolerations=[{"key": "a"}]), {"spec": {"tolerations": [{"key": "b"}]}}, STRATEGIC)
    assert atomic["spec"]["tolerations"] == [{"key": "b"}]


def test_a_merge_patch_replaces_lists_and_removes_nulls() -> None:
    after = patched(POD, pod(), {"metadata": {"labels": {"l": None, "m": "2"}}, "spec": {"containers": [B]}}, MERGE)
    assert after == {"metadata": {"name": "p", "labels": {"m": "2"}}, "spec": {"containers": [B]}}


def test_a_json_patch_does_its_operations_in_order() -> None:
    operations = [
        {"op": "test", "path": "/metadata/labels/l", "value": "1"},
        {"op": "add", "path": "/metadata/labels/a~1b", "value": "2"},
        {"op": "remove", "path": "/spec/containers/0"},
    ]
    before = pod()
    after = patched(POD, before, operations, JSON_PATCH)
    assert (after["metadata"]["labels"], after["spec"]["containers"]) == ({"l": "1", "a/b": "2"}, [B])
    assert before == pod()


@pytest.mark.parametrize(
    ("patch", "how", "code"),
    [
        ({}, "text/plain", 415),
        ([], MERGE, 422),
        ({"metadata": None}, MERGE, 422),
        (containers("a"), STRATEGIC, 422),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": "f"}}, STRATEGIC, 422),
        ({"spec": {"$setElementOrder/containers": 5}}, STRATEGIC, 422),
        ({}, JSON_PATCH, 400),
        (["x"], JSON_PATCH, 400),
        ([{"op": "add"}], JSON_PATCH, 422),
        ([{"op": "add", "path": 5, "value": 1}], JSON_PATCH, 422),
        ([{"op": "remove", "path": "/nope"}], JSON_PATCH, 422),
        ([{"op": "add", "path": "/metadata/name/x", "value": 1}], JSON_PATCH, 422),
        ([{"op": "replace", "path": "/spec/containers/x", "value": 1}], JSON_PATCH, 422),
        ([{"op": "test", "path": "/metadata/name", "value": "q"}], JSON_PATCH, 422),
    ],
)
def test_a_patch_that_does_not_fit_is_refused(patch: Any, how: str, code: int) -> None:
    with pytest.raises(Refused) as refused:
        patched(POD, pod(), patch, how)
    assert refused.value.code == code
