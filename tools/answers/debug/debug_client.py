"""Asks a running scheduler for its pages, as `berth debug` and `berth why` do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus

import aiohttp
import anyio
import click
import msgspec

from berth.actors.client.credentials import KubeconfigError
from berth.actors.client.rest import in_words
from berth.actors.scheduling.kube.meta import Status

from ..terminal.options import context_option, struct_options
from .leader_pod import NoLeaderError, port_forward
from .user_access import DEFAULT_SERVER, Trust, UserAccess, connection_of

ANSWER_SECONDS = 120.0


class NoAnswerError(click.ClickException):
    """The scheduler gives no answer. The exit code is 2, because 1 means differences, as with
    `kubectl diff`.

    `status` is the status of an answer that refuses the request, or 0.
    """

    exit_code = 2

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


UNKNOWN_USER = (
    ": expected a kubeconfig with credentials that the scheduler's API server recognizes. An API "
    "server for experiments recognizes nobody: then start the scheduler with "
    "--authorization-always-allow-paths='/healthz,/readyz,/livez,/debug/*'"
)


class DebugTarget(msgspec.Struct, frozen=True):
    """The options that say which scheduler to ask, and with whose credentials."""

    server: str
    leader: bool
    lease: str
    kubeconfig: str | None
    context: str
    certificate_authority: str | None
    insecure: bool

    def fetch(self, paths: list[str]) -> list[bytes]:
        """Returns the bodies of these pages. Raises click.ClickException."""
        self.check()
        with failures_in_words(self.server):
            return anyio.run(_fetch, self, paths)

    def check(self) -> None:
        """Raises click.UsageError for a server that cannot be asked."""
        scheme, _, place = self.server.partition("://")
        if scheme == "http" and place:
            raise click.UsageError(
                "--server: expected https, as a scheduler serves these pages over TLS alone, such"
                f" as {DEFAULT_SERVER}, got {self.server!r}"
            )
        if scheme != "https" or not place:
            raise click.UsageError(
                f"--server: expected a URL such as {DEFAULT_SERVER}, got {self.server!r}"
            )


target_options = struct_options(
    DebugTarget,
    "target",
    click.option(
        "--server",
        default=DEFAULT_SERVER,
        show_default=True,
        metavar="URL",
        help="The scheduler's address: its --bind-address and --secure-port.",
    ),
    click.option(
        "--leader",
        is_flag=True,
        help="The leader's pod in place of --server, reached through kubectl port-forward.",
    ),
    click.option(
        "--lease",
        default="kube-system/kube-scheduler",
        show_default=True,
        metavar="NAMESPACE/NAME",
        help="The lease that names the leader; its pod is in the same namespace.",
    ),
    click.option(
        "--kubeconfig", metavar="FILE", help="Whose credentials to show, as with kubectl."
    ),
    context_option,
    click.option(
        "--certificate-authority",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="Authorities of the scheduler's certificate, besides those of the cluster.",
    ),
    click.option(
        "--insecure-skip-tls-verify",
        "insecure",
        is_flag=True,
        help="Do not verify the scheduler's certificate, which may be of its own making.",
    ),
)


@contextmanager
def failures_in_words(server: str) -> Iterator[None]:
    """Raises NoAnswerError in place of the errors of a request to the server."""
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as problem:
        raise NoAnswerError(
            f"{server}: {problem.certificate_error}; give the certificate of its authority with"
            " --certificate-authority, or --insecure-skip-tls-verify"
        ) from None
    except aiohttp.ClientConnectionError as problem:
        raise NoAnswerError(f"{server}: {in_words(problem)}") from None
    except (
        aiohttp.ClientError,
        TimeoutError,
        msgspec.ValidationError,
        msgspec.DecodeError,
    ) as problem:
        raise NoAnswerError(f"{server}: {problem or 'no answer in time'}") from None
    except (KubeconfigError, NoLeaderError) as problem:
        raise NoAnswerError(str(problem)) from None


@asynccontextmanager
async def server_url(target: DebugTarget) -> AsyncIterator[tuple[str, UserAccess]]:
    """Yields the URL of a scheduler for the block, and the user's access to it. Raises
    KubeconfigError or NoLeaderError.
    """
    connection = connection_of(target.kubeconfig, target.context)
    access = UserAccess(
        connection, Trust(target.certificate_authority, target.insecure or target.leader)
    )
    if not target.leader:
        yield target.server, access
        return
    forwarding = port_forward(connection, target.lease, target.kubeconfig, target.context)
    async with forwarding as server:
        yield server, access


async def _fetch(target: DebugTarget, paths: list[str]) -> list[bytes]:
    """Fetches the pages one after another, which is little work for the scheduler."""
    async with (
        server_url(target) as (server, access),
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS)) as session,
    ):
        return [await page_of(session, server, access, path) for path in paths]


async def page_of(
    session: aiohttp.ClientSession, server: str, access: UserAccess, path: str
) -> bytes:
    """Returns the body of a page. Raises NoAnswerError, KubeconfigError or aiohttp.ClientError."""
    headers, tls = await access.proof()
    async with session.get(server.rstrip("/") + path, headers=headers, ssl=tls) as response:
        body = await response.read()
        if response.status != HTTPStatus.OK:
            raise NoAnswerError(f"{server}: {_refusal(response.status, body)}", response.status)
        return body


def _refusal(status: int, body: bytes) -> str:
    """Returns why a server did not answer a request."""
    hint = UNKNOWN_USER if status == HTTPStatus.UNAUTHORIZED else ""
    return f"{status} {_message_of(body)}{hint}"


def _message_of(body: bytes) -> str:
    """Returns the message of a Status; the whole text if it is no Status."""
    try:
        return msgspec.json.decode(body, type=Status).message
    except msgspec.MsgspecError:
        return body.decode(errors="replace").strip()
