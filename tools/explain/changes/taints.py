"""Remove a node's taints, or end its cordon."""

from __future__ import annotations

from collections.abc import Iterator

from ..asks.nodes import CONDITIONS
from .change import Change, Who
from .edit import Document, Edit, Patch, patch_of, put
from .tolerations import opening, untolerated, worded
from .way import Way
from .world import World

CORDON = "node.kubernetes.io/unschedulable"


def openings(world: World) -> Iterator[Edit]:
    """Yields the edit that tolerates all taints. It does as much as removing the taints of each
    node.
    """
    yield opening(world.pod)


def changes(world: World) -> Iterator[Change]:
    """Yields the uncordoning of a node, and the removal of as few taints as possible from a
    node.
    """
    tolerations = world.info.template.tolerations
    with world.changed([opening(world.pod)]):
        nodes = world.nodes()
    cordoned: list[str] = []
    tainted: list[tuple[int, str]] = []
    for name in nodes:
        info = world.node_info(name)
        taints = {key for key, _, _ in untolerated(info, tolerations)}
        is_cordoned = info.node is not None and info.node.spec.unschedulable
        if taints <= {CORDON} and (taints or is_cordoned):
            cordoned.append(name)
        elif taints and not is_cordoned and not any(k.startswith(CONDITIONS) for k in taints):
            tainted.append((len(taints), name))
    for name in cordoned[:1]:
        edit = _uncordoned(world, name)
        yield Change("uncordon", Who.ADMIN, 0.1, f"Uncordon {name}", (edit,))
    for number, name in sorted(tainted)[:1]:
        info = world.node_info(name)
        rejecting = untolerated(info, tolerations)
        edit = patch_of(*_kept(world, name, set(rejecting)))
        words = " and ".join(map(worded, rejecting))
        sentence = f"Remove the taint{'s' * (number > 1)} {words} from {name}"
        yield Change("taint", Who.ADMIN, min(1.0, 0.3 * number), sentence, (edit,))


def _uncordoned(world: World, name: str) -> Edit:
    document, patch = _kept(world, name, {(CORDON, "", "NoSchedule")})
    if (document.get("spec") or {}).get("unschedulable"):
        patch = [*patch, *put(False, "spec", "unschedulable")]
    return patch_of(document, patch)


def _kept(world: World, name: str, removed: set[tuple[str, str, str]]) -> tuple[Document, Patch]:
    """Returns the node, and the patch that leaves its other taints."""
    document = world.document("Node", name)
    assert document is not None
    before = (document.get("spec") or {}).get("taints") or []
    taints = [
        taint
        for taint in before
        if (taint["key"], taint.get("value") or "", taint["effect"]) not in removed
    ]
    return document, put(taints, "spec", "taints") if taints != before else []


WAY = Way(changes, openings)
