"""The available volumes, and the nodes on which they match a claim.

Volumes are sorted into the storage classes once, and again only when they change. The volumes that
match a request are sorted in the same way by the label values that their node affinity demands. The
matches of a claim on all nodes then need one look-up by label code, however many volumes there are.
Mirrors FindMatchingVolume, and the index by class of the assume cache.
"""

from __future__ import annotations

import operator
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Sequence, Set

import numpy as np

from berth.plugin import Bools, NodeView

from ...kube.claims import class_of
from ...kube.core import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from ...kube.node_selector import node_selector_matches, validate_node_selector_term
from ...kube.storage import PersistentVolume, PersistentVolumeClaim
from ...kube.volumes import VolumeRequest, is_for, size_of
from ...model.cluster_objects import ClusterObjects
from ...model.node_selection import NodeTerms
from .label_numbers import NONE, LabelNumbers

MOST_REQUESTS = 64
# The size in billionths of a byte, and the name of a volume.
Sized = tuple[int, str]


def node_affinity(volume: PersistentVolume) -> NodeSelector | None:
    """Returns the nodes that a volume allows; None for all."""
    affinity = volume.spec.node_affinity
    return None if affinity is None or affinity.required is None else by_labels(affinity.required)


# A requirement that every node meets.
_IS_ANY = NodeSelectorRequirement(key="-", operator="DoesNotExist")


def by_labels(selector: NodeSelector) -> NodeSelector:
    """Returns the selector as kube-scheduler applies it to a volume: only the labels of a node
    count, so requirements on its name are met. A term that is not valid matches nothing.
    """
    terms = [_by_labels(term) for term in selector.node_selector_terms]
    if all(map(operator.is_, terms, selector.node_selector_terms)):
        return selector
    return NodeSelector(node_selector_terms=tuple([term for term in terms if term is not None]))


def _by_labels(term: NodeSelectorTerm) -> NodeSelectorTerm | None:
    """Returns the term without fields, the same one if it has none; None if it is not valid."""
    fields, expressions = term.match_fields, term.match_expressions
    if not fields:
        return term if validate_node_selector_term(term) is None else None
    if any(f.operator not in ("In", "NotIn") or len(f.values) != 1 for f in fields):
        return None
    return _by_labels(NodeSelectorTerm(match_expressions=expressions or (_IS_ANY,)))


def allows(affinity: NodeSelector | None, node: Node) -> bool:
    """True if a volume with this affinity can be used on the node."""
    return affinity is None or node_selector_matches(affinity.node_selector_terms, node)


def allowed(affinity: NodeSelector, nodes: NodeView) -> Bools:
    """Returns bool[nodes.size]: the nodes where a volume with this affinity can be used."""
    return NodeTerms([(term, 1) for term in affinity.node_selector_terms]).match(nodes)


def _label_value(affinity: NodeSelector) -> tuple[str, str] | None:
    """Returns a label and its value if the affinity demands just that, otherwise None."""
    if len(affinity.node_selector_terms) != 1:
        return None
    (term,) = affinity.node_selector_terms
    if len(term.match_expressions) != 1 or term.match_fields:
        return None
    (requirement,) = term.match_expressions
    if requirement.operator != "In" or len(requirement.values) != 1:
        return None
    return requirement.key, requirement.values[0]


