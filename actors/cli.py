"""The `berth` command. Its subcommands are entry points of the group `berth.commands`, loaded when they are called."""

from __future__ import annotations

from importlib.metadata import entry_points, version
from random import Random

import anyio
import click
import msgspec

GROUP = "berth.commands"


class Commands(click.Group):
    """A group whose commands are found by name among the installed entry points."""

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
    """A kube-scheduler in Python: places the pods of a Kubernetes cluster on its nodes, and says why."""


@main.command()
@click.option("--master", required=True, help="URL of the API server.")
@click.option("--config", "file", type=click.Path(), help="A KubeSchedulerConfiguration file.")
@click.option("--leader-elect/--no-leader-elect", default=None, help="Overrides the file; on by default.")
def run(master: str, file: str | None, leader_elect: bool | None) -> None:
    """Schedule the pods of a cluster until interrupted. Without the lease nothing is written."""
    from actors.client.rest import Connection
    from actors.framework.registry import RegistryError
    from actors.leader.actor import LeaseLostError
    from actors.runtime.clock import SystemClock
    from actors.system import run_scheduler
    from config.load import ConfigError, from_mapping, load_file
    from config.profiles import ProfileError

    try:
        configuration = load_file(file) if file else from_mapping(None)
        if leader_elect is not None:
            election = msgspec.structs.replace(configuration.leader_election, leader_elect=leader_elect)
            configuration = msgspec.structs.replace(configuration, leader_election=election)
        parts = (configuration, Connection(master), SystemClock(), Random())
        anyio.run(run_scheduler, *parts, backend_options={"use_uvloop": True})
    except KeyboardInterrupt:
        return
    except (ConfigError, RegistryError, ProfileError, LeaseLostError) as problem:
        raise click.ClickException(str(problem)) from None
