"""Asks a running scheduler for its pages, as `berth debug` and `berth why` do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any

import aiohttp
import anyio
import click
import msgspec

from berth.actors.client.credentials import KubeconfigError
from berth.actors.client.rest import in_words
from berth.actors.scheduling.kube.meta import Status

from .access import DEFAULT_SERVER, Access, Trust, connection_of
from .leader import NoLeaderError, forwarded

ANSWER_SECONDS = 120.0


class NoAnswerError(click.ClickException):
    """No answer from the scheduler; as with `kubectl diff`, exit code 1 stands for differences."""

    exit_code = 2


UNKNOWN_USER = (
    ": expected a kubeconfig with credentials that the scheduler's API server recognizes. An API "
    "server for experiments recognizes nobody: then start the scheduler with "
    "--authorization-always-allow-paths='/healthz,/readyz,/livez,/debug/*'"
)


class Target(msgspec.Struct, frozen=True):
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
        if not self.server.startswith("https://"):
            raise click.UsageError(
                f"--server: expected a URL such as {DEFAULT_SERVER}, got {self.server!r}"
            )
        with failures_in_words(self.server):
            connection = connection_of(self.kubeconfig, self.context)
            trust = Trust(self.certificate_authority, self.insecure or self.leader)
            fetch = partial(_fetch, Access(connection, trust), self.server, paths)
            return anyio.run(
                fetch, self.lease if self.leader else "", self.kubeconfig, self.context
            )


_OPTIONS = (
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
    click.option("--context", "context", default="", metavar="NAME", help="Its context."),
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


def target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of a Target to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@contextmanager
def failures_in_words(server: str) -> Iterator[None]:
    """Turns the failures of a request to the server into NoAnswerError."""
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


async def _fetch(
    access: Access, server: str, paths: list[str], lease: str, kubeconfig: str | None, context: str
) -> list[bytes]:
    """Fetches one page after another, so as not to keep the scheduler busy. Asks the holder of
    `lease`, unless it is empty.
    """
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
    bodies = []
    async with AsyncExitStack() as stack:
        if lease:
            server = await stack.enter_async_context(
                forwarded(access.connection, lease, kubeconfig, context)
            )
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        for path in paths:
            headers, tls = await access.proof()
            url = server.rstrip("/") + path
            async with session.get(url, headers=headers, ssl=tls) as response:
                body = await response.read()
                if response.status != 200:
                    hint = UNKNOWN_USER if response.status == HTTPStatus.UNAUTHORIZED else ""
                    raise NoAnswerError(f"{server}: {response.status} {_reason(body)}{hint}")
                bodies.append(body)
    return bodies


def _reason(body: bytes) -> str:
    """Returns the message of a Status, or else the text."""
    try:
        return msgspec.json.decode(body, type=Status).message
    except msgspec.MsgspecError:
        return body.decode(errors="replace").strip()
