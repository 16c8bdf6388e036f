"""Patches: JSON merge patch, strategic merge patch and JSON patch, each giving a new document."""

from __future__ import annotations

from typing import Any

import jsonpatch

from tools.apiserver.resources import Kind
from tools.apiserver.schema import TYPES, Shape
from tools.apiserver.store import Document, Refused

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
BY_VALUE = "*"
_UNFIT = (TypeError, LookupError, AttributeError, ValueError)  # what the library raises for a path through a scalar
DELETE_FROM = "$deleteFromPrimitiveList/"
ORDER = "$setElementOrder/"


def patched(kind: Kind, document: Document, patch: Any, content_type: str) -> Document:
    """The document with the patch applied. Raises Refused: 415 for an unknown type, 422 if it does not fit."""
    match content_type:
        case "application/merge-patch+json":
            result = _merge(document, patch)
        case "application/strategic-merge-patch+json":
            result = _merge_strategic(TYPES.get(kind.type_name), document, patch)
        case "application/json-patch+json":
            if not isinstance(patch, list) or not all(isinstance(operation, dict) for operation in patch):
                raise Refused(400, "BadRequest", "the patch does not fit: expected a list of operations")
            try:
                result = jsonpatch.apply_patch(document, patch)
            except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, *_UNFIT) as problem:
                raise Refused(422, "Invalid", f"the patch does not fit: {problem}") from None
        case other:
            expected = f"{JSON_PATCH}, {MERGE} or {STRATEGIC}"
            raise Refused(415, "UnsupportedMediaType", f"Content-Type: expected {expected}, got {other!r}")
    if not isinstance(result, dict) or not isinstance(result.get("metadata"), dict):
        raise Refused(422, "Invalid", "the patch leaves no object with metadata")
    return result


def _merge(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge(result.get(key), value)
    return result


def _merge_strategic(shape: Shape | None, old: Any, patch: Any) -> Any:
    """As Kubernetes merges: lists by the merge key that their type has, with its `$` directives heeded."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if not key.startswith("$")}
    result = dict(old) if isinstance(old, dict) else {}
    retained = patch.get("$retainKeys")
    if isinstance(retained, list):
        result = {key: value for key, value in result.items() if key in retained}
    fields = shape.fields if shape is not None and shape.fields is not None else {}
    for key, value in patch.items():
        if key.startswith(DELETE_FROM):
            name, unwanted = key.removeprefix(DELETE_FROM), _listed(key, value)
            result[name] = [item for item in result.get(name) or () if item not in unwanted]
        elif key.startswith("$"):
            continue
        elif value is None or (isinstance(value, dict) and value.get("$patch") == "delete"):
            result.pop(key, None)
        else:
            field = fields.get(key)
            below = None if field is None else field.shape
            if isinstance(value, list) and field is not None and field.merge_key is not None:
                item = None if below is None else below.item
                result[key] = _merge_list(item, result.get(key) or [], value, field.merge_key)
            else:
                result[key] = _merge_strategic(below, result.get(key), value)
    for key in patch:
        name = key.removeprefix(ORDER)
        if key != name and name in fields and name in result:
            old_list = (old if isinstance(old, dict) else {}).get(name) or []
            merge_key = fields[name].merge_key or BY_VALUE
            result[name] = _ordered(result[name], old_list, _listed(key, patch[key]), merge_key)
    return result


def _listed(directive: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Refused(422, "Invalid", f"the patch does not fit: {directive}: expected a list")
    return value


def _ordered(merged: list[Any], old: list[Any], order: list[Any], key: str) -> list[Any]:
    """The items that the order names, in that order; the others keep their place before what they were before."""

    def identity(item: Any) -> Any:
        return item.get(key) if key != BY_VALUE and isinstance(item, dict) else item

    wanted, was = [identity(item) for item in order], [identity(item) for item in old]
    named = sorted((i for i in merged if identity(i) in wanted), key=lambda item: wanted.index(identity(item)))
    result: list[Any] = []
    for other in (item for item in merged if identity(item) not in wanted):
        while named and identity(named[0]) in was and was.index(identity(named[0])) < was.index(identity(other)):
            result.append(named.pop(0))
        result.append(other)
    return result + named


def _merge_list(shape: Shape | None, old: list[Any], patch: list[Any], key: str) -> list[Any]:
    if key == BY_VALUE:
        return old + [item for item in patch if item not in old]
    replaces = any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch)
    result = [] if replaces else list(old)
    for item in patch:
        if not isinstance(item, dict):
            raise Refused(422, "Invalid", f"the patch does not fit: expected objects in a list that is merged by {key}")
        directive = item.get("$patch")
        if directive == "replace":
            continue
        place = next((i for i, have in enumerate(result) if key in item and have.get(key) == item[key]), None)
        if directive == "delete":
            if place is not None:
                del result[place]
        elif place is None:
            result.append(_merge_strategic(shape, {}, item))
        else:
            result[place] = _merge_strategic(shape, result[place], item)
    return result
