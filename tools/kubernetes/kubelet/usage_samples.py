"""The samples of metrics-server: the usage of pods and nodes, taken every 15 seconds.

Mirrors the scraper and the storage of metrics-server. The usage of cpu needs two samples, or one of
a container that has run for 10 seconds; until then, the pod has no metrics. A sample is a function
of the pod, the time and the scenario, so nothing is stored.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from berth.actors.scheduling.kube.times import seconds_of

from ..objects.structs import Pod
from .usage_models import ContainerUsage, Scenario, UsageError, usage_of

RESOLUTION_SECONDS = 15
YOUNGEST_SECONDS = 10  # of a container whose first sample counts


class Sample(msgspec.Struct, frozen=True):
    """The usage of the running containers of a pod during the `window` in seconds that
    ended `at`.
    """

    at: datetime
    window: int
    containers: tuple[ContainerUsage, ...]


def sample_of(pod: Pod, now: datetime, scenario: Scenario) -> Sample | None:
    """Returns the latest sample of a pod whose kubelet runs; None if it has none yet."""
    at = scraped_at(now)
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    ages = {
        status.name: at.timestamp() - seconds_of(status.state.running.started_at)
        for status in statuses
        if status.state.running is not None and status.state.running.started_at
    }
    if not ages or min(ages.values()) < YOUNGEST_SECONDS:
        return None
    used = usage_by_container(pod, at, scenario)
    if used is None:
        return None
    containers = tuple(used.get(name, ContainerUsage(name)) for name in ages)
    return Sample(at, min(int(min(ages.values())), RESOLUTION_SECONDS), containers)


def scraped_at(now: datetime) -> datetime:
    """Returns the time of the latest sample."""
    return datetime.fromtimestamp(now.timestamp() // RESOLUTION_SECONDS * RESOLUTION_SECONDS, UTC)


def usage_by_container(
    pod: Pod, at: datetime, scenario: Scenario
) -> dict[str, ContainerUsage] | None:
    """Returns the usage by container; None if an annotation cannot be read."""
    try:
        usage = usage_of(pod, at, scenario)
    except UsageError:
        return None
    return {} if usage is None else {each.name: each for each in usage.containers}
