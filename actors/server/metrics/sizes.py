"""Metrics that are counted when they are read: of unreadable objects, forgotten pods, healed
differences, and dropped lines of the log and attempts of the recorder's file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...mailboxes import Mailboxes
from ...messages.cache import CountCached
from ...messages.queue import CountQueued
from ...runtime.ask import ask
from ...telemetry.logs import dropped_lines
from ...telemetry.measures import Registry


def register_sizes(
    registry: Registry,
    mailboxes: Mailboxes,
    count_unreadable: Callable[[], Mapping[str, int]],
    dropped_attempts: Callable[[], int],
    is_outdated: Callable[[], bool],
) -> None:
    """Registers the families.

    `count_unreadable` returns the numbers of objects that cannot be read, by kind,
    `dropped_attempts` the number of attempts that could not be written to a file. `is_outdated` is
    true while the present configuration file, or that of a plugin, is not in use.
    """
    unreadable = registry.gauge(
        "berth_unreadable_objects",
        "Objects at the API server that cannot be read, by kind.",
        ("kind",),
    )
    mended = registry.counter(
        "berth_cache_mended_total",
        "What was wrong in the cache or the queue and was put right.",
        ("what",),
    )
    forgotten = registry.gauge(
        "berth_forgotten_pods",
        "Parked pods that would fit on a node, and that no event has woken.",
    )
    vain = registry.counter(
        "berth_activations_in_vain_total",
        "Activations of pods that back off, because plugins activated them too often in a row "
        "without progress, by the plugins.",
        ("plugin",),
    )
    dropped = registry.counter(
        "berth_log_lines_dropped_total",
        "Lines of the log that were dropped, because nobody read them in time.",
    )
    unrecorded = registry.counter(
        "berth_recorder_file_dropped_total",
        "Attempts that the recorder's file lacks, because it could not be written in time.",
    )

    outdated = registry.gauge(
        "berth_configuration_outdated",
        "1 while the configuration file or that of a plugin could not be reloaded, so that an "
        "earlier one is in use.",
    )

    async def refresh() -> None:
        queue = await ask(mailboxes.queue, CountQueued)
        cache = await ask(mailboxes.cache, CountCached)
        for kind, number in count_unreadable().items():
            unreadable.child(kind).set(number)
        mended.child("difference").value = cache.healed
        mended.child("snapshot").value = cache.repaired
        mended.child("pending_pod").value = queue.healed
        forgotten.child().set(queue.forgotten)
        for plugin, number in queue.activations_in_vain.items():
            vain.child(plugin).value = number
        dropped.child().value = dropped_lines()
        outdated.child().set(int(is_outdated()))
        unrecorded.child().value = dropped_attempts()

    registry.refresh_by(refresh)
