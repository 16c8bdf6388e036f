"""The search for changes that help: single changes, then pairs of them, then one of each kind that
is needed. A change becomes a suggestion only if the pod fits after it, by a new decision.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from berth.actors.scheduling.decision.outcome import DecisionFailure, Outcome

from ..decision import Decision, Failure
from ..tried_cluster import AskedPod
from ..words import listed
from . import (
    affinity_change,
    another_node,
    claim_change,
    device_release,
    device_requests,
    device_selectors,
    features,
    gates,
    labels,
    leaving_pods,
    lower_requests,
    node_name,
    node_selector,
    ports,
    resize_change,
    room_on_node,
    spread,
    storage_classes,
    taint_change,
    tolerations,
    topologies,
    volume_change,
)
from .change import ProposedChange, Suggestion, Who
from .edit import Edit, patch_of, put
from .kind_of_change import Way
from .world import World

MOST_SHOWN = 5
OF_EACH = 3  # that are shown of those of one side, if the other side has some
MOST_PAIRS = 8
MOST_SECONDS = 5.0  # for plugins and devices of which a decision takes long
SECONDS_FOR_NODES = 2.0
WAYS: tuple[Way, ...] = (
    gates.WAY,
    leaving_pods.WAY,
    resize_change.WAY,
    node_selector.WAY,
    affinity_change.WAY,
    tolerations.WAY,
    lower_requests.WAY,
    spread.WAY,
    ports.WAY,
    taint_change.WAY,
    labels.WAY,
    topologies.WAY,
    node_name.WAY,
    volume_change.WAY,
    storage_classes.WAY,
    claim_change.WAY,
    features.WAY,
    device_requests.WAY,
    device_release.WAY,
    room_on_node.WAY,
    another_node.WAY,
)


def is_pending(asked: AskedPod, decision: Decision | Failure) -> bool:
    """True if a change can help: the pod fits nowhere, has scheduling gates, or names a node itself
    while its claims wait for a scheduler to choose one.
    """
    held = bool(asked.question.pinned_to or asked.attempt.info.pod.spec.scheduling_gates)
    return held or isinstance(decision, Failure) or not decision.hosts


class ChangeSearch(msgspec.Struct, frozen=True):
    """The changes after which a pending pod fits.

    First come events that nobody has to cause, then changes by the pod's owner, then changes by the
    admin; among these the smallest come first. `problem` says why there may be more changes.
    """

    suggestions: list[Suggestion]
    problem: str = ""
    whole: bool = True  # False if only the kinds were tried that mend what went wrong

    @property
    def says_something(self) -> bool:
        return self.whole or bool(self.suggestions)


def search(asked: AskedPod, outcome: Outcome, seconds: float = MOST_SECONDS) -> ChangeSearch:
    """Searches for the changes that would let the pod of this attempt fit."""
    if asked.attempt.configuration.extenders:
        return ChangeSearch([], "no change is tried, as extenders would be asked about each")
    world = World(asked, outcome, seconds)
    ways = WAYS
    if asked.question.pinned_to:
        ways = (node_name.WAY,)
    elif isinstance(outcome, DecisionFailure):
        ways = (device_selectors.WAY,)
    alone = {each[0].sentence: each for way in ways for each in _proven_changes(world, way)}
    proven = list(alone.values())
    if ways is WAYS:
        proven = proven or _pairs(world) or _several_changes(world)
    elif isinstance(outcome, DecisionFailure):
        proven = proven or list(_after_mending(world, *ways))
    suggestions = [suggestion for _, suggestion in sorted(proven, key=_rank)]
    problem = "the search stopped before it tried all changes" * world.spent
    return ChangeSearch(suggestions, problem, whole=ways is WAYS)


def smallest_changes(
    asked: AskedPod,
    outcome: Outcome,
    groups: Sequence[Collection[str]],
    seconds: float = SECONDS_FOR_NODES,
) -> list[str]:
    """Returns, for each group of nodes, the smallest changes after which the pod fits on one of
    them: the owner's or the admin's, or the events to wait for; "" if no single change is enough.
    """
    if asked.attempt.configuration.extenders:
        return [""] * len(groups)
    world = World(asked, outcome, seconds)
    return [_smallest_change(world, nodes) for nodes in groups]


def nodes_with_label(asked: AskedPod, outcome: Outcome, label: tuple[str, str]) -> list[str]:
    """Returns the nodes that the pod fits on if its node selector asks for a label."""
    if asked.attempt.configuration.extenders:
        return []
    world = World(asked, outcome, SECONDS_FOR_NODES)
    node_selector = {**(world.pod["spec"].get("nodeSelector") or {}), label[0]: label[1]}
    with world.changed([patch_of(world.pod, put(node_selector, "spec", "nodeSelector"))]):
        return world.nodes()


def _smallest_change(world: World, nodes: Collection[str]) -> str:
    """Returns the smallest change by the owner and the smallest by the admin after which the pod
    fits on one of these nodes.
    """
    ways = [way for way in WAYS if way is not another_node.WAY]
    with world.among(nodes), world.eased(list(gates.openings(world))):
        changes = sorted((each for way in ways for each in _proven_changes(world, way)), key=_rank)
    smallest = {change.who: change for change, _ in reversed(changes)}
    return _sentence([smallest[who].sentence for who in Who if who in smallest], "or")


def _rank(proven: tuple[ProposedChange, Suggestion]) -> tuple[int, float]:
    change, _ = proven
    return _object_side(change), change.size


def _proven_changes(world: World, way: Way) -> Iterator[tuple[ProposedChange, Suggestion]]:
    """Yields the changes of a kind after which the pod fits."""
    for change in way.changes(world):
        with world.changed(change.edits) as readable:
            nodes = tuple(world.nodes()) if readable else ()
        if nodes:
            yield change, _suggestion(change, nodes)


def _pairs(world: World) -> list[tuple[ProposedChange, Suggestion]]:
    """Returns pairs of changes, each as small as possible: first the second one is found after an
    opening of the first kind, then the first one after the second.
    """
    pairs: dict[frozenset[str], tuple[ProposedChange, Suggestion]] = {}
    for place, first in enumerate(WAYS):
        for opening in () if first.openings is None else list(first.openings(world)):
            for second in WAYS[place:]:
                with world.eased([opening]):
                    later = next(_proven_changes(world, second), None)
                if later is None:
                    continue
                with world.changed(later[0].edits):
                    earlier = next(_proven_changes(world, first), None)
                if earlier is not None:
                    both = _joined_changes(later, earlier)
                    pairs.setdefault(frozenset((earlier[0].sentence, later[0].sentence)), both)
                if len(pairs) == MOST_PAIRS:
                    return list(pairs.values())
    return list(pairs.values())


def _after_mending(world: World, way: Way) -> Iterator[tuple[ProposedChange, Suggestion]]:
    """Yields changes that mend what fails, each with the smallest change of another kind that the
    pod needs then, to fit.
    """
    for mended in way.changes(world):
        with world.changed(mended.edits) as readable:
            ways = WAYS if readable else ()
            later = [next(_proven_changes(world, another), None) for another in ways]
        for proven in filter(None, later):
            yield _joined_changes((mended, proven[1]), proven)


def _several_changes(world: World) -> list[tuple[ProposedChange, Suggestion]]:
    """Returns three or more changes as one, each as small as possible. Drops all openings without
    which the pod still fits, then replaces each of the rest by a change.
    """
    needed: list[tuple[Way, Edit]] = []
    for way in WAYS:
        openings = [] if way.openings is None else list(way.openings(world))
        earlier = [opening for _, opening in needed]  # the owner may do what the admin may too
        needed += [(way, opening) for opening in openings if opening not in earlier]
    if not _fits_after(world, [opening for _, opening in needed]):
        return []
    for each in reversed(needed):
        others = [other for other in needed if other is not each]
        if _fits_after(world, [opening for _, opening in others]):
            needed = others
    chosen: list[tuple[ProposedChange, Suggestion]] = []
    for place, (way, _) in enumerate(needed, 1):
        edits = [edit for change, _ in chosen for edit in change.edits]
        with world.changed(edits), world.eased([opening for _, opening in needed[place:]]):
            proven = next(_proven_changes(world, way), None)
        if proven is None:
            return []
        chosen.append(proven)
    return [_joined_changes(*chosen)] if len(chosen) > 1 else chosen


def _fits_after(world: World, openings: Sequence[Edit]) -> bool:
    with world.eased(openings):
        return world.fits()


def _joined_changes(
    *proven: tuple[ProposedChange, Suggestion],
) -> tuple[ProposedChange, Suggestion]:
    """Returns changes as one, made in this order. Its sentence begins with those of the owner."""
    changes = sorted((change for change, _ in proven), key=_object_side)
    joined = ProposedChange(
        " and ".join(change.kind for change in changes),
        changes[-1].who,
        sum(change.size for change in changes),
        _sentence([change.sentence for change in changes], "and"),
        tuple(edit for change, _ in proven for edit in change.edits),
    )
    return joined, _suggestion(joined, proven[-1][1].nodes)


def _sentence(changes: Sequence[str], word: str) -> str:
    """Returns the sentences of changes joined by a word; "" without any."""
    sentences = [*changes[:1], *(text[0].lower() + text[1:] for text in changes[1:])]
    return f", {word} ".join(filter(None, (", ".join(sentences[:-1]), *sentences[-1:])))


def _object_side(change: ProposedChange) -> int:
    return list(Who).index(change.who)


def _suggestion(change: ProposedChange, nodes: tuple[str, ...]) -> Suggestion:
    sentence = f"{change.sentence}: it fits on {listed(nodes)}."
    return Suggestion(change.kind, change.who, sentence, change.edits, nodes)


def changes_to_show(changes: Sequence[Suggestion]) -> list[Suggestion]:
    """Returns the changes to show: at most OF_EACH of those before the admin's, if there are any of
    the admin's.
    """
    most = MOST_SHOWN
    owners = [change for change in changes if change.who is not Who.ADMIN]
    admins = [change for change in changes if change.who is Who.ADMIN]
    kept = owners[: max(OF_EACH, most - len(admins))]
    return [*kept, *admins[: most - len(kept)]]
