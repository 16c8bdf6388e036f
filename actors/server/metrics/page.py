"""The page /metrics."""

from __future__ import annotations

from collections.abc import Mapping

from berth.config.versions import Version

from ...scheduling.framework.logger import get_logger
from ...telemetry.measures import Registry
from .about import register_about
from .exposition import exposed, together
from .pod_resources import LIMIT, REQUEST
from .process import register_process
from .slis import HEALTHCHECK, HEALTHCHECKS

log = get_logger(__name__)
ELSEWHERE = (LIMIT, REQUEST, HEALTHCHECK, HEALTHCHECKS)  # on pages of their own


class MetricsPage:
    """A page of all families of a registry, to which it adds families about the process.

    `gates` has every gate of the version with its value.
    """

    def __init__(self, registry: Registry, version: Version, gates: Mapping[str, bool]) -> None:
        self._registry = registry
        register_process(registry)
        register_about(registry, version, gates)

    async def text(self) -> bytes:
        await self._registry.refresh()
        return await together(exposed(self._registry.families()))


def warn_of_unknown(registry: Registry) -> None:
    """Warns of metrics and labels in the settings that do not exist."""
    for name in registry.unknown():
        family, _, label = name.partition(",")
        if family in ELSEWHERE:
            continue
        if label:
            log.warning("--allow-metric-labels: no such label", metric=family, label=label)
        else:
            log.warning("--disabled-metrics: no such metric", metric=family)
