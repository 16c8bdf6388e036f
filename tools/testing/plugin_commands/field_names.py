"""Names of fields that no object has, in the types that a plugin declares for kinds.

A field of a Struct has its own name in the JSON, unless the Struct is renamed. Kubernetes' names
are in camel case, so a name with an underscore is nearly always one whose `rename` was forgotten:
the field then always has its default, and nobody says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import get_args

import msgspec

from berth.plugin import WatchedKind


def odd_names(kinds: Iterable[WatchedKind]) -> Iterator[str]:
    """Yields a sentence for each field whose name in the JSON has an underscore."""
    for kind in kinds:
        for of in _structs(kind.type, set()):
            for field in msgspec.structs.fields(of):
                first, *others = field.encode_name.split("_")
                if others:
                    camel = first + "".join(map(str.title, others))
                    yield (
                        f"{kind.kind}: {of.__name__}.{field.name} is read from "
                        f'{field.encode_name}; with rename="camel" in the Struct, from {camel}'
                    )


def _structs(of: object, seen: set[object]) -> Iterator[type[msgspec.Struct]]:
    """Yields the Structs in a type, each once."""
    if of in seen:
        return
    seen.add(of)
    if isinstance(of, type) and issubclass(of, msgspec.Struct):
        yield of
        for field in msgspec.structs.fields(of):
            yield from _structs(field.type, seen)
    for argument in get_args(of):
        yield from _structs(argument, seen)
