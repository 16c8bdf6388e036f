"""Suggestions to do without a feature that the kubelets of the nodes do not declare."""

from __future__ import annotations

from collections.abc import Iterator

from berth.actors.scheduling.plugins.node_declared_features import needed_features

from .change import ProposedChange, Who
from .edit import Document, Patch, patch_of, put, without
from .kind_of_change import Way
from .world import World

_LISTS = ("containers", "initContainers")
RULES, ALL = "restartPolicyRules", "RestartAllContainers"


def changes(world: World) -> Iterator[ProposedChange]:
    pod = world.pod
    if not needed_features(world.info.pod):
        return
    patch = [*_without_rules(pod), *_without_users(pod)]
    words = [f"the rules with {ALL}"] * bool(_without_rules(pod))
    words += ["hostUsers: false"] * bool(_without_users(pod))
    sentence = f"Drop {' and '.join(words)}"
    yield ProposedChange("feature", Who.OWNER, 0.6, sentence, (patch_of(pod, patch),))


def _without_rules(pod: Document) -> Patch:
    patch: Patch = []
    for part in _LISTS:
        for number, container in enumerate(pod["spec"].get(part) or ()):
            rules = container.get(RULES) or ()
            kept = [rule for rule in rules if rule.get("action") != ALL]
            if len(kept) < len(rules):
                patch += put(kept, "spec", part, number, RULES)
    return patch


def _without_users(pod: Document) -> Patch:
    users = pod["spec"].get("hostNetwork") and pod["spec"].get("hostUsers") is False
    return without(pod, "spec", "hostUsers") if users else []


WAY = Way(changes)
