"""Validates the extenders of a configuration, and lets NodeResourcesFit ignore the resources that
only extenders count.

An extender may manage extended resources. Resources marked as ignored by the scheduler are counted
by the extender alone, so NodeResourcesFit of every profile ignores them. Mirrors kube-scheduler's
validation and buildExtenders.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec

from .names import is_extended_resource
from .types import Extender, KubeSchedulerConfiguration, KubeSchedulerProfile, PluginConfig

FIT = "NodeResourcesFit"


def extender_problems(extenders: Sequence[Extender]) -> list[str]:
    """Returns a line for each problem."""
    problems: list[str] = []
    managed: set[str] = set()
    for i, extender in enumerate(extenders):
        path = f"extenders[{i}]"
        if not is_url(extender.url_prefix):
            problems.append(
                f"{path}.urlPrefix: expected a URL such as http://host:8888, got "
                f"{extender.url_prefix!r}"
            )
        if extender.prioritize_verb and extender.weight <= 0:
            problems.append(
                f"{path}.weight: expected a positive weight with a prioritizeVerb, got "
                f"{extender.weight}"
            )
        if extender.http_timeout < 0:
            problems.append(f"{path}.httpTimeout: expected 0s or more, got {extender.http_timeout}")
        tls = extender.tls_config
        if tls is not None and tls.insecure and (tls.ca_data or tls.ca_file):
            problems.append(
                f"{path}.tlsConfig.insecure: expected false with a certificate authority, got true"
            )
        for j, resource in enumerate(extender.managed_resources):
            name, field = resource.name, f"{path}.managedResources[{j}].name"
            if not is_extended_resource(name):
                problems.append(
                    f"{field}: expected an extended resource such as example.com/gpu, got {name!r}"
                )
            if name in managed:
                problems.append(f"{field}: expected a resource managed once, got {name!r}")
            managed.add(name)
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    if binders > 1:
        problems.append(f"extenders: expected at most one with a bindVerb, got {binders}")
    return problems


def is_url(text: str) -> bool:
    """True for an http or https URL with a host and, if there is a port, a valid one."""
    try:
        url = urlsplit(text)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        return False


def without_ignored_resources(
    configuration: KubeSchedulerConfiguration,
) -> KubeSchedulerConfiguration:
    """Returns the configuration in which NodeResourcesFit ignores what only extenders count."""
    ignored = [
        resource.name
        for extender in configuration.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    ]
    if not ignored:
        return configuration
    profiles = tuple(_ignoring(profile, ignored) for profile in configuration.profiles)
    return msgspec.structs.replace(configuration, profiles=profiles)


def _ignoring(profile: KubeSchedulerProfile, resources: Sequence[str]) -> KubeSchedulerProfile:
    args = next((entry.args for entry in profile.plugin_config if entry.name == FIT), {})
    others = [entry for entry in profile.plugin_config if entry.name != FIT]
    # As in kube-scheduler, this replaces the list in the profile.
    fit = PluginConfig(FIT, {**args, "ignoredResources": list(resources)})
    return msgspec.structs.replace(profile, plugin_config=(*others, fit))
