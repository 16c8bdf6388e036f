"""`berth plugin`: begins, lists, checks and tries plugins."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from berth.actors.configuration.file import file_or_default
from berth.actors.configuration.plugin_files import load_plugin
from berth.actors.configuration.plugin_packages import every_plugin
from berth.actors.scheduling.decision.registry import RegistryError
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.actors.telemetry.logs import configure_logs
from berth.config.load import ConfigError
from berth.plugin import Plugin, WatchedKind

from ...answers.explain.slow_answer import progress_reports
from ...answers.explain.words import listed
from ...answers.manifests.manifest_files import paths_of
from ...answers.manifests.manifests import ManifestError, Manifests, Reading, read
from ...answers.terminal.options import config_option
from ..plugins.plugin_check import CONTRACTS, contract_of, problems_of
from .field_names import odd_names
from .new_plugin import new
from .plugin_list import list_plugins


@click.group()
def plugin() -> None:
    """Begin, list, check and try plugins of your own.

    \b
    berth plugin new Cheap --kind score
    berth plugin check cheap/cheap/plugin.py:Cheap
    berth plugin run cheap/cheap/plugin.py:Cheap
    berth plugin list --config scheduler.yaml
    """
    configure_logs(quiet=True)


plugin.add_command(new)
plugin.add_command(list_plugins)


def _class_of(text: str) -> type[Plugin]:
    """Returns the class of FILE:CLASS, or of the NAME of an installed plugin. Raises
    click.UsageError.
    """
    try:
        return load_plugin(text) if ":" in text else every_plugin()[text]
    except KeyError:
        raise click.UsageError(f"no plugin {text!r}; berth plugin list has them") from None
    except RegistryError as problem:
        raise click.UsageError(str(problem)) from None


def _args_of(kind: type[Plugin], file: str | None) -> Mapping[str, Any] | None:
    """Returns the arguments of a plugin in a configuration. Raises ConfigError."""
    profiles = file_or_default(file).profiles if file else ()
    every = (each for profile in profiles for each in profile.plugin_config)
    return next((each.args for each in every if each.name == kind.name), None)


@plugin.command()
@click.argument("which", metavar="FILE:CLASS|NAME")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="Nodes, pods and other objects that the clusters are drawn from, besides random ones.",
)
@config_option
@click.option("--examples", default=20, show_default=True, type=click.IntRange(1), metavar="N")
@click.option("--seed", default=1, show_default=True, help="Another seed draws other clusters.")
def check(which: str, files: tuple[str, ...], file: str | None, examples: int, seed: int) -> None:
    """Check the contracts of a plugin on random clusters.

    Has a line for each contract. The exit code is 1 if one is broken, and 2 if the plugin cannot be
    used. A plugin has the arguments of the first profile of --config that has some, or else their
    defaults.

    \b
    berth plugin check price.py:Price
    berth plugin check price.py:Price -f cluster.yaml
    berth plugin check price.py:Price --config scheduler.yaml
    """
    kind = _class_of(which)
    try:
        args = _args_of(kind, file)
        paths = [path for file in files for path in paths_of(file)]
        declared = [each for each in kind.lookups if isinstance(each, WatchedKind)]
        kinds = [(each.api_version, each.kind) for each in declared]
        read_in = read(paths, kinds, Reading()) if paths else Manifests()
    except (ConfigError, ManifestError) as problem:
        raise click.UsageError(str(problem)) from None
    if read_in.left_out:
        kinds_left = listed(sorted(read_in.left_out))
        click.echo(f"left out, as no lookups of the plugin name it: {kinds_left}", err=True)
    objects = [*(each.document for each in read_in.objects), *read_in.others]
    nodes = [each for each in objects if each.get("kind") == "Node"]
    pods = [each for each in objects if each.get("kind") == "Pod"]
    others = [each for each in objects if each.get("kind") not in ("Node", "Pod")]
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    console = Console(stderr=True)
    broken: dict[str, str] = {}
    concerned_by: list[bool] = []
    try:
        with (
            progress_reports(of_plugins=True),
            Progress(
                *columns, console=console, transient=True, disable=not sys.stderr.isatty()
            ) as bar,
        ):
            task = bar.add_task(f"checking {kind.name}", total=examples)

            def advance(concerned: bool) -> None:
                concerned_by.append(concerned)
                bar.advance(task)

            found = problems_of(kind, args, nodes, pods, others, examples, seed, advance)
            for sentence in found:
                broken.setdefault(contract_of(sentence), sentence)
    except RegistryError as problem:
        raise click.UsageError(str(problem)) from None
    for contract in CONTRACTS:
        told = f": {broken[contract]}" if contract in broken else ""
        click.echo(f"{'BROKEN' if told else 'ok':8}{contract}{told}")
    for sentence in odd_names(declared):
        click.echo(f"{'odd':8}{sentence}")
    if broken:
        click.echo(f"{kind.name}: {len(broken)} of {len(CONTRACTS)} contracts are broken")
        click.get_current_context().exit(1)
    click.echo(f"{kind.name}: keeps all contracts in {examples} clusters")
    if not any(concerned_by):
        click.echo("but its PreFilter skipped each pod: give pods that concern it, with -f")


@plugin.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Run the demo with a plugin.",
)
@click.argument("which", metavar="FILE:CLASS|NAME")
@click.argument("rest", metavar="[OPTIONS OF DEMO]...", nargs=-1, type=click.UNPROCESSED)
def run(which: str, rest: tuple[str, ...]) -> None:
    """Run the demo with a plugin: berth demo --plugin.

    \b
    berth plugin run price.py:Price
    berth plugin run price.py:Price --keep --config scheduler.yaml
    """
    from ..demo.command import demo

    text = which
    if ":" not in which:
        if which in IN_TREE:
            raise click.UsageError(f"{which} is an in-tree plugin: berth demo has it already")
        kind = _class_of(which)
        text = f"{sys.modules[kind.__module__].__file__}:{kind.__qualname__}"
    demo.main(["--plugin", text, *rest], prog_name="berth demo")
