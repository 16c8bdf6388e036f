"""The option --feature-gates of commands of the workshop."""

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
    """Every gate with its value. Prints warnings on standard error. Raises FeatureGateError."""
    given = parse_gates(",".join(texts))
    values = with_defaults(given)
    for warning in gate_warnings(given):
        click.echo(warning, err=True)
    return values
