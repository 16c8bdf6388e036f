"""JSON merge patch, strategic merge patch and JSON patch; each returns a new document."""

from __future__ import annotations

import copy
from collections import deque
from typing import Any

import jsonpatch
import msgspec

from ..requests.media_types import JSON_PATCH, MERGE, STRATEGIC
from ..types.api_documents import Document, RefusedError
from ..types.resources import Kind
from ..types.schema import TYPES, Shape

BY_VALUE = "*"
MOST_OPERATIONS = 10_000
MOST_COPIED_BYTES = 3 << 20
# raised when a patch expects a value of another type
_UNFIT = (TypeError, LookupError, AttributeError, ValueError)
_SCALARS = frozenset((str, bool, int, float))
DELETE_FROM = "$deleteFromPrimitiveList/"
ORDER = "$setElementOrder/"


def patched_document(kind: Kind, document: Document, patch: Any, content_type: str) -> Document:
    """Returns the document with the patch applied.

    Raises RefusedError: 415 for an unknown media type, 422 if the patch does not fit the document.
    """
    try:
        match content_type:
            case "application/merge-patch+json":
                result = _merge(document, patch)
            case "application/strategic-merge-patch+json":
                result = _merge_strategic(TYPES.get(kind.type_name), document, patch)
            case "application/json-patch+json":
                result = _json_patched(document, patch)
            case other:
                expected = f"{JSON_PATCH}, {MERGE} or {STRATEGIC}"
                raise RefusedError(
                    415, "UnsupportedMediaType", f"Content-Type: expected {expected}, got {other!r}"
                )
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, *_UNFIT) as problem:
        raise RefusedError(422, "Invalid", f"the patch does not fit: {problem}") from None
    if not isinstance(result, dict) or not isinstance(result.get("metadata"), dict):
        raise RefusedError(422, "Invalid", "the patch leaves no object with metadata")
    return result


def _json_patched(document: Any, patch: Any) -> Any:
    """Applies a JSON patch (RFC 6902).

    Raises RefusedError: 400 if the patch is not a list of operations, 413 if it exceeds Kubernetes'
    limit on operations or on copied bytes.
    """
    if not isinstance(patch, list) or not all(isinstance(operation, dict) for operation in patch):
        raise RefusedError(
            400, "BadRequest", "the patch does not fit: expected a list of operations"
        )
    if len(patch) > MOST_OPERATIONS:
        why = (
            f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(patch)}"
        )
        raise RefusedError(413, "RequestEntityTooLarge", why)
    result = copy.deepcopy(document)
    copied = 0
    for operation in patch:
        if operation.get("op") == "copy" and isinstance(operation.get("from"), str):
            copied += len(
                msgspec.json.encode(jsonpatch.JsonPointer(operation["from"]).resolve(result))
            )
            if copied > MOST_COPIED_BYTES:
                why = f"the patch does not fit: it copies more than {MOST_COPIED_BYTES} bytes"
                raise RefusedError(413, "RequestEntityTooLarge", why)
        result = jsonpatch.apply_patch(result, [operation], in_place=True)
    return result


def _merge(old: Any, patch: Any) -> Any:
    """Merges as RFC 7386 does. Like Kubernetes, it also drops null fields of objects in a list."""
    if isinstance(patch, list | tuple):
        return [item if item is None else _merge(None, item) for item in patch]
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
    """Merges as Kubernetes does: a list by the merge key of its type; obeys the `$` directives."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if not key.startswith("$")}
    result = dict(old) if isinstance(old, dict) else {}
    retained = patch.get("$retainKeys")
    if isinstance(retained, list):
        result = {key: value for key, value in result.items() if key in retained}
    fields = shape.fields if shape is not None and shape.fields is not None else {}
    orders: list[str] = []
    for key, value in patch.items():
        if key[:1] == "$":
            if key.startswith(DELETE_FROM):
                name = key.removeprefix(DELETE_FROM)
                unwanted = set(map(_identity, _list_items(key, value)))
                result[name] = [
                    item for item in result.get(name) or () if _identity(item) not in unwanted
                ]
            elif key.startswith(ORDER):
                orders.append(key)
        elif type(value) in _SCALARS:
            result[key] = value
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
    for key in orders:
        if (name := key.removeprefix(ORDER)) in fields and name in result:
            old_list = (old if isinstance(old, dict) else {}).get(name) or []
            merge_key = fields[name].merge_key or BY_VALUE
            result[name] = _in_named_order(
                result[name], old_list, _list_items(key, patch[key]), merge_key
            )
    return result


def _list_items(directive: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise RefusedError(422, "Invalid", f"the patch does not fit: {directive}: expected a list")
    return value


def _identity(item: Any, key: str = BY_VALUE) -> Any:
    """Returns the identity of an item in a list: the value of its merge key, or the item itself."""
    value = item.get(key) if key != BY_VALUE and isinstance(item, dict) else item
    if value is None or type(value) in _SCALARS:
        return value
    return msgspec.json.encode(value)


def _indices_by_identity(items: list[Any], key: str) -> dict[Any, list[int]]:
    """Returns, for each identity, the indices of the items that have it."""
    places: dict[Any, list[int]] = {}
    for i, item in enumerate(items):
        identity = _identity(item, key)
        if identity in places:
            places[identity].append(i)
        else:
            places[identity] = [i]
    return places


def _in_named_order(merged: list[Any], old: list[Any], order: list[Any], key: str) -> list[Any]:
    """Sorts the items that the order names into that order.

    The other items stay before the items that they preceded in the old list.
    """
    ordered, was = _indices_by_identity(order, key), _indices_by_identity(old, key)
    pairs = [(_identity(item, key), item) for item in merged]
    named = deque(
        sorted((pair for pair in pairs if pair[0] in ordered), key=lambda pair: ordered[pair[0]][0])
    )
    result: list[Any] = []
    for identity, other in pairs:
        if identity in ordered:
            continue
        if identity not in was:
            raise RefusedError(
                422,
                "Invalid",
                f"the patch does not fit: {ORDER}: expected every item that is patched",
            )
        while named and named[0][0] in was and was[named[0][0]][0] < was[identity][0]:
            result.append(named.popleft()[1])
        result.append(other)
    return result + [item for _, item in named]


def _merge_list(shape: Shape | None, old: list[Any], patch: list[Any], key: str) -> list[Any]:
    if key == BY_VALUE:
        have = set(map(_identity, old))
        return old + [item for item in patch if _identity(item) not in have]
    if not all(isinstance(item, dict) for item in patch):
        raise RefusedError(
            422,
            "Invalid",
            f"the patch does not fit: expected objects in a list that is merged by {key}",
        )
    replaces = any(item.get("$patch") == "replace" for item in patch)
    result: list[Any] = [] if replaces else list(old)
    places = _indices_by_identity(result, key)
    gone: set[int] = set()
    for item in patch:
        directive = item.get("$patch")
        if directive == "replace":
            continue
        there = places.get(_identity(item, key), []) if key in item else []
        if directive == "delete":
            gone.update(there)
            there.clear()
        elif there:
            result[there[0]] = _merge_strategic(shape, result[there[0]], item)
        else:
            if key in item:
                places[_identity(item, key)] = [len(result)]
            result.append(_merge_strategic(shape, {}, item))
    return [item for i, item in enumerate(result) if i not in gone] if gone else result
