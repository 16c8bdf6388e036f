"""Who signs tokens, and says which of them it has signed."""

from __future__ import annotations

from typing import Protocol

from .types.api_documents import Document


class TokenSigner(Protocol):
    """A key with its algorithm, as JSON Web Signatures name it."""

    @property
    def algorithm(self) -> str: ...
    @property
    def key_id(self) -> str: ...
    def sign(self, text: bytes) -> bytes: ...
    def is_signed(self, text: bytes, signature: bytes) -> bool: ...
    def public_keys(self) -> list[Document]: ...
