"""The options about plugins that no package registers."""

from __future__ import annotations

import click

from ..configuration.plugin_files import offering
from ..scheduling.decision.registry import RegistryError


def _offer(ctx: click.Context, _: click.Parameter, texts: tuple[str, ...]) -> None:
    if not texts or ctx.resilient_parsing:
        return
    try:
        ctx.with_resource(offering(texts))
    except RegistryError as problem:
        raise click.UsageError(f"--plugin {problem}") from None


plugin_option = click.option(
    "--plugin",
    multiple=True,
    metavar="FILE:CLASS",
    expose_value=False,
    callback=_offer,
    help="Offer this plugin, without a package; repeatable. If the configuration does not name it, "
    "it is enabled in each profile, at every point that it implements.",
)
reload_option = click.option(
    "--reload",
    "reloads",
    is_flag=True,
    help="Take a changed file of --plugin into use between two pods. If it cannot be imported, the "
    "old one stays, and the log says why.",
)
