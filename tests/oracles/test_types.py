"""The served types have the fields of Kubernetes 1.36 and 1.37, as lightkube-models makes them from
their OpenAPI descriptions. Those of 1.37 are recorded: record_types.py.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from berth.tools.kubernetes.api.types.releases import RELEASES
from berth.tools.kubernetes.api.types.schema import Shape
from tests.oracles.record_types import module_of, plain, recorded, served

pytestmark = pytest.mark.full("asks another program")

GONE = "v1alpha2"  # of resource.k8s.io, which 1.36 has not any more
# The rules are in resource.k8s.io/v1 since 1.37, with the fields that they have in 1.36's v1beta2.
ELSEWHERE = {
    "FieldSelectorRequirement": "meta/v1",
    **dict.fromkeys(
        ("DeviceTaintRule", "DeviceTaintRuleSpec", "DeviceTaintRuleStatus", "DeviceTaintSelector"),
        "resource/v1beta2",
    ),
}
SCALARS = {
    "string": ("str",),
    "bytes": ("str",),
    "bool": ("bool",),
    "int32": ("int",),
    "int64": ("int",),
    "float64": ("float",),
    "quantity": ("Quantity",),
    "intstr": ("IntOrString",),
    "time": ("Time",),
    "microtime": ("MicroTime",),
    "any": (
        "FieldsV1",
        "RawExtension",
        "JSON",
        "object",
        "JSONSchemaPropsOrArray",
        "JSONSchemaPropsOrBool",
        "JSONSchemaPropsOrStringArray",
        "CustomResourceSubresourceStatus",
    ),
}
# Fields of alpha gates that came so late that no source with their numbers in protobuf is at hand.
LATE = {
    ("ExactDeviceRequest", "derivedAttributes"),
    ("DeviceSubRequest", "derivedAttributes"),
    ("v1beta1.DeviceRequest", "derivedAttributes"),
    ("NodeSystemInfo", "runningInUserNamespace"),
}
# The model names its fields as Python does, and types most of them by unions; no document of
# OpenAPI has metadata alone as a type.
UNNAMED = {"JSONSchemaProps", "PartialObjectMetadata"}
RECORDED = recorded("1.37")


def names(version: str) -> list[str]:
    shapes = {id(shape) for shape in served(version) if not shape.api_version.endswith(GONE)}
    types = RELEASES[version].types.items()
    return sorted(name for name, shape in types if id(shape) in shapes and name not in UNNAMED)


def fields_of(model: type) -> dict[str, str]:
    """Returns the types of the fields by their names in JSON."""
    fields = {}
    for name, annotation in model.__annotations__.items():
        metadata: Any = getattr(model.__dict__.get(name), "metadata", {})
        fields[metadata.get("json", name.rstrip("_"))] = plain(annotation)  # from_, except_
    return fields


def agrees(shape: Shape, annotation: str) -> bool:
    if shape.item is not None:
        inner = annotation.removeprefix("List[").removesuffix("]")
        return inner != annotation and agrees(shape.item, inner)
    if shape.values is not None:
        return annotation == "dict"
    return annotation.rpartition(".")[2] in SCALARS.get(shape.name, (shape.name,))


@pytest.mark.parametrize("name", names("1.36"))
def test_a_type_has_the_fields_of_1_36(name: str) -> None:
    shape = RELEASES["1.36"].types[name]
    module = importlib.import_module(f"lightkube.models.{module_of(shape, ELSEWHERE)}")
    compare(shape, fields_of(getattr(module, shape.name)))


@pytest.mark.parametrize("name", names("1.37"))
def test_a_type_has_the_fields_of_1_37(name: str) -> None:
    shape = RELEASES["1.37"].types[name]
    theirs = RECORDED[f"{module_of(shape, {'FieldSelectorRequirement': 'meta/v1'})}.{shape.name}"]
    late = {field for type_, field in LATE if type_ in (name, shape.name)}
    assert late <= theirs.keys()
    compare(shape, {field: of for field, of in theirs.items() if field not in late})


def compare(shape: Shape, theirs: dict[str, str]) -> None:
    assert shape.fields is not None
    assert shape.fields.keys() == theirs.keys()
    different = {
        field: (each.shape.go, theirs[field])
        for field, each in shape.fields.items()
        if not agrees(each.shape, theirs[field])
    }
    assert not different
