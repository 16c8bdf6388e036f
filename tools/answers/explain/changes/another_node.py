"""Suggestions to add a node that is like one of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.pod_info import PodInfo

from ..asks.node_restrictions import CONDITIONS
from .change import ProposedChange, Who
from .edit import Action, Document, Edit
from .kind_of_change import Way
from .world import World

HOSTNAME = "kubernetes.io/hostname"
OF_ITS_OWN = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")
MOST_VALUES = 20  # A label with more values says which node it is, and not of which type.
MOST_TYPES = 40


def _node_types(world: World) -> list[NodeInfo]:
    """Returns one node of each type, the smallest first."""
    infos = world.node_infos()
    values: dict[str, set[str]] = {}
    for info in infos:
        for key, value in info.labels.items():
            values.setdefault(key, set()).add(value)
    telling = {key for key, of in values.items() if len(of) <= MOST_VALUES} - {HOSTNAME}
    types: dict[object, NodeInfo] = {}
    for info in infos:
        assert info.node is not None
        labels = frozenset(item for item in info.labels.items() if item[0] in telling)
        shape = frozenset(info.allocatable.items()), labels, info.node.spec.taints
        types.setdefault(shape, info)
    seen: Counter[object] = Counter()
    places: dict[str, int] = {}
    for info in types.values():
        amounts = frozenset(info.allocatable.items())
        places[info.name] = seen[amounts]
        seen[amounts] += 1

    def size(info: NodeInfo) -> tuple[int, int, str]:
        return info.allocatable.get("cpu", 0), info.allocatable.get("memory", 0), info.name

    # One of each size comes before the others of that size, in case there are too many.
    chosen = sorted(types.values(), key=lambda info: (places[info.name], size(info)))[:MOST_TYPES]
    return sorted(chosen, key=size)


class Documents(Protocol):
    """The objects of a cluster by kind, name and namespace."""

    def document(self, kind: str, name: str, namespace: str = "") -> Document | None: ...


def node_like(document: Document, name: str) -> Document:
    """Returns a new node with this name that is like another node, but is not cordoned and has none
    of its conditions.
    """
    metadata, spec = document["metadata"], dict(document.get("spec") or {})
    labels = dict(metadata.get("labels") or {})
    if HOSTNAME in labels:
        labels[HOSTNAME] = name
    spec.pop("unschedulable", None)
    spec.pop("providerID", None)
    taints = [taint for taint in spec.pop("taints", ()) if not taint["key"].startswith(CONDITIONS)]
    spec |= {"taints": taints} if taints else {}
    return {**document, "metadata": {**_renamed(metadata, name), "labels": labels}, "spec": spec}


def copy_of(world: Documents, info: NodeInfo, suffix: str = "copy") -> tuple[Edit, ...]:
    """Returns the edits that create a copy of a node, and copies of the pods that run on every such
    node.

    The names get the suffix, as often as needed to be new.
    """
    document = world.document("Node", info.name)
    assert document is not None
    name = _unused_name(world, suffix, "Node", info.name)
    edits = [Edit(Action.CREATE, "Node", name, "", document=node_like(document, name))]
    for pod in info.pods.values():
        namespace, _, of = pod.key.partition("/")
        like = world.document("Pod", of, namespace)
        if like is not None and _is_on_each(pod):
            new_name = _unused_name(world, suffix, "Pod", of, namespace)
            copy = {
                **like,
                "metadata": _renamed(like["metadata"], new_name),
                "spec": {**like["spec"], "nodeName": name},
            }
            edits.append(Edit(Action.CREATE, "Pod", new_name, namespace, document=copy))
    return tuple(edits)


def _unused_name(world: Documents, suffix: str, kind: str, name: str, namespace: str = "") -> str:
    while world.document(kind, name := f"{name}-{suffix}", namespace) is not None:
        pass
    return name


def _is_on_each(pod: PodInfo) -> bool:
    """True for a pod of a DaemonSet, and for a static pod."""
    owners = pod.pod.metadata.owner_references
    return any(owner.kind in ("DaemonSet", "Node") for owner in owners)


def _renamed(metadata: Document, name: str) -> Document:
    kept = {part: value for part, value in metadata.items() if part not in OF_ITS_OWN}
    return {**kept, "name": name, "uid": f"{metadata.get('uid', '')}-{name}"}


def changes(world: World) -> Iterator[ProposedChange]:
    copies = [(info.name, copy_of(world, info)) for info in _node_types(world)]
    with world.changed([edit for _, edits in copies for edit in edits]):
        fitting = set(world.nodes())
    for name, edits in copies:
        if edits[0].name not in fitting:
            continue
        with world.changed(edits):
            if not world.fits(edits[0].name):
                continue
        yield ProposedChange("node", Who.ADMIN, 0.7, f"Add a node like {name}", edits)
        return


WAY = Way(changes)
