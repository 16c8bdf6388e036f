"""Credentials from a command: the client side of client.authentication.k8s.io/v1 and v1beta1.

The command runs if there is no credential yet, if the last one has expired, and if the server
refused it. It never runs twice at the same time. Its output is never quoted, because it may hold a
secret.
"""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated

import anyio
import msgspec

from ..runtime.clock import Clock
from .credentials import KubeconfigError, Proof, bearer, reason
from .tls import show_certificate

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
TIMEOUT_SECONDS = 60.0


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    status: _Status


class ExecPlugin:
    """The credentials that a program prints. It is run as `argv` with `environment`; `where` names
    the plugin's field in the kubeconfig.

    `context` creates a TLS context that trusts the server; it is None for plain HTTP.
    """

    def __init__(
        self,
        where: str,
        api_version: str,
        argv: Sequence[str],
        environment: Mapping[str, str],
        context: Callable[[], ssl.SSLContext] | None,
        clock: Clock,
    ) -> None:
        self._where = where
        self._api_version = api_version
        self._argv = tuple(argv)
        self._environment = dict(environment)
        self._context = context
        self._clock = clock
        self._lock = anyio.Lock()
        self._proof: Proof | None = None
        self._expires: datetime | None = None
        self._certificate: tuple[str, str] | None = None
        self._tls: ssl.SSLContext | None = None

    async def proof(self) -> Proof:
        async with self._lock:
            expired = self._expires is not None and self._clock.wall() >= self._expires
            if self._proof is None or expired:
                self._proof = await self._ask()
            return self._proof

    async def renewed(self, refused: Proof) -> Proof | None:
        async with self._lock:
            # If many requests are refused at once, the first of them renews the proof for all.
            if self._proof is None or self._proof is refused:
                self._proof = await self._ask()
            return self._proof

    def for_another_thread(self) -> ExecPlugin:
        """Returns another plugin with its own runs, because a lock belongs to one event loop."""
        return ExecPlugin(
            self._where,
            self._api_version,
            self._argv,
            self._environment,
            self._context,
            self._clock,
        )

    async def _ask(self) -> Proof:
        status = self._read(await self._run())
        token, certificate, key = (
            status.token,
            status.client_certificate_data,
            status.client_key_data,
        )
        if bool(certificate) != bool(key):
            raise self._error_about(
                "expected clientCertificateData and clientKeyData together, got one of them"
            )
        if not token and not certificate:
            raise self._error_about(
                "expected status.token or status.clientCertificateData, got neither"
            )
        if (
            certificate
            and key
            and self._context is not None
            and self._certificate != (certificate, key)
        ):
            context = self._context()
            try:
                show_certificate(context, certificate.encode(), key.encode())
            except ValueError as problem:
                raise self._error_about(f"clientCertificateData: {problem}") from None
            # The context is kept while the certificate is the same, so that open connections stay
            # in use.
            self._certificate, self._tls = (certificate, key), context
        authorization = (
            bearer(token, f"{self._where}: {self._argv[0]}: status.token").authorization
            if token
            else ""
        )
        self._expires = status.expiration_timestamp
        return Proof(authorization, self._tls if certificate else None)

    async def _run(self) -> bytes:
        try:
            with anyio.fail_after(TIMEOUT_SECONDS):
                done = await anyio.run_process(
                    self._argv, stdin=subprocess.DEVNULL, check=False, env=self._environment
                )
        except TimeoutError:
            raise self._error_about(f"expected it to end within {TIMEOUT_SECONDS:.0f} s") from None
        except (OSError, ValueError) as problem:
            raise self._error_about(f"cannot be run: {reason(problem)}") from None
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            why = f": {lines[-1].strip()[:200]}" if lines else ""
            raise self._error_about(f"ended with status {done.returncode}{why}")
        return done.stdout

    def _read(self, printed: bytes) -> _Status:
        try:
            answer = msgspec.json.decode(printed, type=_ExecCredential)
        except (ValueError, RecursionError) as problem:
            raise self._error_about(
                f"expected an ExecCredential in JSON on standard output: {reason(problem)}"
            ) from None
        if (answer.kind, answer.api_version) != ("ExecCredential", self._api_version):
            raise self._error_about(
                f"expected an ExecCredential of {self._api_version}, got another kind or version"
            )
        return answer.status

    def _error_about(self, why: str) -> KubeconfigError:
        return KubeconfigError(f"{self._where}: {self._argv[0]}: {why}")
