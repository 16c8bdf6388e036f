"""The defaults of structs of objects: a field that a document leaves out has Go's zero value."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import msgspec

from berth.actors.scheduling.kube.meta import Object


def other_defaults(package: ModuleType) -> dict[str, Any]:
    """Returns the defaults of a package's objects that are no zero values, by STRUCT.FIELD."""
    return {
        f"{struct.__name__}.{field}": default
        for struct in _objects(package)
        for field, default in _defaults(struct)
        if default not in (0, "", None, (), {}, [])
        and not (isinstance(default, msgspec.Struct) and type(default)() == default)
    }


def _objects(package: ModuleType) -> Iterator[type[Object]]:
    for found in iter_modules(package.__path__, f"{package.__name__}."):
        for value in vars(import_module(found.name)).values():
            if isinstance(value, type) and issubclass(value, Object):
                yield value


def _defaults(struct: type[msgspec.Struct]) -> Iterator[tuple[str, Any]]:
    fields, defaults = struct.__struct_fields__, struct.__struct_defaults__
    for field, default in zip(reversed(fields), reversed(defaults), strict=False):
        if default is not msgspec.NODEFAULT:
            yield field, default.factory() if hasattr(default, "factory") else default
