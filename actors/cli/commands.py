"""The `berth` command. Its subcommands are entry points of the group `berth.commands`, which are
loaded when they are called.

Under the name `kube-scheduler`, the program is `berth run`, so that a manifest of kube-scheduler
can call it.
"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from errno import EPIPE
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import click

from ..process.packages import entries_of
from ..process.streams import (
    OutputError,
    discard_output,
    open_missing_streams,
    tell_output_apart,
)
from ..runtime.exceptions import first_of

GROUP = "berth.commands"
ALIAS = "kube-scheduler"


class Commands(click.Group):
    """The group of the installed commands, which are found by name among the entry points.

    It lists them without loading them, as loading all takes a second.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *entries_of(GROUP).names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        entry = _entry(cmd_name)
        return None if entry is None else click.Command(cmd_name, help=_help_of(entry))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        entry = _entry(name)
        if entry is not None:
            return name, _loaded(entry), args[1:]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(name, self.list_commands(ctx), 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def __call__(self, *args: Any, **settings: Any) -> Any:
        open_missing_streams()
        tell_output_apart()
        try:
            return self._called(*args, **settings)
        except* OutputError as failed:
            problem = first_of(failed).__cause__
            assert isinstance(problem, OSError)
        discard_output()
        if problem.errno != EPIPE:  # whoever reads has had enough
            with suppress(OSError):
                click.echo(f"Error: standard output: {problem.strerror}", err=True)
        sys.exit(1)

    def _called(self, *args: Any, **settings: Any) -> Any:
        """Calls the command, and flushes standard output."""
        try:
            if not args and Path(sys.argv[0]).name == ALIAS:
                from .run import run

                return run(prog_name=ALIAS)
            return super().__call__(*args, **settings)
        finally:
            sys.stdout.flush()


def _entry(name: str) -> EntryPoint | None:
    return next(iter(entries_of(GROUP).select(name=name)), None)


def _loaded(entry: EntryPoint) -> click.Command:
    """Imports a command. The garbage collector ignores all that it imports, now and later, as
    nothing of it is ever freed: that saves a sixth of the time of `berth explain --help`.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        command: click.Command = entry.load()
    finally:
        gc.freeze()
        if collects:
            gc.enable()
    return command


def _help_of(entry: EntryPoint) -> str:
    """Returns the docstring of a command's function, read from the source of its module."""
    import ast
    from importlib.util import find_spec

    spec = find_spec(entry.module)
    if spec is None or spec.origin is None:
        return ""
    for statement in ast.parse(Path(spec.origin).read_bytes()).body:
        if isinstance(statement, ast.FunctionDef) and statement.name == entry.attr:
            return ast.get_docstring(statement) or ""
    return ""


def _print_version(ctx: click.Context, _: click.Parameter, requested: bool) -> None:
    if requested and not ctx.resilient_parsing:
        from ..process.version import described

        click.echo(described())
        ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the versions of Kubernetes and berth, and exit.",
)
def main() -> None:
    """A kube-scheduler in Python: places the pods of a Kubernetes cluster on its nodes, and
    explains why.
    """


@main.command()
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
def version(output: str) -> None:
    """Show the versions of Kubernetes and berth.

    That of Kubernetes is the version whose kube-scheduler makes the same decisions.
    """
    import msgspec

    from ..process.version import Versions, described

    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(Versions())).decode())
    else:
        click.echo(described())