class Matches:
    """The available volumes that match one request, the smallest first, by their node affinity."""

    def __init__(self, request: VolumeRequest) -> None:
        self.request = request
        self._place_of: dict[str, tuple[NodeSelector | None, Sized]] = {}
        self._everywhere: list[Sized] = []
        self._by_label: dict[str, dict[str, list[Sized]]] = {}
        self._counts: dict[str, LabelNumbers] = {}  # how many volumes each value has
        self._others: dict[NodeSelector, list[Sized]] = {}

    def put(self, volume: PersistentVolume) -> None:
        """Adds a volume if it matches. It must not be here yet."""
        if not self.request.matches(volume):
            return
        affinity, sized = node_affinity(volume), (size_of(volume), volume.metadata.name)
        self._place_of[volume.metadata.name] = affinity, sized
        self._change(affinity, sized, added=True)

    @property
    def names(self) -> list[str]:
        """The names of the volumes, the smallest first."""
        return sorted(self._place_of, key=lambda name: self._place_of[name][1])

    def drop(self, name: str) -> None:
        """Removes a volume if it is here."""
        place = self._place_of.pop(name, None)
        if place is not None:
            self._change(*place, added=False)

    def _change(self, affinity: NodeSelector | None, sized: Sized, *, added: bool) -> None:
        demand = None if affinity is None else _label_value(affinity)
        if affinity is None:
            _change(self._everywhere, sized, added=added)
        elif demand is not None:
            label, value = demand
            volumes = self._by_label.setdefault(label, {}).setdefault(value, [])
            _change(volumes, sized, added=added)
            counts = self._counts.setdefault(label, LabelNumbers(label))
            counts.set(value, len(volumes) or NONE)
            if not volumes:
                del self._by_label[label][value]
        else:
            volumes = self._others.setdefault(affinity, [])
            _change(volumes, sized, added=added)
            if not volumes:
                del self._others[affinity]

    def usable_on(self, nodes: NodeView) -> Bools:
        """Returns bool[nodes.size]: the nodes that can use one of the volumes."""
        if self._everywhere:
            return np.ones(nodes.size, dtype=np.bool_)
        usable = np.zeros(nodes.size, dtype=np.bool_)
        for counts in self._counts.values():
            if counts:
                usable |= counts.of(nodes) > 0
        for affinity in self._others:
            usable |= allowed(affinity, nodes)
        return usable

    def smallest(self, node: Node, excluded: Set[str]) -> str | None:
        """Returns the name of the smallest volume, except the `excluded` ones, that can be used on
        the node; None if there is none. Of volumes of one size, the first by name is chosen.
        """
        labels = node.metadata.labels
        lists = [self._everywhere]
        lists += [
            values[labels[label]]
            for label, values in self._by_label.items()
            if labels.get(label) in values
        ]
        lists += [volumes for affinity, volumes in self._others.items() if allows(affinity, node)]
        firsts = [next((pair for pair in each if pair[1] not in excluded), None) for each in lists]
        return min((pair for pair in firsts if pair is not None), default=(0, None))[1]


def _change(volumes: list[Sized], sized: Sized, *, added: bool) -> None:
    if added:
        insort(volumes, sized)
    else:
        del volumes[bisect_left(volumes, sized)]


class Volumes:
    """The volumes of a cluster: the available ones by class, and those that name a claim.

    Invariant: after `refresh` they equal the PersistentVolumes among the cluster's objects.
    """

    def __init__(self) -> None:
        self._objects: ClusterObjects | None = None
        self._version = 0
        self._clear()

    def _clear(self) -> None:
        self._available: dict[str, dict[str, PersistentVolume]] = defaultdict(dict)
        self._reserved: dict[tuple[str, str], dict[str, PersistentVolume]] = defaultdict(dict)
        self._volumes: dict[str, PersistentVolume] = {}
        self._matches: dict[VolumeRequest, Matches] = {}

    def refresh(self, objects: ClusterObjects) -> None:
        """Takes in the volumes that changed since the last call."""
        log = objects.changes(PersistentVolume)
        changed: Iterable[tuple[str, str]] | None = None
        if self._objects is objects:
            if self._version == log.version:
                return
            changed = log.since(self._version)
        if changed is None:
            self._clear()
            changed = [("", volume.metadata.name) for volume in objects.every(PersistentVolume)]
        self._objects, self._version = objects, log.version
        for _, name in changed:
            self._drop(name)
            volume = objects.get(PersistentVolume, name)
            if volume is not None:
                self._put(volume)

    def reserved(self, claim: PersistentVolumeClaim) -> Sequence[PersistentVolume]:
        """Returns the volumes that name this claim, by name, without those that name the uid of an
        earlier claim.
        """
        volumes = self._reserved.get((claim.metadata.namespace, claim.metadata.name), {})
        return [volumes[name] for name in sorted(volumes) if is_for(volumes[name], claim)]

    def matches(self, request: VolumeRequest) -> Matches:
        """Returns the available volumes that match; they are kept up to date from now on."""
        matches = self._matches.pop(request, None)
        if matches is None:
            matches = Matches(request)
            for volume in self._available.get(request.storage_class, {}).values():
                matches.put(volume)
            if len(self._matches) >= MOST_REQUESTS:
                del self._matches[next(iter(self._matches))]
        self._matches[request] = matches
        return matches

    def _put(self, volume: PersistentVolume) -> None:
        name, claim = volume.metadata.name, volume.spec.claim_ref
        self._volumes[name] = volume
        if claim is not None:
            self._reserved[claim.namespace, claim.name][name] = volume
        elif volume.status.phase == "Available" and volume.metadata.deletion_timestamp is None:
            storage_class = class_of(volume)
            self._available[storage_class][name] = volume
            for matches in self._matches.values():
                if matches.request.storage_class == storage_class:
                    matches.put(volume)

    def _drop(self, name: str) -> None:
        volume = self._volumes.pop(name, None)
        if volume is None:
            return
        claim = volume.spec.claim_ref
        if claim is not None:
            named = self._reserved[claim.namespace, claim.name]
            del named[name]
            if not named:
                del self._reserved[claim.namespace, claim.name]
        elif self._available[class_of(volume)].pop(name, None) is not None:
            for matches in self._matches.values():
                matches.drop(name)
