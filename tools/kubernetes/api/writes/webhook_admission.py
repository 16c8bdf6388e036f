"""What becomes of an object that a mutating webhook has changed: it is decoded again."""

from __future__ import annotations

from ..store import Store
from ..types.api_documents import Document, RefusedError
from ..types.defaults import defaulted
from ..types.resources import Kind
from ..types.schema import pruned, unknown_and_mistyped


def decoded_again(store: Store, kind: Kind, document: Document) -> Document:
    """Returns the object without fields that its kind does not have, and with its defaults. Raises
    RefusedError with 500 for a value of the wrong type.
    """
    if kind.custom is not None:
        from ..types.custom_decoding import decoded  # most stores have no custom kinds

        return decoded(document, kind.custom.schema).document
    stored, types = kind.stored_as or kind, store.catalog.types
    findings = unknown_and_mistyped(stored.type_name, document, types)
    if findings.mistyped:
        raise RefusedError(500, "InternalError", f"Internal error occurred: {findings.mistyped}")
    kept: Document = pruned(types[stored.type_name], document)
    return defaulted(stored, kept)
