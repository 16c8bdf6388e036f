"""A flag of `berth run`: its name, kind, default and meaning."""

from __future__ import annotations

import re
from functools import reduce
from typing import Any

import msgspec

from berth.config.types import KubeSchedulerConfiguration

from .kinds import Kind

_CONFIGURATION = KubeSchedulerConfiguration()


class Flag(msgspec.Struct, frozen=True):
    """A flag of the table. `field` is the field of the configuration that it sets, `option` the
    field of the options of its group. `idle` says why it has no effect; kube-scheduler's command
    lines work with it nevertheless. `value` is its default, unless it sets a field or the default
    is the empty value of its kind.
    """

    name: str
    kind: Kind
    help: str
    field: str = ""
    idle: str = ""
    value: Any = None
    option: str = ""
    deprecated: bool = False

    @property
    def default(self) -> Any:
        """The value without the flag."""
        if self.field:
            return reduce(getattr, attributes(self.field), _CONFIGURATION)
        return self.kind.empty if self.value is None else self.value

    @property
    def meaning(self) -> str:
        """The effect of the flag, in words."""
        parts = [self.help]
        if self.idle:
            parts.append(f"No effect: {self.idle}.")
        if self.needs_no_file:
            parts.append(f"Ignored with --config: set {self.field} in the file.")
        return " ".join(parts)

    @property
    def needs_no_file(self) -> bool:
        """True if the flag is ignored with --config, where the file has the field."""
        return bool(self.field) and self.deprecated

    @property
    def default_text(self) -> str:
        text: str = self.kind.show(self.default)
        return text


def attributes(field: str) -> list[str]:
    """Returns the attributes on the path to a field of the configuration file."""
    return re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", field).split(".")


def flags_that_set(options: msgspec.Struct, prefix: str, *flags: Flag) -> tuple[Flag, ...]:
    """Returns the flags that set these options, with the defaults of the options. An option has the
    name of its flag without the prefix.
    """

    def completed(flag: Flag) -> Flag:
        name = flag.name.removeprefix(prefix).replace("-", "_")
        if name not in options.__struct_fields__:
            return flag
        return msgspec.structs.replace(flag, option=name, value=getattr(options, name))

    return tuple(map(completed, flags))


def deprecated_flags(*flags: Flag) -> tuple[Flag, ...]:
    return tuple(msgspec.structs.replace(flag, deprecated=True) for flag in flags)
