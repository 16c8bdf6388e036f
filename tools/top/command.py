"""`berth top`: looks at a running scheduler and its cluster on a terminal."""

from __future__ import annotations

import sys

import click
import msgspec

from ..debug.asking import NoAnswerError, Target, reached, target_options


@click.command()
@click.option(
    "--page",
    "page",
    metavar="URL",
    help="The page of a `berth demo`, as it prints it, in place of --server.",
)
@target_options
def top(page: str | None, **target: str | bool | None) -> None:
    """Look at a cluster and its scheduler on this terminal, live.

    Shows the nodes, the queue, the story of each pod, and leadership with health. The keys are
    those of k9s: 1 to 4 for the views, Enter, Esc, / for a filter, ? for help and q to quit.

    \b
    berth top --leader
    berth top --server https://10.0.0.5:10259 --kubeconfig admin.kubeconfig
    berth top --page http://127.0.0.1:40123/ui/
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError("expected a terminal; `berth why` and `berth debug` print lines")
    from .app import Top
    from .model import Cluster
    from .stream import Remote, page_at

    if page is None:
        asked = msgspec.convert(target, Target)
        asked.check()
        remote = Remote(lambda: reached(asked))
    else:
        remote = Remote(lambda: page_at(page))
    app = Top(remote, Cluster())
    app.run()
    if app.problem:
        raise NoAnswerError(app.problem)
