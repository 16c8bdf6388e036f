"""The profiles: made from a configuration, and in use together with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from berth.config.extenders import without_ignored_resources
from berth.config.options import Options
from berth.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile

from ..configuration.plugin_packages import every_plugin
from ..messages.queue import ProfileRules
from ..queue.queues import QueueRules
from ..scheduling.decision.completion import completed
from ..scheduling.decision.profile import Profile
from ..scheduling.decision.registry import BreakerOf, RegistryError, build_profiles
from ..scheduling.framework.events import SPLIT_POD_NAMES, PodNames
from ..scheduling.framework.handle import Handles
from ..scheduling.framework.interface import Plugin
from ..scheduling.framework.logger import get_logger
from ..scheduling.framework.measuring import UNMEASURED, Record
from ..telemetry.instruments import Instruments

log = get_logger(__name__)


class ProfilesInUse:
    """The configuration in use, and its profiles by scheduler name.

    Informers, cycle and debugger share the mapping `by_name`, which `replace` changes. `others` are
    plugins that no package registers.
    """

    def __init__(
        self,
        configuration: KubeSchedulerConfiguration,
        handle: Handles,
        gate_of: Callable[[str], Record],
        others: Sequence[type[Plugin]] = (),
        breaker_of: BreakerOf | None = None,
    ) -> None:
        self.configuration = configuration
        self.by_name = profiles_of(configuration, handle, gate_of, others, breaker_of)
        self._breaker_of = breaker_of
        self._handle = handle
        self._others = others
        self._gate_of = gate_of

    def make(self, configuration: KubeSchedulerConfiguration) -> dict[str, Profile]:
        """Returns the profiles of another configuration. A profile whose configuration and classes
        are unchanged is the same object. Raises RegistryError.
        """
        before, after = completed_profiles(self.configuration), completed_profiles(configuration)
        given = self._handle, self._gate_of, self._others, self._breaker_of
        made = profiles_of(configuration, *given)

        def is_unchanged(name: str) -> bool:
            same = before.get(name) == after[name]
            return same and _classes(self.by_name[name]) == _classes(made[name])

        return {
            name: self.by_name[name] if is_unchanged(name) else profile
            for name, profile in made.items()
        }

    def plugins(self) -> list[Plugin]:
        """Returns the plugins of all profiles."""
        return plugins_of(self.by_name)

    def replace(
        self, configuration: KubeSchedulerConfiguration, profiles: Mapping[str, Profile]
    ) -> None:
        """Puts another configuration and its profiles into use."""
        self.configuration = configuration
        self.by_name.clear()
        self.by_name.update(profiles)

    def completed(self) -> dict[str, Any]:
        """Returns the configuration in use with all defaults, as /configz shows it."""
        gates = self._handle.feature_gates
        return completed(self.configuration, every_plugin(self._others), gates)


def profiles_of(
    configuration: KubeSchedulerConfiguration,
    handle: Handles,
    gate_of: Callable[[str], Record] = lambda _: UNMEASURED,
    others: Sequence[type[Plugin]] = (),
    breaker_of: BreakerOf | None = None,
) -> dict[str, Profile]:
    """Returns the profiles by scheduler name. `gate_of` gives a profile's record of PreEnqueue,
    `others` are plugins that no package registers, and `breaker_of` gives a plugin its breaker.
    Raises RegistryError with every field that is wrong.
    """
    registry = every_plugin(others)
    profiles = tuple(completed_profiles(configuration).values())
    whole = msgspec.structs.replace(configuration, profiles=profiles)
    try:
        return build_profiles(whole, registry, handle, gate_of, breaker_of)
    except RegistryError as invalid:
        for name, exception in invalid.crashes:
            log.exception("plugin cannot be made", plugin=name, exc_info=exception)
        raise


def _classes(profile: Profile) -> list[type[Plugin]]:
    return [type(plugin) for plugin in profile.plugins]


def plugins_of(profiles: Mapping[str, Profile]) -> list[Plugin]:
    return [plugin for profile in profiles.values() for plugin in profile.plugins]


def completed_profiles(
    configuration: KubeSchedulerConfiguration,
) -> Mapping[str, KubeSchedulerProfile]:
    """Returns the profiles by scheduler name, completed from the rest of the configuration."""
    whole = without_ignored_resources(configuration)
    return {
        profile.scheduler_name: msgspec.structs.replace(
            profile,
            percentage_of_nodes_to_score=(
                whole.percentage_of_nodes_to_score
                if profile.percentage_of_nodes_to_score is None
                else profile.percentage_of_nodes_to_score
            ),
        )
        for profile in whole.profiles
    }


def rules_of(
    configuration: KubeSchedulerConfiguration, profiles: Mapping[str, Profile]
) -> ProfileRules:
    """Returns the rules of the profiles that the queue needs; all profiles sort alike."""
    first = next(iter(profiles.values()))
    return ProfileRules(
        first.sort_key,
        lambda pod: profiles[pod.spec.scheduler_name].pre_enqueue(pod),
        {name: profile.hints() for name, profile in profiles.items()},
        configuration.pod_initial_backoff_seconds,
        configuration.pod_max_backoff_seconds,
    )


def first_rules(
    configuration: KubeSchedulerConfiguration,
    profiles: Mapping[str, Profile],
    instruments: Instruments,
    options: Options,
) -> QueueRules:
    """Returns the rules that the queue begins with."""
    return QueueRules(
        **msgspec.structs.asdict(rules_of(configuration, dict(profiles))),
        max_unschedulable=options.max_unschedulable,
        pop_from_backoff=options.feature_gates["SchedulerPopFromBackoffQ"],
        nominates_gated=options.feature_gates["GatedNominations"],
        hint_times=instruments,
        pod_names=SPLIT_POD_NAMES if options.feature_gates["PodEventsSplit"] else PodNames(),
    )
