"""Patches: JSON merge patch, strategic merge patch and JSON patch, each giving a new document."""

from __future__ import annotations

from typing import Any

import jsonpatch

from tools.apiserver.store import Refused

# The key by which Kubernetes merges the items of a list in a strategic merge patch; other lists are replaced.
MERGE_KEYS = {
    "conditions": ("type",),
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "ports": ("containerPort", "port"),
    "ownerReferences": ("uid",),
    "addresses": ("type",),
    "volumeMounts": ("mountPath",),
}


def patched(document: dict[str, Any], patch: Any, content_type: str) -> dict[str, Any]:
    """The document with the patch applied. Raises Refused: 415 for an unknown type, 422 if it does not fit."""
    match content_type.split(";", maxsplit=1)[0].strip():
        case "application/merge-patch+json":
            result = _merge(document, patch, strategic=False)
        case "application/strategic-merge-patch+json" | "application/apply-patch+yaml":
            result = _merge(document, patch, strategic=True)
        case "application/json-patch+json":
            try:
                result = jsonpatch.apply_patch(document, patch)
            except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as problem:
                raise Refused(422, "Invalid", f"the patch does not fit: {problem}") from None
        case other:
            raise Refused(415, "UnsupportedMediaType", f"expected a patch content type, got {other!r}")
    if not isinstance(result, dict):
        raise Refused(422, "Invalid", "the patch leaves no object")
    return result


def _merge(old: Any, patch: Any, *, strategic: bool) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif strategic and isinstance(value, list) and key in MERGE_KEYS and isinstance(result.get(key), list):
            result[key] = _merge_list(result[key], value, MERGE_KEYS[key])
        elif not (strategic and key.startswith("$")):
            result[key] = _merge(result.get(key), value, strategic=strategic)
    return result


def _merge_list(old: list[Any], patch: list[Any], keys: tuple[str, ...]) -> list[Any]:
    result = list(old)
    for item in patch:
        key = next((k for k in keys if k in item), None)
        place = next((i for i, have in enumerate(result) if key and have.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            if place is not None:
                del result[place]
        elif place is None:
            result.append(item)
        else:
            result[place] = _merge(result[place], item, strategic=True)
    return result
