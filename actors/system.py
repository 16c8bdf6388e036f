"""The composition root: which profiles a configuration asks for, made from the registry."""

from __future__ import annotations

from actors.framework.interface import Handle
from actors.framework.registry import build_profiles, with_entry_points
from actors.framework.runner import Profile
from actors.plugins.in_tree import IN_TREE, WITHOUT_RULES
from config.types import KubeSchedulerConfiguration


def profiles_of(configuration: KubeSchedulerConfiguration, handle: Handle) -> dict[str, Profile]:
    """The profiles by scheduler name. Raises RegistryError or ProfileError with the path of what does not fit."""
    return build_profiles(configuration, with_entry_points(IN_TREE), handle, WITHOUT_RULES)
