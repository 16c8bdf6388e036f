"""The story of breakers: what the log, an event and the metrics tell when a plugin is switched off,
tried again, and works again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

import msgspec

from berth.config.options import Options

from ..client.tenure import Tenure
from ..configuration.plugin_packages import origin_of
from ..mailboxes import Mailboxes
from ..messages.queue import PluginAskedAgain
from ..messages.recorder import EventType, RecordEvent
from ..scheduling.framework.breaker import BreakerDump, BreakerLimits, BreakerStep, Circuit
from ..scheduling.framework.interface import Plugin
from ..scheduling.framework.logger import get_logger
from ..scheduling.framework.patience import Patience
from ..scheduling.kube.core import reference_to
from ..telemetry.measures import Registry

log = get_logger(__name__)

_LEVELS = {Circuit.CLOSED: 0, Circuit.PROBING: 1, Circuit.OPEN: 2}


class BreakerReports:
    """The reporter of breakers. `plugins` returns the plugins in use."""

    def __init__(
        self,
        mailboxes: Mailboxes,
        registry: Registry,
        tenure: Tenure,
        plugins: Callable[[], Iterable[Plugin]],
    ) -> None:
        self._queue = mailboxes.queue
        self._recorder = mailboxes.recorder
        self._tenure = tenure
        self._plugins = plugins
        self._circuits = registry.gauge(
            "berth_plugin_switched_off",
            "2 while a plugin is switched off, 1 while it is tried again.",
            ("plugin", "profile"),
        )
        self._failures = registry.counter(
            "berth_plugin_failures_total", "Failed calls of plugins.", ("plugin", "profile")
        )
        self._overruns = registry.counter(
            "berth_plugin_overruns_total",
            "Calls of plugins that took longer than they may.",
            ("plugin", "profile"),
        )
        self._origins = registry.gauge(
            "berth_plugin_info",
            "1 for each plugin of a package that is in use, with the package and its version.",
            ("plugin", "package", "version"),
        )
        registry.refresh_by(self._refresh)

    def tell(self, step: BreakerStep) -> None:
        """Tells a step of a breaker."""
        labels = step.plugin, step.profile
        self._circuits.child(*labels).set(_LEVELS[step.circuit])
        fields = {"plugin": step.plugin, "profile": step.profile, "point": step.point}
        match step.circuit:
            case Circuit.OPEN:
                effect = "it is left out" if step.left_out else "its pods fail"
                fields |= {"error": step.why, "effect": effect}
                failures, rest = step.failures, round(step.rest, 1)
                log.error("plugin switched off", **fields, failures=failures, again_in_seconds=rest)
                self._write_event(step, effect)
            case Circuit.PROBING:
                log.warning("plugin is tried again", **fields)
                self._queue.tell(PluginAskedAgain())
            case Circuit.CLOSED:
                log.warning("plugin works again", **fields)
                self._queue.tell(PluginAskedAgain())

    def _write_event(self, step: BreakerStep, effect: str) -> None:
        if step.pod is None or not self._tenure.permits():
            return
        note = (
            f"The plugin {step.plugin} is switched off, and {effect}; the last failure, in "
            f"{step.point}: {step.why}"
        )
        regarding, sender = reference_to(step.pod), step.pod.spec.scheduler_name
        event = RecordEvent(
            regarding, EventType.WARNING, "PluginSwitchedOff", "Scheduling", note, sender
        )
        self._recorder.tell(event)

    def dump(self) -> tuple[BreakerDump, ...]:
        """Returns the breakers of the plugins in use, with the origins of these."""
        return tuple(dump for plugin in self._plugins() if (dump := _dump(plugin)) is not None)

    async def _refresh(self) -> None:
        in_use = self.dump()
        for _, origin in self._origins.children():
            origin.set(0)
        for breaker in in_use:
            labels = breaker.plugin, breaker.profile
            if breaker.package:
                self._origins.child(breaker.plugin, breaker.package, breaker.version).set(1)
            self._circuits.child(*labels).set(_LEVELS[breaker.circuit])
            # A plugin that is made anew counts from 0.
            for family, number in (
                (self._failures, breaker.failures),
                (self._overruns, breaker.overruns),
            ):
                child = family.child(*labels)
                child.value = max(child.value, number)


def _dump(plugin: Plugin) -> BreakerDump | None:
    if plugin.breaker is None:
        return None
    dump, origin = plugin.breaker.dump(plugin.breaker.now()), origin_of(type(plugin))
    if origin is None:
        return dump
    return msgspec.structs.replace(dump, package=origin.package, version=origin.version)


def patience_of(options: Options) -> Patience:
    """Returns what the breakers of a scheduler share: failures of each kind may take their time."""
    return Patience(options.plugin_failures * options.plugin_attempt or inf)


def limits_of(options: Options) -> BreakerLimits:
    return BreakerLimits(
        options.plugin_failures,
        options.plugin_call,
        options.plugin_attempt,
        options.plugin_interrupt,
    )
