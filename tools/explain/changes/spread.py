"""Loosen a spread constraint: a larger maxSkew, or none."""

from __future__ import annotations

from collections.abc import Iterator

from .change import Change, Who
from .edit import Document, Edit, Patch, patch_of, put, removal, without
from .way import Way
from .world import World

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
MOST_SKEW = 2**31 - 1
_PATH = ("spec", "topologySpreadConstraints")


def _hard(pod: Document) -> Iterator[tuple[int, Document]]:
    for number, constraint in enumerate(pod["spec"].get(_PATH[1]) or ()):
        if constraint["whenUnsatisfiable"] == HARD:
            yield number, constraint


def _loosened(pod: Document, number: int) -> tuple[str, Patch]:
    """Returns the change that makes a constraint a wish, in words and as a patch."""
    constraints = pod["spec"][_PATH[1]]
    key = constraints[number]["topologyKey"]
    if any(c["topologyKey"] == key and c["whenUnsatisfiable"] == SOFT for c in constraints):
        return f"Drop the spread constraint over {key}", without(pod, *_PATH, number)
    patch = put(SOFT, *_PATH, number, "whenUnsatisfiable")
    if "minDomains" in constraints[number]:
        patch += removal(*_PATH, number, "minDomains")
    return f"Let the spread constraint over {key} be {SOFT}", patch


def openings(world: World) -> Iterator[Edit]:
    for number, _ in _hard(world.pod):
        yield patch_of(world.pod, _loosened(world.pod, number)[1])


def changes(world: World) -> Iterator[Change]:
    pod = world.pod
    for number, constraint in _hard(pod):
        sentence, patch = _loosened(pod, number)
        with world.changed([patch_of(pod, patch)]):
            if not world.fits():
                continue
        skew = _least_skew(world, number, constraint["maxSkew"])
        if skew is not None:
            edit = patch_of(pod, put(skew, *_PATH, number, "maxSkew"))
            key = constraint["topologyKey"]
            raised = f"Raise maxSkew of the spread constraint over {key} to {skew}"
            yield Change("spread", Who.OWNER, 0.2, raised, (edit,))
        yield Change("spread", Who.OWNER, 0.5, sentence, (patch_of(pod, patch),))


def _least_skew(world: World, number: int, skew: int) -> int | None:
    """Returns the least maxSkew with which the pod fits, None if no one is enough."""

    def fits(skew: int) -> bool:
        with world.changed([patch_of(world.pod, put(skew, *_PATH, number, "maxSkew"))]):
            return world.fits()

    if not fits(MOST_SKEW):
        return None
    low, high = skew, skew + 1
    while not fits(high):
        low, high = high, min(2 * high, MOST_SKEW)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


WAY = Way(changes, openings)
