"""Credentials: how a client proves its identity to the API server.

The proof is requested anew for every request, so that one that expires is replaced in time. When
the server refuses a proof, the credentials may have another one. No repr shows a secret. Kubernetes
calls this the authentication info of a client.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Protocol

import anyio
import msgspec

from ..runtime.clock import Clock
from ..scheduling.framework.logger import get_logger

log = get_logger(__name__)
REREAD_SECONDS = 60.0


class KubeconfigError(ValueError):
    """A kubeconfig, or a file that it names, cannot be used.

    The message is one line that names the file, the field and the expected value.
    """


class Proof(msgspec.Struct, frozen=True, eq=False):
    """The proof of identity for one request.

    `authorization` is the value of the header, or "" for none. `tls` is a TLS context with a client
    certificate, or None for the connection's own context.
    """

    authorization: str = ""
    tls: ssl.SSLContext | None = None

    def __repr__(self) -> str:
        return "Proof(...)"


class Credentials(Protocol):
    async def proof(self) -> Proof:
        """Returns the proof for the next request. Raises KubeconfigError if there is none."""
        ...

    async def renewed(self, refused: Proof) -> Proof | None:
        """Returns a new proof after a 401 for `refused`; None if there is no other.

        Raises KubeconfigError.
        """
        ...

    def for_another_thread(self) -> Credentials:
        """Returns equal credentials for the event loop of another thread."""
        ...


class FixedCredentials:
    """A proof that never changes: a token, a user name with a password, or no proof at all."""

    def __init__(self, proof: Proof) -> None:
        self._proof = proof

    async def proof(self) -> Proof:
        return self._proof

    async def renewed(self, refused: Proof) -> Proof | None:
        return None

    def for_another_thread(self) -> Credentials:
        return self


ANONYMOUS = FixedCredentials(Proof())


class TokenFile:
    """A token in a file that another program rotates.

    The file is read at most once a minute, and whenever the server refuses the token. If it cannot
    be read, the last token (or `fallback`) stays in use. `where` is the kubeconfig field that names
    the file.
    """

    def __init__(self, path: Path, clock: Clock, where: str, fallback: str = "") -> None:
        self._path = path
        self._clock = clock
        self._where = where
        self._fallback = fallback
        self._proof = bearer(fallback, where) if fallback else None
        self._read_at = float("-inf")

    async def proof(self) -> Proof:
        if self._proof is None or self._clock.now() - self._read_at >= REREAD_SECONDS:
            return await self._read()
        return self._proof

    async def renewed(self, refused: Proof) -> Proof | None:
        proof = await self._read()
        return None if proof.authorization == refused.authorization else proof

    def for_another_thread(self) -> Credentials:
        return TokenFile(self._path, self._clock, self._where, self._fallback)

    async def _read(self) -> Proof:
        try:
            text = await anyio.Path(self._path).read_text(encoding="utf-8")
            proof = bearer(text.strip(), f"{self._where}: {self._path}")
        except (OSError, ValueError) as problem:
            if self._proof is None:
                if isinstance(problem, KubeconfigError):
                    raise
                raise KubeconfigError(
                    f"{self._where}: {self._path} cannot be read: {reason(problem)}"
                ) from None
            log.warning("cannot read the token again", path=str(self._path), error=reason(problem))
            proof = self._proof
        self._read_at = self._clock.now()
        if self._proof is None or proof.authorization != self._proof.authorization:
            self._proof = proof
        return self._proof


def bearer(token: str, where: str) -> Proof:
    """Returns the proof for a bearer token.

    Raises KubeconfigError for a token that is not valid in a header; the message never quotes it.
    """
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise KubeconfigError(
            f"{where}: expected a token of printable ASCII without spaces, got {len(token)} "
            "characters"
        )
    return Proof(f"Bearer {token}")


def reason(problem: Exception) -> str:
    """Returns the reason for an error in one line, without the path."""
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    return " ".join(str(problem).split())
