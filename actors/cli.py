"""The `berth` command. Its subcommands are entry points of the group `berth.commands`, which are
loaded when they are called.
"""

from __future__ import annotations

from importlib.metadata import entry_points, version

import click

GROUP = "berth.commands"


class Commands(click.Group):
    """A group that finds its commands by name among the installed entry points."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *entry_points(group=GROUP).names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        for entry in entry_points(group=GROUP, name=cmd_name):
            command = entry.load()
            if isinstance(command, click.Command):
                return command
        return None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("berth-scheduler"), prog_name="berth")
def main() -> None:
    """A kube-scheduler in Python: places the pods of a Kubernetes cluster on its nodes, and
    explains why.
    """
