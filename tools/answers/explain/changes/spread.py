"""Suggestions to loosen a spread constraint: by its node policies, a larger maxSkew, fewer
minDomains, or as a mere preference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations

from .change import ProposedChange, Who
from .edit import Document, Edit, Patch, patch_of, put, removal, without
from .kind_of_change import Way
from .world import World

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
MOST_SKEW = 2**31 - 1
HOSTNAME = "kubernetes.io/hostname"
_PATH = ("spec", "topologySpreadConstraints")
# The policies that may leave out nodes which the pod cannot use, and what they do unless set.
_POLICIES = {"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"}


def _hard_constraints(pod: Document) -> Iterator[tuple[int, Document]]:
    for number, constraint in enumerate(pod["spec"].get(_PATH[1]) or ()):
        if constraint["whenUnsatisfiable"] == HARD:
            yield number, constraint


def _soft_constraint(pod: Document, number: int) -> tuple[str, Patch]:
    """Returns the change that makes a constraint a preference, in words and as a patch."""
    constraints = pod["spec"][_PATH[1]]
    key = constraints[number]["topologyKey"]
    if any(c["topologyKey"] == key and c["whenUnsatisfiable"] == SOFT for c in constraints):
        return f"Drop the spread constraint over {key}", without(pod, *_PATH, number)
    patch = put(SOFT, *_PATH, number, "whenUnsatisfiable")
    if "minDomains" in constraints[number]:
        patch += removal(*_PATH, number, "minDomains")
    return f"Let the spread constraint over {key} be {SOFT}", patch


def openings(world: World) -> Iterator[Edit]:
    for number, _ in _hard_constraints(world.pod):
        yield patch_of(world.pod, _soft_constraint(world.pod, number)[1])


def changes(world: World) -> Iterator[ProposedChange]:
    pod = world.pod
    if not pod["spec"].get(_PATH[1]):
        yield from _own_constraint(pod)
    for number, constraint in _hard_constraints(pod):
        sentence, patch = _soft_constraint(pod, number)
        with world.changed([patch_of(pod, patch)]):
            if not world.fits():
                continue
        key = constraint["topologyKey"]
        yield from _honored_policies(world, number, constraint)
        skew = _least_number(partial(_fits_with_skew, world, number), constraint["maxSkew"])
        if skew is not None:
            raised = f"Raise maxSkew of the spread constraint over {key} to {skew}"
            yield _set_field(pod, number, {"maxSkew": skew}, 0.2, raised)
        domains = constraint.get("minDomains") or 0
        fewer = _least_number(partial(_fits_with_fewer, world, number, domains), 0, domains - 1)
        if fewer is not None:
            lowered = f"Lower minDomains of the spread constraint over {key} to {domains - fewer}"
            yield _set_field(pod, number, {"minDomains": domains - fewer}, 0.2, lowered)
        yield ProposedChange("spread", Who.OWNER, 0.5, sentence, (patch_of(pod, patch),))


def _own_constraint(pod: Document) -> Iterator[ProposedChange]:
    """Yields a soft constraint of the pod's own, which takes precedence over the profile's default
    ones.
    """
    labels = pod["metadata"].get("labels")
    if labels:
        constraint = {
            "maxSkew": 1,
            "topologyKey": HOSTNAME,
            "whenUnsatisfiable": SOFT,
            "labelSelector": {"matchLabels": labels},
        }
        sentence = f"Give the pod a spread constraint of its own over {HOSTNAME} that is {SOFT}"
        yield ProposedChange(
            "spread", Who.OWNER, 0.5, sentence, (patch_of(pod, put([constraint], *_PATH)),)
        )


def _honored_policies(world: World, number: int, constraint: Document) -> Iterator[ProposedChange]:
    """Yields the fewest policies that must be Honor, so that domains that the pod cannot use do not
    count.
    """
    ignored = [of for of, default in _POLICIES.items() if constraint.get(of, default) != "Honor"]
    for size in range(1, len(ignored) + 1):
        for policies in combinations(ignored, size):
            what = f"{' and '.join(policies)} of the spread constraint over"
            sentence = f"Set {what} {constraint['topologyKey']} to Honor"
            honoring = dict.fromkeys(policies, "Honor")
            change = _set_field(world.pod, number, honoring, 0.05 * size, sentence)
            with world.changed(change.edits):
                if world.fits():
                    yield change
                    return


def _set_field(
    pod: Document, number: int, values: Document, size: float, sentence: str
) -> ProposedChange:
    patches = [put(value, *_PATH, number, field) for field, value in values.items()]
    return ProposedChange("spread", Who.OWNER, size, sentence, (patch_of(pod, *patches),))


def _fits_with_skew(world: World, number: int, skew: int) -> bool:
    with world.changed([patch_of(world.pod, put(skew, *_PATH, number, "maxSkew"))]):
        return world.fits()


def _fits_with_fewer(world: World, number: int, domains: int, fewer: int) -> bool:
    with world.changed([patch_of(world.pod, put(domains - fewer, *_PATH, number, "minDomains"))]):
        return world.fits()


def _least_number(
    fits: Callable[[int], bool], too_little: int, most: int = MOST_SKEW
) -> int | None:
    """Returns the least number above `too_little` with which the pod fits; None if it does not fit
    even with `most`.
    """
    if most <= too_little or not fits(most):
        return None
    low, high, step = too_little, min(too_little + 1, most), 1
    while not fits(high):
        step *= 2
        low, high = high, min(high + step, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


WAY = Way(changes, openings)
