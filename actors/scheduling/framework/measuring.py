"""Measuring: what the decision and the plugins report of an attempt, and to whom.

The library has no clock. Callers that measure an attempt pass a Record, which stays in the
attempt's CycleState; UNMEASURED is for all others. In-tree plugins count with `handle.measures`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from berth.actors.scheduling.framework.status import SUCCESS, Code

_SUCCESS = SUCCESS.code


class Record(Protocol):
    """The measurements of one attempt. If it is `detailed`, plugins are timed one by one, as
    kube-scheduler does for one attempt in ten.
    """

    @property
    def detailed(self) -> bool: ...

    def enter(self, point: str) -> None:
        """Begin an extension point. If the one before was not left, it ended with success."""
        ...

    def leave(self, code: Code = _SUCCESS) -> None:
        """End the extension point, if one has begun."""
        ...

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    def ran(self, plugin: str, point: str, code: Code, started: float) -> None:
        """Note that a plugin, asked at the time `started`, has answered."""
        ...

    def recalled(self, *, found: bool) -> None:
        """Note the search for answers that were kept from other pods; it began with PreFilter."""
        ...

    def dropped(self) -> None:
        """Note that the kept answers could not be used: the extension point that has begun does not
        count.
        """
        ...

    def end(self, result: str, node: str = "") -> None:
        """Note that the attempt has ended: scheduled, unschedulable or error."""
        ...


class Unmeasured:
    """Measures nothing."""

    detailed = False

    def enter(self, point: str) -> None:
        pass

    def leave(self, code: Code = _SUCCESS) -> None:
        pass

    def now(self) -> float:
        return 0.0

    def ran(self, plugin: str, point: str, code: Code, started: float) -> None:
        pass

    def recalled(self, *, found: bool) -> None:
        pass

    def dropped(self) -> None:
        pass

    def end(self, result: str, node: str = "") -> None:
        pass


UNMEASURED = Unmeasured()


class PluginMeasures(Protocol):
    """The counts of in-tree plugins, under kube-scheduler's names."""

    def preemption_attempted(self) -> None:
        """Count a search for victims."""
        ...

    def claim_created(self, *, success: bool) -> None:
        """Count a request to create a ResourceClaim for extended resources."""
        ...

    def volumes_failed(self, operation: str) -> None:
        """Count an error with a pod's volumes in `predicate`, `assume` or `bind`."""
        ...

    def devices_bound(
        self,
        profile: str,
        drivers: Iterable[str],
        conditional: Iterable[str],
        outcome: str,
        seconds: float,
    ) -> None:
        """Count a wait for binding conditions. `drivers` has the driver of each allocated device,
        `conditional` that of each device with conditions. `outcome` is `success`, `failure`,
        `timeout` or `error`.
        """
        ...


class NoMeasures:
    """Counts nothing."""

    def preemption_attempted(self) -> None:
        pass

    def claim_created(self, *, success: bool) -> None:
        pass

    def volumes_failed(self, operation: str) -> None:
        pass

    def devices_bound(
        self,
        profile: str,
        drivers: Iterable[str],
        conditional: Iterable[str],
        outcome: str,
        seconds: float,
    ) -> None:
        pass


NO_MEASURES = NoMeasures()
