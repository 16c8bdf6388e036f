"""The pages of a list: their limit, and the token with which a list continues."""

from __future__ import annotations

import base64

import msgspec

from ..types.api_documents import RefusedError
from .request import HttpRequest


def page_limit(request: HttpRequest) -> int | None:
    """Returns the number of objects on a page; None for all. Raises RefusedError with 400."""
    try:
        return max(int(request.query.get("limit") or 0), 0) or None
    except ValueError as problem:
        raise RefusedError(400, "BadRequest", f"limit: {problem}") from None


def continue_position(request: HttpRequest) -> tuple[tuple[str, str] | None, int]:
    """Returns the key after which a list continues, and the revision of its first page.

    Raises RefusedError with 400 for a token that this server did not issue.
    """
    token = request.query.get("continue", "")
    if not token:
        return None, 0
    try:
        revision, namespace, name = msgspec.json.decode(
            base64.urlsafe_b64decode(token), type=tuple[int, str, str]
        )
    except (ValueError, msgspec.DecodeError):
        raise RefusedError(
            400, "BadRequest", "continue: expected the token of an earlier list"
        ) from None
    return (namespace, name), revision


def continue_token(revision: str, namespace: str, name: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode((int(revision), namespace, name))).decode()
