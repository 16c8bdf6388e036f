"""Suggestions to correct or drop a label of the node selector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from .change import ProposedChange, Who
from .edit import Edit, patch_of, put, removal, without
from .kind_of_change import Way
from .world import World

# The values of these labels are near each other and mean different things.
DIFFERENT = ("kubernetes.io/arch", "kubernetes.io/os")
MOST_VALUES = 100
_PATH = ("spec", "nodeSelector")


def openings(world: World) -> Iterator[Edit]:
    for key in world.pod["spec"].get("nodeSelector") or {}:
        yield patch_of(world.pod, without(world.pod, *_PATH, key))


def changes(world: World) -> Iterator[ProposedChange]:
    pod = world.pod
    for key, value in (pod["spec"].get("nodeSelector") or {}).items():
        dropped = without(pod, *_PATH, key)
        with world.changed([patch_of(pod, dropped)]):
            nodes = world.nodes()
        if not nodes:
            continue
        what = f"{key}={value}"
        near, other = likely_value(key, value, world, nodes)
        if other is not None:
            edit = patch_of(pod, put(other, *_PATH, key))
            sentence = f"Select {key}={other} instead of {what} in the node selector"
            yield ProposedChange("selector", Who.OWNER, 0.1 if near else 0.6, sentence, (edit,))
        right = None if near else _mistyped_key(key, value, world, nodes)
        if right is not None:
            edit = patch_of(pod, put(value, *_PATH, right), removal(*_PATH, key))
            sentence = f"Select {right}={value} instead of {what} in the node selector"
            yield ProposedChange("selector", Who.OWNER, 0.1, sentence, (edit,))
        if not near and right is None:
            sentence = f"Drop {what} from the node selector"
            yield ProposedChange("selector", Who.OWNER, 0.5, sentence, (patch_of(pod, dropped),))


def likely_value(
    key: str, value: str, world: World, nodes: Iterable[str]
) -> tuple[bool, str | None]:
    """Returns True and a value that is almost `value`, if these nodes have one for the label;
    otherwise False and the most frequent value.

    The value is None if the nodes have none, or if different values of the label always mean
    different things.
    """
    labels = (world.node_info(name).labels for name in nodes)
    values = Counter(text for each in labels if (text := each.get(key)) is not None)
    if not values or key in DIFFERENT:
        return False, None
    common = [text for text, _ in sorted(values.items(), key=lambda item: (-item[1], item[0]))]
    near = get_close_matches(value, common[:MOST_VALUES], 1)
    return bool(near), near[0] if near else common[0]


def _mistyped_key(key: str, value: str, world: World, nodes: Iterable[str]) -> str | None:
    """Returns the label that some of these nodes have with this value, if its key is almost this
    one and no node has this one.
    """
    keys: set[str] = set()
    for name in nodes:
        keys |= {of for of, text in world.node_info(name).labels.items() if text == value}
    near = get_close_matches(key, sorted(keys - {key})[:MOST_VALUES], 1)
    return near[0] if near else None


WAY = Way(changes, openings)
