"""/metrics/slis: the results of the health checks, from which service levels are computed.

Mirrors component-base's metrics/prometheus/slis. A check is counted when a request for /healthz,
/livez or /readyz runs it. The server's thread writes these families.
"""

from __future__ import annotations

from ...telemetry.measures import ALPHA, STABLE, Registry
from .exposition import exposed, together

HEALTHCHECK, HEALTHCHECKS = "kubernetes_healthcheck", "kubernetes_healthchecks_total"


class HealthMeasures:
    """The measures of the health checks, in a registry and on a page of their own.

    `started` is when the process began, in seconds since 1970.
    """

    def __init__(self, registry: Registry, started: float) -> None:
        self._registry = registry
        self._last = registry.gauge(
            HEALTHCHECK,
            "This metric records the result of a single healthcheck.",
            ("name", "type"),
            STABLE,
        )
        self._results = registry.counter(
            HEALTHCHECKS,
            "This metric records the results of all healthcheck.",
            ("name", "type", "status"),
            STABLE,
        )
        registry.gauge(
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            stability=ALPHA,
        ).child().set(started)

    def checked(self, name: str, group: str, *, ok: bool) -> None:
        """Counts a check that passed (`ok`) or failed. `group` is healthz, livez or readyz."""
        self._last.child(name, group).set(float(ok))
        self._results.child(name, group, "success" if ok else "error").inc()

    async def text(self) -> bytes:
        return await together(exposed(self._registry.families()))
