"""Who we are to the API server: the Authorization header of a request, from wherever it comes.

A token that stands in a file is read again once a minute, because whoever wrote it renews it. What an exec plugin gives
is used until it expires or the server refuses it.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Protocol

import anyio
import msgspec

from actors.runtime.clock import Clock

REREAD_SECONDS = 60.0
EXEC_SECONDS = 60.0
EXPIRY_MARGIN_SECONDS = 10.0
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class CredentialsError(Exception):
    """No credentials can be had; the message says where they were looked for."""


class Credentials(Protocol):
    async def authorization(self, clock: Clock) -> str:
        """The value of the Authorization header, "" for none. Raises CredentialsError."""
        ...

    def refused(self) -> bool:
        """The server has answered 401; true if asking again may give something else."""
        ...


class Fixed(msgspec.Struct, frozen=True):
    """The same header for ever."""

    header: str = ""

    async def authorization(self, clock: Clock) -> str:
        return self.header

    def refused(self) -> bool:
        return False


def bearer(token: str) -> Fixed:
    return Fixed(f"Bearer {token}" if token else "")


def basic(username: str, password: str) -> Fixed:
    return Fixed("Basic " + base64.b64encode(f"{username}:{password}".encode()).decode())


class TokenFile:
    """The token that stands in a file at the moment, or nearly so."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._header = ""
        self._read_at = float("-inf")

    async def authorization(self, clock: Clock) -> str:
        if clock.now() - self._read_at >= REREAD_SECONDS:
            try:
                token = (await anyio.Path(self._path).read_text()).strip()
            except (OSError, UnicodeDecodeError) as problem:
                raise CredentialsError(f"token file {self._path}: cannot be read: {problem}") from None
            self._header, self._read_at = f"Bearer {token}", clock.now()
        return self._header

    def refused(self) -> bool:
        self._read_at = float("-inf")
        return True


class ExecEntry(msgspec.Struct, frozen=True):
    name: str
    value: str = ""


class ExecConfig(msgspec.Struct, frozen=True, rename="camel"):
    """The `exec` of a kubeconfig's user."""

    command: str
    api_version: str
    args: tuple[str, ...] | None = ()
    env: tuple[ExecEntry, ...] | None = ()
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class ExecStatus(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    expiration_timestamp: datetime | None = None
    client_certificate_data: str = ""


class ExecAnswer(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    status: ExecStatus | None = None


class ExecPlugin:
    """A program that is run for a token. One that gives a client certificate instead is refused."""

    def __init__(self, config: ExecConfig, cluster: Mapping[str, object], folder: Path) -> None:
        self._config = config
        self._cluster = cluster
        self._folder = folder
        self._header = ""
        self._expires: datetime | None = None
        self._running = anyio.Lock()

    async def authorization(self, clock: Clock) -> str:
        async with self._running:
            left = None if self._expires is None else (self._expires - clock.wall()).total_seconds()
            if not self._header or (left is not None and left < EXPIRY_MARGIN_SECONDS):
                status = await self._run()
                self._header, self._expires = f"Bearer {status.token}", status.expiration_timestamp
            return self._header

    def refused(self) -> bool:
        self._header = ""
        return True

    async def _run(self) -> ExecStatus:
        """Run the plugin. Raises CredentialsError with what went wrong and the hint that comes with the plugin."""
        config = self._config
        spec: dict[str, object] = {"interactive": False}
        if config.provide_cluster_info:
            spec["cluster"] = self._cluster
        info = {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": spec}
        environment = {
            **os.environ,
            **{entry.name: entry.value for entry in config.env or ()},
            "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
        }
        command = config.command
        if "/" in command and not Path(command).is_absolute():
            command = str(self._folder / command)
        try:
            with anyio.fail_after(EXEC_SECONDS):
                done = await anyio.run_process([command, *(config.args or ())], env=environment, check=False)
        except OSError as problem:
            raise self._failed(f"cannot be run: {problem.strerror or problem}") from None
        except TimeoutError:
            raise self._failed(f"did not end within {EXEC_SECONDS:.0f} s") from None
        if done.returncode != 0:
            said = " ".join(done.stderr.decode(errors="replace").split())[:200]
            raise self._failed(f"exited with {done.returncode}: {said}")
        try:
            answer = msgspec.json.decode(done.stdout, type=ExecAnswer)
        except msgspec.DecodeError as problem:
            raise self._failed(f"printed no ExecCredential: {problem}") from None
        if answer.kind != "ExecCredential" or answer.api_version != config.api_version:
            raise self._failed(
                f"printed {answer.api_version} {answer.kind}, expected {config.api_version} ExecCredential"
            )
        if answer.status is None or not answer.status.token:
            given = answer.status is not None and answer.status.client_certificate_data
            raise self._failed("gave a client certificate; only tokens are taken" if given else "gave no token")
        return answer.status

    def _failed(self, why: str) -> CredentialsError:
        hint = f" ({' '.join(self._config.install_hint.split())})" if self._config.install_hint else ""
        return CredentialsError(f"exec plugin {self._config.command}: {why}{hint}")
