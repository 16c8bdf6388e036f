"""HTTP extenders, the pure half: what they are sent, how their answers are read, and what the answers come to.

The wire is kube-scheduler's extender/v1. Its types carry no JSON tags, so the names are those of the Go fields (Pod,
NodeNames, FailedNodes, UID); answers are read as Go reads them, names in any case and null for what is absent, because
many extenders answer in lower case. An extender with a node cache of its own is sent names; any other gets v1 objects,
which hold the fields that this scheduler keeps (actors.kube.core), not every field that the API server has.
Answers are merged here: nodes that fail keep their reason in the diagnosis, scores are weighed and scaled.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_origin

import msgspec
import numpy as np

from actors.framework.interface import MAX_NODE_SCORE
from actors.framework.status import Status, unresolvable, unschedulable
from actors.framework.verdicts import Diagnosis, Verdicts
from actors.kube.core import Container, Node, Pod
from actors.kube.meta import ListMeta
from actors.model.columns import Ints
from actors.model.pod_info import PodInfo
from actors.model.snapshot import NodeView, Snapshot
from config.types import Extender

NAME = "Extender"  # what stands in the place of a plugin's name where an extender rejected nodes
MAX_EXTENDER_PRIORITY = 10
HIGHEST = 1 << 62  # whatever an extender says, a total stays within int64
T = TypeVar("T")


class ExtenderError(Exception):
    """An extender could not be asked, or gave an answer that cannot be used."""


# ------------------------------------------------------------------------------------------------ extender/v1


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
        return tuple(_forgiving(value, arguments[0]) for value in msgspec.json.decode(raw, type=list[msgspec.Raw]))
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


# ------------------------------------------------------------------------------------------------ asking


class FilterNodes(msgspec.Struct, frozen=True):
    """Ask the extenders which of these nodes they leave; the answer is Filtered, or the Status of what went wrong."""

    nodes: NodeView


class PrioritizeNodes(msgspec.Struct, frozen=True):
    """Ask the extenders what they think of these nodes; the answer is int64 a position, to be added to the totals."""

    nodes: NodeView


class Victims(msgspec.Struct, frozen=True):
    """The pods that would have to go from one node, and how many budgets that would break."""

    pods: tuple[PodInfo, ...]
    pdb_violations: int = 0


class PreemptVictims(msgspec.Struct, frozen=True):
    """Ask the extenders which candidates they leave, node -> victims; the answer is such a mapping, or a Status."""

    snapshot: Snapshot
    candidates: dict[str, Victims]


Question = FilterNodes | PrioritizeNodes | PreemptVictims


def interested(extender: Extender, pod: Pod) -> bool:
    """True if the extender manages no resources in particular, or one that a container of the pod names."""
    managed = {resource.name for resource in extender.managed_resources}
    return not managed or _names_one(managed, pod.spec.containers) or _names_one(managed, pod.spec.init_containers)


def _names_one(managed: set[str], containers: Iterable[Container]) -> bool:
    return any(managed & (c.resources.requests.keys() | c.resources.limits.keys()) for c in containers)


def arguments(extender: Extender, pod: Pod, nodes: NodeView) -> ExtenderArgs:
    """What filter and prioritize are sent."""
    if extender.node_cache_capable:
        return ExtenderArgs(pod, node_names=tuple(nodes.name(i) for i in range(nodes.size)))
    found = (nodes.node(i) for i in range(nodes.size))
    return ExtenderArgs(pod, NodeList(tuple(node for node in found if node is not None)))


def binding(pod: Pod, node: str) -> ExtenderBindingArgs:
    metadata = pod.metadata
    return ExtenderBindingArgs(metadata.name, metadata.namespace, metadata.uid, node)


# ------------------------------------------------------------------------------------------------ filter


class Filtered(msgspec.Struct, frozen=True):
    """The rows that every extender left, in the order they had, and by row why others are gone."""

    rows: Ints
    rejected: Mapping[int, Status]

    def explain_to(self, diagnosis: Diagnosis) -> None:
        """Let the diagnosis of the plugins hold the extenders' rejections too."""
        if not self.rejected:
            return
        view = diagnosis.view
        position_of = np.empty(view.columns.size, dtype=np.int64)
        position_of[view.rows] = np.arange(view.size)
        where = position_of[list(self.rejected)]
        statuses = list(self.rejected.values())
        codes, keys = np.zeros(view.size, dtype=np.int8), np.zeros(view.size, dtype=np.int64)
        codes[where] = [status.code for status in statuses]
        keys[where] = np.arange(len(statuses))
        diagnosis.add(NAME, Verdicts(codes, keys, lambda key: statuses[key].reasons))


