"""The options --feature-gates and --emulated-version of the commands in tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click

from berth.config.feature_gates import gate_warnings, parse_gates, with_defaults
from berth.config.versions import CURRENT, VERSIONS, Version, emulated, version_warnings

VERSION = f"{__name__}.version"  # where the context keeps the version that was asked for


def feature_gates_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command both options. `gates_from` reads what they say."""
    return version_option(_gates_option(command))


def _keep_version(ctx: click.Context, _parameter: click.Parameter, text: str | None) -> None:
    if text is None:
        return
    try:
        ctx.meta[VERSION] = emulated(text)
        warnings = version_warnings(text)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None
    for warning in warnings:
        click.echo(warning, err=True)


_gates_option = click.option(
    "--feature-gates",
    multiple=True,
    metavar="NAME=BOOL,...",
    help="Feature gates, as for berth run; repeatable.",
)
version_option = click.option(
    "--emulated-version",
    callback=_keep_version,
    expose_value=False,
    metavar="VERSION",
    help="The version of Kubernetes to decide as:"
    f" {' or '.join(version.text for version in VERSIONS.values())}."
    f"  [default: {CURRENT.text}]",
)


def version_asked() -> Version:
    """Returns the version that the command was asked to decide as."""
    context = click.get_current_context(silent=True)
    return CURRENT if context is None else context.meta.get(VERSION, CURRENT)


def gates_from(texts: Iterable[str]) -> dict[str, bool]:
    """Returns every gate and change of the version that was asked for, with its value. Prints
    warnings on stderr. Raises FeatureGateError.
    """
    settings, version = parse_gates(",".join(texts)), version_asked()
    values = with_defaults(settings, version)
    for warning in gate_warnings(settings, version):
        click.echo(warning, err=True)
    return values
