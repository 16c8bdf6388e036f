"""`berth mcp`: gives assistants the commands that answer questions, as tools that only read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from berth.actors.cli.plugin_options import plugin_option

MISSING = "berth mcp needs the package mcp: pip install 'berth-scheduler[mcp]'"
_HELP = {
    "filename": "The cluster, or what is added to it: manifests, or folders of them; repeatable.",
    "server": "The scheduler's address, for why and doctor.",
    "leader": "The leader's pod in place of --server.",
}
_OPTIONS = (
    click.option("-f", "--filename", multiple=True, metavar="PATH", help=_HELP["filename"]),
    click.option("-R", "--recursive", is_flag=True, help="Read the sub-folders of folders, too."),
    click.option("--kubeconfig", metavar="FILE", help="The cluster: a live one."),
    click.option("--context", metavar="NAME", help="The context of the kubeconfig."),
    click.option("--master", metavar="URL", help="The cluster, by its API server's URL."),
    click.option("--config", metavar="FILE", help="The scheduler's configuration."),
    plugin_option,
    click.option("--feature-gates", multiple=True, metavar="NAME=BOOL,...", help="As of run."),
    click.option("--emulated-version", metavar="VERSION", help="As of run."),
    click.option("--server", metavar="URL", help=_HELP["server"]),
    click.option("--leader", is_flag=True, help=_HELP["leader"]),
    click.option("--lease", metavar="NAMESPACE/NAME", help="The lease that names the leader."),
    click.option("--certificate-authority", metavar="FILE", help="Of the scheduler."),
    click.option("--insecure-skip-tls-verify", is_flag=True, help="As of why."),
)


def _with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@click.command()
@_with_options
def mcp(**options: Any) -> None:
    """Answer the questions of assistants.

    It gives them explain, whatif, why and doctor as tools of the Model Context Protocol. An
    assistant's program starts it and speaks to it over standard input and output. The options say
    which cluster and which scheduler the tools ask; the tools write nothing.

    \b
    berth mcp --kubeconfig ~/.kube/config --leader
    berth mcp -f cluster/
    """
    try:
        from .mcp_tools import Commands, server_of
    except ImportError:
        raise click.ClickException(MISSING) from None
    server_of(Commands(options)).run("stdio")
