"""Suggestions to use a higher priority class, so that the pod preempts others."""

from __future__ import annotations

from collections.abc import Iterator

from berth.actors.scheduling.framework.post_filter import Nomination

from .change import ProposedChange, Who
from .edit import Document, Edit, deletion_of, patch_of, put
from .leaving_pods import pod_list
from .world import World

SYSTEM = "system-"
NEVER = "Never"


def _classes(world: World) -> list[Document]:
    """Returns one priority class for each priority above the pod's, the lowest first."""
    priority = world.info.priority
    if world.pod["spec"].get("preemptionPolicy") == NEVER:
        priority -= 1  # The same priority helps with a class that may preempt.
    by_value = {
        each["value"]: each
        for each in sorted(world.every("PriorityClass"), key=lambda each: each["metadata"]["name"])
        if each["value"] > priority
        and each.get("preemptionPolicy") != NEVER
        and not each["metadata"]["name"].startswith(SYSTEM)
    }
    return [by_value[value] for value in sorted(by_value)]


def _edit(pod: Document, of: Document) -> Edit:
    return patch_of(
        pod,
        put(of["metadata"]["name"], "spec", "priorityClassName"),
        put(of["value"], "spec", "priority"),
        put(of.get("preemptionPolicy") or "PreemptLowerPriority", "spec", "preemptionPolicy"),
    )


def higher_priority(world: World, highest: int) -> Iterator[ProposedChange]:
    """Yields the change to the lowest priority class with which the pod preempts others.

    Yields nothing if no class above the `highest` priority of the pods in the way is enough.
    """
    best: tuple[Document, Nomination] | None = None
    while (of := _lowest_above(world, highest)) is not None and of != (best and best[0]):
        with world.changed([_edit(world.pod, of)]):
            nomination = world.nomination()
        if nomination is None or not nomination.victims:
            break
        best = of, nomination
        highest = max(victim.priority for victim in nomination.victims)
    if best is not None:
        of, nomination = best
        keys = [victim.key for victim in nomination.victims]
        where = f"{pod_list(keys)} on {nomination.node}"
        sentence = f"Use the priority class {of['metadata']['name']}, which preempts {where}"
        edits = (_edit(world.pod, of), *map(deletion_of, keys))
        yield ProposedChange("priority", Who.OWNER, 0.9, sentence, edits)


def _lowest_above(world: World, priority: int) -> Document | None:
    return next((each for each in _classes(world) if each["value"] > priority), None)
