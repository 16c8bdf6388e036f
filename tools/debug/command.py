"""`berth debug`: shows the state of a running scheduler.

The sections are the cache, its differences from the API server, the queue, the pods that wait on
Permit, and the objects that the scheduler cannot read.
"""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from functools import partial
from http import HTTPStatus
from urllib.parse import quote

import aiohttp
import anyio
import click
import msgspec
from rich.console import Console

from berth.actors.client.credentials import KubeconfigError
from berth.actors.client.rest import in_words
from berth.actors.scheduling.kube.meta import Status
from berth.actors.server.debug import (
    CachePage,
    ComparisonPage,
    PodPage,
    QueuePage,
    UnreadablePage,
    WaitingPage,
)

from .access import DEFAULT_SERVER, Access, Trust, connection_of
from .leader import NoLeaderError, forwarded
from .report import show_pod, show_section

SECTIONS = {
    "cache": CachePage,
    "comparison": ComparisonPage,
    "queue": QueuePage,
    "waiting": WaitingPage,
    "unreadable": UnreadablePage,
}
ANSWER_SECONDS = 120.0
WIDE = 200


class NoAnswerError(click.ClickException):
    """No answer from the scheduler; as with `kubectl diff`, exit code 1 stands for differences."""

    exit_code = 2


UNKNOWN_USER = (
    ": expected a kubeconfig with credentials that the scheduler's API server recognizes. An API "
    "server for experiments recognizes nobody: then start the scheduler with "
    "--authorization-always-allow-paths='/healthz,/readyz,/livez,/debug/*'"
)


@click.command()
@click.argument("sections", nargs=-1, type=click.Choice([*SECTIONS]))
@click.option(
    "--server",
    default=DEFAULT_SERVER,
    show_default=True,
    metavar="URL",
    help="The scheduler's address: its --bind-address and --secure-port.",
)
@click.option(
    "--leader",
    is_flag=True,
    help="The leader's pod in place of --server, reached through kubectl port-forward.",
)
@click.option(
    "--lease",
    default="kube-system/kube-scheduler",
    show_default=True,
    metavar="NAMESPACE/NAME",
    help="The lease that names the leader; its pod is in the same namespace.",
)
@click.option("--kubeconfig", metavar="FILE", help="Whose credentials to show, as with kubectl.")
@click.option("--context", "context", default="", metavar="NAME", help="Its context.")
@click.option(
    "--certificate-authority",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Authorities of the scheduler's certificate, besides those of the cluster.",
)
@click.option(
    "--insecure-skip-tls-verify",
    "insecure",
    is_flag=True,
    help="Do not verify the scheduler's certificate, which may be of its own making.",
)
@click.option(
    "--pod",
    metavar="NAMESPACE/NAME",
    help="One pod and its history; the namespace default may be omitted.",
)
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
@click.pass_context
def debug(
    ctx: click.Context,
    sections: tuple[str, ...],
    server: str,
    leader: bool,
    lease: str,
    kubeconfig: str | None,
    context: str,
    certificate_authority: str | None,
    insecure: bool,
    pod: str | None,
    output: str,
) -> None:
    """Show the state of a running scheduler.

    The sections are its cache, the comparison with the API server, its queue, the pods that wait on
    Permit, and the objects that it cannot read. Without SECTIONS, shows all of them. The scheduler
    sees the credentials of your kubeconfig, and asks its API server whether you may see /debug/*.
    The exit code is 1 if the comparison finds differences, and 2 if there is no answer.

    \b
    berth debug --insecure-skip-tls-verify
    berth debug comparison --server https://10.0.0.1:10259 --certificate-authority ca.crt
    berth debug queue -o json --leader
    berth debug --pod shop/web-1 --leader
    """
    if pod is not None and sections:
        raise click.UsageError("--pod cannot be combined with sections")
    if not server.startswith("https://"):
        raise click.UsageError(f"--server: expected a URL such as {DEFAULT_SERVER}, got {server!r}")
    key = pod if pod is None or "/" in pod else f"default/{pod}"
    names = sections or tuple(SECTIONS)
    paths = [f"/debug/{name}" for name in names] if key is None else [f"/debug/pods/{quote(key)}"]
    try:
        connection = connection_of(kubeconfig, context)
        trust = Trust(certificate_authority, insecure or leader)
        fetch = partial(_fetch, Access(connection, trust), server, paths)
        bodies = anyio.run(fetch, lease if leader else "", kubeconfig, context)
        differ = False
        if key is None:
            differ = _show(names, bodies, output)
        else:
            _show_pod(key, bodies[0], output)
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
    ctx.exit(1 if differ else 0)


def _show(sections: tuple[str, ...], bodies: list[bytes], output: str) -> bool:
    """Prints these sections; returns True if the comparison found differences."""
    pages = [
        msgspec.json.decode(body, type=SECTIONS[name])
        for name, body in zip(sections, bodies, strict=True)
    ]
    if output == "json":
        raw = {name: msgspec.Raw(body) for name, body in zip(sections, bodies, strict=True)}
        click.echo(msgspec.json.encode(raw))
    else:
        console = _console()
        for page in pages:
            show_section(page, console)
    return any(isinstance(page, ComparisonPage) and page.differences for page in pages)


def _show_pod(key: str, body: bytes, output: str) -> None:
    page = msgspec.json.decode(body, type=PodPage)
    if output == "json":
        click.echo(body)
    else:
        show_pod(key, page, _console())


def _console() -> Console:
    """Returns a console as wide as the terminal. Without a terminal, it is wide enough to keep a
    name in one piece, so that a line of the output can be searched for.
    """
    return Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)


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
