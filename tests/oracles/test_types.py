"""The served types have the fields of Kubernetes 1.36, as lightkube-models makes them from its
OpenAPI description.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import pytest

from berth.tools.kubernetes.api.types.schema import TYPES, Shape

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
    "any": ("FieldsV1", "RawExtension", "JSON", "object"),
}
NAMES = sorted(name for name, shape in TYPES.items() if not shape.api_version.endswith(GONE))


def module_of(shape: Shape) -> ModuleType:
    group, version = ELSEWHERE.get(shape.name, shape.api_version).split("/")
    return importlib.import_module(f"lightkube.models.{group.partition('.')[0]}_{version}")


def fields_of(model: type) -> dict[str, str]:
    """Returns the types of the fields by their names in JSON."""
    fields = {}
    for name, annotation in model.__annotations__.items():
        metadata: Any = getattr(model.__dict__.get(name), "metadata", {})
        plain = annotation.removeprefix("Optional[").removesuffix("]" * ("Optional" in annotation))
        fields[metadata.get("json", name)] = plain
    return fields


def agrees(shape: Shape, annotation: str) -> bool:
    if shape.item is not None:
        inner = annotation.removeprefix("List[").removesuffix("]")
        return inner != annotation and agrees(shape.item, inner)
    if shape.values is not None:
        return annotation == "dict"
    return annotation.rpartition(".")[2] in SCALARS.get(shape.name, (shape.name,))


@pytest.mark.parametrize("name", NAMES)
def test_a_type_has_the_fields_of_kubernetes(name: str) -> None:
    shape = TYPES[name]
    assert shape.fields is not None
    theirs = fields_of(getattr(module_of(shape), shape.name))
    assert shape.fields.keys() == theirs.keys()
    different = {
        field: (each.shape.go, theirs[field])
        for field, each in shape.fields.items()
        if not agrees(each.shape, theirs[field])
    }
    assert not different