# To a FilterNodes the first or a Status, to a PrioritizeNodes the second, to a PreemptVictims the third or a Status.
Answer = Filtered | Ints | dict[str, Victims] | Status
Steps = Generator[Question, Answer, T]


def unasked(steps: Steps[T]) -> T:
    """Take a decision to its end where there is no extender: victims are left as they are, nothing else is asked."""
    answer: Answer | None = None
    while True:
        try:
            question = next(steps) if answer is None else steps.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result
        assert isinstance(question, PreemptVictims), question
        answer = question.candidates


class Filtering:
    """The nodes of a view as one extender after the other takes some away."""

    def __init__(self, nodes: NodeView) -> None:
        self.left = nodes
        self._rejected: dict[int, Status] = {}

    def take(self, extender: Extender, result: ExtenderFilterResult) -> None:
        """Keep what the extender keeps. Raises ExtenderError, and changes nothing, if its answer cannot be used.

        A node that is kept no more without a reason is never helped by preemption, as in kube-scheduler.
        """
        if result.error:
            raise ExtenderError(result.error)
        kept: set[str] = set()
        if extender.node_cache_capable and result.node_names is not None:
            kept.update(result.node_names)
        elif result.nodes is not None:
            kept.update(node.metadata.name for node in result.nodes.items)
        names = [self.left.name(i) for i in range(self.left.size)]
        unknown = kept.difference(names)
        if unknown:
            raise ExtenderError(f"claims a filtered node {min(unknown)!r} which it was not sent")
        rows = [self.left.row(i) for i in range(self.left.size)]
        for name, row in zip(names, rows, strict=True):
            if name not in kept:
                self._rejected[row] = _why(name, result)
        left = [row for name, row in zip(names, rows, strict=True) if name in kept]
        self.left = self.left.snapshot.rows(np.array(left, dtype=np.int64))

    def result(self) -> Filtered:
        return Filtered(np.array([self.left.row(i) for i in range(self.left.size)], dtype=np.int64), self._rejected)


def _why(node: str, result: ExtenderFilterResult) -> Status:
    reason = result.failed_and_unresolvable_nodes.get(node)
    if reason is not None:
        return unresolvable(reason)
    reason = result.failed_nodes.get(node)
    return unresolvable() if reason is None else unschedulable(reason)


# ------------------------------------------------------------------------------------------------ prioritize


def merged_scores(answers: Iterable[tuple[Extender, HostPriorityList]], nodes: NodeView) -> Ints:
    """int64 a position of the view: the sum of all scores, each times its extender's weight, scaled to 0..100."""
    sums: dict[str, int] = {}
    for extender, priorities in answers:
        scale = extender.weight * (MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY)
        for priority in priorities:
            sums[priority.host] = sums.get(priority.host, 0) + priority.score * scale
    scores = (max(-HIGHEST, min(sums.get(nodes.name(i), 0), HIGHEST)) for i in range(nodes.size))
    return np.fromiter(scores, dtype=np.int64, count=nodes.size)


# ------------------------------------------------------------------------------------------------ preempt


def preemption_arguments(extender: Extender, pod: Pod, victims: Mapping[str, Victims]) -> ExtenderPreemptionArgs:
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


def remaining_victims(
    extender: Extender, result: ExtenderPreemptionResult, pods_on: Callable[[str], Sequence[PodInfo] | None]
) -> dict[str, Victims]:
    """The candidates that an extender leaves, by node, in the order of the names.

    `pods_on` gives the pods of a node, None for one that is not known; an extender may name any of them. Raises
    ExtenderError for a node or pod that is not known, and for a node without a victim unless the extender is ignorable,
    whose node is left out then.
    """
    remaining = {}
    for node, meta in sorted(result.node_name_to_meta_victims.items()):
        pods = pods_on(node)
        if pods is None:
            raise ExtenderError(f"claims to preempt on node {node!r} which is not known")
        by_uid = {info.uid: info for info in pods}
        missing = [pod.uid for pod in meta.pods if pod.uid not in by_uid]
        if missing:
            raise ExtenderError(f"claims to preempt pod (UID: {missing[0]}) which is not on node {node!r}")
        if meta.pods:
            remaining[node] = Victims(tuple(by_uid[pod.uid] for pod in meta.pods), meta.pdb_violations)
        elif not extender.ignorable:
            raise ExtenderError(f'expected at least one victim pod on node "{node}"')
    return remaining
