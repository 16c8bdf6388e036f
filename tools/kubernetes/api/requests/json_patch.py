"""JSON patches (RFC 6902), with what Kubernetes adds to the RFC.

Like Kubernetes, `replace` also sets a key that an object lacks, a missing `value` is null, a copy
of a missing key is null, and an index below zero counts from the end of a list.
"""

from __future__ import annotations

import copy
import re
from typing import Any

import msgspec

from ..types.api_documents import RefusedError
from .json_problems import go_type

MOST_OPERATIONS = 10_000
MOST_COPIED_BYTES = 3 << 20
_INDEX = re.compile(r"[+-]?[0-9]+")
_MEMBERS = ("op", "path", "from")


class UnfitError(Exception):
    """An operation that does not fit the document."""


class TestFailedError(UnfitError):
    """A test that found another value."""

    __test__ = False  # no case of pytest's


def json_patched(document: Any, patch: Any) -> Any:
    """Returns the document after the operations of a patch; the document itself stays as it is.

    Raises RefusedError: 400 for a patch that is no list of operations, 413 if it exceeds
    Kubernetes' limit on operations or on copied bytes. Raises UnfitError for an operation that does
    not fit.
    """
    operations = _checked(patch)
    root = {"": copy.deepcopy(document)}
    copied = 0
    for operation in operations:
        if operation.get("op") == "copy":
            copied += _copy(root, operation)
            if copied > MOST_COPIED_BYTES:
                raise _too_large(
                    "Unable to complete the copy, the accumulated size increase of copy "
                    f"is {copied}, exceeding the limit {MOST_COPIED_BYTES}"
                )
        else:
            _apply(root, operation)
    return root[""]


def _checked(patch: Any) -> list[dict[str, Any]]:
    """Returns the operations of a patch; none for null."""
    if patch is None:
        return []
    if not isinstance(patch, list):
        raise _undecodable(f"{go_type(patch)} into Go value of type []handlers.jsonPatchOp")
    for operation in patch:
        if not isinstance(operation, dict):
            raise _undecodable(f"{go_type(operation)} into Go value of type handlers.jsonPatchOp")
        for member in _MEMBERS:
            value = operation.get(member)
            if not isinstance(value, str | None):
                where = f"Go struct field jsonPatchOp.{member} of type string"
                raise _undecodable(f"{go_type(value)} into {where}")
    if len(patch) > MOST_OPERATIONS:
        raise _too_large(
            f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(patch)}"
        )
    return patch


def _undecodable(what: str) -> RefusedError:
    message = f"error decoding patch: json: cannot unmarshal {what}"
    return RefusedError(400, "BadRequest", message)


def _too_large(message: str) -> RefusedError:
    return RefusedError(413, "RequestEntityTooLarge", message)


def _apply(root: dict[str, Any], operation: dict[str, Any]) -> None:
    op, value = operation.get("op"), operation.get("value")
    path = _path(operation, "path")
    match op:
        case "replace" if not path:
            if not isinstance(value, dict | list):
                raise UnfitError("replace operation value must be object or array")
            root[""] = copy.deepcopy(value)
        case "test" if not path:
            _test(root[""], value)
        case "add":
            _add(*_place(root, path), copy.deepcopy(value))
        case "remove":
            _take(*_place(root, path))
        case "replace":
            parent, key = _place(root, path)
            if isinstance(parent, list):
                parent[_index(parent, key)] = copy.deepcopy(value)
            else:
                parent[key] = copy.deepcopy(value)
        case "test":
            _test(_get(*_place(root, path)), value)
        case "move":
            taken = _take(*_place(root, _path(operation, "from")))
            _add(*_place(root, path), taken)
        case _:
            raise UnfitError(f"unexpected kind: {op}")


def _copy(root: dict[str, Any], operation: dict[str, Any]) -> int:
    """Carries out a copy. Returns the bytes of JSON that it copied."""
    value = _get(*_place(root, _path(operation, "from")))
    parent, key = _place(root, _path(operation, "path"))
    _add(parent, key, copy.deepcopy(value))
    return len(msgspec.json.encode(value))


def _path(operation: dict[str, Any], member: str) -> str:
    path = operation.get(member)
    if path is None:
        raise UnfitError(f"the operation lacks {member}")
    return str(path)


def _place(root: dict[str, Any], path: str) -> tuple[Any, str]:
    """Returns the object or list that holds what is at a path, and its key there."""
    first, *parts = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")]
    if not parts:
        raise UnfitError(f"doc is missing path: {first}")
    here = root[""]
    for part in parts[:-1]:
        here = _get(here, part)
        if not isinstance(here, dict | list):
            raise UnfitError(f"doc is missing path: {path}")
    return here, parts[-1]


def _get(parent: Any, key: str) -> Any:
    return parent[_index(parent, key)] if isinstance(parent, list) else parent.get(key)


def _take(parent: Any, key: str) -> Any:
    if isinstance(parent, list):
        return parent.pop(_index(parent, key))
    if key not in parent:
        raise UnfitError(f"Unable to remove nonexistent key: {key}")
    return parent.pop(key)


def _add(parent: Any, key: str, value: Any) -> None:
    if not isinstance(parent, list):
        parent[key] = value
    elif key == "-":
        parent.append(value)
    else:
        parent.insert(_index([*parent, None], key), value)


def _index(items: list[Any], key: str) -> int:
    """Returns the index that a key names in a list."""
    if _INDEX.fullmatch(key) and len(key) < 20:
        index = int(key)
        if -len(items) <= index < len(items):
            return index % len(items)
    raise UnfitError(f"Unable to access invalid index: {key}")


def _test(value: Any, expected: Any) -> None:
    """Raises UnfitError unless two values are the same JSON, but for the order of keys."""
    mine, theirs = (msgspec.json.encode(each, order="sorted") for each in (value, expected))
    if mine != theirs:
        raise TestFailedError("testing value failed")
