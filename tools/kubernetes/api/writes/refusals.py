"""Refusals of writes: invalid objects and conflicts."""

from __future__ import annotations

from typing import Any

import msgspec

from ..requests.json_problems import go_text
from ..rules.validation import details_of_kind, message_of_kind
from ..types.api_documents import OTHER_NAMESPACE, Document, RefusedError
from ..types.resources import CONDITIONAL, Kind

MOST_PROBLEMS = 1000  # in one refusal


def expected_version(kind: Kind, metadata: Document, before: Document) -> str:
    """Returns the resourceVersion on which an update is based; the latest one if the update names
    none.

    Raises RefusedError with 422 if it names none and its kind requires one.
    """
    version = metadata.get("resourceVersion") or "0"
    if version != "0":
        return str(version)
    if kind.custom is not None or kind.kind in CONDITIONAL:
        problem = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        name = before["metadata"]["name"]
        details = details_of_kind(kind.group, kind.plural, name, [problem])
        message = f'{kind.resource} "{name}" is invalid: {problem}'
        raise RefusedError(422, "Invalid", message, details)
    return str(before["metadata"]["resourceVersion"])


def check_no_version(sent: Document) -> None:
    """Raises RefusedError with 400 if a new object has a resourceVersion."""
    version = sent.get("resourceVersion")
    if version and str(version).isdecimal() and int(version):
        why = "resourceVersion should not be set on objects to be created"
        raise RefusedError(400, "BadRequest", why)


def check_place(kind: Kind, sent: Document, before: Document) -> None:
    """Raises RefusedError if a document names another object than the stored one, or none."""
    metadata = before["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace")
    if namespace and (sent.get("namespace") or namespace) != namespace:
        raise RefusedError(400, "BadRequest", OTHER_NAMESPACE)
    if not sent.get("name"):
        raise unnamed(name)
    if sent["name"] != name:
        raise other_name(sent["name"], name)
    if sent.get("uid", metadata["uid"]) != metadata["uid"]:
        key = "/".join(filter(None, ("/registry", kind.plural, namespace, name)))
        why = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0"
        other = other_uid(sent["uid"], before)
        raise conflict(kind, name, f"{why}, AdditionalErrorMsg: {other}")


def other_name(sent: str, name: str) -> RefusedError:
    """Returns the refusal of an object that has another name than the path."""
    message = f"the name of the object ({sent}) does not match the name on the URL ({name})"
    return RefusedError(400, "BadRequest", message)


def unnamed(name: str) -> RefusedError:
    """Returns the refusal of an object without a name, where the path has this one."""
    undetermined = f"the name of the object ({name} based on URL) was undeterminable"
    return RefusedError(400, "BadRequest", f"{undetermined}: name must be provided")


def uid_problems(sent: Document, stored: Document) -> list[str]:
    """Returns the problems of the uid in the metadata that a patch makes."""
    uid = sent.get("uid")
    changed = uid and uid != stored["uid"]
    return [f"metadata.uid: Invalid value: {in_json(uid)}: field is immutable"] if changed else []


def deletion_problems(sent: Document, stored: Document) -> list[str]:
    """Returns the problems of metadata that concern the object's deletion."""
    deleted = sent.get("deletionTimestamp")
    if "deletionTimestamp" not in stored:
        why = "field is immutable"
        where = "metadata.deletionTimestamp"
        return [f"{where}: Invalid value: {in_json(deleted)}: {why}"] if deleted else []
    new = [
        each for each in sent.get("finalizers") or () if each not in stored.get("finalizers", ())
    ]
    if not new:
        return []
    why = "no new finalizers can be added if the object is being deleted, found new finalizers"
    listed = ", ".join(map(in_json, sorted(new)))
    return [f"metadata.finalizers: Forbidden: {why} []string{{{listed}}}"]


def in_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def undecodable(document: Document, problem: str, patch: Any) -> RefusedError:
    """Returns the refusal of a document that a patch made, and that cannot be decoded.

    A strategic merge patch is shown itself, any other, which is told as {}, by the document that it
    made.
    """
    value = go_text(patch) if patch else in_json(document)
    why = f"Invalid value: {in_json(value)}: {problem}"
    details = {"causes": [{"reason": "FieldValueInvalid", "message": why, "field": "patch"}]}
    return RefusedError(422, "Invalid", f' "" is invalid: patch: {why}', details)


def check_applied_place(
    kind: Kind, namespace: str, name: str, after: Document, *, is_new: bool
) -> None:
    """Raises RefusedError: 400 if an apply names another object than the URL, 409 if it names the
    uid of an object that does not exist.
    """
    metadata = after["metadata"]
    here, place = metadata.get("name") or "", metadata.get("namespace") or ""
    problem = ""
    if is_new and metadata.get("uid"):
        why = (
            f"uid mismatch: the provided object specified uid {metadata['uid']}, "
            "and no existing object was found"
        )
        raise conflict(kind, name, why)
    if namespace and place and place != namespace:
        problem = OTHER_NAMESPACE
    elif not here:
        problem = (
            f"the name of the object ({name} based on URL) was undeterminable: "
            "name must be provided"
        )
    elif here != name:
        problem = f"the name of the object ({here}) does not match the name on the URL ({name})"
    if problem:
        raise RefusedError(400, "BadRequest", problem)


def refuse_invalid(kind: Kind, document: Document, problems: list[str]) -> None:
    """Raises RefusedError with 422 and the first MOST_PROBLEMS problems, if there are any."""
    if problems:
        problems = problems[:MOST_PROBLEMS]
        name = document["metadata"].get("name", "")
        told = "" if kind.kind == "Event" else kind.group, kind.kind, name, problems
        raise RefusedError(422, "Invalid", message_of_kind(*told), details_of_kind(*told))


def other_uid(expected: str, pod: Document) -> str:
    return (
        f"Precondition failed: UID in precondition: {expected}, "
        f"UID in object meta: {pod['metadata']['uid']}"
    )


def forbidden(kind: Kind, name: str, why: str) -> RefusedError:
    details = {"name": name, "group": kind.group, "kind": kind.plural}
    return RefusedError(403, "Forbidden", f'{kind.resource} "{name}" is forbidden: {why}', details)


def conflict(kind: Kind, name: str, why: str) -> RefusedError:
    details = {"name": name, "group": kind.group, "kind": kind.plural}
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return RefusedError(409, "Conflict", message, details)
