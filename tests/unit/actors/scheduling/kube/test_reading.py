"""Null means absent for every field of every kind. An unreadable value is named by its path, and
the rest is salvaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling import kube
from berth.actors.scheduling.kube.coordination import Lease
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.kinds import BY_KIND, decode
from berth.actors.scheduling.kube.meta import ListMeta, Status
from berth.actors.scheduling.kube.policy import PodDisruptionBudget
from berth.actors.scheduling.kube.reading import UNREADABLE, Reader, UnreadableError
from tests.kit.documents import thing
from tests.kit.examples import examples
from tests.kit.zero_values import other_defaults

KINDS = (*(kind.type for kind in BY_KIND.values()), Lease, ListMeta, Status)
TEXTS = st.sampled_from(["", "1", "2Gi"])


def documents(kind: Any, *, null: bool) -> st.SearchStrategy[Any]:
    """Values of a type; with `null`, some fields of structs are null."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        there = [member for member in arguments if member is not type(None)]
        return (
            st.sampled_from(["100m", 2, "1Gi"])
            if len(there) > 1
            else documents(there[0], null=null)
        )
    if origin is Annotated:
        if arguments[0] is str:
            return st.just("2026-01-01T00:00:00Z")
        return documents(arguments[0], null=null)
    if origin is tuple:
        return st.lists(documents(arguments[0], null=null), max_size=2)
    if origin is Mapping:
        return st.dictionaries(
            st.sampled_from("ab"), documents(arguments[1], null=null), max_size=2
        )
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = {f.encode_name: documents(f.type, null=null) for f in msgspec.structs.fields(kind)}
        if null:
            fields = {name: st.none() | value for name, value in fields.items()}
        return st.fixed_dictionaries({}, optional=fields)
    return {str: TEXTS, int: st.integers(0, 9), bool: st.booleans(), Any: TEXTS}[kind]


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(there) for name, there in value.items() if there is not None}
    return [without_nulls(there) for there in value] if isinstance(value, list) else value


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@examples(0.2)
@given(data=st.data())
def test_null_is_absent_at_every_depth(kind: type[Any], data: st.DataObject) -> None:
    document = data.draw(documents(kind, null=True))
    reader = Reader(kind)
    plain = msgspec.json.decode(
        msgspec.json.encode(without_nulls(document)), type=kind, strict=False
    )
    assert reader.read(msgspec.json.encode(document)) == plain
    assert reader.convert(document) == plain


def test_every_field_of_every_kind_may_be_null() -> None:
    def fields(kind: Any) -> None:
        if get_origin(kind) is not None:
            for argument in get_args(kind):
                fields(argument)
        elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            for field in msgspec.structs.fields(kind):
                raw = msgspec.json.encode({field.encode_name: None})
                assert Reader(kind).read(raw) == kind(), (kind, field.name)
                fields(field.type)

    for kind in KINDS:
        fields(kind)


def test_a_null_in_a_list_or_a_map_is_the_zero_value_as_in_go() -> None:
    node = Reader(Node).read(
        b'{"metadata": {"name": "n", "labels": {"a": null}}, "spec": {"taints": [null]},'
        b' "status": {"images": [{"names": [null]}, null], "allocatable": {"cpu": null}}}'
    )
    assert node.metadata.labels == {"a": ""}
    assert [taint.key for taint in node.spec.taints] == [""]
    assert [image.names for image in node.status.images] == [("",), ()]
    assert node.status.allocatable == {"cpu": 0}
    budget = Reader(PodDisruptionBudget).read(
        b'{"spec": null, "status": {"disruptedPods": {"p": null}}}'
    )
    assert budget.status.disrupted_pods == {"p": None}


