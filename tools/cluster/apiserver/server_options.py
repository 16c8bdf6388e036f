"""The options of the commands that run an API server: admission plugins."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click
import msgspec

from ...kubernetes.api.types.admission_plugins import DEFAULT_PLUGINS, enabled_plugins

Command = Callable[..., Any]


class ServerOptions(msgspec.Struct, frozen=True):
    """What the options say. `enable` and `disable` are admission plugins."""

    enable: frozenset[str]
    disable: frozenset[str]

    def plugins(self, without: str = "") -> frozenset[str]:
        """Returns the admission plugins that run; the plugin `without` only if it is enabled by
        name. Raises click.UsageError.
        """
        try:
            return enabled_plugins(self.enable, self.disable, DEFAULT_PLUGINS - {without})
        except ValueError as problem:
            raise click.UsageError(str(problem)) from None


def server_options(command: Command) -> Command:
    """Adds the options to a command, which gets them as `server: ServerOptions`."""

    @wraps(command)
    def with_server(
        *arguments: Any,
        enable_admission_plugins: tuple[str, ...],
        disable_admission_plugins: tuple[str, ...],
        **options: Any,
    ) -> Any:
        enable, disable = _names(enable_admission_plugins), _names(disable_admission_plugins)
        return command(*arguments, server=ServerOptions(enable, disable), **options)

    added: Command = with_server
    for verb, which in (("disable", "Do not run"), ("enable", "Also run")):
        added = click.option(
            f"--{verb}-admission-plugins",
            multiple=True,
            metavar="NAME,…",
            help=f"{which} these admission plugins of Kubernetes, comma-separated; repeatable.",
        )(added)
    return added


def _names(values: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name.strip() for value in values for name in value.split(",") if name.strip())
