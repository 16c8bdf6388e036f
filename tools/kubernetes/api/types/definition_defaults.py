"""Defaults of CustomResourceDefinitions."""

from __future__ import annotations

from typing import Any

from .api_documents import Document


def fill_definition(definition: Document) -> None:
    """Fills in the names and the conversion of a definition, and the status that its strategy
    writes.
    """
    spec: Document = {**(definition.get("spec") or {})}
    names = {**(spec.get("names") or {})}
    kind = names.get("kind") or ""
    if kind:
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    spec["names"] = names
    spec.setdefault("conversion", {"strategy": "None"})
    definition["spec"] = spec
    status: Document = {**(definition.get("status") or {})}
    stored: list[Any] = [*(status.get("storedVersions") or ())]
    wanted = [each.get("name") for each in spec.get("versions") or () if each.get("storage")][:1]
    status["storedVersions"] = stored + [name for name in wanted if name not in stored]
    status.setdefault("conditions", None)
    status.setdefault("acceptedNames", {"plural": "", "kind": ""})
    definition["status"] = status


def fill_port(reference: Document) -> None:
    reference.setdefault("port", 443)
