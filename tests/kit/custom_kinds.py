"""Definitions of custom kinds, and their objects: shirts, with a colour and a size."""

from __future__ import annotations

from typing import Any

from berth.tools.kubernetes.api.store import DEFINITIONS, Store
from berth.tools.kubernetes.api.types.resources import Kind
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document

GROUP = "shop.example.com"
SHIRTS = f"/apis/{GROUP}/v1/namespaces/default/shirts"


def schema_of(spec: Document, **more: Any) -> Document:
    """Returns the schema of an object with this schema of its spec."""
    fields = {"spec": {"type": "object", **spec}, **more.pop("fields", {})}
    return {"type": "object", "properties": fields, **more}


def version_of(schema: Document, name: str = "v1", **more: Any) -> Document:
    """Returns a version of a definition; the first, v1, is the stored one."""
    stored = more.pop("storage", name == "v1")
    return {
        "name": name,
        "served": True,
        "storage": stored,
        "schema": {"openAPIV3Schema": schema},
        **more,
    }


def definition(
    *versions: Document, plural: str = "shirts", kind: str = "Shirt", **spec: Any
) -> Document:
    """Returns a definition; without versions, one that keeps every field of a spec."""
    names = {"plural": plural, "kind": kind, **spec.pop("names", {})}
    kept = {"x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": names,
            "versions": [*versions] or [version_of(schema_of(kept))],
            **spec,
        },
    }


def shirt(name: str = "blue", version: str = "v1", **parts: Any) -> Document:
    """Returns an object; what is no field of an object goes into its spec."""
    metadata = {"name": name, **parts.pop("metadata", {})}
    whole: Document = {field: parts.pop(field) for field in ("spec", "status") if field in parts}
    head = {"apiVersion": f"{GROUP}/{version}", "kind": "Shirt", "metadata": metadata}
    return {**head, **({"spec": parts} if parts else {}), **whole}


def define(store: Store, document: Document) -> None:
    """Creates a definition."""
    Api(store).create(DEFINITIONS, "", document)


def kind_of(store: Store, version: str = "v1", kind: str = "Shirt") -> Kind:
    found = store.catalog.named(f"{GROUP}/{version}", kind)
    assert found is not None
    return found
