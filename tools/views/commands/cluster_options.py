"""The options that name a cluster: a live one, files, or both."""

from __future__ import annotations

from collections.abc import Callable

import click

from ...answers.explain.cluster_source import Live
from ...answers.terminal.options import Function, context_option, manifest_options, struct_options


def live_options(text: str) -> Callable[[Function], Function]:
    """Returns the options of `live`, a live cluster. The text is the help of --kubeconfig."""
    return struct_options(
        Live,
        "live",
        click.option("--kubeconfig", default="", metavar="FILE", help=text),
        context_option,
        click.option(
            "--master",
            default="",
            metavar="URL",
            help="The cluster: a live one, by its API server's URL.",
        ),
    )


def cluster_options(function: Function) -> Function:
    """Adds the options `paths`, `reading` and `live`: a live cluster, files, or both."""
    manifests = manifest_options(
        "The cluster, or with --kubeconfig or --master what is added to it: manifests, "
        "folders of them, or - for standard input; repeatable."
    )
    live = live_options(
        "The cluster: a live one, by its kubeconfig. Without -f, $KUBECONFIG or ~/.kube/config."
    )
    return manifests(live(function))
