"""The three kinds of patch."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from berth.tools.kubernetes.api.requests.media_types import JSON_PATCH, MERGE, STRATEGIC
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.patch import patched_document

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
        (containers({"name": "c"}), [{"name": "c"}, A, B]),
        (containers({"name": "a", "$patch": "delete"}), [B]),
        (containers({"name": "z", "$patch": "delete"}), [A, B]),
        (containers({"$patch": "replace"}, {"name": "c"}), [{"name": "c"}]),
        (containers({"name": "b", "image": None}), [A, {"name": "b"}]),
        (
            containers(
                {"name": "c"}, **{"$setElementOrder/containers": [{"name": n} for n in "cab"]}
            ),
            [{"name": "c"}, A, B],
        ),
        ({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}, [B, A]),
        (
            containers(
                {"name": "c"}, **{"$setElementOrder/containers": [{"name": "c"}, {"name": "b"}]}
            ),
            [{"name": "c"}, A, B],
        ),
        ({"spec": {"containers": None}}, None),
    ],
)
def test_a_strategic_patch_merges_lists_by_their_key(patch: Any, expected: Any) -> None:
    before = pod()
    frozen = copy.deepcopy(before)
    assert patched_document(POD, before, patch, STRATEGIC)["spec"].get("containers") == expected
    assert before == frozen, "the original document was changed"


def test_a_strategic_patch_follows_directives_in_other_places() -> None:
    document = {
        **pod(),
        "metadata": {"name": "p", "labels": {"l": "1", "m": "2"}, "finalizers": ["f", "g"]},
    }
    patch = {
        "metadata": {
            "$deleteFromPrimitiveList/finalizers": ["f"],
            "finalizers": ["h"],
            "labels": {"l": None},
        }
    }
    metadata = patched_document(POD, document, patch, STRATEGIC)["metadata"]
    assert metadata == {"name": "p", "labels": {"m": "2"}, "finalizers": ["h", "g"]}
    replaced = patched_document(
        POD, document, {"metadata": {"labels": {"$patch": "replace", "n": "3"}}}, STRATEGIC
    )
    assert replaced["metadata"]["labels"] == {"n": "3"}
    gone = patched_document(
        POD, document, {"metadata": {"labels": {"$patch": "delete"}}}, STRATEGIC
    )
    assert "labels" not in gone["metadata"]
    volumes = [{"name": "v", "emptyDir": {}}]
    retained = {
        "volumes": [{"name": "v", "hostPath": {"path": "/"}, "$retainKeys": ["name", "hostPath"]}]
    }
    after = patched_document(POD, pod(volumes=volumes), {"spec": retained}, STRATEGIC)
    assert after["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/"}}]
    atomic = patched_document(
        POD, pod(tolerations=[{"key": "a"}]), {"spec": {"tolerations": [{"key": "b"}]}}, STRATEGIC
    )
    assert atomic["spec"]["tolerations"] == [{"key": "b"}]


def test_a_merge_patch_replaces_lists_and_removes_nulls() -> None:
    after = patched_document(
        POD,
        pod(),
        {"metadata": {"labels": {"l": None, "m": "2"}}, "spec": {"containers": [B]}},
        MERGE,
    )
    assert after == {"metadata": {"name": "p", "labels": {"m": "2"}}, "spec": {"containers": [B]}}


def test_a_merge_patch_leaves_no_null_in_objects() -> None:
    config = [None, {"a": None, "b": [{"c": None, "d": 1}]}]
    after = patched_document(POD, pod(), {"status": {"config": config}, "spec": None}, MERGE)
    assert after["status"] == {"config": [None, {"b": [{"d": 1}]}]}


def test_a_json_patch_applies_its_operations_in_order() -> None:
    operations = [
        {"op": "test", "path": "/metadata/labels/l", "value": "1"},
        {"op": "add", "path": "/metadata/labels/a~1b", "value": "2"},
        {"op": "remove", "path": "/spec/containers/0"},
    ]
    before = pod()
    after = patched_document(POD, before, operations, JSON_PATCH)
    assert (after["metadata"]["labels"], after["spec"]["containers"]) == (
        {"l": "1", "a/b": "2"},
        [B],
    )
    assert before == pod()


@pytest.mark.parametrize(
    ("patch", "how", "code"),
    [
        ({}, "text/plain", 415),
        ([], MERGE, 400),
        (None, MERGE, 400),
        ([], STRATEGIC, 400),
        (containers("a"), STRATEGIC, 422),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": "f"}}, STRATEGIC, 400),
        ({"spec": {"$setElementOrder/containers": 5}}, STRATEGIC, 400),
        (containers({"image": "i"}), STRATEGIC, 422),
        ({}, JSON_PATCH, 400),
        (["x"], JSON_PATCH, 400),
        ([{"op": "add"}], JSON_PATCH, 422),
        ([{"op": "add", "path": 5, "value": 1}], JSON_PATCH, 400),
        ([{"op": "remove", "path": "/nope"}], JSON_PATCH, 422),
        ([{"op": "add", "path": "/metadata/name/x", "value": 1}], JSON_PATCH, 422),
        ([{"op": "replace", "path": "/spec/containers/x", "value": 1}], JSON_PATCH, 422),
        ([{"op": "test", "path": "/metadata/name", "value": "q"}], JSON_PATCH, 422),
    ],
)
def test_a_patch_that_does_not_fit_is_refused(patch: Any, how: str, code: int) -> None:
    with pytest.raises(RefusedError) as refused:
        patched_document(POD, pod(), patch, how)
    assert refused.value.code == code


def finalizers(*names: str) -> dict[str, Any]:
    return {"metadata": {"name": "p", "finalizers": list(names)}, "spec": {}}


@pytest.mark.parametrize(
    ("patch", "code", "why"),
    [
        ({"finalizers": ["c"], "$setElementOrder/finalizers": ["a"]}, 422, "The order in patch"),
        ({"$deleteFromPrimitiveList/generation": [1]}, 422, "rejected our request"),
        ({"$deleteFromPrimitiveList/finalizers": 1}, 400, "format of primitive list"),
        ({"$setElementOrder/finalizers": {}}, 400, "format of setElementOrder list"),
        ({"$setElementOrder/generation": [1]}, 422, "rejected our request"),
        ({"$retainKeys": ["name"], "generation": 2}, 400, "format of retainKeys"),
    ],
)
def test_a_directive_that_does_not_fit_is_refused(
    patch: dict[str, Any], code: int, why: str
) -> None:
    document = finalizers("a", "b")
    document["metadata"]["generation"] = 1
    with pytest.raises(RefusedError, match=why) as refused:
        patched_document(POD, document, {"metadata": patch}, STRATEGIC)
    assert refused.value.code == code


def test_a_list_may_have_items_that_cannot_be_hashed() -> None:
    odd = {"metadata": {"finalizers": [["a"], {"b": 1}, "c"]}}
    after = patched_document(POD, finalizers("c"), odd, STRATEGIC)
    assert after["metadata"]["finalizers"] == [["a"], {"b": 1}, "c"]
    after = patched_document(
        POD, after, {"metadata": {"$deleteFromPrimitiveList/finalizers": [["a"]]}}, STRATEGIC
    )
    assert after["metadata"]["finalizers"] == [{"b": 1}, "c"]


@pytest.mark.full("long")
def test_long_lists_are_merged_in_one_pass() -> None:
    """Searching one list for each item of the other would take minutes for a megabyte."""
    count = 20_000
    old = finalizers(*(f"a/{i}" for i in range(count)))
    new = [f"b/{i}" for i in range(count)]
    after = patched_document(POD, old, {"metadata": {"finalizers": new}}, STRATEGIC)
    assert len(after["metadata"]["finalizers"]) == 2 * count
    backwards = new[::-1]
    order = {"metadata": {"finalizers": backwards, "$setElementOrder/finalizers": backwards}}
    assert patched_document(POD, old, order, STRATEGIC)["metadata"]["finalizers"][0] == backwards[0]
    unwanted = {"metadata": {"$deleteFromPrimitiveList/finalizers": new}}
    assert patched_document(POD, after, unwanted, STRATEGIC) == old
    named = [{"name": f"c{i}", "image": "i"} for i in range(count)]
    many = patched_document(POD, pod(), containers(*named), STRATEGIC)
    again = patched_document(POD, many, containers(*reversed(named)), STRATEGIC)
    assert len(again["spec"]["containers"]) == len(many["spec"]["containers"])
    fewer = patched_document(
        POD, many, containers(*({**item, "$patch": "delete"} for item in named)), STRATEGIC
    )
    assert fewer["spec"]["containers"] == [A, B]


def test_all_items_of_a_key_are_deleted_together() -> None:
    """Ports are merged by number, and two protocols may share a number."""
    ports = [
        {"containerPort": 53, "protocol": "TCP"},
        {"containerPort": 53, "protocol": "UDP"},
        {"containerPort": 80},
    ]
    document = {"metadata": {}, "spec": {"containers": [{"name": "a", "ports": ports}]}}
    gone = containers({"name": "a", "ports": [{"containerPort": 53, "$patch": "delete"}]})
    after = patched_document(POD, document, gone, STRATEGIC)
    assert after["spec"]["containers"][0]["ports"] == [{"containerPort": 80}]


@pytest.mark.full("long")
def test_a_json_patch_does_not_grow_out_of_proportion() -> None:
    copies: list[dict[str, Any]] = [{"op": "add", "path": "/metadata/x", "value": {}}]
    copies += [{"op": "copy", "from": "/metadata", "path": f"/metadata/x/{i}"} for i in range(60)]
    with pytest.raises(RefusedError, match="exceeding the limit 3145728") as refused:
        patched_document(POD, pod(), copies, JSON_PATCH)
    assert refused.value.code == 413
    with pytest.raises(
        RefusedError, match="maximum operations in a JSON patch is 10000, got 10001"
    ) as refused:
        patched_document(POD, pod(), copies[:1] * 10_001, JSON_PATCH)
    assert refused.value.code == 413
    few = patched_document(POD, pod(), copies[:3], JSON_PATCH)
    assert few["metadata"]["x"]["1"]["x"]["0"] == {**pod()["metadata"], "x": {}}
