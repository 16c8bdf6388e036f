"""The arguments of a plugin: pluginConfig's `args` as a Struct, with its defaults and its rules.

Mirrors the args types of kube-scheduler's configuration with their defaulting and validation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from berth.config.feature_gates import DEFAULTS
from berth.config.fields import (
    Problems,
    converted,
    path_first,
    read_document,
)
from berth.config.types import API_VERSION

TYPE_FIELDS = ("apiVersion", "kind")
A = TypeVar("A")
Self = TypeVar("Self", bound="PluginArgs")


class ArgsError(ValueError):
    """A plugin's arguments do not fit; each message starts with the path below `args`."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class PluginArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The base of arguments that have rules or defaults which their types cannot express."""

    def problems(self, gates: Mapping[str, bool]) -> Iterable[str]:
        """Returns a line for each problem, which begins with the path of the field."""
        return ()

    def completed(self: Self, gates: Mapping[str, bool]) -> Self:
        """Returns the arguments with all their defaults, which may depend on feature gates."""
        return self


def read_args(args: Mapping[str, Any], into: type[A], gates: Mapping[str, bool] | None = None) -> A:
    """Returns pluginConfig's args as a msgspec Struct, whose types and defaults are the rules.
    Raises ArgsError.

    If the Struct is a PluginArgs, it is completed, and its own rules hold too. `apiVersion` and
    `kind`, which any args may contain, are left out.
    """
    document = {name: args[name] for name in args if name not in TYPE_FIELDS}
    if not issubclass(into, PluginArgs):
        try:
            return msgspec.convert(document, into)
        except msgspec.ValidationError as invalid:
            raise ArgsError(path_first(invalid, into)) from None
    problems = Problems()
    read = read_document(document, into, problems)
    if problems:
        raise ArgsError(*problems)
    completed: Any = converted(read, into).completed(gates or DEFAULTS)
    problems.extend(completed.problems(gates or DEFAULTS))
    if problems:
        raise ArgsError(*problems)
    result: A = completed
    return result


def check_type_of_args(args: Mapping[str, Any], plugin: str) -> None:
    """Raises ArgsError unless `apiVersion` and `kind` are those of an in-tree plugin's args."""
    expected = (("apiVersion", API_VERSION), ("kind", f"{plugin}Args"))
    wrong = tuple(
        f"{field}: expected {value}, got {args[field]!r}"
        for field, value in expected
        if args.get(field) not in (None, "", value)
    )
    if wrong:
        raise ArgsError(*wrong)
