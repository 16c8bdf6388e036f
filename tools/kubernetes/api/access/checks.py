"""The refusals of reviews and of requests for tokens."""

from __future__ import annotations

from ..rules.validation import details_of_kind, message_of_kind
from ..types.api_documents import Document, RefusedError
from ..types.schema import unknown_and_mistyped


def check_types(kind: str, document: Document) -> None:
    """Raises RefusedError with 400 for a value of the wrong type."""
    findings = unknown_and_mistyped(kind, document)
    if findings.mistyped:
        raise RefusedError(400, "BadRequest", findings.mistyped)


def refuse_problems(kind: str, name: str, problems: list[str], group: str) -> None:
    """Raises RefusedError with 422 if there are problems."""
    if problems:
        told = group, kind, name, problems
        raise RefusedError(422, "Invalid", message_of_kind(*told), details_of_kind(*told))
