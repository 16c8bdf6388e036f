"""`berth debug`: shows the state of a running scheduler.

The sections are the cache, its differences from the API server, the queue, the pods that wait on
Permit, and the objects that the scheduler cannot read.
"""

from __future__ import annotations

import sys
from urllib.parse import quote

import click
import msgspec
from rich.console import Console

from berth.actors.server.debug import (
    CachePage,
    ComparisonPage,
    PluginsPage,
    PodPage,
    QueuePage,
    UnreadablePage,
    WaitingPage,
)

from ...answers.debug.debug_client import DebugTarget, failures_in_words, target_options
from ...answers.debug.debug_report import show_pod, show_section
from ...answers.terminal.options import output_option

SECTIONS = {
    "cache": CachePage,
    "comparison": ComparisonPage,
    "queue": QueuePage,
    "waiting": WaitingPage,
    "unreadable": UnreadablePage,
    "plugins": PluginsPage,
}
WIDE = 200


@click.command()
@click.argument("sections", nargs=-1, type=click.Choice([*SECTIONS]))
@target_options
@click.option(
    "--pod",
    metavar="NAMESPACE/NAME",
    help="One pod and its history; the namespace default may be omitted.",
)
@output_option()
@click.pass_context
def debug(
    ctx: click.Context,
    sections: tuple[str, ...],
    target: DebugTarget,
    pod: str | None,
    output: str,
) -> None:
    """Show the state of a running scheduler.

    The sections are its cache, the comparison with the API server, its queue, the pods that wait on
    Permit, the objects that it cannot read, and the failures of the plugins of packages. Without
    SECTIONS, shows all of them. The scheduler sees the credentials of your kubeconfig, and asks its
    API server whether you may see /debug/*. The exit code is 1 if the comparison finds differences,
    and 2 if there is no answer.

    \b
    berth debug --insecure-skip-tls-verify
    berth debug comparison --server https://10.0.0.1:10259 --certificate-authority ca.crt
    berth debug queue -o json --leader
    berth debug --pod shop/web-1 --leader
    """
    if pod is not None and sections:
        raise click.UsageError("--pod cannot be combined with sections")
    key = pod if pod is None or "/" in pod else f"default/{pod}"
    names = sections or tuple(SECTIONS)
    paths = [f"/debug/{name}" for name in names] if key is None else [f"/debug/pods/{quote(key)}"]
    bodies = target.fetch(paths)
    differ = False
    with failures_in_words(target.server):
        if key is None:
            differ = _show(names, bodies, output)
        else:
            _show_pod(key, bodies[0], output)
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
    """Returns a console as wide as the terminal. Without a terminal, it is so wide that no name is
    broken, for the sake of searches.
    """
    return Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)
