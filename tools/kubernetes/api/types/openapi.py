"""OpenAPI documents derived from the schema. kubectl reads them before it validates or explains.

For version 3 there is one document for each group version and an index of them, as Kubernetes
publishes them, without descriptions. Version 2 is made from them in openapi_version_2.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from .catalog import CURRENT_CATALOG, Catalog
from .resources import Kind
from .schema import Shape

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_NAMED: dict[str, tuple[str, dict[str, Any]]] = {  # scalars that have their own component
    "quantity": (_QUANTITY, {"oneOf": [{"type": "string"}, {"type": "number"}]}),
    "intstr": (
        _INT_OR_STRING,
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "time": (f"{_META}.Time", {"type": "string", "format": "date-time"}),
    "microtime": (f"{_META}.MicroTime", {"type": "string", "format": "date-time"}),
    "any": ("io.k8s.apimachinery.pkg.runtime.RawExtension", {"type": "object"}),
}
_SCALARS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
}
_PATCHES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_PLAIN_PATCHES = _PATCHES[:3]  # of custom kinds, which have no strategic merge patch
TITLE = "Kubernetes"

# How a patch merges a field, where that is not by the merge key alone. kubectl counts on it: it
# calls an object "configured" if a field is replaced, or keeps only the keys that a patch names.
_STRATEGIES = {
    ("DeploymentSpec", "strategy"): "retainKeys",
    ("PodDisruptionBudgetSpec", "selector"): "replace",
    ("PodSpec", "volumes"): "merge,retainKeys",
    ("PodSpec", "resourceClaims"): "merge,retainKeys",
    ("PodStatus", "resourceClaimStatuses"): "merge,retainKeys",
}


def document(path: str, catalog: Catalog = CURRENT_CATALOG) -> dict[str, Any] | None:
    """Returns the index at /openapi/v3, or a group version's document below it; otherwise None."""
    return _document(path, catalog) if path.startswith("/openapi/v3") else None


@lru_cache(maxsize=64)
def _document(path: str, catalog: Catalog) -> dict[str, Any] | None:
    served = {_prefix(kind): kind.api_version for kind in catalog.kinds}
    parts = path.strip("/").split("/", maxsplit=2)
    if parts[:2] != ["openapi", "v3"]:
        return None
    if len(parts) == 2:
        return {
            "paths": {prefix: {"serverRelativeURL": f"/openapi/v3/{prefix}"} for prefix in served}
        }
    kinds = [kind for kind in catalog.kinds if _prefix(kind) == parts[2]]
    if not kinds:
        return None
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for kind in kinds:
        if kind.custom is not None:
            if not kind.custom.is_served:
                continue
            reference, name = _custom_reference(kind, catalog, schemas)
        else:
            shape = catalog.types[kind.type_name]
            reference, name = _reference(shape, schemas), _component(shape)
        schemas[name]["x-kubernetes-group-version-kind"] = [_gvk(kind)]
        paths |= _paths(kind, reference)
    return {
        "openapi": "3.0.0",
        "info": {"title": TITLE, "version": catalog.release.version.release},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _custom_reference(
    kind: Kind, catalog: Catalog, schemas: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    """Adds the schema of a custom kind to `schemas`. Returns a reference to it, and its name."""
    from .published_schema import component_of, published_schema

    _reference(catalog.types["ObjectMeta"], schemas)
    name = component_of(kind)
    schemas[name] = published_schema(kind)
    return {"allOf": [{"$ref": f"#/components/schemas/{name}"}]}, name


def _prefix(kind: Kind) -> str:
    return f"apis/{kind.api_version}" if kind.group else f"api/{kind.api_version}"


def _gvk(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _component(shape: Shape) -> str:
    """Names the component of a type: its Go package, with the domain reversed, and its name."""
    group, _, version = shape.api_version.partition("/")
    package = _META if group == "meta" else f"io.k8s.api.{group.partition('.')[0]}.{version}"
    return f"{package}.{shape.name}"


def _reference(shape: Shape, schemas: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a field of this type. Adds the types that it refers to to `schemas`."""
    if shape.item is not None:
        return {"type": "array", "items": _reference(shape.item, schemas)}
    if shape.values is not None:
        return {"type": "object", "additionalProperties": _reference(shape.values, schemas)}
    if shape.fields is None:
        if shape.name not in _NAMED:
            return dict(_SCALARS[shape.name])
        name, schemas[_NAMED[shape.name][0]] = _NAMED[shape.name]
    else:
        name = _component(shape)
        if name not in schemas:
            schemas[name] = {
                "type": "object"
            }  # set before the fields are visited: a type may refer to itself
            schemas[name] |= _object(shape, schemas)
    return {"allOf": [{"$ref": f"#/components/schemas/{name}"}]}


def _object(shape: Shape, schemas: dict[str, Any]) -> dict[str, Any]:
    fields = shape.fields or {}
    properties = {name: _reference(field.shape, schemas) for name, field in fields.items()}
    for name, field in fields.items():
        strategy = _STRATEGIES.get((shape.name, name), "" if field.merge_key is None else "merge")
        if strategy:
            properties[name]["x-kubernetes-patch-strategy"] = strategy
        if field.merge_key not in (None, "*"):
            properties[name]["x-kubernetes-patch-merge-key"] = field.merge_key
    required = [name for name, field in fields.items() if field.required]
    return {"properties": properties, **({"required": required} if required else {})}


def _paths(kind: Kind, reference: dict[str, Any]) -> dict[str, Any]:
    place = f"/{_prefix(kind)}/namespaces/{{namespace}}" if kind.namespaced else f"/{_prefix(kind)}"
    item = f"{place}/{kind.plural}/{{name}}"
    paths = {
        f"{place}/{kind.plural}": {
            "post": _operation(kind, reference, "post", ("application/json",))
        },
        item: _changes(kind, reference),
    }
    return {**paths, f"{item}/status": _changes(kind, reference)} if kind.status else paths


def _changes(kind: Kind, reference: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {"type": "object"}
    return {
        "put": _operation(kind, reference, "put", ("application/json",)),
        "patch": _operation(
            kind, patch, "patch", _PATCHES if kind.custom is None else _PLAIN_PATCHES
        ),
    }


def _operation(
    kind: Kind, body: dict[str, Any], action: str, content: tuple[str, ...]
) -> dict[str, Any]:
    queries = (
        "dryRun",
        "fieldManager",
        "fieldValidation",
        *(("force",) if action == "patch" else ()),
    )
    return {
        "parameters": [
            {
                "name": name,
                "in": "query",
                "schema": {"type": "boolean" if name == "force" else "string"},
            }
            for name in queries
        ],
        "requestBody": {"required": True, "content": {form: {"schema": body} for form in content}},
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(kind),
    }
