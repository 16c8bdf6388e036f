"""`berth config`: checks, completes and converts configuration files, and describes them."""

from __future__ import annotations

from collections.abc import Mapping

import click
import msgspec
import yaml

from berth.config.feature_gates import (
    FeatureGateError,
    parse_gates,
    with_defaults,
)
from berth.config.legacy import convert as in_v1
from berth.config.load import (
    ConfigError,
    from_mapping,
)
from berth.config.types import KubeSchedulerConfiguration
from berth.config.versions import CONFIGURED, CURRENT, minor_of

from ..configuration.file import (
    ConfigurationFile,
    completed_text,
    read_document,
    schema,
    warnings_of,
)
from ..telemetry.logs import configure_logs
from .plugin_options import plugin_option

VERSION = f"{__name__}.version"  # where the context keeps the version that is asked for


def _gates(ctx: click.Context, _parameter: click.Parameter, value: str) -> Mapping[str, bool]:
    try:
        return with_defaults(parse_gates(value), ctx.meta.get(VERSION, CURRENT))
    except FeatureGateError as problem:
        raise click.BadParameter(str(problem)) from None


def _keep_version(ctx: click.Context, _: click.Parameter, text: str) -> None:
    ctx.meta[VERSION] = CONFIGURED[minor_of(text)]


feature_gates = click.option(
    "--feature-gates", "gates", callback=_gates, default="", metavar="NAME=BOOL,...",
    help="The feature gates that berth run is given.",
)  # fmt: skip
version = click.option(
    "--for", callback=_keep_version, expose_value=False, is_eager=True, show_default=True,
    type=click.Choice([each.text for each in CONFIGURED.values()]), default=CURRENT.text,
    help="The version of Kubernetes whose kube-scheduler reads the file.",
)  # fmt: skip


@click.group()
def config() -> None:
    """Check, complete and convert configuration files.

    \b
    berth config check scheduler.yaml
    berth config check scheduler.yaml --for 1.37
    berth config default > scheduler.yaml
    berth config convert old.yaml > scheduler.yaml
    berth config schema > scheduler.schema.json
    """
    configure_logs(quiet=True)


@config.command()
@click.argument("file", type=click.Path())
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@plugin_option
@feature_gates
@version
@click.pass_context
def check(ctx: click.Context, file: str, output: str, gates: Mapping[str, bool]) -> None:
    """Say whether berth run would accept a configuration FILE.

    It prints one line that says what the file holds, or a line for each problem. The exit code is
    0 for a file that would be accepted, and 1 for another.
    """
    configuration, problems, warnings = None, [], []
    try:
        source = ConfigurationFile(file, gates, lambda read: read)
        raw = source.read()
        configuration = source.parse(raw)
        warnings = warnings_of(configuration, raw)
    except ConfigError as invalid:
        problems = list(invalid.problems)
    if output == "json":
        profiles = [] if configuration is None else configuration.profiles
        answer = {
            "file": file,
            "valid": not problems,
            "problems": problems,
            "warnings": warnings,
            "profiles": [profile.scheduler_name for profile in profiles],
        }
        click.echo(msgspec.json.encode(answer))
    else:
        for problem in problems:
            click.echo(f"{file}: {problem}")
        for warning in warnings:
            click.echo(f"{file}: warning: {warning}")
        if configuration is not None:
            click.echo(f"{file}: valid: {_contents(configuration)}")
    ctx.exit(1 if problems else 0)


def _contents(configuration: KubeSchedulerConfiguration) -> str:
    names = [profile.scheduler_name for profile in configuration.profiles]
    extenders, election = len(configuration.extenders), configuration.leader_election
    parts = [f"{'profile' if len(names) == 1 else 'profiles'} {', '.join(names)}"]
    if extenders:
        parts.append(f"{extenders} extender{'' if extenders == 1 else 's'}")
    lease = f"lease {election.resource_namespace}/{election.resource_name}"
    parts.append(lease if election.leader_elect else "no leader election")
    return ", ".join(parts)


@config.command(short_help="Print the default configuration, with all its plugins.")
@feature_gates
@version
def default(gates: Mapping[str, bool]) -> None:
    """Print the default configuration, with all plugins and their arguments."""
    click.echo(completed_text(from_mapping(None), gates), nl=False)


@config.command()
@click.argument("file", type=click.Path())
@feature_gates
@version
@click.pass_context
def convert(ctx: click.Context, file: str, gates: Mapping[str, bool]) -> None:
    """Print a configuration FILE of an older version in v1.

    It accepts v1alpha1, v1alpha2, v1beta1, v1beta2 and v1beta3. Each change is a line on standard
    error; comments are lost. The exit code is 1 if something is left to be done by hand, or if the
    result has problems.
    """
    try:
        document = read_document(file)
        converted = in_v1(document)
        if not converted.changes:
            from_mapping(document, gates)
            click.echo(f"{file}: it is in v1 already", err=True)
        click.echo(yaml.safe_dump(converted.document, sort_keys=False), nl=False)
        for change in converted.changes:
            click.echo(f"{file}: {change}", err=True)
        for line in converted.by_hand:
            click.echo(f"{file}: by hand: {line}", err=True)
        from_mapping(converted.document, gates)
    except ConfigError as invalid:
        for problem in invalid.problems:
            click.echo(f"{file}: {problem}", err=True)
        ctx.exit(1)
    ctx.exit(1 if converted.by_hand else 0)


@config.command("schema", short_help="Print the JSON Schema of configuration files.")
def print_schema() -> None:
    """Print the JSON Schema of a configuration file, by which editors complete and check it.

    For editors with the YAML language server, the file's first line may be:

    \b
    # yaml-language-server: $schema=scheduler.schema.json
    """
    click.echo(msgspec.json.format(msgspec.json.encode(schema()), indent=2))
