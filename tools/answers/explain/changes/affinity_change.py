"""Suggestions to extend or drop a part of the required node affinity, or a required term of pod
affinity; or to drop all of one affinity, if no part is enough. A term of pod affinity is extended
by the namespace that has the pods which it asks for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from berth.actors.scheduling.kube.core import NodeSelectorRequirement
from berth.actors.scheduling.model.affinity_terms import AffinityTerm

from ..asks.pod_constraints import selection
from ..words import required
from .change import ProposedChange, Who
from .edit import Document, Edit, Patch, patch_of, put, without
from .kind_of_change import Way
from .node_selector import likely_value
from .world import World

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS = ("spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")
LABELS = "matchExpressions"
_FIELDS = (LABELS, "matchFields")
_PODS = (("podAffinity", "affinity"), ("podAntiAffinity", "anti-affinity"))


class _Part(msgspec.Struct, frozen=True):
    """A part of the affinity: the sentence and the patch that drop it. A requirement of values also
    has its path, its key and its values.
    """

    sentence: str
    dropped: Patch
    path: tuple[str | int, ...] = ()
    key: str = ""
    values: tuple[str, ...] = ()


def openings(world: World) -> Iterator[Edit]:
    for whole, _ in _whole_affinities(world):
        yield patch_of(world.pod, whole.dropped)


def changes(world: World) -> Iterator[ProposedChange]:
    yield from _terms_with_a_namespace_more(world)
    for whole, parts in list(_whole_affinities(world)):
        of_parts = [change for part in parts for change in _changes_of_part(world, part)]
        yield from of_parts
        if len(parts) > 1 and not of_parts:
            edit = patch_of(world.pod, whole.dropped)
            yield ProposedChange("affinity", Who.OWNER, 0.8, whole.sentence, (edit,))


def _terms_with_a_namespace_more(world: World) -> Iterator[ProposedChange]:
    """Yields the look into one more namespace, for terms of pod affinity that name namespaces, or
    mean the pod's own, while the pods that they select are in others alone.
    """
    pods = [info.pod for node in world.node_infos() for info in node.pods.values()]
    for number, term in enumerate(world.written.template.affinity_terms.required):
        selected = [pod.metadata for pod in pods if term.selector.matches(pod.metadata.labels)]
        places = Counter(metadata.namespace for metadata in selected)
        if not places or term.namespaces & places.keys() or not term.namespace_selector.nothing:
            continue
        ((namespace, _),) = places.most_common(1)
        path = ("spec", "affinity", "podAffinity", REQUIRED, number, "namespaces")
        edit = patch_of(world.pod, put(sorted({*term.namespaces, namespace}), *path))
        sentence = (
            f"Let the pod affinity to {selection(term.selector)} look in the namespace {namespace} "
            "too"
        )
        yield ProposedChange("affinity", Who.OWNER, 0.4, sentence, (edit,))


def _changes_of_part(world: World, part: _Part) -> Iterator[ProposedChange]:
    """Yields the changes of a part, provided that the pod fits without the part."""
    edit = patch_of(world.pod, part.dropped)
    with world.changed([edit]):
        nodes = world.nodes()
    if not nodes:
        return
    near, other = False, None
    if part.values:
        near, other = likely_value(part.key, part.values[0], world, nodes)
    if other is not None:
        extended = patch_of(world.pod, put([*part.values, other], *part.path, "values"))
        sentence = f"Allow {part.key}={other} too in the node affinity"
        yield ProposedChange("affinity", Who.OWNER, 0.2 if near else 0.5, sentence, (extended,))
    if not near:
        yield ProposedChange("affinity", Who.OWNER, 0.6, part.sentence, (edit,))


def _whole_affinities(world: World) -> Iterator[tuple[_Part, list[_Part]]]:
    """Yields each affinity of the pod (to nodes, to pods, against pods), as a whole and as its
    parts.
    """
    affinity = world.pod["spec"].get("affinity") or {}
    required_terms = (affinity.get("nodeAffinity") or {}).get(REQUIRED) or {}
    of_nodes = list(_node_affinity_parts(world.pod, required_terms.get("nodeSelectorTerms") or ()))
    if of_nodes:
        yield _Part("Drop the required node affinity", without(world.pod, *_TERMS[:-1])), of_nodes
    terms = world.written.template.affinity_terms
    for (kind, name), of_kind in zip(_PODS, (terms.required, terms.required_anti), strict=True):
        path = ("spec", "affinity", kind, REQUIRED)
        parts = [
            _Part(
                f"Drop the pod {name} to {what}",
                without(world.pod, *path, number),
            )
            for number, what in enumerate(map(_topology, of_kind))
        ]
        if parts:
            yield _Part(f"Drop the required pod {name}", without(world.pod, *path)), parts


def _topology(term: AffinityTerm) -> str:
    return f"{selection(term.selector)} in the same {term.topology_key}"


def _node_affinity_parts(pod: Document, terms: Sequence[Document]) -> Iterator[_Part]:
    """Yields the requirements of the node affinity. The only requirement of a term is left out: a
    term without requirements matches no node, so it cannot be dropped.
    """
    for number, term in enumerate(terms):
        size = sum(len(term.get(field) or ()) for field in _FIELDS)
        for field in _FIELDS:
            for place, requirement in enumerate(term.get(field) or ()):
                path = (*_TERMS, number, field, place)
                if size > 1:
                    words = required(msgspec.convert(requirement, NodeSelectorRequirement))
                    sentence = f"Drop {words} from the node affinity"
                    dropped = without(pod, *path)
                else:
                    sentence, dropped = (
                        "Drop the required node affinity",
                        without(pod, *_TERMS[:-1]),
                    )
                key, values = requirement["key"], tuple(requirement.get("values") or ())
                if field != LABELS or requirement["operator"] != "In":
                    values = ()
                yield _Part(sentence, dropped, path, key, values)


WAY = Way(changes, openings)
