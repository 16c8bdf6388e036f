"""What a sweep compares: node types by count and price, scheduler configurations, and seeds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import msgspec

from ...explain.cluster_source import SourceError
from ...manifests.manifests import SUFFIXES
from ..steps import document_in

DEFAULT = "default"
MOST_NUMBERS = 100_000
Numbers = int | str | list[int]
_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?:/([1-9]\d{0,8}))?)?", re.ASCII)
_TYPE = re.compile(r"([^=]+)=(.+):(\d+(?:\.\d*)?|\.\d+)", re.ASCII)


class _Strict(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pass


class NodeType(_Strict, frozen=True):
    """Nodes to add: like a node of the cluster, or like the node of a manifest.

    `counts` are the numbers of nodes to try; by default, the numbers of the sweep.
    """

    name: Annotated[str, msgspec.Meta(min_length=1)]
    price: Annotated[float, msgspec.Meta(ge=0)]
    like: str = ""
    manifest: str = ""
    counts: Numbers | None = None


class NamedFile(_Strict, frozen=True):
    """A KubeSchedulerConfiguration file; the default configuration if there is no file."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    file: str = ""


class Definition(_Strict, frozen=True):
    """A sweep. With `mix`, its fleets have nodes of all types, otherwise of one type each."""

    node_types: list[NodeType] = []
    counts: Numbers = 1
    mix: bool = False
    configurations: list[NamedFile] = []
    seeds: Numbers = 0
    cluster: list[str] = []
    workload: list[str] = []


def definition_of(path: Path) -> Definition:
    """Reads a sweep's file. The paths in it are relative to its folder. Raises SourceError."""
    try:
        definition = msgspec.convert(document_in(path), Definition)
    except msgspec.ValidationError as invalid:
        raise SourceError(f"{path}: {invalid}") from None

    def below(name: str) -> str:
        return str(path.parent / name) if name else ""

    replace = msgspec.structs.replace
    return replace(
        definition,
        node_types=[replace(t, manifest=below(t.manifest)) for t in definition.node_types],
        configurations=[replace(c, file=below(c.file)) for c in definition.configurations],
        cluster=[below(name) for name in definition.cluster],
        workload=[below(name) for name in definition.workload],
    )


def type_of(text: str) -> NodeType:
    """Returns the node type of a text such as "small=node-1:0.10". Raises SourceError."""
    match = _TYPE.fullmatch(text)
    if match is None:
        raise SourceError(f"node type {text!r}: expected NAME=NODE:PRICE")
    name, node, price = match[1], match[2], float(match[3])
    if node.endswith(SUFFIXES):
        return NodeType(name, price, manifest=node)
    return NodeType(name, price, like=node)


def numbers(of: Numbers, what: str) -> list[int]:
    """Returns the numbers of a list, or of a text such as "1,2,4-8" or "10-50/10". Raises
    SourceError.
    """
    if isinstance(of, list):
        values = of
    else:
        values = []
        for part in str(of).split(","):
            match = _PART.fullmatch(part.strip())
            if match is None:
                raise SourceError(
                    f'{what} {of!r}: expected numbers such as "1,2,4-8" or "10-50/10"'
                )
            first = int(match[1])
            last, step = int(match[2] or first), int(match[3] or 1)
            if last < first:
                raise SourceError(f"{what} {of!r}: expected the smaller number of a range first")
            if (last - first) // step >= MOST_NUMBERS:
                raise SourceError(
                    f"{what} {of!r}: expected a range of up to {MOST_NUMBERS} numbers"
                )
            values += range(first, last + 1, step)
    if not values or min(values) < 0:
        raise SourceError(f"{what} {of!r}: expected numbers from 0 on")
    return list(dict.fromkeys(values))
