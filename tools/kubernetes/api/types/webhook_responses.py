"""What a webhook may answer: the types of the fields that are read of it. An answer of other types
is of no use, as in Kubernetes, which decodes it.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from .api_documents import Document

_Code = Annotated[int, msgspec.Meta(le=999)]  # of HTTP


class _Status(msgspec.Struct, rename="camel"):
    status: str | None = None
    message: str | None = None
    reason: str | None = None
    code: _Code | None = None
    details: Document | None = None


class AdmissionResponse(msgspec.Struct, rename="camel"):
    uid: str | None = None
    allowed: bool | None = None
    status: _Status | None = None
    patch: str | None = None
    patch_type: str | None = None
    warnings: list[str] | None = None


class ConversionResponse(msgspec.Struct, rename="camel"):
    uid: str | None = None
    result: _Status | None = None
    converted_objects: list[Any] | None = None


class ConvertedMetadata(msgspec.Struct):
    """What a conversion may change of the metadata."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


def wrong_types(response: Any, expected: type) -> str:
    """Returns what is wrong with the types of a response, or of a part of it, or ""."""
    try:
        msgspec.convert(response, expected | None)
    except msgspec.ValidationError as problem:
        return str(problem)
    return ""
