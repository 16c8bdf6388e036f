"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, cast

import click
import msgspec

from ..manifests.manifest_files import paths_of
from ..manifests.manifests import Findings, ManifestError, Reading

Function = TypeVar("Function", bound=Callable[..., Any])

context_option = click.option(
    "--context", default="", metavar="NAME", help="The context of the kubeconfig."
)

config_option = click.option(
    "--config", "file", type=click.Path(), metavar="FILE", help="A KubeSchedulerConfiguration file."
)


def struct_options(
    kind: type[msgspec.Struct], name: str, *options: Callable[[Any], Any]
) -> Callable[[Function], Function]:
    """Returns the options that give the fields of a struct. The command gets it by this name."""

    def add(function: Function) -> Function:
        @wraps(function)
        def command(*args: Any, **given: Any) -> Any:
            fields = {field: given.pop(field) for field in kind.__struct_fields__}
            return function(*args, **{name: kind(**fields)}, **given)

        with_options: Any = command
        for option in reversed(options):
            with_options = option(with_options)
        return cast("Function", with_options)

    return add


class _Manifests(click.ParamType[list[Path]]):
    """Files of manifests, as kubectl names them."""

    name = "path"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[Path]:
        try:
            return paths_of(value)
        except ManifestError as problem:
            self.fail(str(problem), param, ctx)


def _all_options(_: object, __: object, values: tuple[list[Path], ...]) -> tuple[Path, ...]:
    return tuple(chain.from_iterable(values))


def manifest_options(text: str) -> Callable[[Function], Function]:
    """Returns the options `paths`, whose help is given, and `reading`."""
    filename = click.option(
        "-f",
        "--filename",
        "paths",
        multiple=True,
        type=_Manifests(),
        callback=_all_options,
        help=text,
    )
    recursive = click.option(
        "-R", "--recursive", is_flag=True, help="Read the sub-folders of folders, too."
    )
    strict = click.option(
        "--strict",
        is_flag=True,
        help="End at the first object that cannot be used, or that is in the files twice.",
    )

    def add(function: Function) -> Function:
        @wraps(function)
        def command(*args: Any, recursive: bool, strict: bool, **options: Any) -> Any:
            reading = Reading(recursive, Findings(strict=strict))
            return function(*args, reading=reading, **options)

        return cast("Function", filename(recursive(strict(command))))

    return add


def exit_with(reading: Reading) -> None:
    """Ends the command with exit code 1 if some objects of its files could not be used."""
    if reading.findings.problems:
        click.get_current_context().exit(1)


def top_option(rows: str) -> Callable[[Function], Function]:
    """Returns the option `top`, which bounds the number of rows of a table."""
    return click.option(
        "--top",
        type=click.IntRange(1),
        default=20,
        show_default=True,
        metavar="N",
        help=f"Show at most N {rows}.",
    )


def output_option(*others: str, words: str | None = None) -> Callable[[Function], Function]:
    """Returns the option `output`: a table, JSON, or one of these other forms."""
    forms = click.Choice(["table", "json", *others])
    return click.option(
        "-o", "--output", type=forms, default="table", show_default=True, help=words
    )


def port_option(name: str, words: str, default: int = 0) -> Callable[[Function], Function]:
    """Returns the option of a port, where 0 stands for a free one or for none."""
    port = click.IntRange(0, 65535)
    return click.option(name, type=port, default=default, show_default=True, help=words)


allowed_hosts_option = click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="Also answer requests for this host, such as those a proxy forwards; repeatable.",
)
