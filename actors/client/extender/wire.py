"""The requests and answers of HTTP extenders: kube-scheduler's extender/v1.

The Go types have no JSON tags, so the names are those of the Go fields (Pod, NodeNames,
FailedNodes, UID). Answers are read as Go reads them: field names in any case, and null for absent
values, because many extenders answer in lower case. An extender with its own node cache gets the
names of nodes. Any other gets whole v1 objects.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from ...scheduling.kube.core import Node, Pod
from ...scheduling.kube.meta import ListMeta
from ...scheduling.kube.whole import json_of

T = TypeVar("T")


class ExtenderError(Exception):
    """An extender could not be reached, or its answer cannot be used."""


# -------------------------------------------------------------------------------------- extender/v1


class Wire(msgspec.Struct, frozen=True, rename="pascal", forbid_unknown_fields=True):
    """The base of requests and answers. `read` ignores undeclared fields of an answer."""


class Whole:
    """A pod or a node in a request; it is sent as the API server sent it."""

    __slots__ = ("item",)

    def __init__(self, item: Pod | Node) -> None:
        self.item = item


class NodeList(msgspec.Struct, frozen=True):
    items: tuple[Whole, ...]
    metadata: ListMeta = ListMeta()


class ExtenderArgs(Wire, frozen=True):
    pod: Whole
    nodes: NodeList | None = None
    node_names: tuple[str, ...] | None = None


class NamedObject(msgspec.Struct, frozen=True):
    name: str = ""


class NamedNode(msgspec.Struct, frozen=True):
    """A node in an answer, of which only the name is read."""

    metadata: NamedObject = NamedObject()


class NamedNodes(Wire, frozen=True, rename="camel"):
    items: tuple[NamedNode, ...] = ()


class ExtenderFilterResult(Wire, frozen=True):
    nodes: NamedNodes | None = None
    node_names: tuple[str, ...] | None = None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class HostPriority(Wire, frozen=True):
    host: str = ""
    score: int = 0


HostPriorityList = tuple[HostPriority, ...]


class ExtenderBindingArgs(Wire, frozen=True):
    pod_name: str
    pod_namespace: str
    pod_uid: str = msgspec.field(name="PodUID")
    node: str


class ExtenderBindingResult(Wire, frozen=True):
    error: str = ""

    def check(self) -> None:
        """Raises ExtenderError if the pod was not bound."""
        if self.error:
            raise ExtenderError(self.error)


class SentVictims(Wire, frozen=True):
    """extender/v1 Victims."""

    pods: tuple[Whole, ...]
    pdb_violations: int = msgspec.field(name="NumPDBViolations")


class MetaPod(Wire, frozen=True):
    uid: str = msgspec.field(default="", name="UID")


class MetaVictims(Wire, frozen=True):
    pods: tuple[MetaPod, ...] = ()
    pdb_violations: int = msgspec.field(default=0, name="NumPDBViolations")


class ExtenderPreemptionArgs(Wire, frozen=True):
    pod: Whole
    node_name_to_victims: dict[str, SentVictims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class ExtenderPreemptionResult(Wire, frozen=True):
    node_name_to_meta_victims: dict[str, MetaVictims] = {}


def _json(whole: Whole) -> msgspec.Raw:
    return json_of(whole.item)


ENCODER = msgspec.json.Encoder(enc_hook=_json)


def read(raw: bytes, into: type[T]) -> T:
    """Decodes an answer. Raises ExtenderError if that fails."""
    try:
        try:
            return msgspec.json.decode(raw, type=into)
        except msgspec.ValidationError:
            answer: T = _read_leniently(raw, into)
            return answer
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ExtenderError(f"unexpected answer: {problem}") from None


def _read_leniently(raw: bytes | msgspec.Raw, kind: Any) -> Any:
    """Decodes by type: field names in any case, unknown fields skipped, null as an empty value."""
    origin, arguments = get_origin(kind), get_args(kind)
    if type(None) in arguments:
        return _read_leniently(raw, arguments[0])
    if bytes(raw).strip() == b"null":
        return (origin or kind)()
    if origin is dict:
        entries = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        return {key: _read_leniently(value, arguments[1]) for key, value in entries.items()}
    if origin is tuple and issubclass(arguments[0], Wire):
        return tuple(
            _read_leniently(value, arguments[0])
            for value in msgspec.json.decode(raw, type=list[msgspec.Raw])
        )
    if origin is None and issubclass(kind, Wire):
        fields = _fields(kind)
        values = {}
        for name, value in msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).items():
            field = fields.get(name.lower())
            if field is not None and bytes(value) != b"null":
                values[field.name] = _read_leniently(value, field.type)
        return kind(**values)
    return msgspec.json.decode(raw, type=kind)


@lru_cache
def _fields(kind: type[Wire]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name.lower(): field for field in msgspec.structs.fields(kind)}
