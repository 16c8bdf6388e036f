"""The wire of HTTP extenders, kube-scheduler's extender/v1: what they are sent, and how their
answers are read.

Its types carry no JSON tags, so the names are those of the Go fields (Pod, NodeNames, FailedNodes,
UID). Answers are read as Go reads them, names in any case and null for what is absent, because many
extenders answer in lower case. An extender with a node cache of its own is sent names; any other
gets v1 objects, which hold the fields that this scheduler keeps
(berth.actors.scheduling.kube.core), not every field that the API server has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_origin

import msgspec
from berth.actors.scheduling.framework.questions import Victims
from berth.actors.scheduling.kube.core import Container, Node, Pod
from berth.actors.scheduling.kube.meta import ListMeta
from berth.actors.scheduling.model.snapshot import NodeView
from berth.config.types import Extender

T = TypeVar("T")


class ExtenderError(Exception):
    """An extender could not be asked, or gave an answer that cannot be used."""


# -------------------------------------------------------------------------------------- extender/v1


class Wire(msgspec.Struct, frozen=True, rename="pascal", forbid_unknown_fields=True):
    """The base of what crosses the wire. `read` forgives an answer its unknown fields."""


class NodeList(msgspec.Struct, frozen=True):
    items: tuple[Node, ...]
    metadata: ListMeta = ListMeta()


class ExtenderArgs(Wire, frozen=True, rename="pascal", forbid_unknown_fields=True):
    pod: Pod
    nodes: NodeList | None = None
    node_names: tuple[str, ...] | None = None


class Named(msgspec.Struct, frozen=True):
    name: str = ""


class NamedNode(msgspec.Struct, frozen=True):
    """All that is read of a node in an answer."""

    metadata: Named = Named()


class NamedNodes(Wire, frozen=True, rename="camel"):
    items: tuple[NamedNode, ...] = ()


class ExtenderFilterResult(Wire, frozen=True, rename="pascal", forbid_unknown_fields=True):
    nodes: NamedNodes | None = None
    node_names: tuple[str, ...] | None = None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class HostPriority(Wire, frozen=True, rename="pascal", forbid_unknown_fields=True):
    host: str = ""
    score: int = 0


HostPriorityList = tuple[HostPriority, ...]


class ExtenderBindingArgs(Wire, frozen=True, rename="pascal", forbid_unknown_fields=True):
    pod_name: str
    pod_namespace: str
    pod_uid: str = msgspec.field(name="PodUID")
    node: str


class ExtenderBindingResult(Wire, frozen=True, rename="pascal", forbid_unknown_fields=True):
    error: str = ""

    def check(self) -> None:
        """Raise ExtenderError if the pod was not bound."""
        if self.error:
            raise ExtenderError(self.error)


class SentVictims(Wire, frozen=True, rename="pascal", forbid_unknown_fields=True):
    """extender/v1 Victims."""

    pods: tuple[Pod, ...]
    pdb_violations: int = msgspec.field(name="NumPDBViolations")


class MetaPod(Wire, frozen=True, rename="pascal", forbid_unknown_fields=True):
    uid: str = msgspec.field(default="", name="UID")


class MetaVictims(Wire, frozen=True, rename="pascal", forbid_unknown_fields=True):
    pods: tuple[MetaPod, ...] = ()
    pdb_violations: int = msgspec.field(default=0, name="NumPDBViolations")


class ExtenderPreemptionArgs(Wire, frozen=True, rename="pascal", forbid_unknown_fields=True):
    pod: Pod
    node_name_to_victims: dict[str, SentVictims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class ExtenderPreemptionResult(Wire, frozen=True, rename="pascal", forbid_unknown_fields=True):
    node_name_to_meta_victims: dict[str, MetaVictims] = {}


def read(raw: bytes, into: type[T]) -> T:
    """An answer. Raises ExtenderError if it is none."""
    try:
        try:
            return msgspec.json.decode(raw, type=into)
        except msgspec.ValidationError:
            found: T = _forgiving(raw, into)
            return found
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ExtenderError(f"unexpected answer: {problem}") from None


def _forgiving(raw: bytes | msgspec.Raw, kind: Any) -> Any:
    """Read by kind: field names in any case, unknown ones skipped, null for what is empty."""
    origin, arguments = get_origin(kind), get_args(kind)
    if type(None) in arguments:
        return _forgiving(raw, arguments[0])
    if bytes(raw).strip() == b"null":
        return (origin or kind)()
    if origin is dict:
        entries = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        return {key: _forgiving(value, arguments[1]) for key, value in entries.items()}
    if origin is tuple and issubclass(arguments[0], Wire):
        return tuple(
            _forgiving(value, arguments[0])
            for value in msgspec.json.decode(raw, type=list[msgspec.Raw])
        )
    if origin is None and issubclass(kind, Wire):
        fields = _fields(kind)
        given = {}
        for name, value in msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).items():
            field = fields.get(name.lower())
            if field is not None and bytes(value) != b"null":
                given[field.name] = _forgiving(value, field.type)
        return kind(**given)
    return msgspec.json.decode(raw, type=kind)


@lru_cache
def _fields(kind: type[Wire]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name.lower(): field for field in msgspec.structs.fields(kind)}


def interested(extender: Extender, pod: Pod) -> bool:
    """True if the extender manages no resources in particular, or one that a container of the pod
    names.
    """
    managed = {resource.name for resource in extender.managed_resources}
    return (
        not managed
        or _names_one(managed, pod.spec.containers)
        or _names_one(managed, pod.spec.init_containers)
    )


def _names_one(managed: set[str], containers: Iterable[Container]) -> bool:
    return any(
        managed & (c.resources.requests.keys() | c.resources.limits.keys()) for c in containers
    )


def arguments(extender: Extender, pod: Pod, nodes: NodeView) -> ExtenderArgs:
    """What filter and prioritize are sent."""
    if extender.node_cache_capable:
        return ExtenderArgs(pod, node_names=tuple(nodes.name(i) for i in range(nodes.size)))
    found = (nodes.node(i) for i in range(nodes.size))
    return ExtenderArgs(pod, NodeList(tuple(node for node in found if node is not None)))


def binding(pod: Pod, node: str) -> ExtenderBindingArgs:
    metadata = pod.metadata
    return ExtenderBindingArgs(metadata.name, metadata.namespace, metadata.uid, node)


def preemption_arguments(
    extender: Extender, pod: Pod, victims: Mapping[str, Victims]
) -> ExtenderPreemptionArgs:
    """What preempt is sent: candidate nodes with their victims."""
    if extender.node_cache_capable:
        metas = {
            node: MetaVictims(tuple(MetaPod(info.uid) for info in found.pods), found.pdb_violations)
            for node, found in victims.items()
        }
        return ExtenderPreemptionArgs(pod, node_name_to_meta_victims=metas)
    whole = {
        node: SentVictims(tuple(info.pod for info in found.pods), found.pdb_violations)
        for node, found in victims.items()
    }
    return ExtenderPreemptionArgs(pod, whole)
