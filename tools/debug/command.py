"""`berth debug`: shows the state of a `berth run`.

This is its cache, its difference from the API server, its queue, the pods that wait on Permit, and
the objects that it cannot read.
"""

from __future__ import annotations

import sys
from urllib.parse import quote

import aiohttp
import anyio
import click
import msgspec
from rich.console import Console

from berth.actors.server.debug import (
    CachePage,
    ComparisonPage,
    PodPage,
    QueuePage,
    UnreadablePage,
    WaitingPage,
)
from berth.tools.debug.report import show_pod, show_section

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
    """As with `kubectl diff`, exit code 1 means differences, and a higher one means trouble."""

    exit_code = 2


@click.command()
@click.argument("sections", nargs=-1, type=click.Choice([*SECTIONS]))
@click.option(
    "--server",
    default="http://127.0.0.1:10259",
    show_default=True,
    metavar="URL",
    help="The scheduler's address: its --bind-address and --secure-port.",
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
    ctx: click.Context, sections: tuple[str, ...], server: str, pod: str | None, output: str
) -> None:
    """Show the state of a running scheduler.

    The sections are its cache, the comparison with the API server, its queue, the pods that wait on
    Permit, and the objects that it cannot read. Without SECTIONS, shows all of them. The exit code
    is 1 if the comparison finds differences, and 2 if there is no answer.

    \b
    berth debug
    berth debug comparison --server http://127.0.0.1:10259
    berth debug queue -o json
    berth debug --pod shop/web-1
    """
    if pod is not None and sections:
        raise click.UsageError("--pod cannot be combined with sections")
    if not server.startswith(("http://", "https://")):
        raise click.UsageError(
            f"--server: expected a URL such as http://127.0.0.1:10259, got {server!r}"
        )
    try:
        if pod is None:
            differ = _show(sections or tuple(SECTIONS), server, output)
        else:
            differ = False
            _show_pod(pod if "/" in pod else f"default/{pod}", server, output)
    except (
        aiohttp.ClientError,
        TimeoutError,
        msgspec.ValidationError,
        msgspec.DecodeError,
    ) as problem:
        raise NoAnswerError(f"{server}: {problem or 'no answer in time'}") from None
    ctx.exit(1 if differ else 0)


def _show(sections: tuple[str, ...], server: str, output: str) -> bool:
    """Prints these sections; returns True if the comparison found differences."""
    bodies = anyio.run(_fetch, server, [f"/debug/{name}" for name in sections])
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


def _show_pod(key: str, server: str, output: str) -> None:
    (body,) = anyio.run(_fetch, server, [f"/debug/pods/{quote(key)}"])
    page = msgspec.json.decode(body, type=PodPage)
    if output == "json":
        click.echo(body)
    else:
        show_pod(key, page, _console())


def _console() -> Console:
    """A console as wide as the terminal; if there is none, wide enough to keep names in one piece.

    So a line of the output can be searched for.
    """
    return Console(width=None if sys.stdout.isatty() else WIDE)


async def _fetch(server: str, paths: list[str]) -> list[bytes]:
    """Fetches one page after another, so as not to keep the scheduler busy."""
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
    bodies = []
    async with aiohttp.ClientSession(timeout=timeout) as session:
        for path in paths:
            async with session.get(server.rstrip("/") + path) as response:
                body = await response.read()
                if response.status != 200:
                    raise NoAnswerError(
                        f"{server}: {response.status} {body.decode(errors='replace').strip()}"
                    )
                bodies.append(body)
    return bodies
