"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])

master_option = click.option(
    "--master", default="", metavar="URL", help="The cluster: a live one, by its API server's URL."
)

context_option = click.option(
    "--context", default="", metavar="NAME", help="The context of the kubeconfig."
)

config_option = click.option(
    "--config", "file", type=click.Path(), metavar="FILE", help="A KubeSchedulerConfiguration file."
)


def cluster_options(function: Function) -> Function:
    """Adds the options `paths`, `kubeconfig`, `context` and `master`: a live cluster, files, or
    both.
    """
    filename = click.option(
        "-f",
        "--filename",
        "paths",
        multiple=True,
        type=click.Path(exists=True, allow_dash=True, path_type=Path),
        help="The cluster, or with --kubeconfig or --master what is added to it: manifests, "
        "folders of them, or - for standard input; repeatable.",
    )
    kubeconfig = click.option(
        "--kubeconfig",
        default="",
        metavar="FILE",
        help="The cluster: a live one, by its kubeconfig. Without -f, $KUBECONFIG or "
        "~/.kube/config.",
    )
    return filename(kubeconfig(context_option(master_option(function))))


def top_option(rows: str) -> Callable[[Function], Function]:
    """Returns the option `top`, which bounds the number of rows of a table."""
    return click.option(
        "--top",
        type=click.IntRange(1),
        default=20,
        show_default=True,
        metavar="N",
        help=f"Show at most N {rows}.",
    )
