"""Extend or drop a part of the required node affinity, or a required term of pod affinity."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from berth.actors.scheduling.kube.core import NodeSelectorRequirement

from ..asks.pods import selection
from ..words import required
from .change import Change, Who
from .edit import Edit, Patch, patch_of, put, without
from .selector import meant
from .way import Way
from .world import World

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NODES = ("spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")
_EXPRESSIONS = ("matchExpressions", "matchFields")
_PODS = (("podAffinity", "affinity"), ("podAntiAffinity", "anti-affinity"))


def openings(world: World) -> Iterator[Edit]:
    for _, patch, _ in (*_of_nodes(world), *_of_pods(world)):
        yield patch_of(world.pod, patch)


def changes(world: World) -> Iterator[Change]:
    pod = world.pod
    for sentence, dropped, values in (*_of_nodes(world), *_of_pods(world)):
        with world.changed([patch_of(pod, dropped)]):
            nodes = world.nodes()
        if not nodes:
            continue
        if values:
            *path, key = values
            *_, expression = _inner(world, path)
            near, other = meant(str(key), expression["values"][0], world, nodes)
            if other is not None:
                edit = patch_of(pod, put([*expression["values"], other], *path, "values"))
                also = f"Allow {key}={other} too in the node affinity"
                yield Change("affinity", Who.OWNER, 0.2 if near else 0.5, also, (edit,))
            if near:
                continue
        yield Change("affinity", Who.OWNER, 0.6, sentence, (patch_of(pod, dropped),))


def _inner(world: World, path: list[str | int]) -> list[dict[str, list[str]]]:
    values = [world.pod]
    for part in path:
        values.append(values[-1][part])  # type: ignore[index]
    return values


def _of_nodes(world: World) -> Iterator[tuple[str, Patch, tuple[str | int, ...]]]:
    """Yields each requirement of the node affinity in words, the patch that drops it, and if it has
    values the path of the requirement and its key.
    """
    affinity = (world.pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()
    whole = False
    for number, term in enumerate(terms):
        size = sum(len(term.get(part) or ()) for part in _EXPRESSIONS)
        for part in _EXPRESSIONS:
            for place, expression in enumerate(term.get(part) or ()):
                path = (*_NODES, number, part, place)
                has_values = part == _EXPRESSIONS[0] and expression["operator"] == "In"
                values = (*path, expression["key"]) if has_values else ()
                if size > 1:
                    words = required(msgspec.convert(expression, NodeSelectorRequirement))
                    yield f"Drop {words} from the node affinity", without(world.pod, *path), values
                elif not whole or values:
                    whole = True
                    patch = without(world.pod, *_NODES[:-1])
                    yield "Drop the required node affinity", patch, values


def _of_pods(world: World) -> Iterator[tuple[str, Patch, tuple[str | int, ...]]]:
    affinity = world.pod["spec"].get("affinity") or {}
    terms = world.info.template.affinity_terms
    for (part, name), words in zip(_PODS, (terms.required, terms.required_anti), strict=True):
        for number in range(len((affinity.get(part) or {}).get(REQUIRED) or ())):
            term = words[number]
            what = f"{selection(term.selector)} in the same {term.topology_key}"
            patch = without(world.pod, "spec", "affinity", part, REQUIRED, number)
            yield f"Drop the pod {name} to {what}", patch, ()


WAY = Way(changes, openings)
