"""Suggestions to add a topology label to a node, by which spreading or pod affinity counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..asks.node_restrictions import FACTS
from .affinity_change import REQUIRED
from .change import ProposedChange, Who
from .edit import Document, Edit, patch_of, put
from .kind_of_change import Way
from .labels import labelled
from .spread import HARD
from .world import World

MOST_NODES = 2
MOST_VALUES = 3
_AFFINITIES = ("podAffinity", "podAntiAffinity")


def _needed_keys(pod: Document) -> set[str]:
    """Returns the topology keys that the pod needs and that an admin may set on a node."""
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    terms = [
        *(term for kind in _AFFINITIES for term in (affinity.get(kind) or {}).get(REQUIRED) or ()),
        *(c for c in spec.get("topologySpreadConstraints") or () if c["whenUnsatisfiable"] == HARD),
    ]
    return {key for term in terms if not (key := term["topologyKey"]).startswith(FACTS)}


def openings(world: World) -> Iterator[Edit]:
    """Yields the edit after which the pod needs no topology label."""
    pod = world.pod
    if not _needed_keys(pod):
        return
    spec = pod["spec"]
    affinity = {k: v for k, v in (spec.get("affinity") or {}).items() if k not in _AFFINITIES}
    constraints = [
        c for c in spec.get("topologySpreadConstraints") or () if c["whenUnsatisfiable"] != HARD
    ]
    patch = put(affinity, "spec", "affinity")
    yield patch_of(pod, patch, put(constraints, "spec", "topologySpreadConstraints"))


def changes(world: World) -> Iterator[ProposedChange]:
    """Yields the additions of labels that a node lacks, with values of other nodes or with its own
    name.
    """
    keys = _needed_keys(world.pod)
    for opening in openings(world):
        with world.changed([opening]):
            nodes = world.nodes()
        lacking = [name for name in nodes if keys - world.node_info(name).labels.keys()]
        for name in lacking[:MOST_NODES]:
            lacks = sorted(keys - world.node_info(name).labels.keys())
            for labels in _label_values(world, name, lacks):
                sentence, edit = labelled(world, name, labels)
                with world.changed([edit]):
                    if not world.fits(name):
                        continue
                size = min(1.0, 0.3 * len(labels))
                yield ProposedChange("label", Who.ADMIN, size, sentence, (edit,))
                return


def _label_values(world: World, name: str, keys: list[str]) -> Iterator[dict[str, str]]:
    """Yields values for these labels: the most frequent ones, and then the node's name."""
    common: dict[str, list[str]] = {}
    for key in keys:
        values = Counter(info.labels[key] for info in world.node_infos() if key in info.labels)
        common[key] = [*(value for value, _ in values.most_common(MOST_VALUES)), name]
    for place in range(MOST_VALUES + 1):
        yield {key: values[min(place, len(values) - 1)] for key, values in common.items()}


WAY = Way(changes, openings)
