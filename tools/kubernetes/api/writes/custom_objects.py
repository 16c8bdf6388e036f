"""How a custom object is read from a request."""

from __future__ import annotations

from collections.abc import Collection

from ..types.api_documents import Document, RefusedError
from ..types.resources import Kind


def decoded_custom(
    kind: Kind, document: Document, validation: str, duplicates: Collection[str]
) -> tuple[Document, list[str]]:
    """Returns a custom object with its defaults and without unknown fields, and the warnings.

    Raises RefusedError with 400 if its metadata cannot be read and, if `validation` is Strict, for
    an unknown field or one of the `duplicates`.
    """
    from ..types.custom_decoding import decoded  # most stores have no custom kinds

    assert kind.custom is not None
    read = decoded(document, kind.custom.schema)
    whole = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    if read.problem:
        raise RefusedError(400, "BadRequest", f"{whole}: {read.problem}")
    unknown = [*duplicates, *(f'unknown field "{path}"' for path in read.unknown)]
    if unknown and validation == "Strict":
        message = f"{whole}: strict decoding error: {', '.join(unknown)}"
        raise RefusedError(400, "BadRequest", message)
    metadata = read.document.get("metadata")
    if metadata:
        said = {field: value for field, value in metadata.items() if value}
        read = read._replace(document={**read.document, "metadata": said})
    return read.document, unknown if validation == "Warn" else []


def changes_more_than_metadata(after: Document, before: Document) -> bool:
    """True if anything but the metadata of an object changes."""
    fields = {*after, *before} - {"metadata"}
    return any(after.get(field) != before.get(field) for field in fields)
