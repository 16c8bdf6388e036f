"""The available volumes, and the nodes on which they match a claim.

Volumes are sorted into the storage classes once, and again only when they change. The volumes that
match a request are sorted in the same way by the label values that their node affinity demands. The
matches of a claim on all nodes then need one look-up by label code, however many volumes there are.
Mirrors FindMatchingVolume, and the index by class of the assume cache.
"""

from __future__ import annotations

import operator
from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Sequence, Set

import numpy as np

from berth.plugin import Bools, Ints, NodeView, Snapshot

from ...kube.claims import class_of
from ...kube.core import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from ...kube.node_selector import node_selector_matches, validate_node_selector_term
from ...kube.storage import PersistentVolume, PersistentVolumeClaim
from ...kube.volumes import VolumeRequest, is_for, size_of
from ...model.cluster_objects import ClusterObjects
from ...model.node_selection import NodeTerms
from .label_numbers import NONE, LabelNumbers
from .selected_nodes import SelectedNodes, Selection

MOST_REQUESTS = 64
# The size in billionths of a byte, and the name of a volume.
Sized = tuple[int, str]


def node_affinity(volume: PersistentVolume) -> NodeSelector | None:
    """Returns the nodes that a volume allows; None for all."""
    affinity = volume.spec.node_affinity
    return (
        None
        if affinity is None or affinity.required is None
        else labels_selector(affinity.required)
    )


# A requirement that every node meets.
_IS_ANY = NodeSelectorRequirement(key="-", operator="DoesNotExist")


def labels_selector(selector: NodeSelector) -> NodeSelector:
    """Returns the selector as kube-scheduler applies it to a volume: only node labels count, so
    requirements on the name are met. An invalid term matches nothing.
    """
    terms = [_labels_term(term) for term in selector.node_selector_terms]
    if all(map(operator.is_, terms, selector.node_selector_terms)):
        return selector
    return NodeSelector(node_selector_terms=tuple([term for term in terms if term is not None]))


def _labels_term(term: NodeSelectorTerm) -> NodeSelectorTerm | None:
    """Returns the term without field requirements, the same object if it has none; None for an
    invalid term.
    """
    fields, expressions = term.match_fields, term.match_expressions
    if not fields:
        return term if validate_node_selector_term(term) is None else None
    if any(f.operator not in ("In", "NotIn") or len(f.values) != 1 for f in fields):
        return None
    return _labels_term(NodeSelectorTerm(match_expressions=expressions or (_IS_ANY,)))


def affinity_allows(affinity: NodeSelector | None, node: Node) -> bool:
    """True if a volume with this affinity can be used on the node."""
    return affinity is None or node_selector_matches(affinity.node_selector_terms, node)


def nodes_of_affinity(affinity: NodeSelector, nodes: NodeView) -> Bools:
    """Returns bool[nodes.size]: the nodes where a volume with this affinity can be used."""
    return NodeTerms([(term, 1) for term in affinity.node_selector_terms]).match(nodes)


def _label_value(affinity: NodeSelector) -> tuple[str, str] | None:
    """Returns the label and its value, if the affinity demands a single one; otherwise None."""
    if len(affinity.node_selector_terms) != 1:
        return None
    (term,) = affinity.node_selector_terms
    if len(term.match_expressions) != 1 or term.match_fields:
        return None
    (requirement,) = term.match_expressions
    if requirement.operator != "In" or len(requirement.values) != 1:
        return None
    return requirement.key, requirement.values[0]


VOLUME_STEPS = 20  # to read a volume, or to sort it in
# Values of a node affinity: so many are read in a step, and so many compared with labels.
VALUES_READ, VALUES_COMPARED = 2, 4


