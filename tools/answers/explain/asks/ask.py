"""An ask: what some nodes lack for a pod, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from berth.actors.scheduling.kube.core import Namespace
from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot

K = TypeVar("K")
Rejected = Mapping[tuple[str, ...], Sequence[str]]  # nodes by the reasons of a plugin


class Ask(msgspec.Struct, frozen=True):
    """The thing that `nodes` lack: a predicate for one node and one for many, such as "lacks cpu"
    and "lack cpu". Without nodes, the pod waits for it on all of them.
    """

    nodes: tuple[str, ...]
    one: str
    many: str

    @property
    def sentence(self) -> str:
        return self.one if len(self.nodes) == 1 else self.many


class AskQuestion(msgspec.Struct, frozen=True):
    """The pod, the nodes of the cluster by name, and the labels of its namespaces."""

    info: PodInfo
    snapshot: Snapshot
    nodes: Mapping[str, NodeInfo]
    namespaces: Mapping[str, Mapping[str, str]]


def ask_question(info: PodInfo, snapshot: Snapshot) -> AskQuestion:
    columns = snapshot.columns
    every = zip(
        columns.row_of, map(columns.infos.__getitem__, columns.row_of.values()), strict=True
    )
    nodes = {name: info for name, info in every if info is not None}
    namespaces = {n.metadata.name: n.metadata.labels for n in snapshot.objects.every(Namespace)}
    return AskQuestion(info, snapshot, nodes, namespaces)


def nodes_of(rejected: Rejected) -> list[str]:
    return [node for nodes in rejected.values() for node in nodes]


def nodes_by_lack(pairs: Iterable[tuple[str, K]]) -> dict[K, tuple[str, ...]]:
    """Returns the nodes by the thing that they lack; each group keeps the order of the pairs."""
    groups: dict[K, list[str]] = {}
    for node, lack in pairs:
        groups.setdefault(lack, []).append(node)
    return {lack: tuple(nodes) for lack, nodes in groups.items()}


def asks_by_reasons(rejected: Rejected) -> Iterator[Ask]:
    """Yields an ask for each reason of a plugin, in the plugin's words."""
    for reasons, names in rejected.items():
        text = "; ".join(reasons)
        yield Ask(tuple(names), text, text)
