"""The rules of an object: those of a built-in kind, or those of a custom one."""

from __future__ import annotations

from ..rules import validation
from ..store import DEFINITIONS
from ..types.api_documents import Document
from ..types.resources import Kind


def problems_of(kind: Kind, document: Document, before: Document | None) -> list[str]:
    """Returns the problems of a new or updated object."""
    if kind is DEFINITIONS:
        from ..rules.custom.definition_rules import definition_problems

        own = validation.problems(kind.type_name, document, before)
        return own + definition_problems(document, before)
    if kind.custom is None:
        return validation.problems(kind.type_name, document, before)
    from ..rules.custom.resource_rules import resource_problems  # most stores have no custom kinds

    return resource_problems(kind, document, before)


def warnings_of(kind: Kind, document: Document, before: Document | None) -> list[str]:
    """Returns what a client is told of an object that is written."""
    if kind is DEFINITIONS:
        from ..rules.custom.definition_warnings import format_warnings

        return format_warnings(document, before)
    if kind.custom is None:
        match kind.kind:
            case "Secret":
                from ..rules.data_rules import secret_warnings

                return [*secret_warnings(document)]
            case "Service":
                from ..rules.service_rules import service_warnings

                return [*service_warnings(document)]
            case _:
                return []
    from ..rules.custom.definition_warnings import finalizer_warnings

    return finalizer_warnings(document, before)


def problems_of_status(kind: Kind, document: Document, before: Document) -> list[str]:
    """Returns the problems of an update of an object's status. Both documents are whole objects."""
    if kind.custom is None:
        return validation.status_problems(kind.type_name, document, before)
    from ..rules.custom.resource_rules import status_problems

    return status_problems(kind, document, before)
