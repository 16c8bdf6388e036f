"""The JSON Schema of answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from .reasons.reason_table import BY_CODE


def answer_schema(title: str, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the JSON Schema of these types, each under its name, as JSON would be read."""
    references, components = msgspec.json.schema_components(
        kinds.values(), ref_template="#/$defs/{name}"
    )
    for component in components.values():
        if "description" in component:
            component["description"] = " ".join(component["description"].split())
    if "Cause" in components:
        components["Cause"]["properties"]["code"]["examples"] = list(BY_CODE)
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "properties": dict(zip(kinds, references, strict=True)),
        "$defs": components,
    }
    read: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema))
    return read
