"""The search: tries changes of each kind, and two of them together if none is enough alone. Each
suggestion is decided again before it is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from berth.actors.scheduling.decision.outcome import Outcome

from ..answering import Attempt, Explainer
from ..decision import Decision, Failure
from ..source import Question
from ..words import listed
from . import (
    affinity,
    another_node,
    devices,
    gates,
    labels,
    leaving,
    ports,
    requests,
    room,
    selector,
    spread,
    taints,
    tolerations,
    topologies,
    volumes,
)
from .change import Change, Suggestion, Who
from .way import Way
from .world import World

MOST_SHOWN = 5
OF_EACH = 3  # that are shown of those of one side, if the other side has some
MOST_PAIRS = 8
WAYS: tuple[Way, ...] = (
    gates.WAY,
    leaving.WAY,
    selector.WAY,
    affinity.WAY,
    tolerations.WAY,
    requests.WAY,
    spread.WAY,
    ports.WAY,
    taints.WAY,
    labels.WAY,
    topologies.WAY,
    volumes.WAY,
    devices.WAY,
    room.WAY,
    another_node.WAY,
)


def is_pending(attempt: Attempt, decision: Decision | Failure) -> bool:
    """True if there is something to change: the pod fits nowhere, or has scheduling gates."""
    gated = bool(attempt.info.pod.spec.scheduling_gates)
    return gated or not (isinstance(decision, Failure) or decision.hosts)


class Search(msgspec.Struct, frozen=True):
    """The changes after which a pending pod fits: what happens without anybody, then those of the
    pod's owner, then those of the admin, the smallest first. `problem` says why there may be more.
    """

    suggestions: list[Suggestion]
    problem: str = ""


def search(explainer: Explainer, question: Question, attempt: Attempt, outcome: Outcome) -> Search:
    """Searches what would change an attempt with this outcome."""
    if attempt.configuration.extenders:
        return Search([], "no change is tried, as extenders would be asked about each")
    world = World(explainer, question, attempt, outcome)
    alone = {each[0].sentence: each for way in WAYS for each in _proven(world, way)}
    proven = list(alone.values()) or _pairs(world)
    suggestions = [suggestion for _, suggestion in sorted(proven, key=_rank)]
    return Search(suggestions, "the search stopped before it tried all changes" * world.spent)


def _rank(proven: tuple[Change, Suggestion]) -> tuple[int, float]:
    change, _ = proven
    return list(Who).index(change.who), change.size


def _proven(world: World, way: Way) -> Iterator[tuple[Change, Suggestion]]:
    """Yields the changes of a kind after which the pod fits."""
    for change in way.changes(world):
        with world.changed(change.edits) as readable:
            nodes = tuple(world.nodes()) if readable else ()
        if nodes:
            yield change, _suggestion(change, nodes)


def _pairs(world: World) -> list[tuple[Change, Suggestion]]:
    """Returns pairs of changes, each with as little as possible of both: after an opening of the
    first kind a change of the second one is enough, and after that a change of the first one.
    """
    pairs: dict[frozenset[str], tuple[Change, Suggestion]] = {}
    for place, first in enumerate(WAYS):
        for opening in () if first.openings is None else list(first.openings(world)):
            for second in WAYS[place:]:
                with world.eased(opening):
                    later = next(_proven(world, second), None)
                if later is None:
                    continue
                with world.changed(later[0].edits):
                    earlier = next(_proven(world, first), None)
                if earlier is not None:
                    both = _joined(earlier, later)
                    pairs.setdefault(frozenset((earlier[0].sentence, later[0].sentence)), both)
                if len(pairs) == MOST_PAIRS:
                    return list(pairs.values())
    return list(pairs.values())


def _joined(
    earlier: tuple[Change, Suggestion], later: tuple[Change, Suggestion]
) -> tuple[Change, Suggestion]:
    """Returns both changes as one; its sentence begins with what the owner need not ask for."""
    nodes = earlier[1].nodes
    one, other = sorted((later[0], earlier[0]), key=lambda change: list(Who).index(change.who))
    then = other.sentence[0].lower() + other.sentence[1:]
    both = Change(
        f"{one.kind} and {other.kind}",
        other.who,
        one.size + other.size,
        f"{one.sentence}, and {then}",
        (*later[0].edits, *earlier[0].edits),
    )
    return both, _suggestion(both, nodes)


def _suggestion(change: Change, nodes: tuple[str, ...]) -> Suggestion:
    sentence = f"{change.sentence}: it fits on {listed(nodes)}."
    return Suggestion(change.kind, change.who, sentence, change.edits, nodes)


def first_of(changes: Sequence[Suggestion]) -> list[Suggestion]:
    """Returns the changes to show: at most OF_EACH of the owner's if there are others."""
    most = MOST_SHOWN
    owners = [change for change in changes if change.who is not Who.ADMIN]
    admins = [change for change in changes if change.who is Who.ADMIN]
    kept = owners[: max(OF_EACH, most - len(admins))]
    return [*kept, *admins[: most - len(kept)]]