UNREADABLES: list[tuple[type[Any], dict[str, Any], str]] = [
    (
        Node,
        {"status": {"allocatable": {"cpu": "lots"}}},
        "status.allocatable[cpu]: expected a quantity",
    ),
    (Node, {"status": {"capacity": {"cpu": ""}}}, "status.capacity[cpu]: expected a quantity"),
    (
        Node,
        {"status": {"allocatable": {"cpu": "9" * 5000}}},
        "status.allocatable[cpu]: expected a quantity of at most",
    ),
    (Node, {"status": {"images": [{"sizeBytes": 1 << 63}]}}, "$.status.images[0].sizeBytes"),
    (Node, {"spec": {"taints": "none"}}, "$.spec.taints"),
    (Node, {"metadata": {"labels": {"a": 1}}}, "$.metadata.labels"),
    (Pod, {"spec": {"priority": 1 << 31}}, "$.spec.priority"),
    (
        Pod,
        {"spec": {"containers": [{"ports": [{"hostPort": 1 << 31}]}]}},
        "$.spec.containers[0].ports[0].hostPort",
    ),
    (
        Pod,
        {"spec": {"containers": [{"resources": {"requests": {"a": 1 << 70}}}]}},
        "resources.requests",
    ),
    (
        Pod,
        {"spec": {"initContainers": [{}, {"resources": {"limits": {"memory": "1GiB"}}}]}},
        "spec.initContainers[1].resources.limits[memory]: expected a quantity",
    ),
    (Pod, {"status": {"startTime": "yesterday"}}, "status.startTime"),
    (Pod, {"status": {"startTime": ""}}, "status.startTime"),
    (Pod, {"status": {"startTime": "2026-02-30T00:00:00Z"}}, "status.startTime"),
    (
        Pod,
        {"status": {"startTime": "2026-02-20T00:00:00"}},
        "status.startTime: expected a time with its offset",
    ),
    (
        Pod,
        {"status": {"containerStatuses": [{"allocatedResources": {"cpu": "x"}}]}},
        "allocatedResources[cpu]",
    ),
]


@pytest.mark.parametrize(("kind", "document", "told"), UNREADABLES)
def test_an_unreadable_value_is_named_and_the_rest_is_salvaged(
    kind: type[Any], document: dict[str, Any], told: str
) -> None:
    metadata = {"name": "one", "uid": "u", **document.get("metadata", {})}
    raw = msgspec.json.encode({**document, "metadata": metadata})
    reader = Reader(kind)
    with pytest.raises(msgspec.ValidationError) as problem:
        reader.read(raw)
    assert told in str(problem.value)
    with pytest.raises(msgspec.ValidationError):
        reader.convert(msgspec.json.decode(raw))
    rest = reader.readable_part(raw)
    assert rest is not None
    assert (rest.metadata.name, rest.metadata.uid) == ("one", "u")
    reader.check(rest)


def test_all_readable_values_are_salvaged() -> None:
    rest = Reader(Pod).readable_part(
        b'{"metadata": {"name": "p", "uid": 7, "labels": {"a": "b", "c": 1}}, "spec": '
        b'{"nodeName": "n", "containers":'
        b' [{"resources": {"requests": {"cpu": "x", "memory": "1Gi"}}}, 7], '
        b'"tolerations": {}, "priority": 1e30}}'
    )
    assert rest is not None
    assert rest.metadata.labels == {"a": "b"}
    assert (rest.metadata.uid, rest.spec.node_name, rest.spec.priority) == ("", "n", None)
    assert [container.resources.requests for container in rest.spec.containers] == [
        {"memory": "1Gi"}
    ]
    for nothing in (b"7", b"[", b"", b'{"a": ' + b"[" * 100_000):
        assert Reader(Pod).readable_part(nothing) is None
    broken = Reader(Pod).readable_part(b'{"metadata": {"name": "p", "annotations": {"a": "\xff"}}}')
    assert broken is not None
    assert broken.metadata.name == "p"


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@examples(0.2)
@given(data=st.data())
def test_any_value_of_a_field_is_read_or_refused(kind: type[Any], data: st.DataObject) -> None:
    fields = {
        f.encode_name: documents(f.type, null=True) | ANYTHING for f in msgspec.structs.fields(kind)
    }
    raw = msgspec.json.encode(data.draw(st.fixed_dictionaries({}, optional=fields)))
    try:
        Reader(kind).read(raw)
    except UNREADABLE:
        rest = Reader(kind).readable_part(raw)
        assert rest is not None
        Reader(kind).check(rest)


def test_a_document_and_its_json_are_read_alike() -> None:
    node = decode(thing("Node", "n", status={"images": [{"names": None}]}))
    assert isinstance(node, Node)
    assert node.status.images[0].names == ()
    with pytest.raises(UnreadableError, match="allocatable"):
        decode({"apiVersion": "v1", "kind": "Node", "status": {"allocatable": {"cpu": "x"}}})


def test_a_field_that_is_left_out_has_the_zero_value_of_go() -> None:
    assert other_defaults(kube) == {}
