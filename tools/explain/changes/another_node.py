"""Add one more node like another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.pod_info import PodInfo

from .change import Change, Who
from .edit import Action, Document, Edit
from .tolerations import CONDITIONS
from .way import Way
from .world import World

HOSTNAME = "kubernetes.io/hostname"
OF_ITS_OWN = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")
MOST_VALUES = 20  # A label with more values says which node it is, and not of which type.
MOST_TYPES = 40


def _types(world: World) -> list[NodeInfo]:
    """Returns a node of each type, the smallest first."""
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
    sizes = Counter(frozenset(info.allocatable.items()) for info in types.values())

    def order(info: NodeInfo) -> tuple[int, int, int, str]:
        """Returns the place of a type: one of each size comes before the others of that size."""
        shape = frozenset(info.allocatable.items())
        sizes[shape] -= 1
        amounts = info.allocatable
        return -sizes[shape], amounts.get("cpu", 0), amounts.get("memory", 0), info.name

    places = {info.name: order(info) for info in types.values()}
    return sorted(types.values(), key=lambda info: places[info.name])[:MOST_TYPES]


def _copy(world: World, info: NodeInfo) -> tuple[Edit, ...]:
    """Returns the creation of a node like another one, with the pods that each such node has."""
    document = world.document("Node", info.name)
    assert document is not None
    name = f"{info.name}-copy"
    metadata, spec = document["metadata"], dict(document.get("spec") or {})
    labels = dict(metadata.get("labels") or {})
    if HOSTNAME in labels:
        labels[HOSTNAME] = name
    spec.pop("unschedulable", None)
    spec.pop("providerID", None)
    spec["taints"] = [
        taint for taint in spec.get("taints") or () if not taint["key"].startswith(CONDITIONS)
    ]
    new: Document = {
        **document,
        "metadata": {**_named(metadata, name), "labels": labels},
        "spec": spec,
    }
    edits = [Edit(Action.CREATE, "Node", name, "", document=new)]
    for pod in info.pods.values():
        namespace, _, of = pod.key.partition("/")
        like = world.document("Pod", of, namespace)
        if like is not None and _is_on_each(pod):
            copy = {
                **like,
                "metadata": _named(like["metadata"], f"{of}-copy"),
                "spec": {**like["spec"], "nodeName": name},
            }
            edits.append(Edit(Action.CREATE, "Pod", f"{of}-copy", namespace, document=copy))
    return tuple(edits)


def _is_on_each(pod: PodInfo) -> bool:
    """True for a pod of a DaemonSet, and for one of the kubelet's files."""
    owners = pod.pod.metadata.owner_references
    return any(owner.kind in ("DaemonSet", "Node") for owner in owners)


def _named(metadata: Document, name: str) -> Document:
    kept = {part: value for part, value in metadata.items() if part not in OF_ITS_OWN}
    return {**kept, "name": name, "uid": f"{metadata.get('uid', '')}-copy"}


def changes(world: World) -> Iterator[Change]:
    types = _types(world)
    copies = {f"{info.name}-copy": (info, _copy(world, info)) for info in types}
    with world.changed([edit for _, edits in copies.values() for edit in edits]):
        fitting = set(world.nodes())
    for name, (info, edits) in copies.items():
        if name not in fitting:
            continue
        with world.changed(edits):
            if name not in world.nodes():
                continue
        yield Change("node", Who.ADMIN, 0.7, f"Add a node like {info.name}", edits)
        return


WAY = Way(changes)
