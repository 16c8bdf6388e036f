"""Refusals of writes: invalid objects and conflicts."""

from __future__ import annotations

from ..rules.validation import invalid_details, invalid_message
from ..types.api_documents import Document, RefusedError
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
    if kind.kind in CONDITIONAL:
        problem = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        raise RefusedError(
            422, "Invalid", f'{kind.resource} "{before["metadata"]["name"]}" is invalid: {problem}'
        )
    return str(before["metadata"]["resourceVersion"])


def check_place(kind: Kind, sent: Document, before: Document) -> None:
    """Raises RefusedError if a document names another object than the stored one."""
    metadata = before["metadata"]
    for field in ("name", "namespace"):
        here = metadata.get(field)
        if here and (sent.get(field) or here) != here:
            message = (
                f"the {field} of the object ({sent[field]}) "
                f"does not match the {field} on the URL ({here})"
            )
            raise RefusedError(400, "BadRequest", message)
    if sent.get("uid", metadata["uid"]) != metadata["uid"]:
        raise conflict(kind, metadata["name"], other_uid(sent["uid"], before))


def refuse_invalid(kind: Kind, document: Document, problems: list[str]) -> None:
    """Raises RefusedError with 422 and the first MOST_PROBLEMS problems, if there are any."""
    if problems:
        problems = problems[:MOST_PROBLEMS]
        name = document["metadata"].get("name", "")
        details = invalid_details(kind.type_name, name, problems)
        raise RefusedError(422, "Invalid", invalid_message(kind.type_name, name, problems), details)


def other_uid(expected: str, pod: Document) -> str:
    return (
        f"Precondition failed: UID in precondition: {expected}, "
        f"UID in object meta: {pod['metadata']['uid']}"
    )


def conflict(kind: Kind, name: str, why: str) -> RefusedError:
    return RefusedError(
        409, "Conflict", f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    )
