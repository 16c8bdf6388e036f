"""The patches of three kinds; each returns a new document."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from ..requests.json_patch import UnfitError, json_patched
from ..requests.json_problems import go_text, go_type
from ..requests.media_types import JSON_PATCH, MERGE, STRATEGIC
from ..types.api_documents import Document, RefusedError
from ..types.resources import Kind
from ..types.schema import TYPES, Shape

BY_VALUE = "*"
# raised when a patch expects a value of another type
_UNFIT = (TypeError, LookupError, AttributeError, ValueError)
_SCALARS = frozenset((str, bool, int, float))
DELETE_FROM = "$deleteFromPrimitiveList/"
ORDER = "$setElementOrder/"


def patched_document(kind: Kind, document: Document, patch: Any, content_type: str) -> Document:
    """Returns the document with the patch applied.

    Raises RefusedError: 400 for a patch that is no object, 415 for an unknown media type, 422 if
    the patch does not fit the document.
    """
    try:
        match content_type:
            case "application/merge-patch+json":
                result = _merge(document, _as_object(patch, "error decoding patch: "))
            case "application/strategic-merge-patch+json" if kind.custom is None:
                changes = {} if patch is None else _as_object(patch)
                result = _merge_strategic(TYPES.get(kind.type_name), document, changes)
            case "application/json-patch+json":
                result = json_patched(document, patch)
            case "application/strategic-merge-patch+json":
                accepted = ", ".join((JSON_PATCH, MERGE, "application/apply-patch+yaml"))
                why = "the body of the request was in an unknown format"
                message = f"{why} - accepted media types include: {accepted}"
                raise RefusedError(415, "UnsupportedMediaType", message)
            case other:
                expected = f"{JSON_PATCH}, {MERGE} or {STRATEGIC}"
                raise RefusedError(
                    415, "UnsupportedMediaType", f"Content-Type: expected {expected}, got {other!r}"
                )
    except (UnfitError, *_UNFIT) as problem:
        message = "the server rejected our request due to an error in our request"
        raise RefusedError(422, "Invalid", message) from problem
    return result if isinstance(result, dict) else {}


def _as_object(patch: Any, prefix: str = "") -> Document:
    """Returns the patch. Raises RefusedError with 400 if it is no object."""
    if isinstance(patch, dict):
        return patch
    if patch is None:
        raise RefusedError(400, "BadRequest", "Invalid JSON Patch")
    into = "Go value of type map[string]interface {}"
    message = f"{prefix}json: cannot unmarshal {go_type(patch)} into {into}"
    raise RefusedError(400, "BadRequest", message)


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
    if "$retainKeys" in patch and not _retains(retained, patch):
        raise RefusedError(400, "BadRequest", "invalid patch format of retainKeys")
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
        elif isinstance(value, dict) and "$patch" in value and key not in result:
            pass  # like Kubernetes: there is nothing that the directive is about
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
            _check_order(patch.get(name), _list_items(key, patch[key]), merge_key)
            result[name] = _in_named_order(
                result[name], old_list, _list_items(key, patch[key]), merge_key
            )
    return result


def _retains(retained: Any, patch: Document) -> bool:
    """True for a list that names every field that the patch sets."""
    own = {key for key, value in patch.items() if key[:1] != "$" and value is not None}
    return isinstance(retained, list) and own <= {key for key in retained if isinstance(key, str)}


def _list_items(directive: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        what = "primitive list" if directive.startswith(DELETE_FROM) else "setElementOrder list"
        raise RefusedError(400, "BadRequest", f"invalid patch format of {what}")
    return value


def _check_order(patch: Any, order: list[Any], key: str) -> None:
    """Raises RefusedError with 422 unless an order names the items of a patch, in their order."""
    items = patch if isinstance(patch, list) else []
    left = iter([_identity(item, key) for item in order])
    kept = [item for item in items if not isinstance(item, dict) or "$patch" not in item]
    if order and not all(_identity(item, key) in left for item in kept):
        lists = f"in patch list:\n{go_text(patch)}\n doesn't match {ORDER[:-1]} list"
        raise RefusedError(422, "Invalid", f"The order {lists}:\n{go_text(order)}\n")


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
    """Sorts the items that the order names into that order, and puts the others between them.

    One of the others comes before the first named item that it preceded in the old list, and last
    if there is none.
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
        place = was[identity][0] if identity in was else -1
        while named and not -1 < place < was.get(named[0][0], (-1,))[0]:
            result.append(named.popleft()[1])
        result.append(other)
    return result + [item for _, item in named]


def _merge_list(shape: Shape | None, old: list[Any], patch: list[Any], key: str) -> list[Any]:
    if key == BY_VALUE:
        have = set(map(_identity, old))
        both = old + [item for item in patch if _identity(item) not in have]
        return _in_named_order(both, old, patch, key)
    if not all(isinstance(item, dict) for item in patch):
        raise UnfitError(f"expected objects in a list that is merged by {key}")
    directs = "$patch" in {field for item in patch for field in item}
    replaces = directs and any(item.get("$patch") == "replace" for item in patch)
    result: list[Any] = [] if replaces else list(old)
    places = _indices_by_identity(result, key)
    gone: set[int] = set()
    latest, added, moves = -1, len(result), False
    for item in patch:
        directive = item.get("$patch") if directs else None
        if directive == "replace":
            continue
        if key not in item:
            why = f"map: {go_text(item)} does not contain declared merge key: {key}"
            raise RefusedError(422, "Invalid", why)
        identity = _identity(item, key)
        there = places.get(identity, [])
        if directive == "delete":
            gone.update(there)
            there.clear()
        elif there:
            moves = moves or there[0] < latest
            latest = there[0]
            result[latest] = _merge_strategic(shape, result[latest], item)
        else:
            places[identity] = [len(result)]
            result.append(_merge_strategic(shape, {}, item))
    if not (gone or moves) and added in (0, len(result)):
        return result  # all items are new, or are where they were
    if gone:
        result = [item for i, item in enumerate(result) if i not in gone]
    plain = [item for item in patch if "$patch" not in item]
    return _in_named_order(result, [] if replaces else old, plain, key)
