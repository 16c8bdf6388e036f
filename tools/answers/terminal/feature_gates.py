"""The option --feature-gates of the commands in tools."""

from __future__ import annotations

from collections.abc import Iterable

import click

from berth.config.feature_gates import (
    gate_warnings,
    parse_gates,
    with_defaults,
)

feature_gates_option = click.option(
    "--feature-gates",
    multiple=True,
    metavar="NAME=BOOL,...",
    help="Feature gates, as for berth run; repeatable.",
)


def gates_from(texts: Iterable[str]) -> dict[str, bool]:
    """Returns every gate with its value. Prints warnings on stderr. Raises FeatureGateError."""
    settings = parse_gates(",".join(texts))
    values = with_defaults(settings)
    for warning in gate_warnings(settings):
        click.echo(warning, err=True)
    return values
