"""Suggestions to tolerate taints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from berth.actors.scheduling.kube.core import Taint
from berth.actors.scheduling.kube.taints import HARD_EFFECTS, Tolerations
from berth.actors.scheduling.model.node_info import NodeInfo

from ..asks.node_restrictions import CONDITIONS
from .change import ProposedChange, Who
from .edit import Document, Edit, Patch, patch_of, put
from .kind_of_change import Way
from .world import World

MOST = 3
TaintKey = tuple[str, str, str]


def worded(taint: TaintKey) -> str:
    key, value, effect = taint
    return f"{key}{'=' if value else ''}{value}:{effect}"


def untolerated(info: NodeInfo, tolerations: Tolerations) -> tuple[TaintKey, ...]:
    """Returns the taints of a node that reject a pod."""
    taints: tuple[Taint, ...] = () if info.node is None else info.node.spec.taints
    return tuple(
        (taint.key, taint.value, taint.effect)
        for taint in taints
        if taint.effect in HARD_EFFECTS and not tolerations.tolerate(taint)
    )


def opening(pod: Document) -> Edit:
    """Returns the edit after which the pod tolerates all taints."""
    return patch_of(pod, _added_tolerations(pod, [{"operator": "Exists"}]))


def openings(world: World) -> Iterator[Edit]:
    yield opening(world.pod)


def changes(world: World) -> Iterator[ProposedChange]:
    """Yields the sets of tolerations that let the pod onto nodes: the smallest sets first, and
    among these the sets for most nodes.
    """
    pod, tolerations = world.pod, world.info.template.tolerations
    with world.changed([opening(pod)]):
        nodes = world.nodes()
    lacks: Counter[tuple[TaintKey, ...]] = Counter()
    for name in nodes:
        taints = untolerated(world.node_info(name), tolerations)
        if taints and not any(key.startswith(CONDITIONS) for key, _, _ in taints):
            lacks[tuple(sorted(set(taints)))] += 1
    ranking = sorted(lacks, key=lambda taints: (len(taints), -lacks[taints], taints))
    for taints in ranking[:MOST]:
        added = [
            {"key": key, "effect": effect, **_matching_toleration(value)}
            for key, value, effect in taints
        ]
        words = " and ".join(map(worded, taints))
        sentence = f"Tolerate the taint{'s' * (len(taints) > 1)} {words}"
        edit = patch_of(pod, _added_tolerations(pod, added))
        yield ProposedChange(
            "toleration", Who.OWNER, min(1.0, 0.3 * len(taints)), sentence, (edit,)
        )


def _matching_toleration(value: str) -> dict[str, str]:
    return {"operator": "Equal", "value": value} if value else {"operator": "Exists"}


def _added_tolerations(pod: Document, tolerations: list[dict[str, str]]) -> Patch:
    return put([*(pod["spec"].get("tolerations") or ()), *tolerations], "spec", "tolerations")


WAY = Way(changes, openings)
