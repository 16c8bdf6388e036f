"""Who we are to the API server: what is shown with each request, and what to show once it was
refused.

A credential is asked for its proof before every request, so that one which expires is replaced in
time; it never shows itself in a repr. Kubernetes calls this the authentication info of a client.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Protocol

import anyio
import msgspec
import structlog
from berth.actors.runtime.clock import Clock

log = structlog.get_logger(__name__)
REREAD_SECONDS = 60.0


class KubeconfigError(ValueError):
    """A kubeconfig, or what it points to, cannot be used: one line naming the file, the field and
    what is expected.
    """


class Proof(msgspec.Struct, frozen=True, eq=False):
    """The Authorization header ("" for none), and a TLS context of its own (None: the
    connection's).
    """

    authorization: str = ""
    tls: ssl.SSLContext | None = None

    def __repr__(self) -> str:
        return "Proof(...)"


class Credentials(Protocol):
    async def proof(self) -> Proof:
        """What to show with the next request. Raises KubeconfigError if there is nothing to
        show.
        """
        ...

    async def renewed(self, refused: Proof) -> Proof | None:
        """What to try once more after a 401 upon `refused`; None if there is nothing else. Raises
        KubeconfigError.
        """
        ...

    def for_another_thread(self) -> Credentials:
        """The same, to be used in the event loop of another thread."""
        ...


class Fixed:
    """The same proof for ever: a token, a user name with its password, or nothing at all."""

    def __init__(self, proof: Proof) -> None:
        self._proof = proof

    async def proof(self) -> Proof:
        return self._proof

    async def renewed(self, refused: Proof) -> Proof | None:
        return None

    def for_another_thread(self) -> Credentials:
        return self


ANONYMOUS = Fixed(Proof())


class TokenFile:
    """A token in a file that somebody else rotates. Read at most once a minute, and when the server
    refuses it.

    While the file cannot be read the last token (or `fallback`) goes on being shown; `where` names
    the file's field.
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
            log.warning("token not read again", path=str(self._path), error=reason(problem))
            proof = self._proof
        self._read_at = self._clock.now()
        if self._proof is None or proof.authorization != self._proof.authorization:
            self._proof = proof
        return self._proof


def bearer(token: str, where: str) -> Proof:
    """The proof of a bearer token. Raises KubeconfigError for what cannot stand in a header; never
    quotes it.
    """
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise KubeconfigError(
            f"{where}: expected a token of printable ASCII without spaces, got {len(token)} "
            "characters"
        )
    return Proof(f"Bearer {token}")


def reason(problem: Exception) -> str:
    """Why, in one line; the path is named by whoever tells it."""
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    return " ".join(str(problem).split())
