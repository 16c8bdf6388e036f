"""The table of flags as a click command that reads pflag's forms.

The forms are `--flag value`, `--flag=value`, a bare `--flag` for true, `-v2`, `-v 2` and `-v=2`. An
underscore in a name counts as a dash, and empty arguments are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from .flag import Flag
from .kinds import Kind
from .table import FLAGS, GROUPS, Flags

# Defaults that --help leaves out.
_UNREMARKABLE = frozenset(("", "false", "[]", "0"))


class FlagCommand(click.Command):
    """A command with the flags of the table, besides its own options. Its callback takes the
    Flags.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        self._own: list[click.Parameter] = list(settings.pop("params", None) or ())
        settings["params"] = [*self._own, *map(_option, FLAGS.values())]
        super().__init__(*args, **settings)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, list(_normalized_arguments(args)))
        flags = Flags({name: ctx.params.pop(_variable(name)) for name in FLAGS})
        ctx.params["flags"] = flags
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = [record for each in self._own if (record := each.get_help_record(ctx)) is not None]
        if own:
            with formatter.section("Plugins under development"):
                formatter.write_dl(own)
        for title, flags in GROUPS.items():
            rows = [(_term(flag), _meaning_and_default(flag)) for flag in flags]
            if flags is GROUPS["Global"]:
                rows.insert(0, ("-h, --help", "Show this text, and exit."))
            with formatter.section(f"{title} flags"):
                formatter.write_dl(rows)


class _Parameter(click.ParamType[Any]):
    """The values of one occurrence of a flag."""

    def __init__(self, kind: Kind) -> None:
        self.name = kind.name
        self._parse = kind.parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._parse(value)
        except ValueError as problem:
            self.fail(str(problem), param, ctx)


def _option(flag: Flag) -> click.Option:
    """Returns an option that takes a value, and collects all of its occurrences."""
    return click.Option(
        [f"--{flag.name}", _variable(flag.name)],
        type=_Parameter(flag.kind),
        multiple=True,
        help=_meaning_and_default(flag),
    )


def _variable(name: str) -> str:
    return name.replace("-", "_")


def _normalized_arguments(args: Sequence[str]) -> Iterator[str]:
    """Yields the arguments, with every flag that has a value as `--flag=value`."""
    rest = iter(args)
    for arg in rest:
        if arg == "--":
            yield arg
            yield from filter(None, rest)
        elif arg.startswith("--"):
            written, equals, value = arg[2:].partition("=")
            name = written.replace("_", "-")
            flag = FLAGS.get(name)
            if equals or flag is None:
                yield f"--{name}{equals}{value}"
            elif flag.kind.bare is not None:
                yield f"--{name}={flag.kind.bare}"
            else:
                yield from _with_value(name, rest)
        elif arg.startswith("-v"):
            value = arg[2:]
            if value:
                yield f"--v={value[1:] if value[0] == '=' and len(value) > 1 else value}"
            else:
                yield from _with_value("v", rest)
        elif arg:
            yield arg


def _with_value(name: str, rest: Iterator[str]) -> Iterator[str]:
    value = next(rest, None)
    yield f"--{name}" if value is None else f"--{name}={value}"


def _term(flag: Flag) -> str:
    short = "-v, " if flag.name == "v" else ""
    value = "" if flag.kind.bare else f" {flag.kind.name.upper()}"
    return f"{short}--{flag.name}{value}"


def _meaning_and_default(flag: Flag) -> str:
    shown = "" if flag.default_text in _UNREMARKABLE else f" [default: {flag.default_text}]"
    return flag.meaning + shown
