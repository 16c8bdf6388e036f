"""How fields are merged, against what Kubernetes' OpenAPI document of 1.36.2 says."""

from __future__ import annotations

import json
from pathlib import Path

from berth.tools.kubernetes.api.ownership.merge_types import MergeType, type_of
from berth.tools.kubernetes.api.types.schema import types_of

# `types` are those that the document has. `fields` says by type, or by type and field: atomic,
# granular, set, or the keys of a list, joined by +. Lists that it does not name are atomic; objects
# and maps are not.
DOCUMENT = json.loads(Path(__file__).with_name("merge_facts.json").read_text())
FACTS = DOCUMENT["fields"]


def described(of: MergeType) -> str:
    if of.item is not None and not of.is_map:
        return "atomic" if of.keys is None else "+".join(of.keys) or "set"
    return "atomic" if of.is_atomic else "granular"


def test_every_field_is_merged_as_the_openapi_document_says() -> None:
    found, types = {}, types_of(36)
    for name, shape in types.items():
        if name not in DOCUMENT["types"]:
            continue
        of = type_of(shape)
        if name in FACTS or of.is_atomic:
            found[name] = described(of)
        for field, below in of.fields.items():
            key = f"{name}.{field}"
            if key in FACTS or (below.item is not None and below.keys is not None):
                found[key] = described(below)
    assert {key: how for key, how in found.items() if FACTS.get(key) != how} == {}
    missing = [key for key in FACTS if key not in found and key.partition(".")[0] in types]
    assert missing == []