class Affinity:
    """The node affinity of `volumes` available volumes: a single label with its value, or a
    selection by other demands.
    """

    __slots__ = ("demand", "selection", "selector", "volumes")

    def __init__(self, selector: NodeSelector, selected: SelectedNodes) -> None:
        self.selector = selector
        self.volumes = 0
        self.demand = _label_value(selector)
        self.selection: Selection | None = None
        if self.demand is None:
            terms = selector.node_selector_terms
            labels = dict.fromkeys(r.key for term in terms for r in term.match_expressions)
            match = NodeTerms([(term, 1) for term in terms]).match
            self.selection = selected.add(match, [*labels], _values(selector) // VALUES_COMPARED)


def _values(selector: NodeSelector) -> int:
    """Returns the number of values in a selector."""
    return sum(len(r.values) for t in selector.node_selector_terms for r in t.match_expressions)


class Matches:
    """The available volumes that match one request, the smallest first, by their node affinity.

    `candidates` are volumes of the class that `follow` still has to sort in.
    """

    def __init__(
        self,
        request: VolumeRequest,
        selected: SelectedNodes,
        candidates: dict[str, tuple[PersistentVolume, Affinity | None]],
    ) -> None:
        self.request = request
        self._selected = selected
        self._candidates = candidates
        self._place_of: dict[str, tuple[Affinity | None, Sized]] = {}
        self._everywhere: list[Sized] = []
        self._by_label: dict[str, dict[str, list[Sized]]] = {}
        self._counts: dict[str, LabelNumbers] = {}  # how many volumes each value has
        self._others: dict[Selection, list[Sized]] = {}
        # The volumes of `_others` with their slots, and where one of them can be used.
        self._listed: tuple[list[list[Sized]], Ints] | None = None
        self._anywhere: tuple[int, Bools] | None = None

    def follow(self) -> Iterator[int]:
        """Sorts the candidates. Yields the steps after each one."""
        while self._candidates:
            name = next(iter(self._candidates))
            self.put(*self._candidates[name])
            yield VOLUME_STEPS

    def put(self, volume: PersistentVolume, affinity: Affinity | None) -> None:
        """Adds a volume if it matches. It may be among the candidates, but must not be here
        already.
        """
        name = volume.metadata.name
        self._candidates.pop(name, None)
        if not self.request.matches(volume):
            return
        sized = size_of(volume), name
        self._place_of[name] = affinity, sized
        self._change(affinity, sized, added=True)

    @property
    def names(self) -> list[str]:
        """The names of the volumes, the smallest first."""
        return sorted(self._place_of, key=lambda name: self._place_of[name][1])

    def drop(self, name: str) -> None:
        """Removes a volume if it is here."""
        self._candidates.pop(name, None)
        place = self._place_of.pop(name, None)
        if place is not None:
            self._change(*place, added=False)

    def _change(self, affinity: Affinity | None, sized: Sized, *, added: bool) -> None:
        if affinity is None:
            _change(self._everywhere, sized, added=added)
        elif affinity.demand is not None:
            label, value = affinity.demand
            volumes = self._by_label.setdefault(label, {}).setdefault(value, [])
            _change(volumes, sized, added=added)
            counts = self._counts.setdefault(label, LabelNumbers(label))
            counts.set(value, len(volumes) or NONE)
            if not volumes:
                del self._by_label[label][value]
        elif affinity.selection is not None:
            volumes = self._others.setdefault(affinity.selection, [])
            _change(volumes, sized, added=added)
            if len(volumes) == int(added):  # a selection has come or gone
                self._listed = self._anywhere = None
            if not volumes:
                del self._others[affinity.selection]

    def usable_on(self, nodes: NodeView) -> Bools:
        """Returns bool[nodes.size]: the nodes that can use one of the volumes."""
        if self._everywhere:
            return np.ones(nodes.size, dtype=np.bool_)
        usable = np.zeros(nodes.size, dtype=np.bool_)
        for counts in self._counts.values():
            if counts:
                usable |= counts.of(nodes) > 0
        if self._others:
            usable |= self._nodes_of_selections(nodes.snapshot)[nodes.rows]
        return usable

    def _nodes_of_selections(self, snapshot: Snapshot) -> Bools:
        """Returns bool[rows]: the nodes of affinities with other demands than a single label."""
        deque(self._selected.follow(snapshot), maxlen=0)
        version = self._selected.version
        if self._anywhere is None or self._anywhere[0] != version:
            _, slots = self._list_others()
            rows = self._selected.any_of(slots, len(snapshot.columns.pods))
            self._anywhere = version, rows
        return self._anywhere[1]

    def _list_others(self) -> tuple[list[list[Sized]], Ints]:
        if self._listed is None:
            slots = np.array([selection.slot for selection in self._others], dtype=np.int64)
            self._listed = [*self._others.values()], slots
        return self._listed

    def smallest(self, snapshot: Snapshot, row: int, excluded: Set[str]) -> str | None:
        """Returns the name of the smallest volume, except the `excluded` ones, that can be used on
        the node of a row; None if there is none. Of volumes of one size, the first by name is
        chosen.
        """
        node = snapshot.columns.nodes[row]
        assert node is not None
        labels = node.metadata.labels
        lists = [self._everywhere]
        lists += [
            values[labels[label]]
            for label, values in self._by_label.items()
            if labels.get(label) in values
        ]
        if self._others:
            deque(self._selected.follow(snapshot), maxlen=0)
            volumes, slots = self._list_others()
            lists += [volumes[place] for place in self._selected.at(slots, row).tolist()]
        firsts = [next((pair for pair in each if pair[1] not in excluded), None) for each in lists]
        return min((pair for pair in firsts if pair is not None), default=(0, None))[1]


def _change(volumes: list[Sized], sized: Sized, *, added: bool) -> None:
    if added:
        insort(volumes, sized)
    else:
        del volumes[bisect_left(volumes, sized)]


class Volumes:
    """The volumes of a cluster: the available ones by class, and those that name a claim.

    Invariant: after `follow` they equal the PersistentVolumes among the cluster's objects.
    """

    def __init__(self) -> None:
        self.selected = SelectedNodes()
        self._objects: ClusterObjects | None = None
        self._version = 0
        self._most_requests = MOST_REQUESTS
        self._affinities: dict[NodeSelector, Affinity] = {}
        self._clear()

    def _clear(self) -> None:
        self._changed: dict[str, None] = {}  # the volumes that `follow` still has to read
        self._available: dict[str, dict[str, tuple[PersistentVolume, Affinity | None]]] = (
            defaultdict(dict)
        )
        self._reserved: dict[tuple[str, str], dict[str, PersistentVolume]] = defaultdict(dict)
        self._volumes: dict[str, PersistentVolume] = {}
        self._matches: dict[VolumeRequest, Matches] = {}
        for affinity in self._affinities.values():
            if affinity.selection is not None:
                self.selected.drop(affinity.selection)
        self._affinities = {}

    def follow(self, objects: ClusterObjects) -> Iterator[int]:
        """Reads the volumes that changed since the last call. Yields the steps after each one."""
        log = objects.changes(PersistentVolume)
        if self._objects is not objects or self._version != log.version:
            changed = log.since(self._version) if self._objects is objects else None
            if changed is None:
                names = [volume.metadata.name for volume in objects.every(PersistentVolume)]
                self._clear()
            else:
                names = [name for _, name in changed]
            self._changed.update(dict.fromkeys(names))
            self._objects, self._version = objects, log.version
        while self._changed:
            name = next(iter(self._changed))
            volume = objects.get(PersistentVolume, name)
            self._drop(name)
            steps = VOLUME_STEPS if volume is None else self._put(volume)
            del self._changed[name]
            yield steps

    def follow_all(self, snapshot: Snapshot, requests: Collection[VolumeRequest]) -> Iterator[int]:
        """Updates the volumes, their matches for these requests, and the nodes that can use them.
        Yields the steps after each part.
        """
        yield from self.follow(snapshot.objects)
        self._most_requests = max(MOST_REQUESTS, len(requests))
        for request in requests:
            yield from self._matches_of(request).follow()
        yield from self.selected.follow(snapshot)

    def refresh(self, objects: ClusterObjects) -> None:
        """Reads the volumes that changed since the last call, without a pause."""
        deque(self.follow(objects), maxlen=0)

    def reserved(self, claim: PersistentVolumeClaim) -> Sequence[PersistentVolume]:
        """Returns the volumes that name this claim, by name, without those that name the uid of an
        earlier claim.
        """
        volumes = self._reserved.get((claim.metadata.namespace, claim.metadata.name), {})
        return [volumes[name] for name in sorted(volumes) if is_for(volumes[name], claim)]

    def matches(self, request: VolumeRequest) -> Matches:
        """Returns the available volumes that match; they are kept up to date from now on."""
        matches = self._matches_of(request)
        deque(matches.follow(), maxlen=0)
        return matches

    def _matches_of(self, request: VolumeRequest) -> Matches:
        """Returns the matches of a request, some of which may still be unsorted."""
        matches = self._matches.pop(request, None)
        if matches is None:
            available = self._available.get(request.storage_class, {})
            matches = Matches(request, self.selected, dict(available))
            while len(self._matches) >= self._most_requests:
                del self._matches[next(iter(self._matches))]
        self._matches[request] = matches
        return matches

    def _put(self, volume: PersistentVolume) -> int:
        """Adds a volume; returns the steps."""
        name, claim = volume.metadata.name, volume.spec.claim_ref
        self._volumes[name] = volume
        if claim is not None:
            self._reserved[claim.namespace, claim.name][name] = volume
        elif volume.status.phase == "Available" and volume.metadata.deletion_timestamp is None:
            storage_class = class_of(volume)
            selector = node_affinity(volume)
            affinity = None
            if selector is not None:
                affinity = self._affinities.get(selector)
                if affinity is None:
                    affinity = self._affinities[selector] = Affinity(selector, self.selected)
                affinity.volumes += 1
            self._available[storage_class][name] = volume, affinity
            for matches in self._matches.values():
                if matches.request.storage_class == storage_class:
                    matches.put(volume, affinity)
            values = 0 if selector is None else _values(selector)
            return VOLUME_STEPS * (1 + len(self._matches)) + values // VALUES_READ
        return VOLUME_STEPS

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
            return
        available = self._available[class_of(volume)].pop(name, None)
        if available is None:
            return
        for matches in self._matches.values():
            matches.drop(name)
        affinity = available[1]
        if affinity is not None:
            affinity.volumes -= 1
            if not affinity.volumes:
                del self._affinities[affinity.selector]
                if affinity.selection is not None:
                    self.selected.drop(affinity.selection)
