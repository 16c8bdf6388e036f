"""Suggestions to remove a node's taints, uncordon it, or wait until a broken node recovers."""

from __future__ import annotations

from collections.abc import Iterator

from berth.actors.scheduling.kube.taints import Tolerations

from ..asks.node_restrictions import CONDITIONS
from .change import ProposedChange, Who
from .edit import Document, Edit, Patch, patch_of, put
from .kind_of_change import Way
from .tolerations import opening, untolerated, worded
from .world import World

CORDON = "node.kubernetes.io/unschedulable"


def openings(world: World) -> Iterator[Edit]:
    """Yields the edit that tolerates all taints. It does as much as removing the taints of each
    node.
    """
    yield opening(world.pod)


def changes(world: World) -> Iterator[ProposedChange]:
    """Yields, for a node, the uncordoning, the recovery of a broken node, or the removal of the
    fewest taints.
    """
    tolerations = world.info.template.tolerations
    with world.changed([opening(world.pod)]):
        nodes = world.nodes()
    cordoned: list[str] = []
    broken: list[str] = []
    tainted: list[tuple[int, str]] = []
    for name in nodes:
        info = world.node_info(name)
        taints = {key for key, _, _ in untolerated(info, tolerations)}
        is_cordoned = info.node is not None and info.node.spec.unschedulable
        if taints <= {CORDON} and (taints or is_cordoned):
            cordoned.append(name)
        elif is_cordoned or not taints:
            continue
        elif all(key.startswith(CONDITIONS) for key in taints):
            broken.append(name)
        elif not any(key.startswith(CONDITIONS) for key in taints):
            tainted.append((len(taints), name))
    for name in cordoned[:1]:
        edit = _uncordoned(world, name)
        yield ProposedChange("uncordon", Who.ADMIN, 0.1, f"Uncordon {name}", (edit,))
    for name in broken[:1]:
        words, edit = _without_taints(world, name, tolerations)
        yield ProposedChange(
            "recovery", Who.ADMIN, 0.3, f"Repair {name}, so that it loses {words}", (edit,)
        )
    for number, name in sorted(tainted)[:1]:
        words, edit = _without_taints(world, name, tolerations)
        sentence = f"Remove {words} from {name}"
        yield ProposedChange("taint", Who.ADMIN, min(1.0, 0.3 * number), sentence, (edit,))


def _without_taints(world: World, name: str, tolerations: Tolerations) -> tuple[str, Edit]:
    """Returns the taints of a node that the pod does not tolerate, in words, and the edit that
    removes them.
    """
    rejecting = untolerated(world.node_info(name), tolerations)
    words = " and ".join(map(worded, rejecting))
    edit = patch_of(*_kept_taints(world, name, set(rejecting)))
    return f"the taint{'s' * (len(rejecting) > 1)} {words}", edit


def _uncordoned(world: World, name: str) -> Edit:
    document, patch = _kept_taints(world, name, {(CORDON, "", "NoSchedule")})
    if (document.get("spec") or {}).get("unschedulable"):
        patch = [*patch, *put(False, "spec", "unschedulable")]
    return patch_of(document, patch)


def _kept_taints(
    world: World, name: str, removed: set[tuple[str, str, str]]
) -> tuple[Document, Patch]:
    """Returns the node, and the patch after which it has only its other taints."""
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
