"""Calls the hints of the default profile's plugins as the queue does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.registry import build_profiles
from berth.actors.scheduling.framework.events import Action, ClusterEvent, Hint, Resource
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.config.feature_gates import DEFAULTS
from berth.config.load import from_mapping
from tests.kit.handle import NoApi


def profile(
    args: dict[str, dict[str, Any]] | None = None, gates: Mapping[str, bool] = DEFAULTS
) -> Profile:
    """Returns the default profile; `args` maps plugin names to their arguments."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "pluginConfig": [
                    {"name": name, "args": config} for name, config in (args or {}).items()
                ]
            }
        ],
    }
    return build_profiles(from_mapping(document), IN_TREE, NoApi(gates))["default-scheduler"]


def wakes(
    with_hints: Profile,
    plugin: str,
    event: tuple[Resource, Action],
    pod: Pod,
    old: object | None = None,
    new: object | None = None,
) -> bool:
    """True if the event queues a pod that the plugin rejected."""
    happened = ClusterEvent(*event)
    return any(
        registration.hint is None or registration.hint(pod, old, new) is Hint.QUEUE
        for registration in with_hints.hints()[plugin]
        if registration.event.matches(happened)
    )
