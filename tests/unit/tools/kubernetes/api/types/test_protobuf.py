"""Protobuf bodies: the wire format, Kubernetes' types, the envelope, and refusals."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.protobuf import MAGIC, decoded
from berth.tools.kubernetes.api.types.resources import KINDS
from berth.tools.kubernetes.api.types.schema import (
    TYPES,
    Field,
    Findings,
    Shape,
    unknown_and_mistyped,
)

VARINT, FIXED64, BYTES, GROUP, GROUP_END, FIXED32 = range(6)

# kubectl 1.32: create deployment web --image=nginx --replicas=2 --port=80
DEPLOYMENT = bytes.fromhex(
    "6b3873000a150a07617070732f7631120a4465706c6f796d656e7412b8010a1f0a0377656212001a0022002a003200380042005a0a0a036170"
    "7012037765621286010802120c0a0a0a0361707012037765621a6c0a1c0a0012001a0022002a003200380042005a0a0a036170701203776562"
    "124c122e0a056e67696e7812056e67696e782a00320a0a001000185022002a0042006a007200800100880100900100a201001a00320042004a"
    "0052005800600068008201008a01009a0100c2010022020a00280038001a0c0800100018002000280038001a002200"
)
# kubectl 1.32: create pdb p --selector=app=web --min-available=50%
BUDGET = bytes.fromhex(
    "6b3873000a200a09706f6c6963792f76311213506f6444697372757074696f6e427564676574123a0a110a017012001a0022002a0032003800"
    "420012190a09080110001a03353025120c0a0a0a0361707012037765621a0a080018002000280030001a002200"
)


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    encoded = b""
    while value >= 0x80:
        encoded += bytes((value & 0x7F | 0x80,))
        value >>= 7
    return encoded + bytes((value,))


def tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def put(number: int, value: int | bytes | str) -> bytes:
    """Encodes a field: an integer as a varint, other values with their length."""
    if isinstance(value, int):
        return tag(number, VARINT) + varint(value)
    octets = value.encode() if isinstance(value, str) else value
    return tag(number, BYTES) + varint(len(octets)) + octets


def body(kind: str, message: bytes, api_version: str = "v1") -> bytes:
    return (
        MAGIC
        + put(1, put(1, api_version) + put(2, kind))
        + put(2, message)
        + put(3, "")
        + put(4, "")
    )


def read(kind: str, message: bytes, api_version: str = "v1") -> dict[str, Any]:
    """Returns the decoded message without its kind."""
    document = decoded(body(kind, message, api_version))
    assert (document.pop("kind"), document.pop("apiVersion")) == (kind, api_version)
    return document


def pod_spec(message: bytes) -> Any:
    return read("Pod", put(2, message))["spec"]


def test_a_deployment_that_kubectl_sent() -> None:
    labels = {"app": "web"}
    ports = [{"containerPort": 80}]
    container = {"name": "nginx", "image": "nginx", "ports": ports, "resources": {}}
    assert decoded(DEPLOYMENT) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            "strategy": {},
        },
        "status": {},
    }


def test_a_disruption_budget_that_kubectl_sent() -> None:
    zeros = dict.fromkeys(
        ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0
    )
    assert decoded(BUDGET) == {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "p"},
        "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
        "status": zeros,
    }


def test_delete_options_may_have_the_version_of_any_group() -> None:
    message = put(1, 0) + put(2, put(1, "u")) + put(3, 0) + put(4, "Orphan") + put(5, "All")
    expected = {
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u"},
        "orphanDependents": False,
        "propagationPolicy": "Orphan",
        "dryRun": ["All"],
    }
    for api_version in ("v1", "apps/v1", "policy/v1"):
        assert read("DeleteOptions", message, api_version) == expected
    eviction = put(1, put(1, "p")) + put(2, put(1, 3))
    assert read("Eviction", eviction, "policy/v1") == {
        "metadata": {"name": "p"},
        "deleteOptions": {"gracePeriodSeconds": 3},
    }


def test_zeros_are_omitted_except_where_they_are_meaningful() -> None:
    message = (
        put(3, "")
        + put(11, 0)
        + put(25, 0)
        + put(21, 0)
        + put(31, "")
        + put(22, put(1, "") + put(5, 0))
    )
    assert pod_spec(message) == {
        "priority": 0,
        "automountServiceAccountToken": False,
        "preemptionPolicy": "",
        "tolerations": [{"tolerationSeconds": 0}],
    }
    assert pod_spec(put(2, put(1, ""))) == {"containers": [{"name": ""}]}


def test_integers_are_twos_complement() -> None:
    assert pod_spec(put(25, -5) + put(4, -1)) == {
        "priority": -5,
        "terminationGracePeriodSeconds": -1,
    }
    assert pod_spec(put(25, 0xFFFFFFFB)) == {"priority": -5}
    assert pod_spec(put(4, 1 << 62)) == {"terminationGracePeriodSeconds": 1 << 62}


def test_lists_of_numbers_may_be_packed() -> None:
    one_by_one = put(4, 1) + put(4, 300)
    packed = put(4, varint(1) + varint(300))
    for groups in (one_by_one, packed):
        assert pod_spec(put(14, groups)) == {"securityContext": {"supplementalGroups": [1, 300]}}
    exit_codes = put(11, put(1, put(2, put(3, varint(1) + varint(2)))))
    assert read("Job", put(2, exit_codes), "batch/v1") == {
        "spec": {"podFailurePolicy": {"rules": [{"onExitCodes": {"values": [1, 2]}}]}}
    }


def test_a_repeated_field_is_merged_or_replaced() -> None:
    spec = put(2, put(10, "a") + put(7, put(1, "k") + put(2, "v")) + put(14, put(2, 1)))
    again = put(
        2,
        put(10, "b")
        + put(7, put(1, "l") + put(2, "w"))
        + put(14, put(6, 2))
        + put(19, "s")
        + put(19, ""),
    )
    assert read("Pod", spec + again) == {
        "spec": {
            "nodeName": "b",
            "nodeSelector": {"k": "v", "l": "w"},
            "securityContext": {"runAsUser": 1, "runAsGroup": 2},
        }
    }


def test_the_fields_of_messages_that_json_omits_move_to_the_enclosing_message() -> None:
    probe = put(1, put(2, put(1, "/") + put(2, put(2, 80)))) + put(4, 5)
    assert pod_spec(put(34, put(1, put(1, "d") + put(10, probe)) + put(2, "c"))) == {
        "ephemeralContainers": [
            {
                "name": "d",
                "livenessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 5},
                "targetContainerName": "c",
            }
        ]
    }
    assert pod_spec(put(1, put(1, "v") + put(2, put(19, put(1, put(1, "c")))))) == {
        "volumes": [{"name": "v", "configMap": {"name": "c"}}]
    }


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (put(1, 0) + put(2, 8080) + put(3, ""), 8080),
        (put(1, 1) + put(2, 0) + put(3, "web"), "web"),
        (put(2, -1), -1),
    ],
)
def test_ports_are_numbers_or_names(message: bytes, expected: int | str) -> None:
    service = read("Service", put(2, put(1, put(3, 80) + put(4, message))))
    assert service == {"spec": {"ports": [{"port": 80, "targetPort": expected}]}}


def test_an_empty_port_is_absent() -> None:
    assert read(
        "Service", put(2, put(1, put(3, 80) + put(4, put(1, 0) + put(2, 0) + put(3, ""))))
    ) == {"spec": {"ports": [{"port": 80}]}}


@pytest.mark.parametrize(
    ("seconds", "nanos", "time", "micro"),
    [
        (0, 0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"),
        (1767323045, 123456789, "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456Z"),
        (-62135596800, 0, "0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_times(seconds: int, nanos: int, time: str, micro: str) -> None:
    message = put(1, seconds) + put(2, nanos)
    assert read("Pod", put(1, put(8, message))) == {"metadata": {"creationTimestamp": time}}
    lease = read("Lease", put(2, put(4, message)), "coordination.k8s.io/v1")
    assert lease == {"spec": {"renewTime": micro}}


def test_the_zero_time_is_absent() -> None:
    assert read("Pod", put(1, put(1, "a") + put(8, b"") + put(9, b""))) == {
        "metadata": {"name": "a"}
    }


def test_quantities_bytes_and_raw_json() -> None:
    quantity = put(1, "cpu") + put(2, put(1, "100m"))
    assert pod_spec(put(32, quantity)) == {"overhead": {"cpu": "100m"}}
    assert read("Secret", put(2, put(1, "k") + put(2, b"\x00\xff"))) == {"data": {"k": "AP8="}}
    managed = put(1, put(17, put(1, "kubectl") + put(7, put(1, '{"f:spec":{"f:x":{}}}'))))
    assert read("Pod", managed) == {
        "metadata": {"managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:x": {}}}}]}
    }


def test_map_entries_may_omit_empty_keys_and_values() -> None:
    assert read("ConfigMap", put(2, put(1, "k")) + put(2, b"") + put(3, put(1, "b"))) == {
        "data": {"k": "", "": ""},
        "binaryData": {"b": ""},
    }
    assert pod_spec(put(32, put(1, "cpu"))) == {"overhead": {"cpu": "0"}}


def test_unknown_fields_of_every_wire_type_are_skipped() -> None:
    group = (
        tag(900, GROUP)
        + put(1, "x")
        + tag(7, GROUP)
        + tag(7, GROUP_END)
        + put(10, "no")
        + tag(900, GROUP_END)
    )
    unknown = (
        put(901, 5)
        + put(902, b"\xff")
        + tag(903, FIXED64)
        + b"8" * 8
        + tag(904, FIXED32)
        + b"4" * 4
    )
    assert pod_spec(unknown + put(10, "a") + group + put(19, "s")) == {
        "nodeName": "a",
        "schedulerName": "s",
    }


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "begin with"),
        (b'{"kind":"Pod"}', "begin with"),
        (MAGIC, 'no kind "" is registered for version ""'),
        (body("Widget", b""), 'no kind "Widget" is registered for version "v1"'),
        (body("Pod", b"", "apps/v1"), 'no kind "Pod" is registered for version "apps/v1"'),
        (body("PodSpec", b""), 'no kind "PodSpec"'),
        (body("ObjectReference", b""), 'no kind "ObjectReference"'),
        (body("core.ResourceClaim", b""), "no kind"),
        (body("Pod", b"") + put(3, "gzip"), "encoded as b'gzip'"),
        (body("Pod", b"") + put(4, "application/json"), "got b'application/json'"),
        (body("Pod", put(1, b"")[:-1] + b"\x05ab"), "field 1 ends 3 bytes after its message"),
        (body("Pod", b"\x80"), "a number has no end"),
        (body("Pod", tag(1, VARINT) + b"\x80" * 10 + b"\x00"), "a number has no end"),
        (body("Pod", put(1, 5)), "expected wire type 2 for field 1, got 0"),
        (body("Pod", put(2, put(10, 5))), "expected wire type 2 for field 10, got 0"),
        (body("Pod", put(2, put(25, "x"))), "expected wire type 0 for field 25, got 2"),
        (
            body("Pod", put(2, put(32, put(1, "cpu") + put(2, 5)))),
            "expected wire type 2 for field 2, got 0",
        ),
        (body("Pod", b"\x02\x00"), "0 is not a field number"),
        (body("Pod", tag(1 << 29, VARINT) + b"\x00"), "not a field number"),
        (body("Pod", tag(9, 6)), "unexpected wire type 6 of field 9"),
        (body("Pod", tag(9, GROUP)), "the group 9 has no end"),
        (body("Pod", tag(9, GROUP_END)), "unexpected wire type 4 of field 9"),
        (body("Pod", tag(9, GROUP) + tag(8, GROUP_END)), "unexpected wire type 4 of field 8"),
        (body("Pod", tag(900, FIXED64) + b"1234567"), "field 900 ends 1 bytes after"),
        (body("Pod", put(2, put(10, b"\xff"))), "can't decode byte 0xff"),
        (body("Pod", put(1, put(8, put(1, 1 << 60)))), "a time is outside of the years 1 to 9999"),
        (body("Pod", put(1, put(17, put(7, put(1, "{"))))), "Input data was truncated"),
        (body("Pod", put(1, put(17, put(7, put(1, "[" * 100_000))))), "recursion"),
    ],
)
def test_a_malformed_body_is_refused(raw: bytes, why: str) -> None:
    with pytest.raises(RefusedError, match=r"the body cannot be read as protobuf: ") as refused:
        decoded(raw)
    assert why in str(refused.value)
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")


def is_read_or_refused(raw: bytes) -> None:
    try:
        document = decoded(raw)
    except RefusedError:
        return
    json.dumps(document)


NAMES = st.sampled_from([(kind.kind, kind.api_version) for kind in KINDS])
TYPE_OF = {(kind.kind, kind.api_version): kind.type_name for kind in KINDS}


@given(raw=st.binary(max_size=200), name=NAMES)
def test_any_bytes_are_read_or_refused(raw: bytes, name: tuple[str, str]) -> None:
    kind, api_version = name
    for octets in (raw, MAGIC + raw, body(kind, raw, api_version)):
        is_read_or_refused(octets)


@given(
    at=st.integers(len(MAGIC), len(DEPLOYMENT) - 1),
    with_=st.binary(max_size=3),
    cut=st.integers(0, 3),
)
def test_a_damaged_body_is_read_or_refused(at: int, with_: bytes, cut: int) -> None:
    is_read_or_refused(DEPLOYMENT[:at] + with_ + DEPLOYMENT[at + cut :])


ZEROS = ("string", "bool", "int32", "int64", "intstr")
TIMES = st.datetimes()
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
TEXT = st.text("aé\0𝄞", max_size=3)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXT,
    "bool": st.booleans(),
    "int32": INT32,
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
    "intstr": INT32 | TEXT,
    "quantity": st.sampled_from(["0", "1", "100m", "1Gi"]),
    "time": TIMES.map(lambda moment: f"{moment.isoformat(timespec='seconds')}Z"),
    "microtime": TIMES.map(lambda moment: f"{moment.isoformat(timespec='microseconds')}Z"),
    "bytes": st.binary(max_size=5).map(lambda octets: base64.b64encode(octets).decode()),
    "any": st.dictionaries(TEXT, st.integers(0, 5) | st.booleans(), max_size=2),
}


@st.composite
def values(draw: st.DrawFn, shape: Shape) -> Any:
    """Draws a value of a type, in which every object has some of its fields."""
    if shape.item is not None:
        return [draw(values(shape.item)) for _ in range(draw(st.integers(1, 2)))]
    if shape.values is not None:
        return {
            key: draw(values(shape.values)) for key in draw(st.sets(TEXT, min_size=1, max_size=2))
        }
    if shape.fields is None:
        return draw(SCALARS[shape.name])
    numbered = {name: field for name, field in shape.fields.items() if field.numbers}
    document: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(sorted(numbered)), max_size=2, unique=True)):
        value = draw(values(numbered[name].shape))
        if value or numbered[name].shape.name not in ZEROS or numbered[name].keeps_zero:
            document[name] = value
    return document


def field_of(field: Field, value: Any) -> bytes:
    items = (
        value
        if field.shape.item is not None
        else list(value.items())
        if field.shape.values is not None
        else [value]
    )
    encoded = b""
    for item in items:
        octets = put(field.numbers[-1], encode(field.shape.item or field.shape, item))
        for around in reversed(field.numbers[:-1]):
            octets = put(around, octets)
        encoded += octets
    return encoded


def encode(shape: Shape, value: Any) -> int | bytes:
    """Encodes a value for the wire; for a map, encodes one of its entries."""
    if shape.values is not None:
        return put(1, value[0]) + put(2, encode(shape.values, value[1]))
    if shape.item is not None:  # in a map
        return b"".join(put(1, encode(shape.item, item)) for item in value)
    if shape.fields is not None:
        return b"".join(field_of(shape.fields[name], below) for name, below in value.items())
    match shape.name:
        case "string":
            return str(value).encode()
        case "bool" | "int32" | "int64":
            return int(value)
        case "quantity":
            return put(1, value)
        case "intstr":
            return (
                put(1, 1) + put(3, value) if isinstance(value, str) else put(1, 0) + put(2, value)
            )
        case "time" | "microtime":
            since = datetime.fromisoformat(value) - datetime(1970, 1, 1, tzinfo=UTC)
            return put(1, since.days * 86400 + since.seconds) + put(2, since.microseconds * 1000)
        case "bytes":
            return base64.b64decode(value)
        case other:
            assert other == "any"
            return put(1, json.dumps(value))


@given(data=st.data(), name=NAMES)
def test_every_encoded_value_is_decoded(data: st.DataObject, name: tuple[str, str]) -> None:
    kind, api_version = name
    document = data.draw(values(TYPES[TYPE_OF[name]]))
    message = encode(TYPES[TYPE_OF[name]], document)
    assert isinstance(message, bytes)
    assert read(kind, message, api_version) == document
    assert unknown_and_mistyped(TYPE_OF[name], document) == Findings([], "")
